"""What translating costs per GPU: `python -m tests.bench.bench_translate`."""

from __future__ import annotations

from collections.abc import Callable
from timeit import repeat

from pulsed.reader.exposition import PageParser
from pulsed.reader.tick import RawTick
from pulsed.translate.translator import Translator
from tests.bench.pages import exporter_page

GPUS = 8
FIELDS = 40


def main() -> None:
    parser = PageParser()
    ticks = []
    for seed in range(8):
        page = parser.parse(exporter_page(GPUS, FIELDS, seed))
        ticks.append(RawTick("bench", float(seed), float(seed), 1.0, page.layout, page.values))

    def floor() -> None:
        # The least that reading a tick can be: every value looked at and made a float.
        for tick in ticks:
            for value in tick.values:
                if value is not None:
                    float(value)

    translator = Translator()

    def translate() -> None:
        for tick in ticks:
            translator.translate(tick)

    def compile_and_translate() -> None:
        for tick in ticks:
            Translator().translate(tick)

    base = _microseconds(floor, len(ticks))
    print(f"{GPUS} GPUs x {FIELDS} fields, per GPU and tick; ratio to float() of every value")
    for name, run in (("float()", floor), ("translate", translate), ("compile and translate", compile_and_translate)):
        cost = _microseconds(run, len(ticks))
        print(f"{name:>22}: {cost:8.2f} µs  {cost / base:6.1f}x")


def _microseconds(run: Callable[[], None], ticks: int) -> float:
    return min(repeat(run, number=10, repeat=15)) / 10 / ticks / GPUS * 1e6


if __name__ == "__main__":
    main()
