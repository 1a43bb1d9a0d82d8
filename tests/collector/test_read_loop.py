"""The read loop: every outcome of a source, logged once, with the source closed at the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from pulsed.collector.read_loop import EndOfSource, ReadFailure, read_loop
from pulsed.errors import ScrapeFailed, SourceEnded
from pulsed.model.raw_tick import Layout, RawTick

LAYOUT = Layout("exporter", ())


class Scripted:
    """A source with a fixed sequence of ticks and errors."""

    kind, target, interval, failures, restarts = "demo", "here", 0.001, (), 0

    def __init__(self, script: Sequence[float | Exception]) -> None:
        self._script = list(script)
        self.closed = 0

    async def read(self) -> RawTick:
        step = self._script.pop(0) if self._script else SourceEnded("it is over")
        if isinstance(step, Exception):
            raise step
        return RawTick("here", step, step, 1.0, LAYOUT, (), {"bad_line": 2} if step > 1 else {})

    async def close(self) -> None:
        self.closed += 1


def time_of(tick: RawTick) -> float:
    if tick.time == 3.0:
        raise ZeroDivisionError("a bug")
    return tick.time


async def test_outcomes_come_in_order_and_the_source_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    refused = ScrapeFailed("refused", "start it")
    source = Scripted([1.0, refused, ScrapeFailed("refused", "start it"), 2.0, 3.0, 4.0])
    with caplog.at_level(logging.INFO, "pulsed.collector.read_loop"):
        async with read_loop(source, time_of) as outcomes:
            found = [outcome async for outcome in outcomes]
    failure = ReadFailure("scrape_failed", "refused. Start it")
    bug = ReadFailure("internal", "internal error: ZeroDivisionError('a bug'). Please report it")
    assert found == [1.0, failure, failure, 2.0, bug, 4.0, EndOfSource("it is over")]
    assert source.closed == 1
    assert [(record.levelname, record.message.partition(";")[0]) for record in caplog.records] == [
        ("WARNING", "source failed"),  # once
        ("INFO", "source works again"),
        ("WARNING", "rows were left out"),  # once
        ("ERROR", "internal error in a tick"),
        ("INFO", "source works again"),
        ("INFO", "source ended"),
    ]


@pytest.mark.parametrize(("seconds", "lines"), [(60.0, 1), (0.0, 3)])
async def test_a_source_that_still_has_no_data_is_logged_each_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, seconds: float, lines: int
) -> None:
    monkeypatch.setattr("pulsed.collector.read_loop.REMIND_SECONDS", seconds)
    failures = [ScrapeFailed("refused", "start it") for _ in range(3)]
    async with read_loop(
        Scripted([*failures, 1.0, 1.0, 1.0, 2.0]), time_of, is_empty=lambda time: time == 1.0
    ) as outcomes:
        async for _ in outcomes:
            pass
    warned = [record.message for record in caplog.records if record.message.startswith("source ")]
    assert warned == ["source failed"] * lines + ["source has no GPU"] * lines


async def test_the_source_is_closed_when_reading_stops_early() -> None:
    source = Scripted([1.0, 2.0])
    async with read_loop(source, time_of) as outcomes:
        async for outcome in outcomes:
            assert outcome == 1.0
            break
    assert source.closed == 1


async def test_an_error_of_the_reader_closes_the_source() -> None:
    source = Scripted([1.0, 2.0])

    async def write() -> None:
        async with read_loop(source, time_of) as outcomes:
            async for _ in outcomes:
                raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await write()
    assert source.closed == 1


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

    async def read() -> None:
        async with read_loop(source, time_of) as outcomes:
            async for _ in outcomes:
                return

    task = asyncio.create_task(read())
    await source.closing.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    source.may_close.set()
    await asyncio.wait({task})
    assert task.cancelled()
    assert source.closed == 1
