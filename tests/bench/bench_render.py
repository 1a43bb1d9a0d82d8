"""What the `/metrics` page costs: `python -m tests.bench.bench_render`.

Prints figures, asserts nothing. Each is the best of several runs, and stands as a ratio to a baseline of the same run:
prometheus_client's `generate_latest` over the same GPU families.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable

from prometheus_client import CollectorRegistry, generate_latest

from pulsed.present.board import Board, Target
from pulsed.present.page import Pages, compress
from pulsed.present.telemetry import Telemetry
from tests.present.boards import board, busy_gpus, next_tick, target, tick
from tests.present.reference import ReferenceCollector

NOW = 100.0


def best(run: Callable[[], object], prepare: Callable[[], object] = lambda: None, times: int = 15) -> float:
    """Milliseconds of the fastest of several runs."""
    spent = []
    for _ in range(times):
        prepare()
        start = time.perf_counter()
        run()
        spent.append(time.perf_counter() - start)
    return 1000 * min(spent)


class Stream:
    """A board whose targets get new ticks of the same devices."""

    def __init__(self, targets: int, gpus: int) -> None:
        self.board: Board = board(
            *(target(f"target {number}", tick(busy_gpus(gpus, number, f"n{number}"))) for number in range(targets))
        )
        first = [each.tick for each in self.board.targets if each.tick is not None]
        self._ticks = [(each, next_tick(each, number)) for number, each in enumerate(first)]
        self._turn = 0

    def advance(self, share: float = 1.0) -> None:
        """Deliver a tick that the page does not know yet to the first targets."""
        self._turn ^= 1
        for each, pair in list(zip(self.board.targets, self._ticks, strict=True))[: int(share * len(self._ticks)) or 1]:
            each.accept(pair[self._turn], NOW)


class NoTelemetry(Telemetry):
    """Leaves pulsed's own metrics away, to compare GPU families with GPU families."""

    def render(self, now: float, *, openmetrics: bool) -> bytes:
        return b""


def page_of(pages: Pages, openmetrics: bool = False) -> Callable[[], bytes]:
    return lambda: pages.page(NOW, openmetrics=openmetrics, gzip=False)


def rendering(gpus: int) -> bytes:
    stream = Stream(1, gpus)
    registry = CollectorRegistry()
    registry.register(ReferenceCollector(stream.board, NOW))
    library = best(lambda: generate_latest(registry), times=5)
    bare = best(page_of(Pages(stream.board, NoTelemetry(stream.board))), stream.advance)
    pages = Pages(stream.board, Telemetry(stream.board))
    whole = best(page_of(pages), stream.advance)

    def advance_and_read() -> None:
        stream.advance()
        pages.page(NOW, openmetrics=False, gzip=False)

    other = best(page_of(pages, True), advance_and_read)
    page = pages.page(NOW, openmetrics=False, gzip=False)
    again = best(page_of(pages), times=200)
    series = sum(not line.startswith(b"#") for line in page.splitlines())
    print(f"{gpus} GPUs, {series} series, {len(page) / 1000:.0f} kB")
    print(f"  generate_latest, GPU families only  {library:9.3f} ms   1")
    print(f"  page, GPU families only             {bare:9.3f} ms   1/{library / bare:.0f}")
    print(f"  page with pulsed's own metrics      {whole:9.3f} ms   1/{library / whole:.0f}")
    print(f"  the other format of the same tick   {other:9.3f} ms   1/{library / other:.0f}")
    print(f"  page served again                   {again:9.4f} ms   1/{library / again:.0f}")
    return page


def compression(page: bytes) -> None:
    baseline = best(lambda: zlib.compress(page, 6), times=5)
    print(f"gzip of that page of {len(page) / 1000:.0f} kB; baseline level 6")
    for name, level, memory, strategy in (
        ("level 6", 6, 8, zlib.Z_DEFAULT_STRATEGY),
        ("level 9", 9, 8, zlib.Z_DEFAULT_STRATEGY),
        ("level 3", 3, 8, zlib.Z_DEFAULT_STRATEGY),
        ("level 2", 2, 8, zlib.Z_DEFAULT_STRATEGY),
        ("level 1", 1, 8, zlib.Z_DEFAULT_STRATEGY),
        ("level 1, memory 9", 1, 9, zlib.Z_DEFAULT_STRATEGY),
        ("run lengths only", 1, 8, zlib.Z_RLE),
        ("Huffman only", 1, 8, zlib.Z_HUFFMAN_ONLY),
    ):

        def pack(level: int = level, memory: int = memory, strategy: int = strategy) -> bytes:
            packer = zlib.compressobj(level, zlib.DEFLATED, 31, memory, strategy)
            return packer.compress(page) + packer.flush()

        spent = best(pack, times=5)
        print(f"  {name:20} {spent:8.2f} ms  x{spent / baseline:.2f}   {len(pack()) / len(page):6.1%} of the page")
    print(f"  as served: {len(compress(page)) / 1000:.0f} kB")


def fleet(targets: int, gpus: int) -> None:
    stream = Stream(targets, gpus)
    pages = Pages(stream.board, Telemetry(stream.board))
    first = best(page_of(pages), times=1)
    everything = best(page_of(pages), stream.advance, times=3)
    some = best(page_of(pages), lambda: stream.advance(0.05), times=3)
    own = best(lambda: Telemetry(stream.board).render(NOW, openmetrics=False), times=3)
    print(f"{targets} targets of {gpus} GPUs, {len(pages.page(NOW, openmetrics=False, gzip=False)) / 1e6:.0f} MB")
    print(f"  first page                          {first:9.1f} ms   1")
    print(f"  after a tick of every target        {everything:9.1f} ms   {everything / first:.2f}")
    print(f"  after a tick of one in twenty       {some:9.1f} ms   {some / first:.2f}")
    print(f"  pulsed's own metrics, of that       {own:9.1f} ms   {own / first:.2f}")


def observing() -> None:
    telemetry = Telemetry(Board("here", [Target("demo", "demo", 1.0, 3.0)]))

    def run() -> None:
        for _ in range(10_000):
            telemetry.observe("compute", 0.0003)

    print(f"observe a duration: {best(run, times=5) / 10:.3f} us")


if __name__ == "__main__":
    rendering(8)
    compression(rendering(256))
    fleet(1250, 8)
    observing()
