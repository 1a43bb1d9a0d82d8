"""A simulated H100: the effect of activity on power, clocks, heat and counters, and the page that shows it.

The laws that hold on hardware hold here at every instant: an engine is at least as busy as what it contains, memory
adds up, power stays under its limit, and counters are integrals of their rates. Independent of ticks.

The page has the form of dcgm-exporter 4.x with every useful field switched on, so that it is processed like a real one.
`page.tsv` has a row for each metric, with its value where that is the same on every GPU at all times. All identity is
marked as demo data.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from math import ceil, floor
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from pulsed.model.gpu import DEMO_MARK
from pulsed.model.raw_tick import Labels, Layout, Series
from pulsed.reader.demo.scenes import HEALTHY, Activity, MigSlice, Noise, Scene, Wobble

_PREFIX = "DCGM_FI_"


class _Metric(NamedTuple):
    """A row of `page.tsv`; `fixed` is empty where the value changes."""

    name: str
    type: str
    fixed: str
    help: str


def _metrics() -> Iterator[_Metric]:
    _, *rows = Path(__file__).with_name("page.tsv").read_text(encoding="utf-8").splitlines()
    for row in rows:
        name, type_, fixed, text = row.split("\t")
        yield _Metric(name, type_, fixed, text)


_METRICS = sorted(_metrics(), key=lambda metric: bool(metric.fixed))
"""In the order of the layout: the fixed ones come last."""

FIXED: dict[str, float] = {metric.name: float(metric.fixed) for metric in _METRICS if metric.fixed}
"""The values that never change, by name without `DCGM_FI_`."""

BLANK = 140737488355328.0
"""DCGM's value of a number that it does not have: DCGM_FP64BLANK."""

PROFILED: dict[str, float] = {each.name: BLANK for each in _METRICS if each.name.startswith("PROF_")}
"""The values of a GPU whose profiling counters are in use by a profiler."""

_pick = itemgetter(*(metric.name for metric in _METRICS))

_PCI_BUSES = ("1B", "29", "45", "4E", "9B", "A4", "BA", "C3")


LOST: dict[str, float] = {**{each.name: BLANK for each in _METRICS}, "DEV_XID_ERRORS": 79.0}
"""The values of a GPU that has fallen off the bus."""

_OF_BOARD = ("PROF_PCIE_TX_BYTES", "PROF_PCIE_RX_BYTES", "PROF_NVLINK_TX_BYTES", "PROF_NVLINK_RX_BYTES")
"""Profiling metrics that a MIG instance does not have."""


def uuid_of(number: int) -> str:
    """Return the UUID of the demo's GPU of this number, counted over all nodes."""
    return f"GPU-de300000-0000-4000-8000-{number:012d}"


def demo_layout(labels: Sequence[Labels]) -> Layout:
    """Name every series of the demo: family by family, row by row."""
    return Layout(
        dialect="exporter",
        series=tuple(Series(_PREFIX + metric.name, own) for metric in _METRICS for own in labels),
        help={_PREFIX + metric.name: metric.help for metric in _METRICS},
        types={_PREFIX + metric.name: metric.type for metric in _METRICS},
    )


def gpu_labels(index: int, node: str, first: int) -> Labels:
    """Return the labels of a GPU as dcgm-exporter 4.x orders them; the labels of its instance and owner follow.

    Args:
        index: of the GPU on its node.
        node: host name.
        first: number of the first GPU of the node.
    """
    return (
        ("gpu", str(index)),
        ("UUID", uuid_of(first + index)),
        ("pci_bus_id", f"00000000:{_PCI_BUSES[index]}:00.0"),
        ("device", f"nvidia{index}"),
        ("modelName", f"NVIDIA H100 80GB HBM3 {DEMO_MARK}"),
        ("Hostname", node),
        ("DCGM_FI_DRIVER_VERSION", "580.105.08"),
    )


def demo_values(rows: Sequence[Mapping[str, float]]) -> list[float]:
    """Put the readings of all rows, by name without `DCGM_FI_`, into the layout's order."""
    return [float(value) for value in chain.from_iterable(zip(*map(_pick, rows), strict=True))]


# NVIDIA H100 80GB HBM3: limits as nvidia-smi shows them; temperatures in the T.Limit form -8/-2/0 of 87 °C.
POWER_LIMIT_WATTS = FIXED["DEV_ENFORCED_POWER_LIMIT"]
SM_CLOCK_MAX_MHZ = FIXED["DEV_MAX_SM_CLOCK"]
MAX_OPERATING_CELSIUS = FIXED["DEV_GPU_MAX_OP_TEMP"]
SLOWDOWN_CELSIUS = FIXED["DEV_SLOWDOWN_TEMP"]
USABLE_MIB = FIXED["DEV_FB_TOTAL"] - FIXED["DEV_FB_RESERVED"]

HELD_WATTS = 115.0
"""An H100 that computes nothing, but has a CUDA context."""

SM_CLOCK_STEP_MHZ = 15.0

# Clocks event reasons, DCGM field 112.
GPU_IDLE = 0x1
SW_POWER_CAP = 0x4
HW_SLOWDOWN = 0x8
SW_THERMAL = 0x20
HW_THERMAL = 0x40

WARM_UP_SECONDS = 30
"""Over which power turns into temperature."""

NANOSECONDS = 1e9
MILLIJOULES = 1e3


class _Load(NamedTuple):
    """What the board makes of an activity, before anything that needs history."""

    activity: Activity
    watts: float
    sm_clock_mhz: float
    reasons: int


@dataclass(frozen=True, slots=True)
class RunningIntegral:
    """Running sum of a rate that repeats after a whole number of seconds, by trapezoids of one second."""

    sums: array[float]

    @classmethod
    def from_rates(cls, rates: list[float]) -> RunningIntegral:
        """Sum up `rates`, one per second of one period."""
        steps = ((rate + after) / 2.0 for rate, after in zip(rates, [*rates[1:], rates[0]], strict=True))
        return cls(array("d", accumulate(steps, initial=0.0)))

    def at(self, t: float) -> float:
        """Integral from 0 to `t` seconds, negative before 0."""
        sums = self.sums
        whole = floor(t)
        cycles, second = divmod(whole, len(sums) - 1)
        begin = sums[second]
        return cycles * sums[-1] + begin + (sums[second + 1] - begin) * (t - whole)


class SimulatedGpu:
    """One simulated GPU; `read` is a pure function of time for a seed and a scene."""

    def __init__(self, scene: Scene, name: str) -> None:
        self._scene = scene
        self._instances = [
            (part, SimulatedGpu(Scene(part.workload, period=scene.period), f"{name}:{part.id}"))
            for part in scene.slices
        ]
        self._slow = Noise.drawn(f"{name}/slow", scene.period, 20.0)
        self._middle = Noise.drawn(f"{name}/middle", scene.period, 5.0)
        self._fast = Noise.drawn(f"{name}/fast", scene.period, 1.0)
        # A board that was not just reset has some days of work behind it.
        self._energy_before = 0.0 if scene.reset_each_period else random.Random(name).uniform(2e8, 9e8)
        loads = [self._load(float(second)) for second in range(round(scene.period))]
        self._joules = RunningIntegral.from_rates([load.watts for load in loads])
        self._capped = RunningIntegral.from_rates([float(load.reasons & SW_POWER_CAP != 0) for load in loads])
        self._slowed = RunningIntegral.from_rates(
            [float(load.reasons & (SW_THERMAL | HW_THERMAL) != 0) for load in loads]
        )

    def read(self, t: float) -> dict[str, float]:
        """Return every sensor and counter at `t` seconds after the demo's start, by DCGM's name without `DCGM_FI_`."""
        scene = self._scene
        if t >= scene.lost_at:
            return LOST
        activity, watts, clock, reasons = self._load(t)
        since_reset = t % scene.period if scene.reset_each_period else t
        celsius = floor(self._celsius(t))
        used = round(activity["DEV_FB_USED"])
        return {
            **FIXED,
            **activity,
            "DEV_SM_CLOCK": clock,
            "DEV_CLOCKS_EVENT_REASONS": reasons,
            "DEV_MEMORY_TEMP": floor(celsius + 2.0 + 6.0 * activity["PROF_DRAM_ACTIVE"]),
            "DEV_GPU_TEMP": celsius,
            "DEV_GPU_TEMP_LIMIT": MAX_OPERATING_CELSIUS - celsius,
            "DEV_POWER_USAGE": round(watts, 3),
            "DEV_TOTAL_ENERGY_CONSUMPTION": round(MILLIJOULES * (self._energy_before + self._joules.at(since_reset))),
            "DEV_POWER_VIOLATION": round(NANOSECONDS * self._capped.at(since_reset)),
            "DEV_THERMAL_VIOLATION": round(NANOSECONDS * self._slowed.at(since_reset)),
            "DEV_PCIE_REPLAY_COUNTER": since_reset // scene.seconds_per_replay,
            "DEV_GPU_UTIL": min(100, ceil(101.0 * activity["PROF_GR_ENGINE_ACTIVE"])),
            "DEV_MEM_COPY_UTIL": min(100, ceil(115.0 * activity["PROF_DRAM_ACTIVE"])),
            "DEV_ENC_UTIL": 0.0,
            "DEV_DEC_UTIL": round(activity["DEV_DEC_UTIL"]),
            "DEV_FB_FREE": USABLE_MIB - used,
            "DEV_FB_USED": used,
            "DEV_FB_USED_PERCENT": round(used / USABLE_MIB, 6),
            "DEV_NVLINK_BANDWIDTH_TOTAL": round(1.98e-6 * activity["PROF_NVLINK_TX_BYTES"]),
            "PROF_PIPE_TENSOR_HMMA_ACTIVE": round(
                activity["PROF_PIPE_TENSOR_ACTIVE"] - activity["PROF_PIPE_TENSOR_IMMA_ACTIVE"], 6
            ),
            "PROF_PCIE_TX_BYTES": round(activity["PROF_PCIE_TX_BYTES"]),
            "PROF_PCIE_RX_BYTES": round(activity["PROF_PCIE_RX_BYTES"]),
            "PROF_NVLINK_TX_BYTES": round(activity["PROF_NVLINK_TX_BYTES"]),
            "PROF_NVLINK_RX_BYTES": round(0.98 * activity["PROF_NVLINK_TX_BYTES"]),
            **(HEALTHY if scene.faults is None else scene.faults(t)),
            **(PROFILED if scene.is_profiled(t) else {}),
        }

    def read_rows(self, t: float) -> list[dict[str, float]]:
        """Return the values of each row of the GPU's page at `t` seconds after the demo's start."""
        reading = self.read(t)
        if self._instances:
            return [_instance_row(reading, part, gpu.read(t)) for part, gpu in self._instances]
        return [reading] * self._scene.rows

    def _load(self, t: float) -> _Load:
        """Settle the scene's activity, and what power and clocks make of it."""
        wobble = Wobble(self._slow.at(t), self._middle.at(t), self._fast.at(t))
        activity = settled(self._scene.activity(t, wobble))
        target_watts = _watts_wanted(activity) + 1.5 * wobble.slow
        factor, reasons = (1.0, 0) if self._scene.heat is None else _thermal_response(self._scene.heat(t))
        watts = HELD_WATTS + (target_watts - HELD_WATTS) * factor
        if watts > POWER_LIMIT_WATTS:
            reasons |= SW_POWER_CAP
            factor *= (POWER_LIMIT_WATTS / watts) ** 0.5
            watts = POWER_LIMIT_WATTS
        if activity["PROF_GR_ENGINE_ACTIVE"] == 0.0:
            reasons |= GPU_IDLE
        return _Load(activity, watts, SM_CLOCK_STEP_MHZ * (SM_CLOCK_MAX_MHZ * factor // SM_CLOCK_STEP_MHZ), reasons)

    def _celsius(self, t: float) -> float:
        """Die temperature: the scene's own, or the effect of the last half minute's power in an aisle of 27 °C."""
        if self._scene.heat is not None:
            return self._scene.heat(t)
        joules = self._joules.at(t) - self._joules.at(t - WARM_UP_SECONDS)
        return 27.0 + 0.052 * joules / WARM_UP_SECONDS


def _instance_row(board: Mapping[str, float], part: MigSlice, alone: Mapping[str, float]) -> dict[str, float]:
    """Return the row of a MIG instance: its profiling metrics and memory, and the rest of its board.

    Args:
        board: the values of the board.
        part: the instance.
        alone: the values of a GPU with the instance's work.
    """
    memory = {name: round(part.memory * alone[f"DEV_FB_{name}"]) for name in ("USED", "FREE", "RESERVED")}
    return {
        **board,
        **{name: value for name, value in alone.items() if name.startswith("PROF_")},
        **dict.fromkeys(_OF_BOARD, BLANK),
        **{f"DEV_FB_{name}": float(value) for name, value in memory.items()},
        "DEV_FB_TOTAL": float(sum(memory.values())),
    }


def settled(requested: Activity) -> Activity:
    """Bring an activity in line with how the counters nest: GR >= SM >= every pipe and the occupancy, all in 0..1."""
    activity = {
        name: _ratio(value) if name.endswith(("_ACTIVE", "_OCCUPANCY")) else max(0.0, value)
        for name, value in requested.items()
    }
    integer, tensor = activity["PROF_PIPE_TENSOR_IMMA_ACTIVE"], activity["PROF_PIPE_TENSOR_ACTIVE"]
    activity["PROF_PIPE_TENSOR_IMMA_ACTIVE"] = min(integer, tensor)
    sm = max(value for name, value in activity.items() if name.startswith(("PROF_SM_", "PROF_PIPE_")))
    activity["PROF_SM_ACTIVE"] = sm
    activity["PROF_GR_ENGINE_ACTIVE"] = max(activity["PROF_GR_ENGINE_ACTIVE"], sm)
    activity["DEV_FB_USED"] = min(activity["DEV_FB_USED"], USABLE_MIB)
    return activity


def _ratio(value: float) -> float:
    """Clamp to 0..1, with the six decimals that an exporter prints."""
    if value <= 0.0:
        return 0.0
    return 1.0 if value >= 1.0 else round(value, 6)


def _watts_wanted(activity: Activity) -> float:
    """Power at full clocks, without a limit: each part adds its full power times its activity."""
    return (
        HELD_WATTS
        + 200.0 * activity["PROF_SM_ACTIVE"]
        + 400.0 * (activity["PROF_PIPE_TENSOR_ACTIVE"] + activity["PROF_PIPE_FP64_ACTIVE"])
        + 200.0 * (activity["PROF_PIPE_FP32_ACTIVE"] + activity["PROF_DRAM_ACTIVE"])
        + 150.0 * activity["PROF_PIPE_FP16_ACTIVE"]
        + 1.5e-9 * (activity["PROF_PCIE_TX_BYTES"] + activity["PROF_PCIE_RX_BYTES"])
    )


def _thermal_response(celsius: float) -> tuple[float, int]:
    """Share of the clocks left, and why: software lowers them from max operating, hardware halves them at slowdown."""
    if celsius < MAX_OPERATING_CELSIUS:
        return 1.0, 0
    if celsius < SLOWDOWN_CELSIUS:
        return 1.0 - 0.12 * (celsius - MAX_OPERATING_CELSIUS + 0.5), SW_THERMAL
    return 0.45, SW_THERMAL | HW_THERMAL | HW_SLOWDOWN
