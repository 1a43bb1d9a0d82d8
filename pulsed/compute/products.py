"""Hardware features by product name: architecture, links, memory, tensor cores, and temperature limits.

Patterns are plain enough for RE2 (Prometheus) as well, and are searched for anywhere in the `product_name`, in any
case. This module must not depend on readings.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple, Protocol, TypeVar

from pulsed.model.gpu import is_product

DEFAULT: Final = "default"
"""The architecture of a product that is not in the table; in a configuration: every architecture."""


class Product(Protocol):
    """A row of a table of products: those in whose names the pattern is found, and no earlier one."""

    @property
    def pattern(self) -> str:
        """A regular expression."""


_ProductT = TypeVar("_ProductT", bound=Product)


def first_match(table: Iterable[_ProductT], model: str) -> _ProductT | None:
    """Return the first row for a product by its name, such as `NVIDIA H100 80GB HBM3`; None if no row matches."""
    return next((row for row in table if is_product(row.pattern, model)), None)


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


FIRST_DCGM: Final = {"blackwell": 4, "hopper": 3, "ada": 3}
"""By architecture, the first major version of DCGM, and of dcgm-exporter, that has profiling counters of it."""


def architecture_of(model: str) -> str:
    """Name the architecture of a product by its name, such as `NVIDIA H100 80GB HBM3`; `default` when not known."""
    architecture = first_match(ARCHITECTURES, model)
    return DEFAULT if architecture is None else architecture.name


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
    NvLinks(r"V100 SXM", 6, 25e9, 0.96, "V100 whitepaper; p2pBandwidthLatencyTest 143.7 of 150 GB/s (Dell)"),
    NvLinks(r"A100 SXM", 12, 25e9, 0.92, "A100 whitepaper; nvbandwidth 276 of 300 GB/s (NVIDIA's article)"),
    NvLinks(r"A800 SXM", 8, 25e9, 0.92, "A800 is A100 with 400 GB/s in both directions (NVIDIA, November 2022)"),
    NvLinks(r"H100 [0-9]+GB HBM3|H200$|\bH20( 3e)?$", 18, 25e9, 0.92, "H100 whitepaper: 900 GB/s both; share as A100"),
    NvLinks(r"H800$", 8, 25e9, 0.92, "H800 is H100 with 400 GB/s in both directions; share as A100"),
    NvLinks(r"\bB(100|200|300)\b|\bGB[23]00\b", 18, 50e9, 0.92, "NVLink 5: 1.8 TB/s in both directions; share as A100"),
    NvLinks(
        r"\bT4G?\b|\bA(2|10[A-Z]?|16)\b|\bL(2|4|20|40[A-Z]?)\b|\bAda\b|RTX (40|50)[5-9]0|RTX PRO|V100S? PCIE",
        0,
        0.0,
        1.0,
        "data sheets name PCIe as the only interconnect",
    ),
)


def nvlink_of(model: str) -> NvLinks | None:
    """Return the NVLinks of a product by its name; None if it is not in the table."""
    return first_match(NVLINKS, model)


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
    """Return the chip-to-chip link of a product by its name; None if it is not a superchip."""
    return first_match(C2C_LINKS, model)


class DeviceMemory(NamedTuple):
    """The most bytes/s between the GPUs of some products and their device memory.

    Attributes:
        pattern: found in the names of its products, and no earlier one.
        source: of the number, in a few words.
    """

    pattern: str
    bytes_per_second: float
    source: str


DEVICE_MEMORIES: Final = (
    DeviceMemory(r"\bA(100D?X?|800)\b", 2.04e12, "data sheet of A100 80 GB"),
    DeviceMemory(
        r"\bT4G?\b|\bA(2|10[A-Z]?|16|30X?|40)\b|\bL(2|4|20|40[A-Z]?)\b|\bAda\b|[RG]TX|GeForce|Quadro|TITAN|V100",
        1.8e12,
        "the fastest are RTX 5090 and RTX PRO 6000: 1.79 TB/s",
    ),
    DeviceMemory("", 8e12, "data sheets of B200 and B300"),
)
"""HBM3 and newer is in the last row, as are unknown products."""

PCIE_BYTES_PER_SECOND: Final = 64e9
"""No more than that in one direction: 16 lanes of PCIe 5. Boards with PCIe 6 measure their traffic."""


@lru_cache(maxsize=256)
def memory_bandwidth_of(model: str) -> float:
    """Return the most bytes/s between a product, by its name, and its device memory."""
    return next(row.bytes_per_second for row in DEVICE_MEMORIES if is_product(row.pattern, model))


class TensorPeak(NamedTuple):
    """The dense peak of the tensor cores of some products with 16-bit numbers, as a data sheet has it.

    Attributes:
        pattern: found in the names of its products; no name has two rows.
        flops: floating-point operations a second, without sparsity.
        sms: how many SMs it has.
        flops_per_clock: of one SM.
        source: of the numbers, in a few words.
    """

    pattern: str
    flops: float
    sms: int
    flops_per_clock: int
    source: str

    @property
    def clock_hertz(self) -> float:
        """The SM clock of that peak, which is not the highest: 1,830 of 1,980 MHz on H100 SXM."""
        return float(round(self.flops / (self.sms * self.flops_per_clock)))


TENSOR_PEAKS: Final = (
    TensorPeak(r"\bA(100|800)\b", 312e12, 108, 2048, "data sheet of A100; A800 computes as A100 does"),
    TensorPeak(r"\bH100 PCIe", 756e12, 114, 4096, "data sheet of H100 PCIe"),
    TensorPeak(r"\bH[12]00 NVL", 835.5e12, 132, 4096, "data sheets of H100 NVL and H200 NVL"),
    TensorPeak(r"\bH100 [0-9]+GB HBM3|\bH200$|\bGH200\b", 989.4e12, 132, 4096, "data sheets of H100 SXM, H200, GH200"),
    TensorPeak(r"\bB200\b", 2250e12, 148, 8192, "data sheet of HGX B200"),
    TensorPeak(r"\bL40S\b", 362.05e12, 142, 1024, "data sheet of L40S"),
)
"""Other products have no estimate of their model FLOP utilization."""


def tensor_peak_of(model: str) -> TensorPeak | None:
    """Return the tensor peak of a product by its name; None if it is not in the table."""
    return first_match(TENSOR_PEAKS, model)


_RACK_SCALE = r"\bGB[23]00\b"
DATA_CENTRE = (
    r"\b(A100|A800|A10|A10G|A30|A40|L4|L40|L40S|T4|H100|H800|H20|H200|GH200|B100|B200|B300|GB200|GB300|V100|P100)\b"
)


def is_rack_scale(model: str) -> bool:
    """Return whether the NVLinks of a product leave its node, to the switches of a rack."""
    return is_product(_RACK_SCALE, model)


class TemperatureLimits(NamedTuple):
    """Degrees Celsius; None where unknown.

    Attributes:
        slowdown: die temperature at which the hardware reduces the clocks.
        max_operating: highest operating temperature of the die.
        memory: highest operating temperature of the memory.
    """

    slowdown: float | None = None
    max_operating: float | None = None
    memory: float | None = None


BY_MODEL = (
    (r"A100 SXM", TemperatureLimits(89.0, 85.0, 95.0)),
    (r"A10G\b", TemperatureLimits(95.0, 88.0)),
    (r"\bT4\b", TemperatureLimits(93.0, 85.0)),
    (r"V100", TemperatureLimits(87.0, 83.0, 85.0)),
    (r"P100", TemperatureLimits(82.0)),
    (r"RTX 30[89]0 Ti", TemperatureLimits()),
    (r"RTX 30[89]0\b", TemperatureLimits(95.0, 93.0)),
    (r"RTX 2080 (SUPER|Super)", TemperatureLimits(97.0, 89.0)),
    (r"RTX 4080 (SUPER|Super)", TemperatureLimits(96.0, 90.0)),
    (r"H100 80GB HBM3|H100 SXM", TemperatureLimits(89.0, 87.0)),
    (r"\bH200 NVL", TemperatureLimits()),
    (r"\bH200", TemperatureLimits(89.0, 87.0)),
    (r"L40S", TemperatureLimits(90.0, 88.0)),
    (r"RTX 4000 SFF Ada", TemperatureLimits(89.0, 87.0)),
    (r"RTX 4090\b", TemperatureLimits(85.0, 83.0)),
    (r"RTX 5090\b", TemperatureLimits(92.0, 90.0)),
    (r"RTX PRO 6000 Blackwell", TemperatureLimits(93.0, 93.0)),
)
"""By pattern, which RE2 (Prometheus) understands as well; the first match counts. Limits of models that report margins
(H100 and newer) are calculated from them."""


@lru_cache(maxsize=256)
def limits_of(model: str) -> TemperatureLimits:
    """Return the limits of a model by its product name; all None when it is not in the table."""
    return next((limits for pattern, limits in BY_MODEL if is_product(pattern, model)), TemperatureLimits())


def is_data_centre(model: str) -> bool:
    """Return whether a model is a data-centre GPU, whose memory runs with ECC unless it was turned off."""
    return is_product(DATA_CENTRE, model)
