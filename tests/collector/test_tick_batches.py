"""Ticks wait for each other, none is lost, and whoever asks has all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from pulsed.collector import tick_batches
from pulsed.collector.pool import CollectorPool
from pulsed.collector.tick_batches import TickBatches
from pulsed.configuration import load
from pulsed.errors import ScrapeFailed, SourceEnded
from pulsed.model.computed_tick import ComputedTick
from pulsed.model.raw_tick import Layout, RawTick
from pulsed.model.target_store import TargetStore
from tests.support.waiting import eventually

LAYOUT = Layout("exporter", ())


class Fed:
    """A source that delivers what it is fed."""

    kind, target, interval, failures, restarts = "demo", "here", 0.1, (), 0

    def __init__(self) -> None:
        self._fed = asyncio.Queue[float | Exception]()
        self.read_at: list[float] = []
        self.closed = 0

    async def feed(self, *steps: float | Exception) -> None:
        """Feed ticks of these times, or errors, and wait until they are read."""
        for step in steps:
            self._fed.put_nowait(step)
        await eventually(self._fed.empty)
        await asyncio.sleep(0)

    async def read(self) -> RawTick:
        step = await self._fed.get()
        if isinstance(step, Exception):
            raise step
        self.read_at.append(time.monotonic())
        return RawTick("here", step, step, self.interval, LAYOUT, ())

    async def close(self) -> None:
        self.closed += 1


class Processor:
    """Processes batches as a collector does."""

    def __init__(self, source: Fed) -> None:
        self.source, self.is_watched = source, False
        self.batches = TickBatches(source, lambda: self.is_watched)
        self.found: list[tuple[float, bool] | str] = []
        self.arrived: list[float] = []
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            try:
                raw = await self.batches.read()
            except SourceEnded:
                self.found.append("end")
                return
            except ScrapeFailed:
                self.found.append("failure")
                continue
            await asyncio.sleep(0)  # a large tick is processed in the background
            self.arrived.append(self.batches.arrived)
            self.found.append((raw.time, self.batches.has_next))


@pytest.fixture
async def processor() -> AsyncIterator[Processor]:
    made = Processor(Fed())
    yield made
    made.task.cancel()
    await asyncio.wait({made.task})
    await made.batches.close()
    assert made.source.closed == 1


async def test_only_the_first_tick_does_not_wait_until_it_is_asked_for(processor: Processor) -> None:
    await processor.source.feed(1.0)
    await eventually(lambda: processor.found == [(1.0, False)])
    await processor.source.feed(2.0, 3.0, 4.0)
    assert len(processor.found) == 1
    await asyncio.gather(processor.batches.catch_up(), processor.batches.catch_up())
    assert processor.found[1:] == [(2.0, True), (3.0, True), (4.0, False)]
    for arrived, read in zip(processor.arrived, processor.source.read_at, strict=True):
        assert read <= arrived
    assert max(processor.arrived) < time.monotonic()
    await processor.batches.catch_up()  # nothing waits


async def test_a_batch_is_due_by_itself(processor: Processor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tick_batches, "BATCH_SECONDS", 0.05)
    await processor.source.feed(1.0)
    processor.source.interval = 0.0
    await processor.source.feed(2.0, 3.0)
    await eventually(lambda: len(processor.found) == 3)  # no tick follows
    processor.source.interval = 0.1
    await processor.source.feed(4.0)  # the next one would come too late
    await eventually(lambda: len(processor.found) == 4)


async def test_an_error_comes_after_the_ticks_before_it_and_the_tick_after_it_does_not_wait(
    processor: Processor,
) -> None:
    await processor.source.feed(1.0)
    await processor.source.feed(2.0, ScrapeFailed("refused", "start it"), 3.0)
    await eventually(lambda: len(processor.found) == 4)
    await processor.source.feed(4.0, SourceEnded("over"))
    await eventually(processor.task.done)
    assert processor.found == [(1.0, False), (2.0, False), "failure", (3.0, False), (4.0, False), "end"]
    await processor.batches.catch_up()


async def test_no_tick_waits_while_each_is_watched(processor: Processor) -> None:
    await processor.source.feed(1.0)
    processor.is_watched = True
    await processor.source.feed(2.0)
    await eventually(lambda: len(processor.found) == 2)
    await processor.source.feed(3.0)
    await eventually(lambda: len(processor.found) == 3)


async def test_a_source_that_never_waits_is_read_no_further_than_it_is_processed(processor: Processor) -> None:
    await processor.source.feed(*map(float, range(200)))
    await processor.batches.catch_up()
    assert len(processor.found) == 200


async def test_a_pool_counts_every_sample_and_has_the_newest_when_asked() -> None:
    store, ticks = TargetStore("node"), list[ComputedTick]()
    pool = CollectorPool(store, lambda layer, seconds: None, ticks.append)
    pool.apply(load(None, ("source.kind=demo", "source.interval=0.1"), {}))
    try:
        await eventually(lambda: len(ticks) == 1)
        await asyncio.sleep(0.35)
        assert len(ticks) == 1
        await store.catch_up()
        (target,) = store.targets
        assert target.samples == len(ticks) >= 3
        assert target.fresh(time.monotonic())
        covered = [tick.results[0].counters.value("observed_seconds") or 0.0 for tick in ticks]
        assert covered == sorted(set(covered))
    finally:
        await pool.stop()


async def test_a_source_that_is_replaced_loses_no_tick() -> None:
    ticks: list[ComputedTick] = []
    pool = CollectorPool(TargetStore("node"), lambda layer, seconds: None, ticks.append)
    pool.apply(load(None, ("source.kind=demo", "source.interval=0.1"), {}))
    try:
        await eventually(lambda: len(ticks) == 1)
        await asyncio.sleep(0.35)
        pool.apply(load(None, ("source.kind=demo", "source.interval=0.2"), {}))
        await eventually(lambda: ticks[-1].interval == 0.2)
        assert len([tick for tick in ticks if tick.interval == 0.1]) >= 3
    finally:
        await pool.stop()
