"""What a device can have by its model: links, sensors, ways to repair memory, profiling counters."""

from __future__ import annotations

import re
from functools import lru_cache

from pulsed.compute.peaks import architecture_of, c2c_of, nvlink_of
from pulsed.model.canonical_tick import Device
from pulsed.translate.fields import sources

_REMAPPING = ("remapped_rows_", "row_remap_", "remap_banks_")
_RETIREMENT = ("retired_pages_",)
_MEMORY_SENSOR = ("memory_temperature_", "memory_max_operating_temperature_")
_FABRIC = ("fabric_",)
_NVLINK = ("nvlink_",)
_ECC = ("ecc_",)
_C2C = ("c2c_",)

# Rows are remapped since Ampere, pages were retired before (NVIDIA's guide to GPU memory error management). Memory has
# a sensor on boards with HBM; T4, L4, L40S and RTX boards report 0. NVML has the fabric's state since Hopper, behind
# NVSwitches.
_BY_ARCHITECTURE = {
    "volta": (*_REMAPPING, *_FABRIC),
    "turing": (*_REMAPPING, *_FABRIC, *_MEMORY_SENSOR),
    "ampere": (*_RETIREMENT, *_FABRIC),
    "ada": (*_RETIREMENT, *_FABRIC, *_MEMORY_SENSOR),
    "hopper": _RETIREMENT,
    "blackwell": _RETIREMENT,
}
_GDDR = re.compile(r"\bA(2|10[A-Z]?|16|40)\b|RTX ?A[0-9]+|RTX [35]0[5-9]0")
_CARD = re.compile(r"\b(PCIe|PCIE|NVL)\b")
_CONSUMER = re.compile(r"GeForce|TITAN RTX")
_BEFORE_VOLTA = re.compile(r"\b(P100|P40|P6|P4|M60|M40|M10|M6|M4|K80|K40[a-z]?|K20[a-z]?|K10)\b|Quadro [PMK][0-9]+")
_P100 = re.compile(r"\bP100\b")


@lru_cache(maxsize=256)
def missing_from_model(model: str) -> tuple[str, ...]:
    """Return how the names of those quantities begin that a product does not have; empty if nothing is known of it."""
    absent = _BY_ARCHITECTURE.get(architecture_of(model), ())
    if not absent and _BEFORE_VOLTA.search(model):
        absent = _BY_ARCHITECTURE["volta"]
        if not _P100.search(model):
            absent += (*_MEMORY_SENSOR, *_NVLINK)
        elif "SXM" not in model:
            absent += _NVLINK
    links = nvlink_of(model)
    if links is not None and not links.links:
        absent += (*_NVLINK, *_FABRIC)
    if _CARD.search(model):
        absent += _FABRIC
    if _GDDR.search(model):
        absent += _MEMORY_SENSOR
    if _CONSUMER.search(model):
        absent += (*_ECC, *_REMAPPING, *_RETIREMENT)
    if absent and c2c_of(model) is None:
        absent += _C2C
    return tuple(dict.fromkeys(absent))


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
    """Return whether DCGM can have profiling counters of a device: not in a vGPU guest, of a consumer board, nor of a
    board before Volta."""
    return not (device.guest or _CONSUMER.search(device.model) or _BEFORE_VOLTA.search(device.model))
