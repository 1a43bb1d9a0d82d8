"""Render: from a tick to the page of /metrics, without and with gzip."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from functools import partial

from prometheus_client import CollectorRegistry, generate_latest

from pulsed.present.exposition.catalog import SeriesChoice, catalog
from pulsed.present.exposition.page import Pages, PageSettings
from pulsed.present.exposition.telemetry import Telemetry
from tests.present.reference import ReferenceCollector
from tools.bench.figure import Figure
from tools.bench.measure import cpu_seconds
from tools.bench.ticks import GPUS, NOW, board_of, computed_ticks

MANY_GPUS = 256
SERIES: tuple[SeriesChoice, ...] = ("full", "lean")


def run() -> Iterator[Figure]:
    for gpus in (GPUS, MANY_GPUS):
        yield from _pages(gpus)
    yield from _compression()
    telemetry = Telemetry(board_of(computed_ticks(GPUS, 1)))
    seconds = cpu_seconds(partial(telemetry.observe, "compute", 0.0003), times=10_000)
    yield Figure("note how long a layer took", seconds * 1e6, "µs")


class _NoTelemetry(Telemetry):
    """Leaves pulsed's own metrics away, to compare GPU families with GPU families."""

    def render(self, now: float, *, openmetrics: bool) -> bytes:
        return b""


def _pages(gpus: int) -> Iterator[Figure]:
    ticks = computed_ticks(gpus, 8)
    board = board_of(ticks)
    target, coming = board.targets[0], itertools.cycle(ticks[1:])

    def advance() -> None:
        target.accept(next(coming), NOW)

    registry = CollectorRegistry()
    registry.register(ReferenceCollector(board, NOW))
    seconds = cpu_seconds(partial(generate_latest, registry), rounds=5)
    baseline = Figure(f"{gpus} GPUs: generate_latest, GPU families", seconds * 1e3, "ms")
    yield baseline

    for form in SERIES:
        families = PageSettings(catalog(form))
        bare, whole = Pages(board, _NoTelemetry(board), families), Pages(board, Telemetry(board), families)
        seconds = cpu_seconds(partial(bare.page, NOW, openmetrics=False, gzip=False), prepare=advance)
        yield Figure(f"{gpus} GPUs: {form} page, GPU families", seconds * 1e3, "ms", baseline)
        page = partial(whole.page, NOW, openmetrics=False, gzip=False)
        seconds = cpu_seconds(page, prepare=advance)
        text = page()
        series = text.count(b'uuid="') / gpus
        note = f"{series:.0f} series a GPU, {len(text) / 1000:.0f} kB"
        yield Figure(f"{gpus} GPUs: {form} page with pulsed's own metrics", seconds * 1e3, "ms", baseline, note=note)

    def advance_and_read() -> None:
        advance()
        page()

    seconds = cpu_seconds(partial(whole.page, NOW, openmetrics=True, gzip=False), prepare=advance_and_read)
    yield Figure(f"{gpus} GPUs: the other format of that tick", seconds * 1e3, "ms", baseline)
    seconds = cpu_seconds(page, times=1000)
    yield Figure(f"{gpus} GPUs: the page served again", seconds * 1e3, "ms", baseline)


def _compression() -> Iterator[Figure]:
    board = board_of(computed_ticks(MANY_GPUS, 1))
    page = Pages(board, Telemetry(board)).page(NOW, openmetrics=False, gzip=False)
    baseline: Figure | None = None
    for level in (6, 9, 2, 1):

        def pack(level: int = level) -> bytes:
            packer = zlib.compressobj(level, zlib.DEFLATED, 31)
            return packer.compress(page) + packer.flush()

        note = f"{len(pack()) / len(page):.1%} of the page"
        name = f"{MANY_GPUS} GPUs: gzip level {level}"
        figure = Figure(name, cpu_seconds(pack, rounds=5) * 1e3, "ms", baseline, note=note)
        baseline = baseline or figure
        yield figure
