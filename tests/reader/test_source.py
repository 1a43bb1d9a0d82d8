"""A source as an iterator: every outcome, with the source closed at the end."""

from __future__ import annotations

import asyncio
import logging
import time
from itertools import pairwise

import pytest

from pulsed.errors import InternalError, ScrapeFailed, SourceEnded, SourceError
from pulsed.model.raw_tick import RawTick
from pulsed.reader.source import RETRY_SECONDS, Source
from tests.support.sources import Scripted


def described(outcome: RawTick | SourceError) -> object:
    return outcome.time if isinstance(outcome, RawTick) else (outcome.reason, str(outcome))


async def test_outcomes_come_in_order_and_the_source_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    source = Scripted([1.0, ScrapeFailed("refused", "start it"), 2.0, ZeroDivisionError("a bug"), 4.0])
    with caplog.at_level(logging.INFO, "pulsed.reader.source"):
        async with source:
            found = [outcome async for outcome in source]
            assert [outcome async for outcome in source] == []
    assert [described(outcome) for outcome in found] == [
        1.0,
        ("scrape_failed", "refused. Start it"),
        2.0,
        ("internal", "internal error: ZeroDivisionError('a bug'). Please report it"),
        4.0,
        ("ended", "it is over"),
    ]
    assert isinstance(found[3], InternalError)
    assert isinstance(found[5], SourceEnded)
    assert source.closed == 1
    assert [(record.levelname, record.message.partition(";")[0]) for record in caplog.records] == [
        ("ERROR", "internal error in a tick")
    ]


@pytest.mark.parametrize(("interval", "least", "most"), [(0.2, 0.2, RETRY_SECONDS), (15.0, RETRY_SECONDS, 15.0)])
async def test_a_failure_is_followed_by_a_pause(interval: float, least: float, most: float) -> None:
    source = Scripted([1.0, 2.0, ScrapeFailed("refused"), 3.0])
    source.interval = interval
    moments = [time.monotonic() async for _ in source]
    steps = [after - before for before, after in pairwise(moments)]
    assert least - 0.01 <= steps[2] < most
    assert max(steps[0], steps[1], steps[3]) < least


async def test_the_source_is_closed_when_reading_stops_early() -> None:
    source = Scripted([1.0, 2.0])
    async with source:
        async for outcome in source:
            assert described(outcome) == 1.0
            break
    assert source.closed == 1


async def test_an_error_of_the_reader_closes_the_source() -> None:
    source = Scripted([1.0, 2.0])

    async def write() -> None:
        async with source:
            async for _ in source:
                raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await write()
    assert source.closed == 1


async def test_other_tasks_run_between_two_ticks_of_a_source_that_never_waits() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    async for _ in Scripted([1.0, 2.0, 3.0]):
        pass
    task.cancel()
    assert turns >= 3


class SlowToClose(Scripted):
    """A source that takes a while to close, as one with child processes does."""

    def __init__(self) -> None:
        super().__init__([1.0])
        self.closing, self.may_close = asyncio.Event(), asyncio.Event()

    async def close(self) -> None:
        self.closing.set()
        await self.may_close.wait()
        await super().close()


async def test_a_cancellation_waits_until_the_source_is_closed() -> None:
    source = SlowToClose()

    async def read(source: Source) -> None:
        async with source:
            async for _ in source:
                return

    task = asyncio.create_task(read(source))
    await source.closing.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    source.may_close.set()
    await asyncio.wait({task})
    assert task.cancelled()
    assert source.closed == 1
