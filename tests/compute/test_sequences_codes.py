"""Sequences of pages in, health over time out: vital values that vanish, codes of DCGM's watches, states of links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from pulsed.collector.collector import Pipeline
from pulsed.compute.settings import ComputeSettings
from pulsed.model.health import Health
from pulsed.model.raw_tick import RawTick
from pulsed.reader.exposition.parser import PageParser

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
        self.parser, self.pipeline = PageParser(), Pipeline(ComputeSettings(), "node")
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
        raw = RawTick("test", START + self.now, self.now, self.interval, read.layout, read.values, read.rejected)
        return [result.health for result in self.pipeline.process(raw).results]

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
@pytest.mark.parametrize("interval", [1.0, 15.0, 30.0])
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
