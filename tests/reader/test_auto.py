"""The choice among sources."""

from __future__ import annotations

import asyncio

import pytest

from pulsed.errors import ConfigError, HostEngineUnavailable, NoSourceWorks, ScrapeFailed, SourceError
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import Layout, RawTick
from pulsed.reader.auto import GIVE_UP_AFTER, AutoSource
from pulsed.reader.source import Source

LAYOUT = Layout("exporter", ())


class Scripted(Source):
    """A source that works or fails as it is told from outside."""

    failures = (ScrapeFailed,)
    interval = 5.0
    is_limited = False

    def __init__(self, kind: str, works: dict[str, SourceError | None], *, is_limited: bool) -> None:
        self.is_limited = is_limited
        self.kind, self.target = kind, f"the {kind}"
        self._works = works
        self.closed = False

    async def read(self) -> RawTick:
        error = self._works[self.kind]
        if error is not None:
            raise error
        return RawTick(self.target, Unix(0.0), Monotonic(0.0), self.interval, LAYOUT, ())

    async def close(self) -> None:
        self.closed = True


class Machine:
    """Two sources, and what was made of them."""

    def __init__(self, *limited: str) -> None:
        self.works: dict[str, SourceError | None] = {"engine": None, "exporter": None}
        self.made: list[Scripted] = []
        self.slept: list[float] = []
        self.now = 0.0
        candidates = [lambda: self._make("engine", is_limited="engine" in limited)]
        candidates.append(lambda: self._make("exporter"))
        self.auto = AutoSource(candidates, clock=lambda: self.now, sleep=self._sleep, random=lambda: 0.0)

    def _make(self, kind: str, *, is_limited: bool = False) -> Scripted:
        self.made.append(Scripted(kind, self.works, is_limited=is_limited))
        return self.made[-1]

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    @property
    def open(self) -> list[str]:
        return [source.kind for source in self.made if not source.closed]


async def test_the_first_that_works_is_taken() -> None:
    machine = Machine()
    assert (machine.auto.kind, machine.auto.interval) == ("auto", 1.0)
    assert (await machine.auto.read()).target == "the engine"
    assert (machine.auto.kind, machine.auto.target, machine.auto.interval) == ("engine", "the engine", 5.0)
    assert machine.open == ["engine"]


async def test_the_next_is_taken_when_the_first_does_not_work() -> None:
    machine = Machine()
    machine.works["engine"] = HostEngineUnavailable("no engine")
    assert (await machine.auto.read()).target == "the exporter"
    assert machine.open == ["exporter"]


async def test_when_none_works_all_say_why_and_the_pauses_grow() -> None:
    machine = Machine()
    machine.works |= {"engine": HostEngineUnavailable("no engine", "Start it"), "exporter": ScrapeFailed("refused")}
    for _ in range(4):
        with pytest.raises(NoSourceWorks, match=r"\(1\) no engine. Start it; \(2\) refused"):
            await machine.auto.read()
    assert machine.slept == [1.0, 2.0, 4.0]
    assert machine.open == []
    machine.works["exporter"] = None
    assert (await machine.auto.read()).target == "the exporter"


async def test_a_limited_one_is_taken_only_if_no_other_works() -> None:
    machine = Machine("engine")
    assert (await machine.auto.read()).target == "the exporter"
    assert machine.open == ["exporter"]
    alone = Machine("engine")
    alone.works["exporter"] = ScrapeFailed("refused")
    assert (await alone.auto.read()).target == "the engine"
    assert alone.open == ["engine"]


async def test_one_that_fails_again_and_again_is_given_up() -> None:
    machine = Machine()
    await machine.auto.read()
    machine.works["engine"] = HostEngineUnavailable("gone")
    for _ in range(GIVE_UP_AFTER):
        with pytest.raises(HostEngineUnavailable):
            await machine.auto.read()
    assert machine.open == []
    assert (await machine.auto.read()).target == "the exporter"


async def test_one_failure_is_no_reason_to_leave() -> None:
    machine = Machine()
    await machine.auto.read()
    machine.works["engine"] = HostEngineUnavailable("gone")
    for _ in range(GIVE_UP_AFTER - 1):
        with pytest.raises(HostEngineUnavailable):
            await machine.auto.read()
    machine.works["engine"] = None
    assert (await machine.auto.read()).target == "the engine"
    assert [source.kind for source in machine.made] == ["engine"]


async def test_closing_closes_the_chosen_one() -> None:
    machine = Machine()
    await machine.auto.read()
    await machine.auto.close()
    await machine.auto.close()
    assert machine.open == []


async def test_a_limited_one_is_started_once_only() -> None:
    machine = Machine("engine")
    machine.works["exporter"] = ScrapeFailed("refused")
    await machine.auto.read()
    assert [source.kind for source in machine.made] == ["engine", "exporter"]


async def test_a_limited_one_is_left_when_another_comes_to_work() -> None:
    machine = Machine("engine")
    machine.works["exporter"] = ScrapeFailed("refused")
    assert (await machine.auto.read()).target == "the engine"
    for now in (299.0, 300.0, 301.0):
        machine.now = now
        assert (await machine.auto.read()).target == "the engine"
        await asyncio.sleep(0.01)
    machine.works["exporter"] = None
    machine.now = 599.0
    assert (await machine.auto.read()).target == "the engine"
    await asyncio.sleep(0.01)
    assert (await machine.auto.read()).target == "the engine", "it is not time to look again"
    machine.now = 600.0
    assert (await machine.auto.read()).target == "the engine"
    await asyncio.sleep(0.01)
    assert (await machine.auto.read()).target == "the exporter"
    assert machine.open == ["exporter"]


async def test_one_that_is_not_limited_is_not_left() -> None:
    machine = Machine()
    await machine.auto.read()
    machine.now = 1000.0
    await machine.auto.read()
    await asyncio.sleep(0.01)
    assert [source.kind for source in machine.made] == ["engine"]


async def test_closing_ends_a_second_look() -> None:
    machine = Machine("engine")
    machine.works["exporter"] = ScrapeFailed("refused")
    await machine.auto.read()
    machine.now, machine.works["exporter"] = 300.0, None
    await machine.auto.read()
    await asyncio.sleep(0.01)  # it has found one that nobody takes any more
    await machine.auto.close()
    assert machine.open == []


async def test_a_candidate_that_cannot_be_made_is_one_that_does_not_work() -> None:
    """Such as an exporter whose file with the password is missing."""

    def unmakable() -> Scripted:
        raise ConfigError("no such file")

    auto = AutoSource([unmakable])
    with pytest.raises(NoSourceWorks, match="no such file"):
        await auto.read()
