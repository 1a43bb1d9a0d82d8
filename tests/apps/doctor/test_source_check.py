"""Trying sources: nothing that one does stops the look at the others."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from types import MappingProxyType

import pytest

from pulsed.apps.doctor.source_check import SourceCheck, choose, probe
from pulsed.errors import ScrapeFailed, SourceEnded
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import Layout, RawTick
from pulsed.reader.source import Source
from tests.apps.doctor.setting import configured
from tests.support.ticks import tick_of

LAYOUT = Layout("exporter", ())
RAW = RawTick("here", Unix(0.0), Monotonic(0.0), 1.0, LAYOUT, ())
TICK = tick_of(RAW, (), (), ())
HELD = MappingProxyType({"profiling_held": (1001,)})


@dataclass
class Scripted(Source):
    """A source that fails as it is told, or hangs."""

    error: Exception | None = None
    kind: str = "exporter"
    target: str = "here"
    interval: float = 1.0
    failures: tuple[type[ScrapeFailed], ...] = ()
    restarts: int = 0
    closed: int = field(default=0)

    async def read(self) -> RawTick:
        if self.error is None:
            await asyncio.Event().wait()
        assert self.error is not None
        raise self.error

    async def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ScrapeFailed("no page", "Look there"), "no page. Look there"),
        (SourceEnded("over"), "over"),
        (None, "here delivered nothing for 0.01 s"),
    ],
)
async def test_what_a_source_raises_is_found_and_not_raised(error: Exception | None, words: str) -> None:
    source = Scripted(error)
    found = await probe(source, configured(), patience=0.01 if error is None else 60.0)
    assert not found.works
    assert words in found.error
    assert source.closed == 1


async def test_a_mistake_of_pulsed_itself_costs_one_source_only(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL, "pulsed.reader.source"):
        found = await probe(Scripted(ZeroDivisionError("oops")), configured())
    assert "internal error: ZeroDivisionError" in found.error


def works(kind: str, **more: object) -> SourceCheck:
    return SourceCheck(kind, kind, tick=TICK, **more)  # type: ignore[arg-type]


def fails(kind: str) -> SourceCheck:
    return SourceCheck(kind, kind, error="no")


@pytest.mark.parametrize(
    ("probes", "kind", "taken", "why"),
    [
        ([works("dcgmi"), works("exporter")], "auto", ["dcgmi"], "tries it first"),
        ([fails("dcgmi"), works("exporter")], "auto", ["exporter"], "dcgmi does not"),
        ([works("dcgmi", lost=HELD), works("exporter")], "auto", ["exporter"], "held by another process"),
        ([works("dcgmi", lost=HELD), fails("exporter")], "auto", ["dcgmi"], "nothing else works"),
        ([works("exporter"), fails("exporter"), works("exporter")], "auto", ["exporter"] * 2, "several"),
        ([works("dcgmi", lost=HELD)], "dcgmi", ["dcgmi"], "source.kind is dcgmi"),
    ],
)
def test_the_choice_and_why(probes: list[SourceCheck], kind: str, taken: list[str], why: str) -> None:
    choice = choose(probes, kind)
    assert choice is not None
    assert [probe.kind for probe in choice.probes] == taken
    assert why in choice.why


def test_no_choice_is_never_the_demo() -> None:
    assert choose([fails("dcgmi"), fails("exporter")], "auto") is None
