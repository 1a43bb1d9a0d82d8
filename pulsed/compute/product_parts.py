"""What products lack, by their names: sensors, links, ways to repair memory, and profiling counters.

This module must not depend on readings.
"""

from __future__ import annotations

from functools import lru_cache

from pulsed.compute.products import C2C_LINKS, DATA_CENTRE, architecture_of, c2c_of, nvlink_of
from pulsed.model.gpu import Device, is_product
from pulsed.translate.fields import sources

ProductPart = tuple[str, ...]
"""A part that some products lack: how the names of its quantities begin."""


_REMAPPING = ("remapped_rows_", "row_remap_", "remap_banks_")
_RETIREMENT = ("retired_pages_",)
_MEMORY_SIZE = ("memory_bytes", "memory_used_", "memory_free_", "memory_reserved_", "bar1_memory_")
_MEMORY_TRAFFIC = ("memory_utilization_",)
_MEMORY_CLOCK = ("memory_clock_", "application_memory_clock_")
_MEMORY_REPAIR = ("memory_unrepairable",)
_MEMORY_SENSOR = ("memory_temperature_", "memory_max_operating_temperature_")
_FABRIC = ("fabric_",)
_NVLINK = ("nvlink_",)
_NVLINK_5_COUNTERS = (
    *("nvlink_receive_errors_", "nvlink_symbol_", "nvlink_effective_", "nvlink_link_recoveries_"),
    "nvlink_transmit_waits_",
)
_ECC = ("ecc_",)
_FAN = ("fan_speed_",)
_INFOROM = ("inforom_",)
_ENERGY_COUNTER = ("energy_",)
_C2C = ("c2c_",)
_POWER_SMOOTHING = ("power_smoothing_",)
_TEMPERATURE_MARGIN = ("temperature_margin_",)
_PROFILER = (
    *("graphics_engine_active_", "sm_active_", "sm_occupancy_", "sm_elapsed_", "tensor_", "dram_active_"),
    *("fp64_active_", "fp32_active_", "fp16_active_", "integer_active_", "nvdec", "nvjpg", "nvofa"),
)
"""Without traffic, which older exporters have from the driver."""

# Rows are remapped since Ampere, pages were retired before (NVIDIA's guide to GPU memory error management). Memory has
# a sensor on boards with HBM; T4, L4, L40S and RTX boards report 0. NVML has the fabric's state since Hopper, behind
# NVSwitches. DCGM has its fields 1200 to 1219 on NVLink 5 only. NVML's energy counter begins with Volta.
_BY_ARCHITECTURE = {
    "volta": (_REMAPPING, _FABRIC, _NVLINK_5_COUNTERS),
    "turing": (_REMAPPING, _FABRIC, _MEMORY_SENSOR, _NVLINK_5_COUNTERS),
    "ampere": (_RETIREMENT, _FABRIC, _NVLINK_5_COUNTERS),
    "ada": (_RETIREMENT, _FABRIC, _MEMORY_SENSOR),
    "hopper": (_RETIREMENT, _NVLINK_5_COUNTERS),
    "blackwell": (_RETIREMENT,),
}
_BEFORE_VOLTA = r"\b(P100|P40|P6|P4|M60|M40|M10|M6|M4|K80|K40[a-z]?|K20[a-z]?|K10)\b|Quadro [PMK][0-9]+"
_P100 = r"\bP100\b"
_CONSUMER = r"GeForce|TITAN RTX"
_WITHOUT_PROFILING = r"GeForce (?!RTX 50[5-9]0)|TITAN RTX"
"""Of consumer boards, Blackwell is the first architecture with profiling counters (DCGM#234)."""
_UNIFIED = r"\bGB10\b|\bThor\b"
"""Products without device memory of their own: they use the processor's memory. NVML has no memory numbers of them, and
DCGM no profiling counters; some counters are 0 all the time (llama-swap#782, nvtop#426)."""
_HAS_TEMPERATURE_MARGIN = r"\bG?H(20|100|200|800)\b|\bL(4|20|40S?)\b|\bAda\b|Blackwell|\bG?B[123]00\b|RTX [45]0[5-9]0"
_BY_PATTERN = (
    (r"\b(PCIe|NVL)\b", (_FABRIC,)),  # cards
    (r"\bA(2|10[A-Z]?|16|40)\b|RTX ?A[0-9]+|RTX [35]0[5-9]0", (_MEMORY_SENSOR,)),  # GDDR
    (_CONSUMER, (_ECC, _REMAPPING, _RETIREMENT)),
    (DATA_CENTRE, (_FAN,)),  # the air of the chassis, or a liquid, cools them
    (
        _UNIFIED,
        (
            *(_MEMORY_SIZE, _MEMORY_TRAFFIC, _MEMORY_CLOCK, _MEMORY_SENSOR, _MEMORY_REPAIR, _ECC, _REMAPPING),
            *(_RETIREMENT, _NVLINK, _FABRIC, _FAN, _INFOROM),
        ),
    ),
)

_RARE = (
    (_C2C, "|".join(link.pattern for link in C2C_LINKS)),
    (_POWER_SMOOTHING, r"\bG?B[23]00\b"),  # others report 0 of its life
    (_TEMPERATURE_MARGIN, _HAS_TEMPERATURE_MARGIN),  # NVML's T.Limit; others report 0
)
"""Parts with the products that have them: no other product has one, and an unknown one hardly."""


def unmeasured_by(model: str) -> tuple[ProductPart, ...]:
    """Return the parts that a product lacks by its name, so that a 0 of them is no measurement.

    Activity of engines that a product lacks, such as its video encoder, is not among them: 0 is true of it.
    """
    rare = tuple(part for part, pattern in _RARE if not is_product(pattern, model))
    profiler = () if _has_profiler(model) else (_PROFILER,)
    return tuple(dict.fromkeys((*_known_to_lack(model), *rare, *profiler)))


@lru_cache(maxsize=256)
def missing_from_model(model: str) -> tuple[str, ...]:
    """Return how the names of those quantities begin that a product does not have; empty if nothing is known of it.

    Profiling counters are not among them: see `has_profiling`.
    """
    parts = [part for part in unmeasured_by(model) if part is not _PROFILER] if _known_to_lack(model) else []
    return tuple(dict.fromkeys(prefix for part in parts for prefix in part))


def _known_to_lack(model: str) -> tuple[ProductPart, ...]:
    absent = _BY_ARCHITECTURE.get(architecture_of(model), ())
    if not absent and is_product(_BEFORE_VOLTA, model):
        absent = (*_BY_ARCHITECTURE["volta"], _ENERGY_COUNTER)
        if not is_product(_P100, model):
            absent += (_MEMORY_SENSOR, _NVLINK)
        elif not is_product("SXM", model):
            absent += (_NVLINK,)
    links = nvlink_of(model)
    if links is not None and not links.links:
        absent += (_NVLINK, _FABRIC)
    for pattern, parts in _BY_PATTERN:
        if is_product(pattern, model):
            absent += parts
    return absent


def has_quantity(device: Device, quantity: str) -> bool:
    """Return whether a quantity exists for a device: some exist for whole boards only, some not on every model."""
    if not device.whole and is_of_boards(quantity):
        return False
    if quantity.startswith(_C2C) and c2c_of(device.model) is None:  # also of unknown products: few have one
        return False
    return not quantity.startswith(missing_from_model(device.model))


def is_of_boards(quantity: str) -> bool:
    """Return whether a quantity exists for whole boards only, not for MIG instances."""
    return all(field.level == "board" for field in sources(quantity))


def has_profiling(device: Device) -> bool:
    """Return whether DCGM can have profiling counters of a device.

    It has none in a vGPU guest, of a consumer board before Blackwell, of a board before Volta, nor of one with unified
    memory.
    """
    return not device.guest and _has_profiler(device.model)


def _has_profiler(model: str) -> bool:
    return not any(is_product(pattern, model) for pattern in (_WITHOUT_PROFILING, _BEFORE_VOLTA, _UNIFIED))
