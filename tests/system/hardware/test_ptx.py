"""The PTX of the known kernels: its instructions are the work that is counted, and NVIDIA's assembler accepts it."""

from __future__ import annotations

import re
import struct
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.system.deploy.tools import fetched
from tools.hardware.kernels import KERNELS
from tools.hardware.ptx import ENTRIES, INNER, PARAMETERS, WARP, Work, text

REGISTERS = 65536
"""Of an SM since Kepler (CUDA programming guide, technical specifications)."""

FFMA, DFMA, HMMA, LOAD, STORE = 0x023, 0x02B, 0x03C, 0x181, 0x186
"""Operation codes of SM 8.0 to 10.0: the low 9 bits of an instruction of 16 bytes."""


def of_round(name: str) -> Work:
    """Return the work of a warp in a round, by the instructions in the text."""
    ((times, round_),) = re.findall(r"mov.u32 %left, (\d+);\nAGAIN:(.*)\n    sub.u32 %left", text(name), re.DOTALL)
    once = Counter(re.findall(r"^ *(\w+(?:\.\w+)*) ", round_, re.MULTILINE))
    counts = Counter({instruction: number * int(times) for instruction, number in once.items()})
    moved = counts["ld.global.v4.u32"] + counts["st.global.v4.u32"]
    return Work(
        tensor=counts["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"] * 16 * 8 * 16 * 2,
        fp32=counts["fma.rn.f32"] * WARP * 2,
        fp64=counts["fma.rn.f64"] * WARP * 2,
        bytes=moved * WARP * 16,
    )


@pytest.mark.parametrize("name", ENTRIES)
def test_the_instructions_of_a_round_are_its_work(name: str) -> None:
    assert of_round(name) == ENTRIES[name].work
    assert sum(value > 0 for value in of_round(name)) == 1
    assert text(name).count("ld.param.u64") == len(PARAMETERS)


def test_every_entry_is_played() -> None:
    assert {kernel.entry for kernel in KERNELS} - {""} == set(ENTRIES)


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", ENTRIES)
def test_the_assembler_keeps_all_work(name: str, target: str, tmp_path: Path) -> None:
    """Also that the blocks of an SM fit into its registers, so that all of them run at once."""
    source, binary = tmp_path / "kernel.ptx", tmp_path / "kernel.cubin"
    source.write_text(text(name))
    command = [str(fetched("ptxas")), "-v", "-Werror", f"-arch={target}", str(source), "-o", str(binary)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (registers,) = re.findall(r"Used (\d+) registers", done.stderr)
    entry = ENTRIES[name]
    assert int(registers) * entry.threads * entry.blocks_per_sm <= REGISTERS
    assert "0 bytes spill stores" in done.stderr
    kept = operations(binary.read_bytes())
    moved = kept[LOAD] + kept[STORE] - 1  # one stores the result
    work = (kept[HMMA] * 16 * 8 * 16 * 2, kept[FFMA] * WARP * 2, kept[DFMA] * WARP * 2, moved * WARP * 16)
    assert tuple(each * INNER for each in work) == entry.work


def operations(cubin: bytes) -> Counter[int]:
    """Count the instructions of a binary by operation code; ELF: section headers, then the section `.text.NAME`."""
    (offset,) = struct.unpack_from("<Q", cubin, 0x28)
    size, number, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, offset + position * size) for position in range(number)]
    strings = sections[names][4]
    (code,) = (
        cubin[at : at + length] for name, _, _, _, at, length in sections if cubin.startswith(b".text.", strings + name)
    )
    return Counter(struct.unpack_from("<Q", code, place)[0] & 0x1FF for place in range(0, len(code), 16))
