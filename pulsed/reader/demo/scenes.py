"""What the demo's GPUs are doing: signals of time per workload, how much each puts on the GPU, and faults.

`scenes.tsv` has the weights: a metric is the sum of the workload's signals, each times its weight. Every story repeats
after its period and is made of arithmetic only, so that any instant can be computed without what came before. This
module must not depend on power, clocks or ticks.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import NamedTuple

from pulsed.model.raw_tick import Labels

Activity = dict[str, float]
"""The load on a GPU, by DCGM's name without `DCGM_FI_`: ratios, percent, bytes per second and MiB, as on the page.

Values slightly out of range or order (more tensor than SM) are corrected by the simulated board.
"""


SIX_MINUTES = 360.0
EIGHT_MINUTES = 480.0
"""Seconds of one cycle of the failing cooling and of the failing memory."""

HEAT_CURVE: tuple[tuple[float, float], ...] = (
    # Passes max operating 87, slowdown 89, and comes back; shutdown at 95 is never reached.
    (0.0, 62.0),
    (60.0, 71.0),
    (125.0, 82.0),
    (172.0, 87.0),
    (210.0, 89.0),
    (228.0, 91.4),
    (255.0, 91.0),
    (280.0, 80.0),
    (320.0, 66.0),
    (SIX_MINUTES, 62.0),
)
"""Seconds into the cycle, and degrees Celsius: cooling that fails and is put right."""


def failing_cooling(t: float) -> float:
    """Return the temperature of the die in °C while its cooling fails, a cycle of six minutes."""
    phase = t % SIX_MINUTES
    (before, low), (after, high) = next(leg for leg in pairwise(HEAT_CURVE) if phase < leg[1][0])
    return low + (high - low) * (phase - before) / (after - before)


ROW_REMAPPED = 200.0
CONTAINED_ERROR = 330.0
UNCORRECTABLE_ERROR = 400.0
"""Seconds into the cycle of the failing memory; its GPU is reset at the end of the cycle."""

CORRECTED_PER_CYCLE = 400
BOARD_LIFE = 24
"""Cycles until the failing board is swapped for a new one: a demo may run for weeks, spare rows would not."""


def failing_memory(t: float) -> Mapping[str, int]:
    """Return errors that grow for eight minutes, from corrected ones to XID 63, 94 and 48, and end with a reset.

    A reset clears volatile counters, the pending remap and the XID; aggregates and remapped rows stay with the board.
    """
    cycle, phase = divmod(t, EIGHT_MINUTES)
    resets = int(cycle) % BOARD_LIFE
    remapped, contained, lost = phase >= ROW_REMAPPED, phase >= CONTAINED_ERROR, phase >= UNCORRECTABLE_ERROR
    corrected = int(CORRECTED_PER_CYCLE * (max(0.0, phase - 20.0) / (EIGHT_MINUTES - 20.0)) ** 2)
    uncorrected = contained + lost
    return {
        "DEV_ECC_SBE_VOL_TOTAL": corrected,
        "DEV_ECC_SBE_AGG_TOTAL": resets * CORRECTED_PER_CYCLE + corrected,
        "DEV_ECC_DBE_VOL_TOTAL": uncorrected,
        "DEV_ECC_DBE_AGG_TOTAL": resets * 2 + uncorrected,
        "DEV_CORRECTABLE_REMAPPED_ROWS": resets + remapped,
        "DEV_UNCORRECTABLE_REMAPPED_ROWS": resets * 2 + uncorrected,
        "DEV_ROW_REMAP_PENDING": remapped,
        "DEV_XID_ERRORS": 48 if lost else 94 if contained else 63 if remapped else 0,
        "DEV_GET_GPU_RECOVERY_ACTION": lost,
    }


HEALTHY = dict.fromkeys(failing_memory(0.0), 0)


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
        turn: seconds from the begin of one to the begin of the next; the last `REST` seconds are without an owner;
            infinite for an owner that stays. The scene's period is a multiple.
    """

    pod: str = ""
    container: str = ""
    job: str = ""
    turn: float = inf

    def labels(self, t: float, seed: str) -> Labels:
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

Signals = Mapping[str, float]
"""How strong each signal of a workload is at one instant; the signal `always` is 1."""


def training(t: float, wobble: Wobble) -> Signals:
    """Train a language model: tensor cores full, starved by the loader twice and checkpointed once in two minutes."""
    phase = t % 120.0
    checkpoint = pulse(phase, 100.0, 112.0)
    starved = max(pulse(phase, 30.0, 34.0), pulse(phase, 66.0, 70.0))
    busy = (1.0 - checkpoint) * (1.0 - 0.82 * starved) * (1.0 + 0.05 * wobble.fast)
    return {"busy": busy, "busy_middle": wobble.middle * busy, "checkpoint": checkpoint, "starved": starved}


def inference(t: float, wobble: Wobble) -> Signals:
    """Serve a model: a burst of prompts (tensor cores), then answers (memory bandwidth), then no requests."""
    phase = t % 24.0
    load = 0.9 + 0.1 * wobble.slow
    prefill, decode = load * pulse(phase, 0.0, 6.0), load * pulse(phase, 5.0, 17.0)
    return {
        "any_load": max(prefill, decode),
        "prefill": prefill,
        "decode": decode,
        "decode_fast": wobble.fast * decode,
        "slow": wobble.slow,
    }


def simulation(t: float, wobble: Wobble) -> Signals:
    """Solve equations in double precision, with a short exchange of boundaries every quarter of a minute."""
    exchange = pulse(t % 15.0, 12.5, 14.5)
    busy = (1.0 - 0.3 * exchange) * (1.0 + 0.04 * wobble.fast)
    return {"busy": busy, "busy_middle": wobble.middle * busy, "busy_slow": wobble.slow * busy, "exchange": exchange}


def data_loading(t: float, wobble: Wobble) -> Signals:
    """Decode pictures as fast as PCIe brings them; the kernels are done long before the next batch."""
    return {"flow": 1.0 + 0.2 * wobble.middle + 0.05 * wobble.fast, "slow": wobble.slow}


def forgotten(t: float, wobble: Wobble) -> Signals:
    """Do nothing except keep the memory, as an abandoned notebook does."""
    return {}


def unused(t: float, wobble: Wobble) -> Signals:
    """Do nothing, and keep no memory."""
    return {}


def burn_in(t: float, wobble: Wobble) -> Signals:
    """Compute at full tilt until it gets too hot, then rest until it has cooled."""
    return {"busy": (1.0 - 0.9 * pulse(t % SIX_MINUTES, 254.0, 338.0, ramp=6.0)) * (1.0 + 0.03 * wobble.fast)}


def fine_tuning(t: float, wobble: Wobble) -> Signals:
    """Compute until bad memory kills the job, start once more, and be killed for good; again after the GPU's reset."""
    phase = t % EIGHT_MINUTES
    alive = pulse(phase, 12.0, CONTAINED_ERROR + 1.0) + pulse(phase, CONTAINED_ERROR + 20.0, UNCORRECTABLE_ERROR + 1.0)
    busy = alive * (1.0 + 0.05 * wobble.fast)
    return {"alive": alive, "busy": busy, "busy_middle": wobble.middle * busy}


_WEIGHTS: defaultdict[str, list[tuple[str, str, float]]] = defaultdict(list)
"""Signal, metric and weight, by workload."""

for _row in Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines()[1:]:
    _workload, _signal, _metric, _weight = _row.split("\t")
    _WEIGHTS[_workload].append((_signal, _metric, float(_weight)))

_NOTHING: Activity = {metric: 0.0 for weights in _WEIGHTS.values() for _, metric, _ in weights}


class MigSlice(NamedTuple):
    """A MIG instance: its number on the board, its profile, its share of the memory, and its workload."""

    id: str
    profile: str
    memory: float
    workload: Callable[[float, Wobble], Signals]


@dataclass(frozen=True, slots=True)
class Scene:
    """One GPU's part in the demo.

    Attributes:
        owners: several share the GPU; without any it is not allocated.
        period: seconds after which everything but lifetime counters repeats; a multiple of 20.
        reset_each_period: whether the GPU is reset at the end of each period: its counters start from 0.
        profiled: begin and end, in seconds of each period, of a profiler's use of the GPU's profiling counters.
        pace: speed of the workload; 1 is the usual one.
        lost_at: seconds after the start at which the GPU falls off the bus.
        slices: the MIG instances of the GPU, which have its work.
    """

    workload: Callable[[float, Wobble], Signals]
    owners: tuple[DemoOwner, ...] = ()
    period: float = EIGHT_MINUTES
    heat: Callable[[float], float] | None = None
    faults: Callable[[float], Mapping[str, int]] | None = None
    reset_each_period: bool = False
    seconds_per_replay: float = inf
    profiled: tuple[float, float] | None = None
    pace: float = 1.0
    lost_at: float = inf
    slices: tuple[MigSlice, ...] = ()

    @property
    def rows(self) -> int:
        """The rows that each metric of the GPU has: one per owner or MIG instance, as on a dcgm-exporter's page."""
        return max(1, len(self.owners), len(self.slices))

    def row_labels(self, t: float, seed: str) -> list[Labels]:
        """Return the labels of instance and owner at `t` seconds, row by row."""
        if self.slices:
            return [(("GPU_I_PROFILE", part.profile), ("GPU_I_ID", part.id)) for part in self.slices]
        return [owner.labels(t, seed) for owner in self.owners] or [()]

    def activity(self, t: float, wobble: Wobble) -> Activity:
        """Return the load at `t` seconds; none between two owners."""
        activity = _NOTHING.copy()
        if not self.owners or has_owner(t, self.owners[0].turn):
            signals = {"always": 1.0, **self.workload(t, wobble)}
            for signal, metric, weight in _WEIGHTS[self.workload.__name__]:
                activity[metric] += weight * signals[signal] * (1.0 if signal == "always" else self.pace)
        return activity

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
"""By GPU index. The GPUs of the job on three do different work: the one with failing memory does least."""
