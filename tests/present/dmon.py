"""Boards of what `dcgmi dmon` prints, read and translated as in production."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.model.raw_tick import RawTick
from pulsed.model.tick import Tick
from tests.support.dmon_writer import ERAS, DmonWriter, Value
from tests.translate.build import dmon_ticks

Rows = Sequence[tuple[str, Sequence[Value]]]
"""The rows of a tick: entity and values."""


def capture(fields: Iterable[int], *ticks: Rows, era: str = "C1") -> list[RawTick]:
    """The raw ticks of a dmon that was asked for these fields."""
    writer = DmonWriter(ERAS[era], fields)
    return dmon_ticks("".join([writer.header(), *map(writer.tick, ticks)]))


def computed(raws: Iterable[RawTick], node: str = "here") -> Iterator[Tick]:
    """These ticks of one target, taken through the layers."""
    pipeline = Pipeline(GpuTable(), node)
    return map(pipeline.process, raws)
