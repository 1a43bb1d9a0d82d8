"""Tick: an exporter's page through all layers to the lean page, 40 fields a GPU, all checks of health evaluated.

The garbage collector is set up as the daemon has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import TypeVar

from prometheus_client import CollectorRegistry, generate_latest

from pulsed.collector.collector import Pipeline
from pulsed.compute.settings import ComputeSettings
from pulsed.model.raw_tick import RawTick
from pulsed.present.exposition.catalog import catalog
from pulsed.present.exposition.page import Pages, PageSettings
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.reader.exposition.parser import PageParser
from tests.present.reference import ReferenceCollector
from tools.bench.bench_parse import read_with_prometheus_client
from tools.bench.figure import Bar, Figure
from tools.bench.measure import cpu_seconds
from tools.bench.ticks import GPUS, NOW, board_of, computed_ticks, pages, raw_tick, raw_ticks

MANY_GPUS = 256
PAGES = 20

T = TypeVar("T")


def run() -> Iterator[Figure]:
    for gpus, limit in ((GPUS, 1.0), (MANY_GPUS, 30.0)):
        yield from _of(gpus, limit)


def _of(gpus: int, limit: float) -> Iterator[Figure]:
    computed = computed_ticks(gpus, 1)
    board = board_of(computed)
    telemetry = Telemetry(board)
    pipeline = Pipeline(ComputeSettings(), "bench", telemetry.observe)
    everything = Pages(board, telemetry, PageSettings(catalog("lean")))
    parser, seconds, clock = PageParser(), count(), count(NOW)

    def read(page: bytes) -> RawTick:
        return raw_tick(parser, page, next(seconds))  # time goes on: a tick covers a second of it

    def render(raw: RawTick, *, openmetrics: bool = False, gzip: bool = False) -> None:
        now = next(clock)
        board.targets[0].accept(pipeline.process(raw), now)
        everything.page(now, openmetrics=openmetrics, gzip=gzip)

    registry = CollectorRegistry()
    registry.register(ReferenceCollector(board, NOW))

    def with_prometheus_client(page: bytes) -> None:
        read_with_prometheus_client(page)
        generate_latest(registry)

    def figure(name: str, work: Callable[[T], None], on: Sequence[T], bar: Bar | None = None, note: str = "") -> Figure:
        return Figure(f"{gpus} GPUs: {name}", _milliseconds(work, on), "ms", baseline, bar, note)

    bodies, ticks = pages(gpus, PAGES), raw_ticks(gpus, PAGES)
    name = f"{gpus} GPUs: prometheus_client, parse + write"
    baseline = Figure(name, _milliseconds(with_prometheus_client, bodies[:1], rounds=3), "ms", note="nothing computed")
    yield baseline
    yield figure("page to page", lambda page: render(read(page)), bodies, Bar("value", limit))
    yield figure(
        "page to page, as Prometheus scrapes",
        lambda page: render(read(page), openmetrics=True, gzip=True),
        bodies,
        note="OpenMetrics, gzip",
    )
    yield figure("values to page, without parsing", render, ticks)
    yield figure("values to results, without a page", lambda raw: _drop(pipeline.process(raw)), ticks)


def _drop(_: object) -> None:
    """Take what a tick became when nobody asks for the page."""


def _milliseconds(work: Callable[[T], None], on: Sequence[T], rounds: int = 9) -> float:
    def once() -> None:
        for each in on:
            work(each)

    return cpu_seconds(once, rounds=rounds) / len(on) * 1e3
