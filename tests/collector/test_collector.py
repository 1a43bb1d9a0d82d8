"""The pipeline of one source: which ticks are processed beside the event loop."""

from __future__ import annotations

import threading

import pytest

from pulsed.collector.collector import LARGE_LABEL_SETS, Pipeline
from pulsed.compute.settings import ComputeSettings
from pulsed.model.gpu_selection import parse
from tools.bench.ticks import raw_ticks


@pytest.mark.slow
@pytest.mark.parametrize(("gpus", "beside"), [(8, False), (LARGE_LABEL_SETS + 1, True)])
async def test_large_ticks_are_processed_beside_the_event_loop(gpus: int, beside: bool) -> None:
    threads = set[int]()
    pipeline = Pipeline(ComputeSettings(), "node", lambda layer, seconds: threads.add(threading.get_ident()))
    reference = Pipeline(ComputeSettings(), "node")
    for raw in raw_ticks(gpus, 3):
        found, expected = await pipeline.run(raw), reference.process(raw)
        assert found.results == expected.results
        assert found.readings == expected.readings
    assert (threading.get_ident() not in threads) is beside
    assert len(threads) == 1


async def test_another_selection_applies_from_the_next_tick_on() -> None:
    first, second = raw_ticks(8, 2)
    pipeline = Pipeline(ComputeSettings(), "node")
    assert len((await pipeline.run(first)).results) == 8
    pipeline.reconfigure(ComputeSettings(), parse("0,1", "gpus"))
    assert len((await pipeline.run(second)).results) == 2
