"""The log lines of a source that is collected, and what is stored of its outcomes."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from pulsed.collector.collector import Collector, Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.settings import ComputeSettings
from pulsed.errors import InternalError, ScrapeFailed, SourceEnded
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import KernelEvent, Layout, RawTick
from pulsed.model.target_store import Target
from pulsed.model.tick import Tick
from pulsed.reader.source import SourceLog
from tests.support.sources import Scripted
from tools.bench.ticks import raw_ticks

TICK = RawTick("here", Unix(1.0), Monotonic(1.0), 1.0, Layout("exporter", ()), ())
REFUSED = ScrapeFailed("refused", "start it")


class Failing(Pipeline):
    """A pipeline with a mistake in every tick of the time 3."""

    def process(self, raw: RawTick, kernel_events: tuple[KernelEvent, ...] | None = None) -> Tick:
        if raw.time == 3.0:
            raise ZeroDivisionError("a bug")
        return super().process(raw, kernel_events)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.message.partition(";")[0]) for record in caplog.records]


async def test_outcomes_are_stored_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    first, second, bad, last = (replace(tick, time=Unix(1.0 + n)) for n, tick in enumerate(raw_ticks(1, 4)))
    ticks = [replace(tick, rejected={"bad_line": 2}) for tick in (second, bad, last)]
    source = Scripted([first, REFUSED, REFUSED, *ticks])
    target = Target("demo", "here", 1.0, 3.0, errors={"scrape_failed": 0})
    seen: list[tuple[int, bool, str]] = []

    def note(target: Target) -> bool:
        seen.append((target.samples, target.up, target.error))
        return False

    with caplog.at_level(logging.INFO, "pulsed"):
        await Collector(source, Failing(GpuTable(ComputeSettings()), "node"), target, until=note).run()
    bug = "internal error: ZeroDivisionError('a bug'). Please report it"
    assert seen == [
        (1, True, ""),
        (1, False, "refused. Start it"),
        (1, False, "refused. Start it"),
        (2, True, ""),
        (2, False, bug),
        (3, True, ""),
        (3, False, "it is over"),
    ]
    assert (target.ended, target.errors) == (True, {"scrape_failed": 2, "internal": 1})
    assert source.closed == 1
    assert lines(caplog) == [
        ("WARNING", "source failed"),  # once
        ("INFO", "source works again"),
        ("WARNING", "rows were left out"),  # once
        ("ERROR", "internal error in a tick"),
        ("INFO", "source works again"),
        ("INFO", "source ended"),
    ]


@pytest.mark.parametrize(("seconds", "most"), [(60.0, 1), (0.0, 3)])
def test_a_source_that_still_has_no_data_is_logged_each_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, seconds: float, most: int
) -> None:
    monkeypatch.setattr("pulsed.reader.source.REMIND_SECONDS", seconds)
    log = SourceLog()
    for _ in range(3):
        log.failed("here", REFUSED)
    for _ in range(3):
        log.worked(TICK, is_empty=True)
    log.worked(TICK)
    assert lines(caplog) == [("WARNING", "source failed")] * most + [("WARNING", "source has no GPU")] * most


def test_a_caller_that_reports_failures_itself_has_no_lines_of_them(caplog: pytest.LogCaptureFixture) -> None:
    log = SourceLog(is_logged=False)
    with caplog.at_level(logging.INFO, "pulsed"):
        for error in (REFUSED, InternalError("a bug"), SourceEnded("over")):
            log.failed("here", error)
    assert lines(caplog) == []
