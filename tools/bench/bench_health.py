"""Health: what all checks add to a tick, on the demo's eight GPUs, two of which fail."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from pulsed.compute.health.checks import CHECKS
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.layer import ComputeLayer
from pulsed.compute.settings import ComputeSettings
from pulsed.model.canonical_tick import CanonicalTick
from pulsed.reader.demo.source import DemoSource
from pulsed.translate.translator import Translator
from tools.bench.figure import Bar, Figure
from tools.bench.measure import cpu_seconds

TICKS = 1000
GPUS = 8


def run() -> Iterator[Figure]:
    nothing = ComputeSettings(health=HealthSettings(disabled=frozenset(check.id for check in CHECKS)))
    for interval in (1.0, 0.1):
        ticks = asyncio.run(_ticks(interval))
        without = Figure(f"{interval:g} s: Compute without health", _microseconds(nothing, ticks), "us/GPU")
        yield without
        name = f"{interval:g} s: Compute with {len(CHECKS)} checks"
        yield Figure(
            name, _microseconds(ComputeSettings(), ticks), "us/GPU", without, Bar("ratio", 0.5), "at most twice"
        )


async def _ticks(interval: float) -> list[CanonicalTick]:
    source, translator = DemoSource(0, interval, pace=False, start=1767225600.0), Translator("bench")
    return [translator.translate(await source.read()) for _ in range(TICKS)]


def _microseconds(settings: ComputeSettings, ticks: Sequence[CanonicalTick]) -> float:
    def once() -> None:
        computer = ComputeLayer(settings)
        for tick in ticks:
            computer.compute(tick)

    return cpu_seconds(once, rounds=5) / TICKS / GPUS * 1e6
