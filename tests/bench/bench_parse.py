"""What reading a page costs, per sample, beside prometheus_client on the same page.

Run `python -m tests.bench.bench_parse`. Figures are CPU time of the best of several rounds; trust the ratios.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from prometheus_client.parser import text_string_to_metric_families

from pulsed.reader.exposition import PageParser
from tests.bench.pages import exporter_page

GPUS, FIELDS = 8, 40
PAGES = 50
ROUNDS = 7


def seconds_per_page(read: Callable[[bytes], object], pages: Sequence[bytes], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for page in pages:
            read(page)
        best = min(best, time.process_time() - start)
    return best / len(pages)


def steady() -> Callable[[bytes], object]:
    """The same series page after page: what a daemon does all day."""
    return PageParser().parse


def cold() -> Callable[[bytes], object]:
    """A page seen for the first time."""
    return lambda page: PageParser().parse(page)


def client() -> Callable[[bytes], object]:
    return lambda page: [family.samples for family in text_string_to_metric_families(page.decode())]


def reversed_families(page: bytes) -> bytes:
    return b"".join(b"# HELP" + family for family in reversed(page.split(b"# HELP")[1:]))


def stamped(page: bytes) -> bytes:
    return b"".join(line[:-1] + b" 1395066363000\n" if line[:1] != b"#" else line for line in page.splitlines(True))


def run() -> list[str]:
    """The report, line by line."""
    pages = [exporter_page(GPUS, FIELDS, seed) for seed in range(PAGES)]
    alternating = [reversed_families(page) if number % 2 else page for number, page in enumerate(pages)]
    cases: list[tuple[str, Callable[[bytes], object], list[bytes], int]] = [
        ("prometheus_client", client(), pages[:5], 2),
        ("steady page", steady(), pages, ROUNDS),
        ("known series in changing order", steady(), alternating, ROUNDS),
        ("known series with timestamps", steady(), [stamped(page) for page in pages], ROUNDS),
        ("first page", cold(), pages, 3),
    ]
    report = [f"parse: {GPUS} GPUs x {FIELDS} fields, {len(pages[0])} bytes a page"]
    baseline = None
    for name, read, bodies, rounds in cases:
        each = seconds_per_page(read, bodies, rounds) / (GPUS * FIELDS) * 1e6
        baseline = baseline or each
        report.append(f"  {name:32} {each:8.3f} us/sample  {baseline / each:6.1f} x prometheus_client")
    return report


if __name__ == "__main__":
    print("\n".join(run()))
