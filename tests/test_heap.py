"""How the C library keeps memory, in a process of its own: the setting lasts as long as the process."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_HELD = """
import ctypes
from pulsed import heap

class MallInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]

library = ctypes.CDLL(None)
library.mallinfo2.restype = MallInfo
if {returned}:
    heap.return_large_blocks()
bytes(bytearray(8 * 2**20))  # glibc's threshold grows with it
block = bytearray(2**20)
print(library.mallinfo2().hblkhd >= len(block))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the setting")
@pytest.mark.parametrize("is_returned", [False, True])
def test_large_blocks_have_memory_of_their_own_also_after_a_larger_one_was_freed(is_returned: bool) -> None:
    program = _HELD.replace("{returned}", str(is_returned))
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == str(is_returned)
