"""Percentages that a relay has converted to ratios under their names, and memory in another unit."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pulsed.model.raw_tick import RawValue
from pulsed.translate.translator import Translator
from pulsed.translate.units import RATIO_UNIT_UNKNOWN
from tests.support.ticks import anomalies_of, readings_of
from tests.translate.build import tick

UTIL, MEMORY, ENCODER, FAN = (f"DCGM_FI_DEV_{name}" for name in ("GPU_UTIL", "MEM_COPY_UTIL", "ENC_UTIL", "FAN_SPEED"))
QUANTITIES = {
    UTIL: "gpu_utilization_ratio",
    MEMORY: "memory_utilization_ratio",
    ENCODER: "encoder_utilization_ratio",
    FAN: "fan_speed_ratio",
}
MIB = 2.0**20

Page = Mapping[str, tuple[RawValue, ...]]


def shares(translator: Translator, page: Page) -> dict[str, tuple[float | None, ...]]:
    """By name, the shares of all GPUs."""
    rows = [
        (name, {"gpu": str(gpu), "UUID": f"GPU-{gpu}"}, value) for name in page for gpu, value in enumerate(page[name])
    ]
    readings = readings_of(translator.translate(tick(rows)))
    return {name: tuple([getattr(reading, QUANTITIES[name]) for reading in readings]) for name in page}


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ({UTIL: (98.0, 0.0)}, {UTIL: (0.98, 0.0)}),
        ({UTIL: (0.98, 0.0)}, {UTIL: (0.98, 0.0)}),
        ({UTIL: (0.98, 1.0)}, {UTIL: (0.98, 1.0)}),
        ({UTIL: (98.0, 1.0)}, {UTIL: (0.98, 0.01)}),
        ({UTIL: (1.0, 0.0)}, {UTIL: (None, 0.0)}),
        ({UTIL: (0.98, 0.0), MEMORY: (0.45, 0.0), ENCODER: (0.0, 0.0)}, {MEMORY: (0.45, 0.0), ENCODER: (0.0, 0.0)}),
        ({UTIL: (0.98, 0.0), MEMORY: (1.0, 0.0)}, {UTIL: (0.98, 0.0), MEMORY: (None, 0.0)}),
        ({UTIL: (1.0, 0.0), FAN: (30.0, 31.0)}, {UTIL: (0.01, 0.0), FAN: (0.3, 0.31)}),
        ({UTIL: (0.98, 0.0), FAN: (30.0, 31.0)}, {UTIL: (0.98, 0.0), FAN: (0.3, 0.31)}),
        ({UTIL: (55.25, 0.5), MEMORY: (0.25, 0.0)}, {UTIL: (0.5525, 0.005), MEMORY: (0.0025, 0.0)}),
    ],
)
def test_a_page_proves_its_unit(page: Page, expected: Page) -> None:
    found = shares(Translator(), page)
    assert {name: found[name] for name in expected} == {name: pytest.approx(expected[name]) for name in expected}


def test_a_proof_lasts() -> None:
    ratios, percent = Translator(), Translator()
    shares(ratios, {UTIL: (0.5,)})
    assert shares(ratios, {UTIL: (1.0,)}) == {UTIL: (1.0,)}
    shares(percent, {UTIL: (55.0,)})
    assert shares(percent, {UTIL: (1.0,)}) == {UTIL: (0.01,)}
    assert shares(percent, {UTIL: (0.5,)}) == {UTIL: (0.005,)}, "a mean"


def test_a_fraction_is_taken_back_by_a_percentage() -> None:
    """Means over time of an idle GPU, before it works."""
    translator = Translator()
    shares(translator, {UTIL: (0.5,)})
    assert shares(translator, {UTIL: (60.5,)}) == {UTIL: (0.605,)}
    assert shares(translator, {UTIL: (0.5,)}) == {UTIL: (0.005,)}


def test_one_without_any_proof_is_reported() -> None:
    canonical = Translator().translate(tick([(UTIL, {"gpu": "0", "UUID": "GPU-0"}, 1.0)]))
    assert anomalies_of(canonical) == {0: (RATIO_UNIT_UNKNOWN,)}


@pytest.mark.parametrize("value", [203.0, 4294967295.0, float(2**63), -1.0])
def test_garbage_proves_nothing(value: float) -> None:
    translator = Translator()
    shares(translator, {UTIL: (value,)})
    assert shares(translator, {UTIL: (0.98,)}) == {UTIL: (0.98,)}


@pytest.mark.parametrize(
    ("name", "quantity", "least"),
    [
        ("DCGM_FI_DEV_FB_USED", "memory_used_bytes", 0.0),
        ("DCGM_FI_DEV_FB_TOTAL", "memory_bytes", 512.0),  # less would be in KiB
        ("DCGM_FI_DEV_FB_USED_BYTES", "memory_used_bytes", 0.0),
        ("DCGM_FI_DEV_FB_CAPACITY_BYTES", "memory_bytes", 0.0),
        ("DCGM_FI_DEV_BAR1_USED_BYTES", "bar1_memory_used_bytes", 0.0),
    ],
)
def test_memory_is_in_bytes_or_mebibytes_whatever_its_name(name: str, quantity: str, least: float) -> None:
    for mib in (size for size in (1.0, 4.0, 512.0, 81559.0, 294912.0) if size >= least):
        assert_memory(name, quantity, mib)


def assert_memory(name: str, quantity: str, mib: float) -> None:
    for value in (mib, mib * MIB):
        (reading,) = readings_of(Translator().translate(tick([(name, {"gpu": "0", "UUID": "GPU-0"}, value)])))
        assert getattr(reading, quantity) == mib * MIB


@pytest.mark.parametrize(
    ("name", "expected"), [("FB_USED_BYTES", 0.0), ("FB_CAPACITY_BYTES", None), ("FB_TOTAL", None)]
)
def test_no_memory(name: str, expected: float | None) -> None:
    rows = [(f"DCGM_FI_DEV_{name}", {"gpu": "0", "UUID": "GPU-0"}, 0.0)]
    (reading,) = readings_of(Translator().translate(tick(rows)))
    assert (reading.memory_used_bytes if "USED" in name else reading.memory_bytes) == expected
