"""The activity inputs: exact where measured, bounded by physics where missing, and from cycle counters over a gap.

The physics, all in 0..1: `GR >= SM >= max(TENSOR, FP64, FP32, FP16, OCCUPANCY)`, since a pipe is busy only while a
warp is on the SM, and an SM only while the graphics or compute engine runs. NVML's time shares are ceilings where the
counter itself is missing: `GR <= gpu_utilization_ratio` and `DRAM <= memory_utilization_ratio`, since they count any
use, however small. They are whole percents: 3 % is anything up to 3.5 %. The counters are all printed alike, which
keeps their order.

A gauge of activity is an average over an interval of DCGM; a source may skip intervals. The quotient of two cycle
counters (DCGM 4.6 and newer) is exact for all the time between two samples, however many scrapes were lost between
them. So it replaces the gauge where it is known, and covers a gap in the samples. This module must not depend on
weights or classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Literal, NamedTuple

from pulsed.model.result import Bounds, Inputs
from pulsed.model.vocabulary import NOTHING, POSITION, QUANTITIES, Reading, Value

Missing = Literal["bounds", "zero"]
"""Assumption about a missing input: anything that physics allows, or 0 (the older convention)."""

INPUT_QUANTITIES: Mapping[str, str] = {name: f"{name}_active_ratio" for name in Inputs._fields}
"""By attribute of `Inputs`, the quantity that measures it."""


def bounds_of(reading: Reading) -> Bounds:
    """Return the bounds of the inputs of a reading.

    A present input is exactly what it is, clamped to 0..1. Where the floor of a missing one lies above its ceiling
    (sampling noise: counters are not read at the same instant) it lies between the two.
    """
    sm = reading.sm_active_ratio
    tensor = reading.tensor_active_ratio
    dram = reading.dram_active_ratio
    graphics_engine = reading.graphics_engine_active_ratio
    fp64 = reading.fp64_active_ratio
    if sm is None or tensor is None or dram is None or graphics_engine is None or fp64 is None:
        return _bounds_of_incomplete(reading)
    inputs = Inputs(_clamped(sm), _clamped(tensor), _clamped(dram), _clamped(graphics_engine), _clamped(fp64))
    return Bounds(inputs, inputs)


def zero_filled(reading: Reading) -> Bounds:
    """Take missing inputs for 0, as KempnerPulse does; GR falls back to `gpu_utilization_ratio` as in the formula."""
    graphics_engine = reading.graphics_engine_active_ratio
    inputs = Inputs(
        _clamped(reading.sm_active_ratio or 0.0),
        _clamped(reading.tensor_active_ratio or 0.0),
        _clamped(reading.dram_active_ratio or 0.0),
        _clamped((reading.gpu_utilization_ratio if graphics_engine is None else graphics_engine) or 0.0),
        _clamped(reading.fp64_active_ratio or 0.0),
    )
    return Bounds(inputs, inputs)


PERCENT_ROUNDING = 0.005
"""Half a percent: the rounding error of the driver's utilization, which is a whole percent."""

PROFILED_MEDIA = tuple(name for name in QUANTITIES if name.startswith(("nvdec", "nvjpg", "nvofa")))
"""Profiled activity of video decoders, JPEG decoders and optical flow engines."""

MEDIA = ("encoder_utilization_ratio", "decoder_utilization_ratio", *PROFILED_MEDIA)
"""Activity of the media engines, whose work is in no other activity."""

_media = itemgetter(*(POSITION[name] for name in MEDIA))


def media_of(reading: Reading) -> float:
    """Return how busy the busiest media engine is, 0..1; 0 if none is measured."""
    values = _media(reading)
    return max(filter(None, values)) if any(values) else 0.0  # 0 on most GPUs


def activity_of(reading: Reading) -> Value:
    """Return how busy a GPU is, 0..1; None if only its media engines are known, and do nothing.

    The work of the media engines is in neither of the other two: a GPU that transcodes shows 0 in both.
    """
    engine, utilization = reading.graphics_engine_active_ratio, reading.gpu_utilization_ratio
    busier = utilization if engine is None or (utilization is not None and utilization > engine) else engine
    media = media_of(reading)
    return media if media > (busier or 0.0) else busier


def _bounds_of_incomplete(reading: Reading) -> Bounds:
    busiest_pipe = 0.0
    for value in (
        reading.tensor_active_ratio,
        reading.fp64_active_ratio,
        reading.fp32_active_ratio,
        reading.fp16_active_ratio,
        reading.sm_occupancy_ratio,
    ):
        if value is not None and value > busiest_pipe:
            busiest_pipe = value
    sm = reading.sm_active_ratio
    engine = reading.graphics_engine_active_ratio
    floor = _clamped(busiest_pipe)
    engine_ceiling = _ceiling(reading.gpu_utilization_ratio)
    sm_low, sm_high = _interval(sm, floor, engine_ceiling if engine is None else _clamped(engine))
    engine_low, engine_high = _interval(engine, floor if sm is None else sm_low, engine_ceiling)
    tensor_low, tensor_high = _interval(reading.tensor_active_ratio, 0.0, sm_high)
    dram_low, dram_high = _interval(reading.dram_active_ratio, 0.0, _ceiling(reading.memory_utilization_ratio))
    fp64_low, fp64_high = _interval(reading.fp64_active_ratio, 0.0, sm_high)
    return Bounds(
        Inputs(sm_low, tensor_low, dram_low, engine_low, fp64_low),
        Inputs(sm_high, tensor_high, dram_high, engine_high, fp64_high),
    )


def _interval(value: Value, floor: float, ceiling: float) -> tuple[float, float]:
    if value is not None:
        exact = _clamped(value)
        return exact, exact
    return (floor, ceiling) if floor <= ceiling else (ceiling, floor)


def _ceiling(percents: Value) -> float:
    return 1.0 if percents is None else _clamped(percents + PERCENT_ROUNDING)


def _clamped(value: float) -> float:
    return 0.0 if value < 0.0 else 1.0 if value > 1.0 else value


_ELAPSED = POSITION["sm_elapsed_cycles_total"]

RATIOS: tuple[tuple[str, int], ...] = tuple(
    (ratio, POSITION[name])
    for name in QUANTITIES
    if name.endswith("_active_cycles_total") and (ratio := name.replace("_cycles_total", "_ratio")) in QUANTITIES
)
"""Quantities that follow from a counter of active cycles, with its position in a reading."""


class MeasuredRatios(NamedTuple):
    """Activity between two samples.

    Attributes:
        values: by quantity; without those that are not counted.
        is_new: whether the counters have moved since the sample before.
    """

    values: dict[str, float]
    is_new: bool

    def of_gap(self, reading: Reading) -> Reading:
        """Return what is known of all the time since the sample before: these values, and the energy counter."""
        return NOTHING._replace(
            **self.values,
            energy_joules_total=reading.energy_joules_total,
            memory_used_bytes=reading.memory_used_bytes,
        )


MAX_EXCESS = 1.05
"""The counters of a sample are not read at the same instant: up to here a share is 1."""

NOT_MEASURED = MeasuredRatios({}, False)


class CycleRatios:
    """The cycle counters of one GPU, as of its newest counted sample.

    Attributes:
        measured: the activity between that sample and the one before.
    """

    __slots__ = ("_last", "measured")

    def __init__(self) -> None:
        self._last = NOTHING
        self.measured = NOT_MEASURED

    def update(self, reading: Reading, is_repeated: bool) -> MeasuredRatios:
        """Return the activity since the sample before.

        Counters that stand still are a page that repeats, with the activity of before, or SMs without a clock. Counters
        that have fallen were reset.

        Args:
            reading: as read.
            is_repeated: whether it has the values of the sample before.
        """
        last = self._last
        elapsed, before = reading[_ELAPSED], last[_ELAPSED]
        if elapsed is None or before is None or elapsed < before:
            self._last, self.measured = reading, NOT_MEASURED
        elif elapsed > before:
            values = {
                ratio: share
                for ratio, position in RATIOS
                if (share := _share(last[position], reading[position], elapsed - before)) is not None
            }
            self._last, self.measured = reading, MeasuredRatios(values, bool(values))
        else:
            self.measured = MeasuredRatios(self.measured.values, False) if is_repeated else NOT_MEASURED
        return self.measured


def _share(before: Value, now: Value, elapsed: float) -> Value:
    """Return the share of the elapsed cycles by which a counter grew; None if that is not a share."""
    if before is None or now is None or not 0.0 <= now - before <= elapsed * MAX_EXCESS:
        return None
    return min((now - before) / elapsed, 1.0)
