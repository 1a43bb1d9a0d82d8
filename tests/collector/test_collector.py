"""The pipeline of one source."""

from __future__ import annotations

from pulsed.collector.collector import Pipeline
from pulsed.compute.settings import ComputeSettings
from pulsed.model.gpu_selection import parse
from tools.bench.ticks import raw_ticks


def test_another_selection_applies_from_the_next_tick_on() -> None:
    first, second = raw_ticks(8, 2)
    pipeline = Pipeline(ComputeSettings(), "node")
    assert len(pipeline.process(first).results) == 8
    pipeline.reconfigure(ComputeSettings(), parse("0,1", "gpus"))
    assert len(pipeline.process(second).results) == 2
