"""A simulated H100: what a workload's activity does to power, clocks, heat and counters.

The laws that hold on hardware hold here at every instant: an engine is at least as busy as what it contains, memory
adds up, power stays under its limit, and counters are the integral of what they count. Independent of field names
or ticks.
"""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, floor
from typing import NamedTuple

from pulsed.reader.demo.scenes import Activity, Noise, Scene, Wobble
from pulsed.reader.demo.troubles import HEALTHY

# NVIDIA H100 80GB HBM3: limits as nvidia-smi shows them; temperatures in the T.Limit form -8/-2/0 of 87 °C.
POWER_LIMIT_WATTS = 700.0
SM_CLOCK_MAX_MHZ = 1980.0
MEMORY_CLOCK_MHZ = 2619.0
MAX_OPERATING_CELSIUS = 87.0
SLOWDOWN_CELSIUS = 89.0
SHUTDOWN_CELSIUS = 95.0
MEMORY_MAX_OPERATING_CELSIUS = 95.0
MEMORY_MIB = 81559.0
MEMORY_RESERVED_MIB = 604.0

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


class SimulatedReading(NamedTuple):
    """Everything about one board at one instant, in DCGM's units: MiB, mJ, MHz, percent, ratio, ns, bytes/s."""

    graphics_engine_ratio: float
    sm_ratio: float
    occupancy_ratio: float
    tensor_ratio: float
    tensor_half_ratio: float
    tensor_integer_ratio: float
    fp64_ratio: float
    fp32_ratio: float
    fp16_ratio: float
    integer_ratio: float
    dram_ratio: float
    gpu_percent: float
    memory_percent: float
    encoder_percent: float
    decoder_percent: float
    pcie_transmit: float
    pcie_receive: float
    nvlink_transmit: float
    nvlink_receive: float
    nvlink_megabytes: float
    memory_used_mib: float
    memory_free_mib: float
    memory_used_ratio: float
    power_watts: float
    energy_millijoules: float
    temperature: float
    memory_temperature: float
    temperature_margin: float
    sm_clock_mhz: float
    clocks_event_reasons: float
    power_violation_ns: float
    thermal_violation_ns: float
    pcie_replays: float
    xid: float
    corrected: float
    corrected_lifetime: float
    uncorrected: float
    uncorrected_lifetime: float
    rows_corrected: float
    rows_uncorrected: float
    remap_pending: float
    recovery_action: float


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
    def of(cls, rates: list[float]) -> RunningIntegral:
        """Sum up `rates`, one per second of one period."""
        steps = ((rate + after) / 2.0 for rate, after in zip(rates, [*rates[1:], rates[0]], strict=True))
        return cls(array("d", accumulate(steps, initial=0.0)))

    def at(self, t: float) -> float:
        """Integral from 0 to `t` seconds, negative before 0."""
        sums = self.sums
        whole = floor(t)
        cycles, second = divmod(whole, len(sums) - 1)
        here = sums[second]
        return cycles * sums[-1] + here + (sums[second + 1] - here) * (t - whole)


class SimulatedGpu:
    """One simulated GPU; `read` is a pure function of time for a seed and a scene."""

    def __init__(self, scene: Scene, name: str) -> None:
        self._scene = scene
        self._slow = Noise.drawn(f"{name}/slow", scene.period, 20.0)
        self._middle = Noise.drawn(f"{name}/middle", scene.period, 5.0)
        self._fast = Noise.drawn(f"{name}/fast", scene.period, 1.0)
        # A board that was not just reset has some days of work behind it.
        self._energy_before = 0.0 if scene.reset_each_period else random.Random(name).uniform(2e8, 9e8)
        loads = [self._load(float(second)) for second in range(round(scene.period))]
        self._joules = RunningIntegral.of([load.watts for load in loads])
        self._capped = RunningIntegral.of([float(load.reasons & SW_POWER_CAP != 0) for load in loads])
        self._slowed = RunningIntegral.of([float(load.reasons & (SW_THERMAL | HW_THERMAL) != 0) for load in loads])

    def read(self, t: float) -> SimulatedReading:
        """Read every sensor and counter at `t` seconds after the demo's start."""
        scene = self._scene
        activity, watts, clock, reasons = self._load(t)
        since_reset = t % scene.period if scene.reset_each_period else t
        faults = HEALTHY if scene.faults is None else scene.faults(t)
        celsius = float(floor(self._celsius(t)))
        used = round(activity.memory_used)
        return SimulatedReading(
            graphics_engine_ratio=activity.graphics_engine,
            sm_ratio=activity.sm,
            occupancy_ratio=activity.occupancy,
            tensor_ratio=activity.tensor,
            tensor_half_ratio=round(activity.tensor - activity.integer_tensor, 6),
            tensor_integer_ratio=activity.integer_tensor,
            fp64_ratio=activity.fp64,
            fp32_ratio=activity.fp32,
            fp16_ratio=activity.fp16,
            integer_ratio=activity.integer,
            dram_ratio=activity.dram,
            gpu_percent=float(min(100, ceil(101.0 * activity.graphics_engine))),
            memory_percent=float(min(100, ceil(115.0 * activity.dram))),
            encoder_percent=float(round(100.0 * activity.encoder)),
            decoder_percent=float(round(100.0 * activity.decoder)),
            pcie_transmit=float(round(activity.pcie_transmit)),
            pcie_receive=float(round(activity.pcie_receive)),
            nvlink_transmit=float(round(activity.nvlink)),
            nvlink_receive=float(round(0.98 * activity.nvlink)),
            nvlink_megabytes=float(round(1.98e-6 * activity.nvlink)),
            memory_used_mib=float(used),
            memory_free_mib=MEMORY_MIB - MEMORY_RESERVED_MIB - used,
            memory_used_ratio=round(used / (MEMORY_MIB - MEMORY_RESERVED_MIB), 6),
            power_watts=round(watts, 3),
            energy_millijoules=float(round(MILLIJOULES * (self._energy_before + self._joules.at(since_reset)))),
            temperature=celsius,
            memory_temperature=float(floor(celsius + 2.0 + 6.0 * activity.dram)),
            temperature_margin=MAX_OPERATING_CELSIUS - celsius,
            sm_clock_mhz=clock,
            clocks_event_reasons=float(reasons),
            power_violation_ns=float(round(NANOSECONDS * self._capped.at(since_reset))),
            thermal_violation_ns=float(round(NANOSECONDS * self._slowed.at(since_reset))),
            pcie_replays=float(since_reset // scene.seconds_per_replay),
            xid=float(faults.xid),
            corrected=float(faults.corrected),
            corrected_lifetime=float(faults.corrected_lifetime),
            uncorrected=float(faults.uncorrected),
            uncorrected_lifetime=float(faults.uncorrected_lifetime),
            rows_corrected=float(faults.rows_corrected),
            rows_uncorrected=float(faults.rows_uncorrected),
            remap_pending=float(faults.remap_pending),
            recovery_action=float(faults.recovery_action),
        )

    def _load(self, t: float) -> _Load:
        """Settle the scene's activity, and what power and clocks make of it."""
        wobble = Wobble(self._slow.at(t), self._middle.at(t), self._fast.at(t))
        activity = settled(self._scene.activity(t, wobble))
        wanted = _watts_wanted(activity) + 1.5 * wobble.slow
        factor, reasons = (1.0, 0) if self._scene.heat is None else _thermal_response(self._scene.heat(t))
        watts = HELD_WATTS + (wanted - HELD_WATTS) * factor
        if watts > POWER_LIMIT_WATTS:
            reasons |= SW_POWER_CAP
            factor *= (POWER_LIMIT_WATTS / watts) ** 0.5
            watts = POWER_LIMIT_WATTS
        if activity.graphics_engine == 0.0:
            reasons |= GPU_IDLE
        return _Load(activity, watts, SM_CLOCK_STEP_MHZ * (SM_CLOCK_MAX_MHZ * factor // SM_CLOCK_STEP_MHZ), reasons)

    def _celsius(self, t: float) -> float:
        """Die temperature: the scene's own, else what the last half minute's power makes in an aisle of 27 °C."""
        if self._scene.heat is not None:
            return self._scene.heat(t)
        joules = self._joules.at(t) - self._joules.at(t - WARM_UP_SECONDS)
        return 27.0 + 0.052 * joules / WARM_UP_SECONDS


def settled(wanted: Activity) -> Activity:
    """Bring an activity in line with how the counters nest: GR >= SM >= every pipe and the occupancy, all in 0..1."""
    occupancy, tensor = _ratio(wanted.occupancy), _ratio(wanted.tensor)
    fp64, fp32, fp16, integer = _ratio(wanted.fp64), _ratio(wanted.fp32), _ratio(wanted.fp16), _ratio(wanted.integer)
    sm = max(_ratio(wanted.sm), occupancy, tensor, fp64, fp32, fp16, integer)
    return Activity(
        graphics_engine=max(_ratio(wanted.graphics_engine), sm),
        sm=sm,
        occupancy=occupancy,
        tensor=tensor,
        integer_tensor=min(_ratio(wanted.integer_tensor), tensor),
        fp64=fp64,
        fp32=fp32,
        fp16=fp16,
        integer=integer,
        dram=_ratio(wanted.dram),
        encoder=_ratio(wanted.encoder),
        decoder=_ratio(wanted.decoder),
        pcie_transmit=max(0.0, wanted.pcie_transmit),
        pcie_receive=max(0.0, wanted.pcie_receive),
        nvlink=max(0.0, wanted.nvlink),
        memory_used=min(max(0.0, wanted.memory_used), MEMORY_MIB - MEMORY_RESERVED_MIB),
    )


def _ratio(value: float) -> float:
    """Clamp to 0..1, with the six decimals that an exporter prints."""
    if value <= 0.0:
        return 0.0
    return 1.0 if value >= 1.0 else round(value, 6)


def _watts_wanted(activity: Activity) -> float:
    """Power at full clocks, without a limit: what each part takes when it is always active."""
    return (
        HELD_WATTS
        + 200.0 * activity.sm
        + 400.0 * (activity.tensor + activity.fp64)
        + 200.0 * (activity.fp32 + activity.dram)
        + 150.0 * activity.fp16
        + 1.5e-9 * (activity.pcie_transmit + activity.pcie_receive)
    )


def _thermal_response(celsius: float) -> tuple[float, int]:
    """Share of the clocks left, and why: software lowers them from max operating, hardware halves them at slowdown."""
    if celsius < MAX_OPERATING_CELSIUS:
        return 1.0, 0
    if celsius < SLOWDOWN_CELSIUS:
        return 1.0 - 0.12 * (celsius - MAX_OPERATING_CELSIUS + 0.5), SW_THERMAL
    return 0.45, SW_THERMAL | HW_THERMAL | HW_SLOWDOWN
