"""A source that answers without any GPU, through the whole pipeline."""

from __future__ import annotations

import pytest

from pulsed.collector.collector import Pipeline, PipelineSettings
from pulsed.compute.gpu_table import GpuTable
from pulsed.errors import NoGpus
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.gpu_selection import parse
from pulsed.model.raw_tick import RawTick
from pulsed.model.tick import Tick
from pulsed.reader.exposition.parser import PageParser
from tests.support.ticks import missing_in, results_of


class Exporter:
    """An exporter whose pages go through one pipeline."""

    def __init__(self, gpus: str = "") -> None:
        table = GpuTable()
        self._pipeline = Pipeline(table, "n", settings=PipelineSettings(parse(gpus))) if gpus else Pipeline(table, "n")
        self._parser, self._clock = PageParser(), 0.0

    def poll(self, *gpus: int) -> Tick:
        """Process the page of some GPUs, with a row of the processor."""
        self._clock += 15.0
        page = f'DCGM_FI_DEV_CPU_UTIL_TOTAL{{cpu="0",Hostname="n"}} {self._clock}\n' + "".join(
            f'DCGM_FI_DEV_{name}{{gpu="{gpu}",UUID="GPU-{gpu}",Hostname="n"}} {value}\n'
            for name, value in (("GPU_TEMP", 45), ("POWER_USAGE", 200 + self._clock / 100))
            for gpu in gpus
        )
        read = self._parser.parse(page.encode())
        return self._pipeline.process(
            RawTick(
                "exporter",
                Unix(self._clock + 1e9),
                Monotonic(self._clock),
                15.0,
                read.layout,
                read.values,
                read.rejected,
            )
        )


def test_a_page_without_gpus_fails_at_once_and_proves_nothing() -> None:
    exporter = Exporter()
    exporter.poll(0, 1)
    for _ in range(10):
        with pytest.raises(NoGpus, match="lists no GPU"):
            exporter.poll()
    tick = exporter.poll(0, 1)
    assert (missing_in(tick), tick.health_changes) == ({}, ())
    assert [result.health.state for result in results_of(tick)] == ["ok", "ok"]


def test_a_page_without_gpus_fails_from_the_start() -> None:
    with pytest.raises(NoGpus):
        Exporter().poll()


def test_a_page_without_the_selected_gpus_is_not_a_failure() -> None:
    exporter = Exporter(gpus="1")
    exporter.poll(0, 1)
    for _ in range(3):
        tick = exporter.poll(0)
    assert [tick.devices[at].entity.gpu for at in missing_in(tick)] == ["1"]
    assert tick.gpus[0].result.health.check("telemetry").state == "warn"
