"""Sequences of pages in, health over time out: vital values that vanish, codes of DCGM's watches, states of links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.health import Health
from pulsed.model.raw_tick import RawTick
from pulsed.reader.exposition.parser import PageParser
from tests.support.nightly import nightly_after
from tests.support.ticks import results_of

START = 1767225600.0
MINUTE = 60.0

Series = Mapping[str, float]
"""Values of a GPU by metric; labels in braces follow the name."""

VITAL = {
    "DCGM_FI_DEV_GPU_TEMP": 61.0,
    "DCGM_FI_DEV_GPU_UTIL": 100.0,
    "DCGM_FI_DEV_SM_CLOCK": 1700.0,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.97,
}
MEMORY = {"DCGM_FI_DEV_FB_USED": 60000.0, "DCGM_FI_DEV_FB_FREE": 20000.0}
CACHED = {"DCGM_FI_DEV_ROW_REMAP_FAILURE": 0.0, "DCGM_FI_DEV_XID_ERRORS": 0.0, "DCGM_FI_DEV_POWER_MGMT_LIMIT": 700.0}


class Exporter:
    """An exporter that is read at an interval, and the pipeline behind it."""

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.parser, self.pipeline = PageParser(), Pipeline(GpuTable(), "node")
        self.now = 0.0

    def poll(self, *gpus: Series, model: str = "NVIDIA H100 80GB HBM3") -> list[Health]:
        """Read a page of these GPUs; return their health."""
        self.now += self.interval
        lines = [
            f'{name.rstrip("}")}{"," if "{" in name else "{"}gpu="{gpu}",UUID="GPU-{gpu}",modelName="{model}"}}'
            f" {value}\n"
            for name in dict.fromkeys(name for values in gpus for name in values)
            for gpu, values in enumerate(gpus)
            if (value := values.get(name)) is not None
        ]
        read = self.parser.parse("".join(lines).encode())
        raw = RawTick(
            "test", Unix(START + self.now), Monotonic(self.now), self.interval, read.layout, read.values, read.rejected
        )
        return [result.health for result in results_of(self.pipeline.process(raw))]

    def measure(self, *gpus: Series, model: str = "NVIDIA H100 80GB HBM3") -> list[Health]:
        """Read a page of GPUs whose power has noise."""
        power = {"DCGM_FI_DEV_POWER_USAGE": 300.0 + self.now % 7.0}
        return self.poll(*({**values, **power} for values in gpus), model=model)


class Vanishing(NamedTuple):
    """What is left of the page of the first of some GPUs, its state at the end, and that of `telemetry`."""

    left: Series
    others: int
    state: str
    telemetry: str


VANISHING = {
    "all but memory": Vanishing({**MEMORY, **CACHED}, 0, "unknown", "warn"),
    "all but memory, of one": Vanishing({**MEMORY, **CACHED}, 1, "unknown", "warn"),
    "all but what is cached": Vanishing(CACHED, 0, "unknown", "warn"),
    "all but the clock": Vanishing({"DCGM_FI_DEV_SM_CLOCK": 1700.0, **MEMORY, **CACHED}, 0, "ok", "ok"),
    "all but memory, a row failed": Vanishing(
        {**MEMORY, **CACHED, "DCGM_FI_DEV_ROW_REMAP_FAILURE": 1.0}, 0, "crit", "warn"
    ),
}


@pytest.mark.parametrize("case", VANISHING.values(), ids=list(VANISHING))
@pytest.mark.parametrize("interval", nightly_after(2, [30.0, 15.0, 1.0]))
def test_vital_values_that_vanish(case: Vanishing, interval: float) -> None:
    exporter, whole = Exporter(interval), {**VITAL, **MEMORY, **CACHED}
    for _ in range(20):
        healths = exporter.measure(*[whole] * (1 + case.others))
    assert {health.state for health in healths} == {"ok"}
    begun = exporter.now
    while exporter.now < begun + 10 * MINUTE:
        found, *_ = exporter.poll(
            case.left, *[{**whole, "DCGM_FI_DEV_GPU_TEMP": 60.0 + exporter.now % 5}] * case.others
        )
        assert found.check("gpu_lost").state != "crit"
        if case.state != "ok" and exporter.now - begun > max(12.0, 4 * interval):
            assert found.state == case.state
    assert (found.state, found.check("telemetry").state) == (case.state, case.telemetry)
    for _ in range(2):
        (back, *_) = exporter.measure(*[whole] * (1 + case.others))
    assert back.state == "ok"


def watch(name: str, code: str = "") -> str:
    return f'DCGM_EXP_GPU_HEALTH_STATUS{{health_watch="{name}",health_error_code="{code}"}}'


def seen(*states: float) -> Series:
    """States of links from 0 on."""
    return {f'DCGM_FI_DEV_NVLINK_GET_STATE{{nvlink="{link}"}}': state for link, state in enumerate(states)}


CRC = "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"
TRAFFIC = {"DCGM_FI_PROF_NVLINK_TX_BYTES": 4e9}
UP, DOWN = [1.0] * 18, [0.0] * 18
LOST_TWO = [float(link not in (3, 17)) for link in range(18)]


class Verdict(NamedTuple):
    """What a page has besides vital values at first and then for an hour, and the check that follows: its state, and
    what its message contains."""

    first: Series
    then: Series
    check: str
    state: str
    message: str = ""
    model: str = "NVIDIA H100 80GB HBM3"


A100_PCIE = "NVIDIA A100-PCIE-40GB"
VERDICTS = {
    "one CRC error, kept by DCGM": Verdict(
        {CRC: 0.0}, {CRC: 1.0, watch("NVLINK", "DCGM_FR_NVLINK_ERROR_CRITICAL"): 20.0}, "dcgm_health", "ok"
    ),
    "the same without a code": Verdict({CRC: 0.0}, {CRC: 1.0, watch("NVLINK"): 20.0}, "dcgm_health", "ok"),
    "no own input": Verdict(
        {},
        {watch("MEM", "DCGM_FR_VOLATILE_DBE_DETECTED"): 20.0},
        "dcgm_health",
        "warn",
        "DCGM_FR_VOLATILE_DBE_DETECTED",
    ),
    "an input of another cause": Verdict(
        CACHED, {**CACHED, watch("MEM", "DCGM_FR_VOLATILE_DBE_DETECTED"): 20.0}, "dcgm_health", "warn", "uncorrected"
    ),
    "an unknown code": Verdict({}, {watch("SM", "DCGM_FR_NEW"): 20.0}, "dcgm_health", "warn", "DCGM_FR_NEW"),
    "a code for no alarm": Verdict({}, {watch("POWER", "DCGM_FR_CLOCKS_EVENT_POWER"): 10.0}, "dcgm_health", "info"),
    "IMEX without IMEX": Verdict(
        {}, {watch("NVLINK", "DCGM_FR_IMEX_UNHEALTHY"): 20.0}, "dcgm_health", "ok", "Ignored: DCGM_FR_IMEX_UNHEALTHY"
    ),
    "IMEX that the driver confirms": Verdict(
        {},
        {watch("NVLINK", "DCGM_FR_IMEX_UNHEALTHY"): 20.0, "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION": 5.0},
        "dcgm_health",
        "warn",
        "IMEX",
    ),
    "links without a bridge": Verdict(
        {},
        {watch("NVLINK", "DCGM_FR_NVLINK_DOWN"): 20.0},
        "dcgm_health",
        "ok",
        "Ignored: DCGM_FR_NVLINK_DOWN, a known false alarm",
        A100_PCIE,
    ),
    "links in use": Verdict(
        TRAFFIC, {**TRAFFIC, watch("NVLINK", "DCGM_FR_NVLINK_DOWN"): 20.0}, "dcgm_health", "warn", "an NVLink is down"
    ),
    "links whose states are read": Verdict(
        seen(*UP), {**seen(*UP), watch("NVLINK", "DCGM_FR_NVLINK_DOWN"): 20.0}, "dcgm_health", "ok"
    ),
    "an InfoROM that is valid": Verdict(
        {},
        {"DCGM_FI_DEV_INFOROM_CONFIG_VALID": 1.0, watch("INFOROM", "DCGM_FR_CORRUPT_INFOROM"): 10.0},
        "dcgm_health",
        "ok",
    ),
    "2 of 18 links": Verdict(seen(*LOST_TWO), seen(*LOST_TWO), "nvlink_down", "crit", "2 of 18: 3, 17"),
    "2 links that were up": Verdict(
        seen(1.0, 1.0, 1.0, 0.0), seen(1.0, 0.0, 0.0, 0.0), "nvlink_down", "crit", "2 of 4: 1, 2", A100_PCIE
    ),
    "all links that were up": Verdict(seen(*UP), seen(*DOWN), "nvlink_down", "crit", "18 of 18"),
    "links that are asleep": Verdict(seen(*UP), seen(*[2.0] * 18), "nvlink_down", "ok"),
    "links that never were up": Verdict(seen(*DOWN), seen(*DOWN), "nvlink_down", "unknown"),
    "a bridge with half of the links": Verdict(
        seen(1.0, 1.0, 0.0, 0.0), seen(1.0, 1.0, 0.0, 0.0), "nvlink_down", "ok", "", A100_PCIE
    ),
    "a product with fewer links": Verdict(
        seen(*[1.0] * 8, *[0.0] * 4), seen(*[1.0] * 8, *[0.0] * 4), "nvlink_down", "ok", "", "NVIDIA A800-SXM4-80GB"
    ),
    "links with MIG": Verdict(seen(*UP), {**seen(*DOWN), "DCGM_FI_DEV_MIG_MODE": 1.0}, "nvlink_down", "unknown"),
}


@pytest.mark.parametrize("case", VERDICTS.values(), ids=list(VERDICTS))
@pytest.mark.parametrize("interval", nightly_after(1, [60.0, 15.0]))
def test_codes_of_dcgm_and_states_of_links(case: Verdict, interval: float) -> None:
    exporter = Exporter(interval)
    for _ in range(8):
        exporter.measure({**VITAL, **MEMORY, **case.first}, model=case.model)
    while exporter.now < 8 * interval + 60 * MINUTE:
        (health,) = exporter.measure({**VITAL, **MEMORY, **case.then}, model=case.model)
        assert health.check("dcgm_health").state != "crit"
    found = health.check(case.check)
    assert (found.state, case.message in found.message) == (case.state, True), found.message
    assert (found.severity > 0) == bool(found.remedy)


def test_the_links_that_are_down_are_those_of_now() -> None:
    exporter, others = Exporter(15.0), [float(link not in (4, 17)) for link in range(18)]
    for lost, words in ((LOST_TWO, "2 of 18: 3, 17"), (others, "2 of 18: 4, 17")):
        for _ in range(20):
            (health,) = exporter.measure({**VITAL, **seen(*lost)})
        assert words in health.check("nvlink_down").message


def test_a_code_is_named_with_its_own_remedy() -> None:
    exporter = Exporter(60.0)
    for _ in range(10):
        (health,) = exporter.measure({**VITAL, watch("MEM", "DCGM_FR_ROW_REMAP_FAILURE"): 20.0})
    found = health.check("dcgm_health")
    assert found.message == (
        "A DCGM health watch reports a problem: DCGM_FR_ROW_REMAP_FAILURE, a memory row could not be replaced"
    )
    assert found.remedy.endswith(": run field diagnostics and replace the GPU.")
