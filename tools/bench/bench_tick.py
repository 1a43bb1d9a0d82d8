"""Tick: CPU of each layer for a page of 8 GPUs x 40 fields, whose values change with each page."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.layer import ComputeLayer
from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import Target, TargetStore
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.reader.exposition.parser import PageParser
from pulsed.translate.translator import Translator
from tests.support.streams import STREAMS, StreamName
from tools.bench.bench_parse import read_with_prometheus_client
from tools.bench.figure import Figure
from tools.bench.pages import exporter_page
from tools.bench.ticks import FIELDS, GPUS, raw_tick

PAGES = 500

T = TypeVar("T")


def run() -> Iterator[Figure]:
    for stream in STREAMS:
        spent = _spent(stream)
        baseline = Figure(f"{stream}: prometheus_client's parser", spent.pop("prometheus_client"), "ms")
        yield baseline
        for layer, milliseconds in spent.items():
            yield Figure(f"{stream}: {layer}", milliseconds, "ms", baseline)
        yield Figure(f"{stream}: all layers", sum(spent.values()), "ms", baseline)


def _spent(stream: StreamName) -> dict[str, float]:
    """Return the milliseconds of CPU of a page, by layer."""
    spent: defaultdict[str, float] = defaultdict(float)

    def timed(layer: str, work: Callable[[], T]) -> T:
        begun = time.process_time()
        result = work()
        spent[layer] += (time.process_time() - begun) * 1e3 / PAGES
        return result

    parser, translator, computer = PageParser(), Translator("bench"), ComputeLayer(GpuTable())
    target = Target("exporter", "bench", 1.0, 10.0)
    store = TargetStore("bench", [target])
    page = Pages(store, Telemetry(store))
    for second in range(PAGES):
        body = exporter_page(GPUS, FIELDS, second, stream=stream)
        timed("prometheus_client", partial(read_with_prometheus_client, body))
        raw = timed("Reader", partial(raw_tick, parser, body, second))
        canonical = timed("Translate", partial(translator.translate, raw))
        computed = timed("Compute", partial(computer.compute, canonical))
        target.accept(computed, Monotonic(float(second)))
        timed("Present", partial(page.page, Monotonic(float(second)), openmetrics=True, gzip=True))
    return spent
