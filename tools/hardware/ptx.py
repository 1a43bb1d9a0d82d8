"""The kernels as PTX text of our own, which the driver compiles for its GPU (compute capability 8.0 or newer).

Each kernel repeats rounds of work for some time and counts them: every warp adds its rounds to a counter in device
memory, so that operations and bytes follow from what was done. Results are stored, so that no compiler leaves the work
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

WARP = 32

PERIOD_NS = 1 << 20
"""In each of these periods a kernel works for `on` nanoseconds, and for the rest only stays on its SMs."""

PARAMETERS = ("counter", "results", "source", "target", "mask", "nanoseconds", "on")
"""Parameters of every kernel, 64 bits each: four addresses; 16-byte words of source and target, a power of two, less
one; the duration of a launch, and of the work in a period."""


INNER = 16
"""Repetitions of a kernel's instructions in one round: between two looks at the timer, whose latency must not count."""


class Work(NamedTuple):
    """What one warp does in one round.

    Attributes:
        tensor: floating point operations of tensor pipes; a multiplication with an addition is two.
        fp32: of the FP32 pipe.
        fp64: of the FP64 pipe.
        bytes: read from and written to device memory.
    """

    tensor: int = 0
    fp32: int = 0
    fp64: int = 0
    bytes: int = 0


class Entry(NamedTuple):
    """A kernel.

    Attributes:
        threads: of a block.
        blocks_per_sm: that are on an SM at once; limits the registers of a thread.
        setup: instructions before the first round.
        round: instructions that a round repeats.
        result: instructions that gather all results in the register `%f0`.
        work: of a round.
    """

    threads: int
    blocks_per_sm: int
    setup: Sequence[str]
    round: Sequence[str]
    result: Sequence[str]
    work: Work


_REPEATS = 16
_CHAINS = 8  # independent operations of a warp, so that pipes need not wait for results
_ADD = [f"add.f32 %f0, %f0, %f{n};" for n in range(1, _CHAINS)]

_FP32 = Entry(
    256,
    8,
    ["mov.f32 %half, 0f3F000000;", *(f"mov.f32 %f{n}, 0f00000000;" for n in range(_CHAINS))],
    [f"fma.rn.f32 %f{n}, %f{n}, %half, %half;" for n in range(_CHAINS)] * _REPEATS,
    _ADD,
    Work(fp32=2 * WARP * _CHAINS * _REPEATS * INNER),
)

_FP64 = Entry(
    256,
    4,
    ["mov.f64 %dhalf, 0d3FE0000000000000;", *(f"mov.f64 %d{n}, 0d0000000000000000;" for n in range(_CHAINS))],
    [f"fma.rn.f64 %d{n}, %d{n}, %dhalf, %dhalf;" for n in range(_CHAINS)] * _REPEATS,
    [*(f"cvt.rn.f32.f64 %f{n}, %d{n};" for n in range(_CHAINS)), *_ADD],
    Work(fp64=2 * WARP * _CHAINS * _REPEATS * INNER),
)


def _mma(chain: int) -> str:
    """Multiply 16x16 by 16x8 numbers of 16 bits, and add to 16x8 of 32 bits: four registers a thread."""
    sums = ", ".join(f"%f{4 * chain + n}" for n in range(4))
    ones = "{%one, %one, %one, %one}, {%one, %one}"
    return f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{sums}}}, {ones}, {{{sums}}};"


_MMA_CHAINS = 4
_TENSOR = Entry(
    256,
    2,
    ["mov.b32 %one, 0x3C003C00;", *(f"mov.f32 %f{n}, 0f00000000;" for n in range(4 * _MMA_CHAINS))],
    [_mma(chain) for chain in range(_MMA_CHAINS)] * _REPEATS,
    [f"add.f32 %f0, %f0, %f{n};" for n in range(1, 4 * _MMA_CHAINS)],
    Work(tensor=2 * 16 * 8 * 16 * _MMA_CHAINS * _REPEATS * INNER),
)

_LOADS = 8
_SETUP_INDEX = ["mad.lo.u32 %index, %block, %threads, %thread;", "mul.lo.u32 %stride, %blocks, %threads;"]


def _words(instructions: Sequence[str]) -> list[str]:
    """Return instructions for each of the next words of a thread; %a is the place of a word in source and target."""
    place = ["and.b32 %word, %index, %last;", "mul.wide.u32 %a, %word, 16;", "add.u32 %index, %index, %stride;"]
    return [line.replace("#", str(n)) for n in range(_LOADS) for line in (*place, *instructions)]


_LOAD = ["add.u64 %from, %source, %a;", "ld.global.v4.u32 {%x#, %y#, %z#, %w#}, [%from];"]
_COPY = Entry(
    256,
    4,
    [*_SETUP_INDEX, "mov.f32 %f0, 0f00000000;"],
    _words([*_LOAD, "add.u64 %to#, %target, %a;"])
    + [f"st.global.v4.u32 [%to{n}], {{%x{n}, %y{n}, %z{n}, %w{n}}};" for n in range(_LOADS)],
    [],
    Work(bytes=2 * 16 * WARP * _LOADS * INNER),
)
_STREAM = Entry(
    1024,
    1,
    [*_SETUP_INDEX, "mov.b32 %sum, 0;"],
    _words(_LOAD) + [f"xor.b32 %sum, %sum, %{part}{n};" for n in range(_LOADS) for part in "xyzw"],
    ["mov.b32 %f0, %sum;"],
    Work(bytes=16 * WARP * _LOADS * INNER),
)

ENTRIES = {"fp32": _FP32, "fp64": _FP64, "tensor": _TENSOR, "copy": _COPY, "stream": _STREAM}

_TEXT = """
.visible .entry {name}({parameters})
.maxntid {threads}, 1, 1
.minnctapersm {blocks}
.pragma "nounroll";
{{
    .reg .pred %more, %off, %again, %first;
    .reg .b32 %r<4>, %one, %sum, %index, %stride, %word, %last, %block, %blocks, %threads, %thread, %left;
    .reg .b32 %x<8>, %y<8>, %z<8>, %w<8>;
    .reg .b64 %counter, %results, %source, %target, %mask, %nanoseconds, %on, %now, %end, %phase, %rounds, %a, %from;
    .reg .b64 %to<8>;
    .reg .f32 %half, %f<16>;
    .reg .f64 %dhalf, %d<8>;
{loads}
    cvt.u32.u64 %last, %mask;
    mov.u32 %block, %ctaid.x;
    mov.u32 %blocks, %nctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mov.u64 %rounds, 0;
    {setup}
    mov.u64 %end, %globaltimer;
    add.u64 %end, %end, %nanoseconds;
ROUND:
    mov.u64 %now, %globaltimer;
    setp.lt.u64 %more, %now, %end;
    vote.sync.any.pred %more, %more, 0xFFFFFFFF; // all threads of a warp go the same way, as mma.sync requires
    @!%more bra DONE;
    and.b64 %phase, %now, {period_mask};
    setp.ge.u64 %off, %phase, %on;
    vote.sync.any.pred %off, %off, 0xFFFFFFFF;
    @%off bra PAUSE;
    mov.u32 %left, {inner};
AGAIN:
    {round}
    sub.u32 %left, %left, 1;
    setp.ne.u32 %again, %left, 0;
    @%again bra AGAIN;
    add.u64 %rounds, %rounds, 1;
    bra.uni ROUND;
PAUSE:
    nanosleep.u32 1000;
    bra.uni ROUND;
DONE:
    {result}
    mad.lo.u32 %r0, %block, %threads, %thread;
    mul.wide.u32 %a, %r0, 4;
    add.u64 %results, %results, %a;
    st.global.f32 [%results], %f0;
    and.b32 %r1, %thread, 31;
    setp.eq.u32 %first, %r1, 0;
    @%first red.global.add.u64 [%counter], %rounds;
    ret;
}}
"""


def text(name: str) -> str:
    """Return one kernel as a PTX module."""
    entry = ENTRIES[name]
    return ".version 7.0\n.target sm_80\n.address_size 64\n" + _TEXT.format(
        name=name,
        parameters=", ".join(f".param .u64 {each}" for each in PARAMETERS),
        threads=entry.threads,
        blocks=entry.blocks_per_sm,
        loads="\n".join(f"    ld.param.u64 %{each}, [{each}];" for each in PARAMETERS),
        setup="\n    ".join(entry.setup),
        period_mask=PERIOD_NS - 1,
        inner=INNER,
        round="\n    ".join(entry.round),
        result="\n    ".join(entry.result),
    )
