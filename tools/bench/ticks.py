"""Ticks to measure with: what the layers make of the pages of `tools.bench.pages`."""

from __future__ import annotations

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import RawTick
from pulsed.model.tick import Tick
from pulsed.reader.exposition.parser import PageParser
from tests.support.streams import StreamName
from tools.bench.pages import exporter_page

GPUS, FIELDS = 8, 40
"""A usual node, and the fields that operators enable most."""


def pages(gpus: int, count: int, stream: StreamName = "random") -> list[bytes]:
    """Return the pages of one exporter in order: the same series, other values."""
    return [exporter_page(gpus, FIELDS, seed, stream=stream) for seed in range(count)]


def raw_ticks(gpus: int, count: int) -> list[RawTick]:
    """Return the same pages, parsed."""
    parser = PageParser()
    return [raw_tick(parser, page, number) for number, page in enumerate(pages(gpus, count))]


def raw_tick(parser: PageParser, page: bytes, number: int) -> RawTick:
    """Parse a page into the tick that the exporter source makes of it."""
    read = parser.parse(page)
    return RawTick("bench", Unix(float(number)), Monotonic(float(number)), 1.0, read.layout, read.values, read.rejected)


def computed_ticks(gpus: int, count: int) -> list[Tick]:
    """Return the same pages, taken through Translate and Compute."""
    pipeline = Pipeline(GpuTable(), "bench")
    return [pipeline.process(raw) for raw in raw_ticks(gpus, count)]
