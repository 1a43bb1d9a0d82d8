"""Practical peaks of GPUs, as data: the scale of saturation.

Activity of 1 is what the counter could show, not what the hardware can do: device memory refreshes, a link carries
headers. So every resource has a practical peak, with its source beside the number. Patterns are plain enough for RE2
(Prometheus) as well, and are searched for anywhere in the product name. This module must not depend on readings.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, Literal, NamedTuple, get_args

from pulsed.errors import ConfigError

Resource = Literal["tensor", "fp64", "fp32", "fp16", "integer", "dram", "pcie", "nvlink", "c2c"]

RESOURCES: Final[tuple[Resource, ...]] = get_args(Resource)
"""What can limit a GPU: five compute pipes, device memory, three links. The order settles ties."""

LINKS: Final[tuple[Resource, ...]] = ("pcie", "nvlink", "c2c")
"""The resources whose peak is a rate, and which exist on whole GPUs only."""

DEFAULT: Final = "default"
"""The architecture of a product that is not in the table; in a configuration: every architecture."""


class Architecture(NamedTuple):
    """Products of one architecture: those whose name the pattern is found in, and no earlier one."""

    name: str
    pattern: str


# Newer ones first: "RTX 4000 Ada Generation" and "RTX PRO 4000 Blackwell" also look like older boards. A Quadro of
# Turing is "RTX 4000", a GeForce of Ada "RTX 4070". Names: NVIDIA's product pages; vGPU guests add to them
# ("GRID A100DX-40C").
ARCHITECTURES: Final = (
    Architecture("blackwell", r"Blackwell|\bG?B(10|100|200|300)\b|RTX 50[5-9]0"),
    Architecture("hopper", r"\bG?H(20|100|200|800)[A-Z]*\b"),
    Architecture("ada", r"\bAda\b|\bL(2|4|20|40[A-Z]?)\b|RTX 40[5-9]0"),
    Architecture("ampere", r"\bA(2|10[A-Z]?|16|30X?|40|100D?X?|800)\b|RTX 30[5-9]0|RTX ?A[0-9]+"),
    Architecture("turing", r"\bT4G?\b|RTX 20[5-9]0|GTX 16[0-9]0|TITAN RTX|(Quadro|GRID) RTX ?[0-9]+"),
    Architecture("volta", r"\bG?V100[A-Z]*\b|TITAN V\b"),
)

ARCHITECTURE_NAMES: Final = (DEFAULT, *(architecture.name for architecture in reversed(ARCHITECTURES)))


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
    PracticalPeak(DEFAULT, "tensor", 0.93, "dcgmproftester -t 1004 levels off at 0.93 (DCGM user guide, profiling)"),
    PracticalPeak(DEFAULT, "fp64", 1.0, FULL_RATE),
    PracticalPeak(DEFAULT, "fp32", 1.0, FULL_RATE),
    PracticalPeak(DEFAULT, "fp16", 1.0, FULL_RATE),
    PracticalPeak(DEFAULT, "integer", 1.0, FULL_RATE),
    PracticalPeak(DEFAULT, "dram", 0.80, "DCGM user guide: DRAM_ACTIVE reaches about 0.8 in practice"),
    # From Hopper on DCGM takes the field from NVML's GPM, where it is bytes over the theoretical bandwidth.
    PracticalPeak("hopper", "dram", 0.87, "H100 SXM copies 2903 of 3350 GB/s (Voltage Park's cluster benchmarks)"),
    PracticalPeak("blackwell", "dram", 0.87, "counted as on Hopper, whose share it takes: no measurement is published"),
)


@dataclass(frozen=True, slots=True)
class Peaks:
    """The practical peak of every resource of one architecture.

    Attributes:
        tensor: activity ratio that counts as saturated, as are those up to `dram`: above 0, at most 1.
        pcie: bytes/s per direction, whatever the link; None: follow the link (`pcie_peak`).
        nvlink: bytes/s per direction, all links together; None: follow the product (`nvlink_of`).
        c2c: bytes/s per direction; None: follow the product (`c2c_of`).

    Raises:
        ConfigError: a ratio is not above 0 and at most 1, or a rate is not above 0 and finite.
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

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in LINKS:
                if value is not None and not 0 < value < math.inf:
                    raise ConfigError(f"practical peak {field.name} is {value}", "Give bytes per second, above 0.")
            elif not 0 < value <= 1:
                raise ConfigError(f"practical peak {field.name} is {value}", "Give a ratio above 0 and at most 1.")


def architecture_of(model: str) -> str:
    """Name the architecture of a product by its name, such as `NVIDIA H100 80GB HBM3`; `default` when not known."""
    for architecture in ARCHITECTURES:
        if re.search(architecture.pattern, model):
            return architecture.name
    return DEFAULT


def peaks_by_architecture(overrides: Mapping[str, Mapping[str, float]] | None = None) -> Mapping[str, Peaks]:
    """Build the table of peaks, one row for each of `ARCHITECTURE_NAMES`.

    Args:
        overrides: by architecture, peaks by resource that replace the table's. Those of `default` replace the ones of
            every architecture; those of an architecture go before them.

    Raises:
        ConfigError: an architecture or a resource does not exist, or a value is out of range.
    """
    chosen = overrides or {}
    for architecture, values in chosen.items():
        _check_known("architecture", architecture, ARCHITECTURE_NAMES)
        for resource in values:
            _check_known("resource", resource, RESOURCES)
    table = {}
    for architecture in ARCHITECTURE_NAMES:
        values = {row.resource: row.ratio for row in PRACTICAL_PEAKS if row.architecture == DEFAULT}
        values |= {row.resource: row.ratio for row in PRACTICAL_PEAKS if row.architecture == architecture}
        table[architecture] = Peaks(**{**values, **chosen.get(DEFAULT, {}), **chosen.get(architecture, {})})
    return table


def _check_known(kind: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ConfigError(f"there is no {kind} {name!r} to give practical peaks for", f"Use {', '.join(known)}.")


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
    """Return what a PCIe link carries in practice: bytes/s per direction, headers included; None when unknown.

    Args:
        generation: 1..6.
        width: lanes, at most 32.
    """
    if generation is None or width is None or not 0 < width <= PCIE_MAX_LANES:
        return None
    lane = PCIE_LANE_BYTES_PER_SECOND.get(generation)
    return None if lane is None else lane * width * PCIE_EFFICIENCY


class NvLinks(NamedTuple):
    """The NVLinks of a product.

    Attributes:
        pattern: found in the names of its products, and no earlier one.
        links: how many; 0: it has none.
        bytes_per_second: of one link in one direction.
        efficiency: share of it that copies reach, 0..1.
        source: of these numbers, in a few words.
    """

    pattern: str
    links: int
    bytes_per_second: float
    efficiency: float
    source: str

    @property
    def peak(self) -> float:
        """Bytes/s per direction in practice, all links together; headers excluded, as in fields 1011 and 1012."""
        return self.links * self.bytes_per_second * self.efficiency


# Boards that take a bridge (A30, A40, A100 PCIe, H100 PCIe and NVL, RTX A6000), and superchips that stand alone or in
# a rack (GH200), are left out: their name does not show whether a bridge is plugged in.
NVLINKS: Final = (
    NvLinks(r"V100-SXM", 6, 25e9, 0.96, "V100 whitepaper; p2pBandwidthLatencyTest 143.7 of 150 GB/s (Dell)"),
    NvLinks(r"A100-SXM", 12, 25e9, 0.92, "A100 whitepaper; nvbandwidth 276 of 300 GB/s (NVIDIA's article)"),
    NvLinks(r"A800-SXM", 8, 25e9, 0.92, "A800 is A100 with 400 GB/s in both directions (NVIDIA, November 2022)"),
    NvLinks(r"H100 [0-9]+GB HBM3|H200$|\bH20(-3e)?$", 18, 25e9, 0.92, "H100 whitepaper: 900 GB/s both; share as A100"),
    NvLinks(r"H800$", 8, 25e9, 0.92, "H800 is H100 with 400 GB/s in both directions; share as A100"),
    NvLinks(r"\bB(100|200|300)\b|\bGB[23]00\b", 18, 50e9, 0.92, "NVLink 5: 1.8 TB/s in both directions; share as A100"),
    NvLinks(
        r"\bT4G?\b|\bA(2|10[A-Z]?|16)\b|\bL(2|4|20|40[A-Z]?)\b|\bAda\b|RTX (40|50)[5-9]0|RTX PRO|V100S?-PCIE",
        0,
        0.0,
        1.0,
        "data sheets name PCIe as the only interconnect",
    ),
)


def nvlink_of(model: str) -> NvLinks | None:
    """Return the NVLinks of a product by its name; None if it is not in the table."""
    for row in NVLINKS:
        if re.search(row.pattern, model):
            return row
    return None


class ChipToChipLink(NamedTuple):
    """NVLink-C2C, the link between the GPU and the processor of a superchip: it carries what PCIe does elsewhere.

    Attributes:
        pattern: found in the names of its products, and no earlier one.
        bytes_per_second: no more than that in one direction.
        efficiency: share of it that copies reach, 0..1; None if it is not published.
        memory_bytes_per_second: no more than that between the GPU and its device memory.
        source: of these numbers, in a few words.
    """

    pattern: str
    bytes_per_second: float
    efficiency: float | None
    memory_bytes_per_second: float
    source: str

    @property
    def peak(self) -> float | None:
        """Bytes/s per direction in practice; None when unknown."""
        return None if self.efficiency is None else self.bytes_per_second * self.efficiency

    def limit(self, dram: float, graphics_engine: float) -> float:
        """Return an upper bound of the traffic in one direction, bytes/s, from shares of time, 0..1.

        A copy reads or writes device memory at the link's rate, and a kernel that uses the processor's memory instead
        runs in the graphics engine.
        """
        return dram * self.memory_bytes_per_second + graphics_engine * self.bytes_per_second


# The processor of a GB200 or GB300 has 900 GB/s in both directions for two GPUs: what one of them reaches is not
# published.
C2C_LINKS: Final = (
    ChipToChipLink(
        r"\bGH200\b",
        450e9,
        0.83,
        4.9e12,
        "data sheet: 900 GB/s both, HBM3e 4.9 TB/s; Comm|Scope copies 375 GB/s (Schieffer et al., ICPP 2024)",
    ),
    ChipToChipLink(r"\bGB[23]00\b", 450e9, None, 8e12, "data sheets: 900 GB/s both, HBM3e 8 TB/s"),
)
"""The links of superchips; no other product has one."""


def c2c_of(model: str) -> ChipToChipLink | None:
    """Return the chip-to-chip link of a product by its name; None if it is no superchip."""
    for row in C2C_LINKS:
        if re.search(row.pattern, model):
            return row
    return None
