"""Owners: what attribution and accounts cost at 8 GPUs, 16 owners and 10 Hz, and nodes without owners."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pulsed.accounting.accounting import OwnerAccounting
from pulsed.accounting.saved_accounts import EndedAccounts
from pulsed.attribution.attribution import Attribution
from pulsed.attribution.mapping_directory import MappingDirectory
from pulsed.collector.owner_lookup import OwnerLookup
from pulsed.compute.layer import ComputeLayer
from pulsed.compute.settings import ComputeSettings
from pulsed.model.canonical_tick import CanonicalTick
from pulsed.model.computed_tick import ComputedTick
from pulsed.model.owner import Owner
from pulsed.translate.translator import Translator
from tests.compute.streams import DAY
from tests.support.waiting import eventually
from tools.bench.figure import Bar, Figure
from tools.bench.measure import cpu_seconds
from tools.bench.ticks import GPUS, raw_ticks

OWNERS_PER_GPU = 2
HERTZ = 10
TICKS = 200
JOBS = 2000


def run() -> Iterator[Figure]:
    translator = Translator("bench")
    canonical = [translator.translate(raw) for raw in raw_ticks(GPUS, 20)]
    free = [_moved(canonical[number % 20], clock=number / HERTZ, interval=1 / HERTZ) for number in range(TICKS)]
    compute = _per_second(lambda: list(map(ComputeLayer(ComputeSettings()).compute, free)))
    baseline = Figure("Compute, 8 GPUs at 10 Hz", compute, "% of a core")
    yield baseline
    with tempfile.TemporaryDirectory() as folder:
        for at, device in enumerate(free[0].devices):
            jobs = "".join(f"{100 * at + number}\n" for number in range(OWNERS_PER_GPU))
            (Path(folder) / device.entity.uuid).write_text(jobs)
        source = MappingDirectory(folder)
        attribution = asyncio.run(_read(source))
        source.look()
        look = 100 * cpu_seconds(source.look, times=100)
    without = _Consumers(Attribution())
    unowned = _computed(free)
    none = _per_second(lambda: without.take(free, unowned))
    with_owners = _Consumers(attribution)
    owned = [with_owners.lookup.of(tick) for tick in free]
    computed = _computed(owned)
    ticks = _per_second(lambda: with_owners.take(free, computed))
    scrape = 100 * cpu_seconds(lambda: _settle(with_owners, computed)) / 2 / 15
    yield Figure("lookup and accounts, no owners", none, "% of a core", baseline)
    yield Figure("lookup and accounts, 16 owners", ticks, "% of a core", baseline)
    yield Figure("a look at the mapping directory every second", look, "% of a core", baseline)
    yield Figure("accounts up to date for a scrape every 15 s", scrape, "% of a core", baseline)
    yield Figure("all of it, 16 owners", ticks + look + scrape, "% of a core", baseline, Bar("value", 0.1))
    yield from _memory(owned)


class _Consumers:
    """What a tick goes through because of owners."""

    def __init__(self, attribution: Attribution) -> None:
        self.ended = EndedAccounts()
        self.lookup = OwnerLookup(attribution, "bench")
        self.accounting = OwnerAccounting(attribution.ended_at, self.ended.add)

    def take(self, canonical: Sequence[CanonicalTick], computed: Sequence[ComputedTick]) -> None:
        for before, after in zip(canonical, computed, strict=True):
            self.lookup.of(before)
            self.accounting.add(after)


def _moved(tick: CanonicalTick, clock: float, interval: float) -> CanonicalTick:
    """Return a tick at another time."""
    return replace(tick, raw=replace(tick.raw, clock=clock, time=DAY + clock, interval=interval))


def _settle(consumers: _Consumers, computed: Sequence[ComputedTick]) -> None:
    """Bring the accounts up to date twice."""
    for tick in (computed[0], computed[-1]):
        consumers.accounting.add(tick)
        assert len(consumers.accounting.running) == GPUS * OWNERS_PER_GPU


async def _read(source: MappingDirectory) -> Attribution:
    attribution = Attribution()
    attribution.apply([source])
    await eventually(lambda: attribution.version > 0)
    return attribution


def _computed(ticks: Sequence[CanonicalTick]) -> list[ComputedTick]:
    return list(map(ComputeLayer(ComputeSettings()).compute, ticks))


def _per_second(work: Callable[[], object]) -> float:
    """Return the share of a core that work on all ticks takes at 10 Hz, in percent."""
    return 100 * cpu_seconds(work, rounds=7) / TICKS * HERTZ


def _memory(owned: Sequence[CanonicalTick]) -> Iterator[Figure]:
    """Measure what accounts keep after many jobs, 16 at a time, each on its GPU with another one."""
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    layer, consumers = ComputeLayer(ComputeSettings()), _Consumers(Attribution())
    for number in range(JOBS // GPUS // OWNERS_PER_GPU):
        jobs = [Owner("slurm_job", f"{number}.{at}", DAY + number) for at in range(GPUS * OWNERS_PER_GPU)]
        devices = tuple(
            replace(device, owners=(jobs[2 * at], jobs[2 * at + 1])) for at, device in enumerate(owned[0].devices)
        )
        for step in range(3):
            tick = _moved(replace(owned[step], devices=devices), clock=3.0 * number + step, interval=1.0)
            consumers.accounting.add(layer.compute(tick))
    del layer, tick
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    kept = len(consumers.ended)
    yield Figure(
        f"kept after {JOBS} jobs", (after - before) / 2**20, "MiB", bar=Bar("value", 5.0), note=f"{kept} ended"
    )
