"""Consumers of ticks: the error of one is logged, and costs the others nothing."""

from __future__ import annotations

import logging

import pytest

from pulsed.collector import tick_consumers
from pulsed.collector.tick_consumers import TickConsumers
from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.layer import ComputeLayer
from pulsed.model.computed_tick import ComputedTick
from tests.compute.streams import BUSY, sample

TICK = ComputeLayer(GpuTable()).compute(sample(0.0, BUSY))


class Consumer:
    """Counts ticks, and fails while `error` is set."""

    def __init__(self, error: str = "") -> None:
        self.error, self.ticks = error, 0

    def __call__(self, tick: ComputedTick) -> None:
        self.ticks += 1
        if self.error:
            raise ValueError(self.error)


def test_every_consumer_has_the_tick_whichever_fails(caplog: pytest.LogCaptureFixture) -> None:
    names = ("first", "second", "third")
    for broken in names:
        consumers = {name: Consumer("broken" if name == broken else "") for name in names}
        caplog.clear()
        TickConsumers(consumers).take(TICK)
        assert [consumer.ticks for consumer in consumers.values()] == [1, 1, 1]
        (record,) = caplog.records
        assert (record.__dict__["consumer"], record.__dict__["target"]) == (broken, TICK.target)
        assert record.levelno == logging.ERROR
        assert record.exc_info is not None
        assert str(record.exc_info[1]) == "broken", "the log has the reason"


def test_a_consumer_that_goes_on_failing_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer, other = Consumer("once"), Consumer("also")
    consumers = TickConsumers({"one": consumer, "other": other})
    for _ in range(3):
        consumers.take(TICK)
    assert (len(caplog.records), consumer.ticks) == (2, 3)
    consumer.error = "another reason"
    consumers.take(TICK)
    assert len(caplog.records) == 3
    monkeypatch.setattr(tick_consumers, "REMIND_SECONDS", 0.0)
    consumers.take(TICK)
    assert len(caplog.records) == 5
