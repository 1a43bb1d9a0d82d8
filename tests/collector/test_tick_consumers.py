"""Consumers of ticks: the error of one is logged, and costs the others nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

import pytest

from pulsed import background
from pulsed.collector import tick_consumers
from pulsed.collector.tick_consumers import TickConsumers
from pulsed.compute.layer import ComputeLayer
from pulsed.compute.settings import ComputeSettings
from pulsed.model.computed_tick import ComputedTick
from tests.compute.streams import BUSY, sample

TICK = ComputeLayer(ComputeSettings()).compute(sample(0.0, BUSY))


class Consumer:
    """Counts ticks, and fails while `error` is set."""

    def __init__(self, error: str = "") -> None:
        self.error, self.ticks = error, 0

    def __call__(self, tick: ComputedTick) -> None:
        self.ticks += 1
        if self.error:
            raise ValueError(self.error)


async def test_every_consumer_has_the_tick_whichever_fails(caplog: pytest.LogCaptureFixture) -> None:
    names = ("first", "second", "third")
    for broken in names:
        consumers = {name: Consumer("broken" if name == broken else "") for name in names}
        caplog.clear()
        await TickConsumers(consumers).take(TICK)
        assert [consumer.ticks for consumer in consumers.values()] == [1, 1, 1]
        (record,) = caplog.records
        assert (record.__dict__["consumer"], record.__dict__["target"]) == (broken, TICK.target)
        assert record.levelno == logging.ERROR
        assert record.exc_info is not None
        assert str(record.exc_info[1]) == "broken", "the log has the reason"


async def test_a_consumer_that_goes_on_failing_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer, other = Consumer("once"), Consumer("also")
    consumers = TickConsumers({"one": consumer, "other": other})
    for _ in range(3):
        await consumers.take(TICK)
    assert (len(caplog.records), consumer.ticks) == (2, 3)
    consumer.error = "another reason"
    await consumers.take(TICK)
    assert len(caplog.records) == 3
    monkeypatch.setattr(tick_consumers, "REMIND_SECONDS", 0.0)
    await consumers.take(TICK)
    assert len(caplog.records) == 5


async def test_first_steps_are_done_at_once_and_the_others_take_turns_with_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "TURN_SECONDS", 0.0)
    seen: list[str] = []

    def steps(name: str, count: int) -> Callable[[ComputedTick], Iterator[None]]:
        def consume(tick: ComputedTick) -> Iterator[None]:
            for number in range(count):
                seen.append(f"{name}{number}")
                yield

        return consume

    async def serve() -> None:
        while True:
            seen.append("loop")
            await asyncio.sleep(0)

    server = asyncio.create_task(serve())
    await TickConsumers({"a": steps("a", 3), "none": steps("none", 0), "b": steps("b", 2)}).take(TICK)
    server.cancel()
    assert seen[:2] == ["a0", "b0"]
    assert [each for each in seen if each != "loop"] == ["a0", "b0", "a1", "a2", "b1"]
    assert seen.index("b0") < seen.index("loop") < seen.index("b1")


async def test_an_error_in_a_later_step_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    seen = []

    def fails(tick: ComputedTick) -> Iterator[None]:
        yield
        raise ValueError("later")

    def counts(tick: ComputedTick) -> Iterator[None]:
        yield
        seen.append(tick)
        yield

    await TickConsumers({"fails": fails, "counts": counts}).take(TICK)
    assert seen == [TICK]
    assert [record.__dict__["consumer"] for record in caplog.records] == ["fails"]
