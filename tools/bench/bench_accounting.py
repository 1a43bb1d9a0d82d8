"""Accounting: what it costs to hold classes and to count, and what the counters know that a gauge does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from statistics import fmean

from pulsed.compute.derived_results import result_of
from pulsed.compute.layer import ComputeLayer
from pulsed.compute.settings import ComputeSettings, RealUtilizationSettings
from pulsed.model.canonical_tick import CanonicalTick
from pulsed.model.vocabulary import Reading
from pulsed.translate.translator import Translator
from tests.compute.streams import activity, counted, sample
from tools.bench.figure import Figure
from tools.bench.measure import cpu_seconds
from tools.bench.ticks import GPUS, raw_ticks

TICKS = 200
"""As many are measured at a time: seconds of a source at 10 Hz."""

MINUTES, SCRAPE_SECONDS = 10, 15
LEVEL, BUSY_OF_TEN = 0.9, 3


def run() -> Iterator[Figure]:
    translator = Translator("bench")
    canonical = [translator.translate(raw) for raw in raw_ticks(GPUS, 20)]
    ticks = [
        replace(tick, raw=replace(tick.raw, clock=float(number)))
        for number, tick in zip(range(TICKS), cycle(canonical), strict=False)
    ]
    gpus, settings = TICKS * GPUS, ComputeSettings()
    alone = (
        cpu_seconds(
            lambda: [
                result_of(*gpu, settings) for tick in ticks for gpu in zip(tick.devices, tick.readings, strict=True)
            ]
        )
        / gpus
        * 1e6
    )
    baseline = Figure("each tick by itself", alone, "µs/GPU")
    yield baseline
    both = cpu_seconds(lambda: _through(ComputeLayer(ComputeSettings()), ticks)) / gpus * 1e6
    yield Figure("with held classes and accounts", both, "µs/GPU", baseline)
    yield Figure("the difference", both - alone, "µs/GPU", baseline)
    silent = (
        cpu_seconds(
            partial(
                _through,
                ComputeLayer(ComputeSettings(real_utilization=RealUtilizationSettings(histogram=()))),
                ticks[:1],
            ),
            times=100,
        )
        / GPUS
        * 1e6
    )
    yield Figure("a tick that repeats the one before", silent, "µs/GPU", baseline)
    yield from _square_wave()


def _through(computer: ComputeLayer, ticks: Sequence[CanonicalTick]) -> None:
    for tick in ticks:
        computer.compute(tick)


def _square_wave() -> Iterator[Figure]:
    """0.3 s busy and 0.7 s idle at 10 Hz, looked at every 15 s for ten minutes."""
    computer = ComputeLayer(ComputeSettings())
    scrapes = []
    for number in range(MINUTES * 600 + 1):
        reading = Reading(**activity(LEVEL if number % 10 in range(1, BUSY_OF_TEN + 1) else 0.0))
        tick = computer.compute(sample(number * 0.1, reading, interval=0.1))
        if number % (SCRAPE_SECONDS * 10) == 0:
            scrapes.append(tick)
    first, last = scrapes[0], scrapes[-1]
    busy = counted(last, "real_utilization_seconds") - counted(first, "real_utilization_seconds")
    seconds = counted(last, "observed_seconds") - counted(first, "observed_seconds")
    truth = Figure("square wave: the truth", 10 * LEVEL * BUSY_OF_TEN, "%")
    yield truth
    yield Figure("square wave: rate of the counters", 100 * busy / seconds, "%", truth)
    gauge = fmean(scrape.results[0].real_utilization.ratio or 0.0 for scrape in scrapes)
    yield Figure("square wave: average of the scraped gauge", 100 * gauge, "%", truth)
