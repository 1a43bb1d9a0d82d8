"""Parse: from an exporter's page to values, 8 GPUs x 40 fields, whose values change with each page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.parser import text_string_to_metric_families

from pulsed.reader.exposition.parser import PageParser
from tests.support.streams import STREAMS
from tools.bench.figure import Bar, Figure
from tools.bench.measure import cpu_seconds
from tools.bench.ticks import FIELDS, GPUS, pages

PAGES = 50

Read = Callable[[bytes], object]


def run() -> Iterator[Figure]:
    for stream in STREAMS:
        known = pages(GPUS, PAGES, stream)
        baseline = _figure(f"{stream}: prometheus_client's parser", read_with_prometheus_client, known[:5])
        yield baseline
        yield _figure(f"{stream}: a page", PageParser().parse, known, baseline, Bar("ratio", 20))
    yield _figure("random: a page seen for the first time", lambda page: PageParser().parse(page), known, baseline)


def read_with_prometheus_client(page: bytes) -> object:
    """Read a page as a program without pulsed would."""
    return [family.samples for family in text_string_to_metric_families(page.decode())]


def _figure(
    name: str, read: Read, bodies: Sequence[bytes], baseline: Figure | None = None, bar: Bar | None = None
) -> Figure:
    def work() -> None:
        for page in bodies:
            read(page)

    seconds = cpu_seconds(work, rounds=3 if baseline is None else 7)
    return Figure(name, seconds / len(bodies) / (GPUS * FIELDS) * 1e6, "µs/sample", baseline, bar)
