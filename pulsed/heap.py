"""How the C library keeps memory that is free. Must not import any layer."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Options of glibc's mallopt(3)."""

_LARGE = 128 * 1024
"""Bytes of a block that has memory of its own, and of free memory at the end of the heap that is returned."""


def return_large_blocks() -> None:
    """Have glibc return the memory of large blocks when they are freed. Other C libraries are left as they are.

    By default, each large block that is freed raises the size from which blocks have memory of their own. Pages and
    documents then leave gaps in the heap: 8 MB in ten hours of a node (`make bench ARGS=soak`).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in ((_TRIM_THRESHOLD, _LARGE), (_MMAP_THRESHOLD, _LARGE), (_ARENA_MAX, 1)):
            mallopt(option, value)
