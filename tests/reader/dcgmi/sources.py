"""Sources over the stand-in `dcgmi`, for tests that look at them from outside."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from pulsed.errors import SourceError
from pulsed.model.raw_tick import RawTick, RawValue
from pulsed.reader.dcgmi import DcgmiSettings
from pulsed.reader.dcgmi.source import DcgmiSource
from tests.reader.dcgmi.processes import children
from tests.support.waiting import SECONDS

FAST = (1001, 1002, 155, 150, 203)
PLAIN = (155, 150, 203)
SHORTS = {1001: "GRACT", 1002: "SMACT", 155: "POWER", 150: "TMPTR", 203: "GPUTL", 310: "ESVTL", 54: "UUID#"}


def settings(path: object, **changes: Any) -> DcgmiSettings:
    """10 Hz, short pauses."""
    return replace(DcgmiSettings(fast=FAST, interval=0.1, path=str(path), first_pause=0.05), **changes)


@contextlib.asynccontextmanager
async def reading(
    path: object, clock: Callable[[], float] = time.monotonic, **changes: Any
) -> AsyncIterator[DcgmiSource]:
    """A source that is closed afterwards, and then has left no child behind."""
    source = DcgmiSource(settings(path, **changes), clock=clock)
    try:
        yield source
    finally:
        await source.close()
        assert children() == []


async def read(source: DcgmiSource) -> RawTick:
    return await asyncio.wait_for(source.read(), SECONDS)


async def read_until(source: DcgmiSource, wanted: Callable[[RawTick], bool]) -> RawTick:
    """The first tick that is as wanted; a failure is an error."""
    for _ in range(int(SECONDS / source.interval)):
        tick = await read(source)
        if wanted(tick):
            return tick
    raise AssertionError("no such tick")


async def read_all(source: DcgmiSource, into: list[RawTick] | None = None) -> None:
    """Read until it fails."""
    for _ in range(int(SECONDS / source.interval)):
        tick = await read(source)
        if into is not None:
            into.append(tick)


async def fails(source: DcgmiSource) -> SourceError:
    """The next failure; ticks before it are let pass."""
    with pytest.raises(SourceError) as raised:
        await read_all(source)
    return raised.value


async def recovers(source: DcgmiSource) -> tuple[RawTick, int]:
    """The next tick, and how many failures came before it."""
    for failures in range(200):
        with contextlib.suppress(SourceError):
            return await read(source), failures
    raise AssertionError("never works again")


def row(tick: RawTick, id_: str, entity: str = "GPU") -> dict[str, RawValue]:
    """Values of one row by short name."""
    return {
        series.name: value
        for series, value in zip(tick.layout.series, tick.values, strict=True)
        if series.labels[:2] == (("entity", entity), ("id", id_))
    }


def rows(tick: RawTick) -> set[str]:
    """The rows of a tick, such as `GPU 0`."""
    return {" ".join(text for _, text in series.labels[:2]) for series in tick.layout.series}
