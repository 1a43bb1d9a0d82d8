"""Ticks to record, and what is compared of them."""

from __future__ import annotations

from collections.abc import Sequence

from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import Layout, RawTick, RawValue, Series
from pulsed.reader.record_lines import RecordWriter, Session


def session(*targets: str, interval: float = 1.0) -> Session:
    return Session("0.1.0", "exporter", "gpu1", "2026-01-01T00:00:00.000Z", dict.fromkeys(targets or ("a",), interval))


def layout(*names: str) -> Layout:
    return Layout("dmon", tuple(Series(name, (("entity", "GPU"), ("id", "0"))) for name in names))


ONE = layout("GPUTL")


def tick(value: RawValue, clock: float, target: str = "a", at: float | None = None, of: Layout = ONE) -> RawTick:
    return RawTick(target, Unix(1000.0 + clock if at is None else at), Monotonic(clock), 1.0, of, [value])


def record(ticks: Sequence[RawTick], *targets: str) -> bytes:
    """One session."""
    writer = RecordWriter(session(*targets))
    return writer.start() + b"".join(map(writer.tick, ticks))


def said(tick: RawTick) -> tuple[object, ...]:
    """Everything that a record keeps of a tick, comparable (also NaN)."""
    of = tick.layout
    return (
        *(tick.target, repr(tick.time), repr(tick.clock), tick.interval, dict(tick.rejected)),
        *(of.dialect, of.series, dict(of.help), dict(of.types), [repr(value) for value in tick.values]),
        tick.epoch,
    )
