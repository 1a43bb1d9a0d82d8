"""Ticks made by hand, and pages and captures read by pulsed's own readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count

from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.gpu import Device
from pulsed.model.raw_tick import Dialect, Layout, RawTick, RawValue, Series
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import Reading
from pulsed.reader.dmon.parser import DmonParser
from pulsed.reader.exposition.parser import PageParser
from tests.support.ticks import readings_of

Row = tuple[str, Mapping[str, str], RawValue]

_seconds = count(1_700_000_000)


def raw_tick(layout: Layout, values: Iterable[RawValue]) -> RawTick:
    now = float(next(_seconds))
    return RawTick("test", Unix(now), Monotonic(now), 1.0, layout, list(values))


def tick(rows: Iterable[Row], dialect: Dialect = "exporter", help_: Mapping[str, str] | None = None) -> RawTick:
    """A tick of these series, with its own layout."""
    rows = list(rows)
    series = tuple(Series(name, tuple(labels.items())) for name, labels, _ in rows)
    return raw_tick(Layout(dialect, series, help_ or {}), [value for _, _, value in rows])


def page_tick(page: str, parser: PageParser | None = None) -> RawTick:
    """A tick of an exporter's page, read as in production."""
    read = (parser or PageParser()).parse(page.encode())
    return raw_tick(read.layout, read.values)


def dmon_ticks(text: str) -> list[RawTick]:
    """The ticks of a dmon capture, read as in production."""
    parser = DmonParser()
    ticks = [parsed for line in text.splitlines() if (parsed := parser.feed(line))]
    last = parser.finish()
    return [raw_tick(parsed.layout, parsed.values) for parsed in [*ticks, *([last] if last else [])]]


def by_key(canonical: Tick) -> dict[tuple[str, str], tuple[Device, Reading]]:
    """Devices and readings by GPU index and MIG id."""
    return {
        (device.entity.gpu, device.entity.mig_id): (device, reading)
        for device, reading in zip(canonical.devices, readings_of(canonical), strict=True)
    }


def present(reading: Reading) -> dict[str, float]:
    """What a reading has."""
    return {name: value for name, value in reading._asdict().items() if value is not None}
