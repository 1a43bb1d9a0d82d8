"""Saturation: how close a GPU is to a limit of its hardware, and to which one; and its tensor throughput.

Each resource is its activity over the practical peak; the largest is the saturation, its name the limiting resource.
A maximum is honest where a sum is not: nothing counts twice (the "speed of light" pair of Nsight and utilyze).

Tensor activity times SM clock over a clock is published as overall FLOP utilization (OFU, arXiv 2605.20799). It is an
upper estimate of model FLOP utilization (MFU): a pipe that works on the padding of a tile, or on what is computed
again, is active as well, and sparsity is not seen. The peak of a data sheet is for a lower clock than the highest. This
module must not depend on classes or weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Final

from pulsed.compute.declaration import DerivedDetail, DerivedNumber, DerivedResult, DerivedState, DerivedVector
from pulsed.compute.peaks import DEFAULT_PEAKS, LINKS, RESOURCES, Peaks
from pulsed.compute.products import DEFAULT, architecture_of, c2c_of, nvlink_of, tensor_peak_of
from pulsed.model.interval import Interval
from pulsed.model.result import Bounds, Result, Saturation
from pulsed.model.vocabulary import Reading, Value

NONE: Final = "none"
"""The limiting resource of a GPU whose known resources are all 0."""

UNKNOWN: Final = "unknown"
"""The limiting resource where too little is known to name a saturation."""

LIMITING_RESOURCES: Final[tuple[str, ...]] = (*RESOURCES, NONE, UNKNOWN)
"""All answers."""


# Bytes/s of one lane in one direction after line encoding: PCI-SIG's 2.5 and 5 GT/s with 8b/10b; 8, 16 and 32 GT/s
# with 128b/130b; 64 GT/s with 242 of each 256-byte FLIT.
PCIE_LANE_BYTES_PER_SECOND: Final[Mapping[float, float]] = {
    1: 2.5e9 / 8 * 8 / 10,
    2: 5e9 / 8 * 8 / 10,
    3: 8e9 / 8 * 128 / 130,
    4: 16e9 / 8 * 128 / 130,
    5: 32e9 / 8 * 128 / 130,
    6: 64e9 / 8 * 242 / 256,
}
PCIE_MAX_LANES: Final = 32  # the widest link of the PCIe specification

# Copies reach 55.6 of 63 GB/s on Gen5 x16 (NVIDIA's nvbandwidth article): 0.88. DCGM's fields 1009 and 1010 count the
# headers too: 16 bytes on each payload of 256.
PCIE_EFFICIENCY: Final = 0.88 * (256 + 16) / 256


def pcie_peak(generation: float | None, width: float | None) -> float | None:
    """Return what a PCIe link of a generation (1..6) and a width (32 lanes at most) carries in practice: bytes/s per
    direction, headers included; None when unknown."""
    if generation is None or width is None or not 0 < width <= PCIE_MAX_LANES:
        return None
    lane = PCIE_LANE_BYTES_PER_SECOND.get(generation)
    return None if lane is None else lane * width * PCIE_EFFICIENCY


class Saturator:
    """Works out the saturation of one kind of device; what does not change between readings is looked up once.

    Attributes:
        link: the device's chip-to-chip link; None if it has none.
    """

    __slots__ = ("_c2c", "_expected", "_has_nvlink", "_nvlink", "_peaks", "_ratios", "_tensor_clock", "_whole", "link")

    def __init__(self, model: str, whole: bool, peaks: Mapping[str, Peaks] = DEFAULT_PEAKS) -> None:
        """Look the peaks up by the product name, which may be empty. A MIG instance and a vGPU guest are not `whole`:
        they have no links."""
        row = peaks.get(architecture_of(model), peaks[DEFAULT])
        nvlink, tensor = nvlink_of(model), tensor_peak_of(model)
        self.link = c2c_of(model) if whole else None
        self._peaks = row
        self._whole = whole
        self._tensor_clock = None if tensor is None else tensor.clock_hertz
        self._ratios: tuple[float, ...] = _ratio_peaks(row)
        self._nvlink = row.nvlink if row.nvlink is not None or nvlink is None else nvlink.peak
        self._c2c = row.c2c if row.c2c is not None or self.link is None else self.link.peak
        has_nvlink = nvlink is None or nvlink.links > 0
        has = {"pcie": whole, "nvlink": whole and has_nvlink, "c2c": self.link is not None}
        self._expected = tuple([name if has.get(name, True) else "" for name in RESOURCES])
        self._has_nvlink = has["nvlink"]

    def saturation(self, reading: Reading, bounds: Bounds) -> Saturation:
        """Return the saturation of one reading of such a device, given the bounds of its inputs."""
        *pipes, dram = [
            None if activity is None else _share(activity, peak)
            for activity, peak in zip(_activities(reading), self._ratios, strict=True)
        ]
        pcie = nvlink = sent = received = None
        if self._whole:
            pcie, nvlink = self._pcie(reading), self._nvlink_share(reading)
            sent, received = reading.c2c_transmit_bytes_per_second, reading.c2c_receive_bytes_per_second
        c2c = _link_share(sent, received, self._c2c)
        resources = (*pipes, dram, pcie, nvlink, c2c)
        missing = [name for name, value in zip(self._expected, resources, strict=True) if value is None and name]
        if c2c is None and self.link is None and (sent, received) != (None, None):
            missing.append("c2c")  # it is read, though the product is not known to have it
        compute, ratio = _largest(pipes), _largest(resources)
        upper = lower = ratio or 0.0
        if missing:
            lower, upper = self._limits(lower, bounds, missing)
        limiting = UNKNOWN
        if ratio is None or ratio < lower or ((compute is None or dram is None) and upper > lower):
            ratio = None
        elif ratio > 0.0:
            limiting = RESOURCES[resources.index(ratio)]
        elif upper == 0.0:
            limiting = NONE
        interval = Interval(lower, ratio, upper, tuple(missing))
        return Saturation(interval, limiting, resources, compute, dram, self._tensor_clock)

    def _pcie(self, reading: Reading) -> Value:
        transmit = reading.pcie_transmit_bytes_per_second
        receive = reading.pcie_receive_bytes_per_second
        peak = self._peaks.pcie
        if peak is not None or (transmit is None and receive is None):
            return _link_share(transmit, receive, peak)
        # An idle link steps down, in generation and width (nvidia-smi --help-query-gpu): the limit is what it can train
        # to. One that cannot get there is the business of the health checks.
        generation = reading.pcie_link_generation_max or reading.pcie_link_generation
        width = reading.pcie_link_width_max or reading.pcie_link_width
        return _link_share(transmit, receive, pcie_peak(generation, width))

    def _nvlink_share(self, reading: Reading) -> Value:
        if not self._has_nvlink:
            return None
        transmit = reading.nvlink_transmit_bytes_per_second
        receive = reading.nvlink_receive_bytes_per_second
        both = reading.nvlink_bandwidth_bytes_per_second
        if both is not None and (transmit is None or receive is None):
            # The larger direction lies between half of the sum and all of it: sure at both ends of the scale only.
            # In between it stays missing, rather than an even split, which is not measured.
            if both <= 0.0:
                return 0.0
            if transmit is None and receive is None:
                transmit = both / 2
        return _link_share(transmit, receive, self._nvlink)

    def _limits(self, measured: float, bounds: Bounds, missing: list[str]) -> tuple[float, float]:
        """Return the least and the largest saturation, given the bounds of the activity, missing resources included.

        The least activity of a missing input is above 0 on MIG boards.
        """
        peaks, low, high = self._peaks, bounds.low, bounds.high
        lower = min(max(measured, low.tensor / peaks.tensor, low.fp64 / peaks.fp64, low.dram / peaks.dram), 1.0)
        if not _LINKS.isdisjoint(missing):
            return lower, 1.0
        upper = lower
        if not _PIPES.isdisjoint(missing):
            upper = max(upper, high.sm / min(self._ratios[:-1]))
        if "dram" in missing:
            upper = max(upper, high.dram / peaks.dram)
        return lower, min(upper, 1.0)


_RATIOS: Final = tuple(resource for resource in RESOURCES if resource not in LINKS)
"""The pipes, and device memory as the last one."""

_activities = attrgetter(*(f"{resource}_active_ratio" for resource in _RATIOS))
_ratio_peaks = attrgetter(*_RATIOS)
_LINKS: Final = frozenset(LINKS)
_PIPES: Final = frozenset(RESOURCES) - _LINKS - {"dram"}


def _share(activity: float, peak: float) -> Value:
    """Divide, and clamp to 0..1; NaN counts as missing."""
    share = activity / peak
    if share >= 1.0:
        return 1.0
    if share > 0.0:
        return share
    return 0.0 if share <= 0.0 else None


def _largest(values: Iterable[Value]) -> Value:
    return max([value for value in values if value is not None], default=None)


def _link_share(transmit: Value, receive: Value, peak: Value) -> Value:
    """Return the larger direction over the peak: no traffic needs no peak, and a full direction no other one."""
    if transmit is None or receive is None:
        known_direction = receive if transmit is None else transmit
        return 1.0 if known_direction is not None and peak is not None and known_direction >= peak else None
    larger = max(transmit, receive)
    if larger <= 0.0:
        return 0.0
    return None if peak is None else _share(larger, peak)


_PIPE_INPUTS: Final = tuple(f"{pipe}_active_ratio" for pipe in RESOURCES if pipe in _PIPES)

SATURATION: Final = DerivedResult(
    name="saturation",
    inputs=lambda settings: (_PIPE_INPUTS, ("dram_active_ratio",)),
    without=lambda settings: "only its bounds are published",
    values=(
        DerivedNumber(
            name="saturation_ratio",
            help="Largest resource_saturation_ratio; absent while too few resources are known",
            get=lambda reading, result: result.saturation.ratio.value,
            json="saturation.ratio",
        ),
        DerivedVector(
            name="saturation_bound_ratio",
            help="Bounds of the saturation, given the missing inputs",
            label="bound",
            keys=("lower", "upper"),
            get=lambda reading, result: (result.saturation.ratio.low, result.saturation.ratio.high),
            json="saturation.{}",
            always=True,
        ),
        DerivedVector(
            name="resource_saturation_ratio",
            help="Activity over the practical peak of the resource on this architecture",
            label="resource",
            keys=RESOURCES,
            get=lambda reading, result: result.saturation.resources,
        ),
        DerivedState(
            name="limiting_resource",
            help="Resource closest to its limit: 1 for that resource, 0 for all others",
            states=LIMITING_RESOURCES,
            get=lambda reading, result: result.saturation.limiting_resource,
            label="resource",
            json="saturation.limiting_resource",
        ),
        DerivedDetail(
            json="saturation.compute",
            help="The largest compute pipe",
            kind="ratio",
            get=lambda reading, result: result.saturation.compute,
        ),
        DerivedDetail(
            json="saturation.memory",
            help="Device memory",
            kind="ratio",
            get=lambda reading, result: result.saturation.memory,
        ),
        DerivedDetail(
            json="saturation.resources",
            help="Activity of each resource over its practical peak on this architecture",
            kind="ratios",
            get=lambda reading, result: zip(RESOURCES, result.saturation.resources, strict=True),
        ),
        DerivedDetail(
            json="saturation.missing",
            help="Resources that this GPU has and that are not known",
            kind="names",
            get=lambda reading, result: result.saturation.ratio.missing,
        ),
    ),
)


def tensor_throughput_ratio(reading: Reading, data_sheet_clock: Value) -> Value:
    """Return the tensor throughput in 0..1 over that at the data sheet's clock, in hertz; without one (None), over that
    at the highest clock. None if an input is missing."""
    tensor, clock = reading.tensor_active_ratio, reading.sm_clock_hertz
    clock_of_peak = reading.sm_clock_max_hertz if data_sheet_clock is None else data_sheet_clock
    if tensor is None or clock is None or clock_of_peak is None or not clock_of_peak > 0.0:
        return None
    ratio = tensor * clock / clock_of_peak
    return None if ratio != ratio else min(max(ratio, 0.0), 1.0)  # NaN counts as missing


def mfu_ratio(reading: Reading, result: Result) -> Value:
    """Return the estimate of MFU in 0..1; None if an input, or the data sheet's clock of the model, is missing."""
    clock = result.saturation.tensor_clock_hertz
    return None if clock is None else tensor_throughput_ratio(reading, clock)


TENSOR_THROUGHPUT = DerivedResult(
    name="tensor_throughput_ratio",
    inputs=lambda settings: (("tensor_active_ratio",), ("sm_clock_hertz",), ("sm_clock_max_hertz",)),
    without=lambda settings: "it is absent",
    values=(
        DerivedNumber(
            name="tensor_throughput_ratio",
            help="Tensor activity times SM clock over the clock of the data sheet's peak, or over the highest clock",
            get=lambda reading, result: tensor_throughput_ratio(reading, result.saturation.tensor_clock_hertz),
            json="saturation.tensor_throughput_ratio",
            csv=False,
        ),
        DerivedNumber(
            name="mfu_ratio",
            help="Upper estimate of model FLOP utilization from tensor throughput, for products with a known data sheet"
            " clock; ignores tile quantization and sparsity",
            get=mfu_ratio,
            json="saturation.mfu_ratio",
            csv=False,
        ),
    ),
)
