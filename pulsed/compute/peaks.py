"""Practical peaks of GPUs, as data: the scale of saturation.

Activity of 1 is what the counter could show, not what the hardware can do: device memory refreshes, a link carries
headers. So every resource has a practical peak, with its source next to the number. This module must not depend on
readings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

from pulsed.compute.products import ARCHITECTURE_NAMES, DEFAULT
from pulsed.errors import did_you_mean

Resource = Literal["tensor", "fp64", "fp32", "fp16", "integer", "dram", "pcie", "nvlink", "c2c"]

RESOURCES: Final[tuple[Resource, ...]] = get_args(Resource)
"""What can limit a GPU: five compute pipes, device memory, three links. The order settles ties."""

LINKS: Final[tuple[Resource, ...]] = ("pcie", "nvlink", "c2c")
"""The resources whose peak is a rate, and which exist on whole GPUs only."""


class PracticalPeak(NamedTuple):
    """The largest activity of a resource that real work reaches.

    Attributes:
        architecture: which GPUs, or `default`: those without a row of their own.
        resource: a compute pipe or `dram`.
        ratio: activity, 0..1.
        source: where it is from, in a few words.
    """

    architecture: str
    resource: Resource
    ratio: float
    source: str


FULL_RATE = "DCGM field reference: 1 is an instruction in every cycle in which the pipe accepts one"

PRACTICAL_PEAKS: Final = (
    PracticalPeak(DEFAULT, "tensor", 0.93, "dcgmproftester -t 1004 (DCGM user guide, profiling)"),
    PracticalPeak(DEFAULT, "fp64", 1.0, FULL_RATE),
    PracticalPeak(DEFAULT, "fp32", 1.0, FULL_RATE),
    PracticalPeak(DEFAULT, "fp16", 1.0, FULL_RATE),
    PracticalPeak(DEFAULT, "integer", 1.0, FULL_RATE),
    PracticalPeak(DEFAULT, "dram", 0.80, "DCGM user guide"),
    # From Hopper on DCGM takes the field from NVML's GPM, where it is bytes over the theoretical bandwidth.
    PracticalPeak("hopper", "dram", 0.87, "H100 SXM copies 2903 of 3350 GB/s (Voltage Park's cluster benchmarks)"),
    PracticalPeak("blackwell", "dram", 0.87, "as on Hopper; no measurement is published"),
)


@dataclass(frozen=True, slots=True)
class Peaks:
    """The practical peak of every resource of one architecture.

    Attributes:
        tensor: activity ratio that counts as saturated, as are those up to `dram`: above 0, at most 1.
        pcie: bytes/s per direction, whatever the link; None: follow the link (`pcie_peak`).
        nvlink: bytes/s per direction, all links together; None: follow the product (`nvlink_of`).
        c2c: bytes/s per direction; None: follow the product (`c2c_of`).
    """

    tensor: float
    fp64: float
    fp32: float
    fp16: float
    integer: float
    dram: float
    pcie: float | None = None
    nvlink: float | None = None
    c2c: float | None = None


Overrides = Mapping[str, Mapping[str, float]]
"""Practical peaks by architecture and resource; they replace the peaks of the table."""


def problems_of(overrides: Overrides) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with overrides: architecture and resource with a dot, and words that follow it."""
    for architecture, values in overrides.items():
        if architecture not in ARCHITECTURE_NAMES:
            hint = did_you_mean(architecture, ARCHITECTURE_NAMES, f"use {', '.join(ARCHITECTURE_NAMES)}")
            yield architecture, f"is not an architecture; {hint}"
            continue
        for resource, value in values.items():
            place = f"{architecture}.{resource}"
            if resource not in RESOURCES:
                hint = did_you_mean(resource, RESOURCES, f"use {', '.join(RESOURCES)}")
                yield place, f"is not a resource; {hint}"
            elif resource in LINKS and not 0 < value < math.inf:
                yield place, f"is {value:g}; give bytes per second, above 0"
            elif resource not in LINKS and not 0 < value <= 1:
                yield place, f"is {value:g}; give a ratio above 0 and at most 1"


def peaks_by_architecture(overrides: Overrides | None = None) -> Mapping[str, Peaks]:
    """Build the table of peaks, one row for each of `ARCHITECTURE_NAMES`.

    Args:
        overrides: without problems (`problems_of`). `default` replaces the peaks of every architecture; an entry for
            one architecture takes precedence.
    """
    chosen = overrides or {}
    table = {}
    for architecture in ARCHITECTURE_NAMES:
        values: dict[str, float] = {row.resource: row.ratio for row in PRACTICAL_PEAKS if row.architecture == DEFAULT}
        values |= {row.resource: row.ratio for row in PRACTICAL_PEAKS if row.architecture == architecture}
        table[architecture] = Peaks(**{**values, **chosen.get(DEFAULT, {}), **chosen.get(architecture, {})})
    return table


DEFAULT_PEAKS: Final = peaks_by_architecture()
