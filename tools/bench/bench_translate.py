"""Translate: from values to the one vocabulary, 8 GPUs x 40 fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pulsed.model.raw_tick import RawTick
from pulsed.translate.translator import Translator
from tools.bench.figure import Figure
from tools.bench.measure import cpu_seconds
from tools.bench.ticks import GPUS, raw_ticks


def run() -> Iterator[Figure]:
    ticks = raw_ticks(GPUS, 8)
    known = Translator()

    def figure(name: str, translate: Callable[[RawTick], object], baseline: Figure | None = None) -> Figure:
        def work() -> None:
            for tick in ticks:
                translate(tick)

        return Figure(name, cpu_seconds(work, times=5) / len(ticks) / GPUS * 1e6, "µs/GPU", baseline)

    baseline = figure("float() of every value", _floats)
    yield baseline
    yield figure("translate a known layout", known.translate, baseline)
    yield figure("understand a new layout and translate", lambda tick: Translator().translate(tick), baseline)


def _floats(tick: RawTick) -> None:
    for value in tick.values:
        if value is not None:
            float(value)
