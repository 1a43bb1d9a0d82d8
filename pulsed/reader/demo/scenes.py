"""What the demo's eight GPUs are doing: one function of time per workload.

Every story repeats after its period and is made of arithmetic only, so that any instant can be computed without
what came before. This module must not depend on power, clocks, field names or ticks.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from pulsed.reader.demo.troubles import (
    CONTAINED_ERROR,
    EIGHT_MINUTES,
    SIX_MINUTES,
    UNCORRECTABLE_ERROR,
    Faults,
    failing_cooling,
    failing_memory,
)

GIBIBYTE = 1024.0
"""In MiB, DCGM's unit of frame buffer."""


class Activity(NamedTuple):
    """The load that a workload puts on the GPU: ratios 0..1, traffic in bytes per second, memory in MiB.

    Values slightly out of range or order (more tensor than SM) are corrected by the simulated board.
    """

    graphics_engine: float = 0.0
    sm: float = 0.0
    occupancy: float = 0.0
    tensor: float = 0.0
    integer_tensor: float = 0.0
    fp64: float = 0.0
    fp32: float = 0.0
    fp16: float = 0.0
    integer: float = 0.0
    dram: float = 0.0
    encoder: float = 0.0
    decoder: float = 0.0
    pcie_transmit: float = 0.0
    pcie_receive: float = 0.0
    nvlink: float = 0.0
    memory_used: float = 0.0


class Wobble(NamedTuple):
    """Three independent smooth noises of one GPU at one instant, each -1..1, named by how fast they change."""

    slow: float
    middle: float
    fast: float


@dataclass(frozen=True, slots=True)
class Noise:
    """Smooth noise: random knots, one every `spacing` seconds, joined without corners; repeats after the last one."""

    knots: tuple[float, ...]
    spacing: float

    @classmethod
    def drawn(cls, name: str, period: float, spacing: float) -> Noise:
        """Draw the knots of one noise; the same name always draws the same ones, on every Python."""
        rng = random.Random(name)
        return cls(tuple(2.0 * rng.random() - 1.0 for _ in range(round(period / spacing))), spacing)

    def at(self, t: float) -> float:
        """Value in -1..1 at `t` seconds, which must not be negative."""
        position = t / self.spacing
        whole = int(position)
        part = position - whole
        knots = self.knots
        left = knots[whole % len(knots)]
        return left + (knots[(whole + 1) % len(knots)] - left) * part * part * (3.0 - 2.0 * part)


def pulse(t: float, start: float, end: float, ramp: float = 1.0) -> float:
    """Return 1 between `start` and `end`, 0 outside, with straight ramps inside both ends."""
    return max(0.0, min(1.0, (t - start) / ramp, (end - t) / ramp))


REST = 10.0
"""Seconds without an owner between one that ends and the next."""


@dataclass(frozen=True, slots=True)
class DemoOwner:
    """A pod or a Slurm job that has a GPU, or one of a row of them that follow each other.

    Attributes:
        pod: name of the pod; empty for a job.
        container: of the pod.
        job: id of the job, or of the array whose tasks follow each other; empty for a pod.
        turn: seconds from the begin of one to the begin of the next, of which the last `REST` are without an owner;
            infinite for an owner that stays. The scene's period is a multiple.
    """

    pod: str = ""
    container: str = ""
    job: str = ""
    turn: float = inf

    def labels(self, t: float, seed: str) -> tuple[tuple[str, str], ...]:
        """Return the labels of the one that has the GPU at `t` seconds; empty between two of them."""
        if not has_owner(t, self.turn):
            return ()
        number = 0 if self.turn == inf else int(t // self.turn)
        if self.job:
            return (("hpc_job", self.job if self.turn == inf else f"{self.job}_{number + 1}"),)
        suffix = ""
        if self.turn != inf:
            rng = random.Random(f"{seed}/{self.pod}/{number}")
            suffix = "-" + "".join(rng.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(5))
        return (("container", self.container), ("namespace", "demo"), ("pod", self.pod + suffix))


def has_owner(t: float, turn: float) -> bool:
    """Return whether one of a row of owners has the GPU at `t` seconds."""
    return turn == inf or t % turn < turn - REST


LOADER_TURN = 240.0
SOLVER_TURN = 480.0


def training(t: float, wobble: Wobble) -> Activity:
    """Train a language model: tensor cores full, starved by the loader twice and checkpointed once in two minutes."""
    phase = t % 120.0
    checkpoint = pulse(phase, 100.0, 112.0)
    starved = max(pulse(phase, 30.0, 34.0), pulse(phase, 66.0, 70.0))
    busy = (1.0 - checkpoint) * (1.0 - 0.82 * starved) * (1.0 + 0.05 * wobble.fast)
    return Activity(
        graphics_engine=0.05 + 0.92 * busy,
        sm=0.02 + 0.86 * busy,
        occupancy=0.34 * busy,
        tensor=0.66 * busy,
        fp32=0.12 * busy,
        fp16=0.03 * busy,
        integer=0.10 * busy,
        dram=0.03 + (0.43 + 0.04 * wobble.middle) * busy,
        pcie_transmit=0.2e9 + 14e9 * checkpoint,
        pcie_receive=0.4e9 + 8e9 * starved,
        nvlink=120e9 * busy,
        memory_used=71.0 * GIBIBYTE,
    )


def inference(t: float, wobble: Wobble) -> Activity:
    """Serve a model: a burst of prompts (tensor cores), then answers (memory bandwidth), then no requests."""
    phase = t % 24.0
    load = 0.9 + 0.1 * wobble.slow
    prefill = load * pulse(phase, 0.0, 6.0)
    decode = load * pulse(phase, 5.0, 17.0)
    return Activity(
        graphics_engine=0.01 + 0.95 * max(prefill, decode),
        sm=0.68 * prefill + (0.36 + 0.03 * wobble.fast) * decode,
        occupancy=0.30 * prefill + 0.15 * decode,
        tensor=0.42 * prefill + 0.06 * decode,
        integer_tensor=0.10 * prefill,
        fp32=0.10 * prefill + 0.08 * decode,
        fp16=0.04 * prefill + 0.05 * decode,
        integer=0.06 * prefill + 0.05 * decode,
        dram=0.30 * prefill + (0.64 + 0.03 * wobble.fast) * decode,
        pcie_transmit=20e6 + 60e6 * decode,
        pcie_receive=20e6 + 150e6 * prefill,
        memory_used=(68.0 + 1.5 * wobble.slow) * GIBIBYTE,
    )


def simulation(t: float, wobble: Wobble) -> Activity:
    """Solve equations in double precision, with a short exchange of boundaries every quarter of a minute."""
    if not has_owner(t, SOLVER_TURN):
        return Activity()
    exchange = pulse(t % 15.0, 12.5, 14.5)
    busy = (1.0 - 0.3 * exchange) * (1.0 + 0.04 * wobble.fast)
    return Activity(
        graphics_engine=0.97,
        sm=0.85 * busy,
        occupancy=0.48 * busy,
        fp64=(0.45 + 0.03 * wobble.middle) * busy,
        fp32=0.04 * busy,
        integer=0.12 * busy,
        dram=(0.34 + 0.03 * wobble.slow) * busy,
        pcie_transmit=60e6,
        pcie_receive=60e6,
        nvlink=2e9 + 45e9 * exchange,
        memory_used=52.0 * GIBIBYTE,
    )


def data_loading(t: float, wobble: Wobble) -> Activity:
    """Decode pictures as fast as PCIe brings them; the kernels are done long before the next batch."""
    if not has_owner(t, LOADER_TURN):
        return Activity()
    flow = 1.0 + 0.2 * wobble.middle + 0.05 * wobble.fast
    return Activity(
        graphics_engine=0.27 * flow,
        sm=0.12 * flow,
        occupancy=0.06 * flow,
        tensor=0.03 * flow,
        fp32=0.04 * flow,
        integer=0.04 * flow,
        dram=0.16 * flow,
        decoder=0.45 * flow,
        pcie_transmit=0.6e9 * flow,
        pcie_receive=17e9 * flow,
        memory_used=(30.0 + 0.5 * wobble.slow) * GIBIBYTE,
    )


def forgotten(t: float, wobble: Wobble) -> Activity:
    """Do nothing but keep the memory, as an abandoned notebook does."""
    return Activity(memory_used=40.0 * GIBIBYTE)


def burn_in(t: float, wobble: Wobble) -> Activity:
    """Compute at full tilt until it gets too hot, then rest until it has cooled."""
    busy = (1.0 - 0.9 * pulse(t % SIX_MINUTES, 254.0, 338.0, ramp=6.0)) * (1.0 + 0.03 * wobble.fast)
    return Activity(
        graphics_engine=0.98 * busy,
        sm=0.91 * busy,
        occupancy=0.62 * busy,
        tensor=0.10 * busy,
        fp32=0.64 * busy,
        integer=0.20 * busy,
        dram=0.30 * busy,
        pcie_transmit=10e6,
        pcie_receive=10e6,
        memory_used=20.0 * GIBIBYTE,
    )


def fine_tuning(t: float, wobble: Wobble) -> Activity:
    """Compute until bad memory kills the job, start once more, and be killed for good; again after the GPU's reset."""
    phase = t % EIGHT_MINUTES
    alive = pulse(phase, 12.0, CONTAINED_ERROR + 1.0) + pulse(phase, CONTAINED_ERROR + 20.0, UNCORRECTABLE_ERROR + 1.0)
    busy = alive * (1.0 + 0.05 * wobble.fast)
    return Activity(
        graphics_engine=0.90 * busy,
        sm=(0.62 + 0.03 * wobble.middle) * busy,
        occupancy=0.40 * busy,
        tensor=0.08 * busy,
        fp32=0.34 * busy,
        fp16=0.05 * busy,
        integer=0.10 * busy,
        dram=0.30 * busy,
        pcie_transmit=80e6 * busy,
        pcie_receive=250e6 * busy,
        memory_used=(0.6 + 44.0 * alive) * GIBIBYTE,
    )


@dataclass(frozen=True, slots=True)
class Scene:
    """One GPU's part in the demo.

    Attributes:
        owners: several share the GPU; without any it is not allocated.
        period: seconds after which everything but lifetime counters repeats; a multiple of 20.
        reset_each_period: whether the GPU is reset at the end of each period: its counters start from 0.
        profiled: begin and end, in seconds of each period, of a profiler's use of the GPU's profiling counters.
    """

    activity: Callable[[float, Wobble], Activity]
    owners: tuple[DemoOwner, ...] = ()
    period: float = EIGHT_MINUTES
    heat: Callable[[float], float] | None = None
    faults: Callable[[float], Faults] | None = None
    reset_each_period: bool = False
    seconds_per_replay: float = inf
    profiled: tuple[float, float] | None = None

    def is_profiled(self, t: float) -> bool:
        """Return whether a profiler has the profiling counters at `t` seconds: DCGM's fields are blank then."""
        return self.profiled is not None and self.profiled[0] <= t % self.period < self.profiled[1]


_JOB = (DemoOwner(job="4711"),)
_CHAT = (DemoOwner("demo-chat-7c9d8b6f4d-x2k7q", "server"), DemoOwner("demo-search-6b5f7c8d9-p4wzn", "embedder"))

SCENES: tuple[Scene, ...] = (
    Scene(training, _JOB),
    Scene(inference, _CHAT),
    Scene(simulation, (DemoOwner(job="4712", turn=SOLVER_TURN),), profiled=(180.0, 300.0)),
    Scene(
        data_loading,
        (DemoOwner("demo-image-loader", "loader", turn=LOADER_TURN),),
        seconds_per_replay=1200.0,
    ),
    Scene(training, _JOB),
    Scene(forgotten, (DemoOwner("demo-notebook-0", "notebook"),)),
    Scene(burn_in, period=SIX_MINUTES, heat=failing_cooling),
    Scene(fine_tuning, _JOB, faults=failing_memory, reset_each_period=True),
)
"""By GPU index. The job on three GPUs has a straggler: the one with failing memory."""

ROWS: tuple[tuple[int, int], ...] = tuple(
    (index, at) for index, scene in enumerate(SCENES) for at in range(max(1, len(scene.owners)))
)
"""GPU and number of its owner of each row that a metric has: one per owner, as on the page of a dcgm-exporter."""
