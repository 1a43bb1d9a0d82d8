"""The pipeline of one source."""

from __future__ import annotations

from pulsed.collector.collector import Pipeline, PipelineSettings
from pulsed.compute.gpu_table import GpuTable
from pulsed.model.gpu_selection import parse
from tests.support.ticks import results_of
from tools.bench.ticks import raw_ticks


def test_another_selection_applies_from_the_next_tick_on() -> None:
    first, second = raw_ticks(8, 2)
    pipeline = Pipeline(GpuTable(), "node")
    assert len(results_of(pipeline.process(first))) == 8
    pipeline.configure(PipelineSettings(parse("0,1", "gpus")))
    assert len(results_of(pipeline.process(second))) == 2
