"""Values that a relay has converted under their names: another unit where that is certain, otherwise missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pulsed.model.vocabulary import Reading
from pulsed.translate.translator import Translator
from pulsed.translate.units import RATIO_UNIT_UNKNOWN
from tests.support.ticks import anomalies_of, readings_of
from tests.translate.build import tick

KIB, MIB, GIB = 2.0**10, 2.0**20, 2.0**30

Page = Mapping[str, Sequence[float]]


class Relayed:
    """Pages of GPUs: by name of DCGM, the values of all GPUs."""

    def __init__(self) -> None:
        self._translator = Translator()
        self.anomalies: Mapping[int, tuple[str, ...]] = {}

    def read(self, page: Page) -> list[Reading]:
        rows = [
            (f"DCGM_FI_{name}", {"gpu": str(gpu), "UUID": f"GPU-{gpu}"}, value)
            for name, values in page.items()
            for gpu, value in enumerate(values)
        ]
        canonical = self._translator.translate(tick(rows))
        self.anomalies = anomalies_of(canonical)
        return readings_of(canonical)


@pytest.mark.parametrize("factor", [1.0, KIB, MIB])
@pytest.mark.parametrize("used", [(0.0, 500.0), (60_000.0, 80_000.0)])
def test_memory_in_any_unit_of_the_field(factor: float, used: Sequence[float]) -> None:
    free = [81_000.0 - each for each in used]
    page = {"DEV_FB_USED": [each * factor for each in used], "DEV_FB_FREE": [each * factor for each in free]}
    readings = Relayed().read(page)
    assert [reading.memory_used_bytes for reading in readings] == [each * MIB for each in used]
    assert [reading.memory_bytes for reading in readings] == [81_000.0 * MIB] * 2


def test_the_size_alone_shows_its_unit() -> None:
    (reading,) = Relayed().read({"DEV_FB_TOTAL": [16_384.0 * KIB], "DEV_FB_USED": [300.0 * KIB]})
    assert (reading.memory_bytes, reading.memory_used_bytes) == (16 * GIB, 300 * MIB)


def test_used_memory_without_a_size_proves_no_unit() -> None:
    (reading,) = Relayed().read({"DEV_FB_USED": [3e8]})
    assert reading.memory_used_bytes == 3e8, "286 MiB in bytes"


def test_degrees_fahrenheit_are_missing_once_a_gpu_is_warm() -> None:
    relayed = Relayed()
    page = {"DEV_GPU_TEMP": (142.0, 86.0), "DEV_MEMORY_TEMP": (60.0, 45.0)}
    assert [reading.temperature_celsius for reading in relayed.read(page)] == [None, 86.0]
    readings = relayed.read(page)
    assert [reading.temperature_celsius for reading in readings] == [None, None]
    assert [reading.memory_temperature_celsius for reading in readings] == [60.0, 45.0], "another name"
    assert relayed.read({**page, "DEV_GPU_TEMP": (140.0, 101.0)})[1].temperature_celsius is None


def test_a_limit_in_degrees_fahrenheit_is_missing() -> None:
    relayed = Relayed()
    readings = [relayed.read({"DEV_SLOWDOWN_TEMP": [192.0], "DEV_GPU_TEMP": [86.0]})[0] for _ in range(3)]
    assert [reading.slowdown_temperature_celsius for reading in readings] == [None] * 3


def test_tenths_of_a_degree_are_missing() -> None:
    assert [reading.temperature_celsius for reading in Relayed().read({"DEV_GPU_TEMP": (305.0, 612.0)})] == [None] * 2


def test_garbage_proves_no_unit_of_temperatures() -> None:
    relayed = Relayed()
    for degrees in (142.0, 41.0, 255.0, 39.0):
        relayed.read({"DEV_GPU_TEMP": [degrees]})
    assert relayed.read({"DEV_GPU_TEMP": [65.0]})[0].temperature_celsius == 65.0


def test_profiled_percentages_are_shares_or_missing() -> None:
    relayed = Relayed()
    page = {"PROF_SM_ACTIVE": (85.25, 0.5), "PROF_DRAM_ACTIVE": (40.0, 0.0)}
    for _ in range(3):
        readings = relayed.read(page)
    assert [reading.sm_active_ratio for reading in readings] == [0.8525, None]
    assert [reading.dram_active_ratio for reading in readings] == [0.4, 0.0]
    assert relayed.anomalies == {1: (RATIO_UNIT_UNKNOWN,)}


def test_two_absurd_ratios_prove_no_percent() -> None:
    relayed = Relayed()
    for value in (7.0, 0.5, 45.0):
        relayed.read({"PROF_SM_ACTIVE": [value]})
    assert relayed.read({"PROF_SM_ACTIVE": [0.85]})[0].sm_active_ratio == 0.85


def test_percentages_times_100() -> None:
    relayed = Relayed()
    relayed.read({"DEV_GPU_UTIL": (9800.0, 0.0)})
    assert [reading.gpu_utilization_ratio for reading in relayed.read({"DEV_GPU_UTIL": (100.0, 0.0)})] == [0.01, 0.0]
    assert relayed.read({"DEV_GPU_UTIL": (98.0, 0.0)})[0].gpu_utilization_ratio == 0.98, "it was garbage"


def test_profiles_of_mig_instances_in_upper_case() -> None:
    labels = {"gpu": "0", "UUID": "GPU-0", "GPU_I_ID": "1", "GPU_I_PROFILE": "3G.40GB"}
    (device,) = Translator().translate(tick([("DCGM_FI_PROF_SM_ACTIVE", labels, 0.5)])).devices
    assert device.entity.mig_profile == "3g.40gb"
