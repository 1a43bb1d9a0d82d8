"""Parse: from an exporter's page to values, 8 GPUs x 40 fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.parser import text_string_to_metric_families

from pulsed.reader.exposition.parser import PageParser
from tools.bench.figure import Bar, Figure
from tools.bench.measure import cpu_seconds
from tools.bench.ticks import FIELDS, GPUS, pages

PAGES = 50

Read = Callable[[bytes], object]


def run() -> Iterator[Figure]:
    known = pages(GPUS, PAGES)
    baseline = _figure("prometheus_client's parser", read_with_prometheus_client, known[:5])
    yield baseline
    yield _figure("float() of every value, nothing else", read_values_only, known, baseline)
    yield _figure("a steady page", PageParser().parse, known, baseline, Bar("ratio", 20))
    alternating = [_reversed_families(page) if number % 2 else page for number, page in enumerate(known)]
    yield _figure("known series in changing order", PageParser().parse, alternating, baseline)
    yield _figure("known series with timestamps", PageParser().parse, [_stamped(page) for page in known], baseline)
    yield _figure("a page seen for the first time", lambda page: PageParser().parse(page), known, baseline)


def read_with_prometheus_client(page: bytes) -> object:
    """Read a page as a program without pulsed would."""
    return [family.samples for family in text_string_to_metric_families(page.decode())]


def read_values_only(page: bytes) -> object:
    """Do the least that reading can be: cut each row at its last blank and make a float of the rest."""
    return [float(row.rpartition(" ")[2]) for row in page.decode().split("\n") if row and row[0] != "#"]


def _figure(
    name: str, read: Read, bodies: Sequence[bytes], baseline: Figure | None = None, bar: Bar | None = None
) -> Figure:
    def work() -> None:
        for page in bodies:
            read(page)

    seconds = cpu_seconds(work, rounds=3 if baseline is None else 7)
    return Figure(name, seconds / len(bodies) / (GPUS * FIELDS) * 1e6, "µs/sample", baseline, bar)


def _reversed_families(page: bytes) -> bytes:
    return b"".join(b"# HELP" + family for family in reversed(page.split(b"# HELP")[1:]))


def _stamped(page: bytes) -> bytes:
    return b"".join(line[:-1] + b" 1395066363000\n" if line[:1] != b"#" else line for line in page.splitlines(True))
