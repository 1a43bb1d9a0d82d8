"""Boards made by hand, for tests and benchmarks of what is presented."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pulsed.compute.peaks import RESOURCES
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.counters import COUNTER_POSITION, CounterSnapshot, Distribution
from pulsed.model.gpu import Device, Entity
from pulsed.model.health import CheckState, Health, XidLast
from pulsed.model.interval import Interval, exactly
from pulsed.model.owner import Owners
from pulsed.model.raw_tick import Layout, RawTick, RawValue, Series
from pulsed.model.result import RealUtilization, Result, Saturation, ShownClass, Workload
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import NOTHING, QUANTITIES, Reading
from tests.support.ticks import tick_of

TIME = 1767225600.1
"""2026-01-01T00:00:00.100Z"""

COUNTED = CounterSnapshot(
    tuple(map(float, range(len(COUNTER_POSITION)))), Unix(TIME - 60), Distribution((0.25, 0.5), (3, 0, 7), 5.5)
)

SATURATED = Saturation(
    Interval(0.9, 0.9, 1.0, ("pcie",)), "dram", (0.3, 0.0, 0.25, 0.0, 0.1, 0.9, None, 0.05, None), 0.3, 0.9
)
NOT_SATURATED = Saturation(Interval(0.0, None, 1.0, RESOURCES), "unknown", (None,) * 9, None, None)

REMAPPING = CheckState(
    "row_remap_pending",
    "warn",
    Unix(TIME - 5),
    None,
    "A memory repair waits for a reset",
    (("row_remap_pending", 1.0),),
    "Reset the GPU when the current jobs finish",
    True,
)
SICK = Health(
    "warn",
    0.5,
    (
        REMAPPING,
        CheckState("xid_critical", "ok", Unix(TIME - 60), Unix(TIME - 50), covered=True),
        CheckState("pcie_link", "unknown"),
        CheckState("retired_pages", "unknown", applies=False),
    ),
    (("xid_critical", 3),),
    ((79, 0), (13, 3)),
    XidLast(13, Unix(TIME - 50), "graphics engine exception"),
)
"""Judged: one check warns, one is fine, one cannot be judged, one makes no sense here."""

SETTLED = Result(
    RealUtilization(exactly(0.62), 1.0),
    Workload("memory_bound", "memory"),
    SATURATED,
    ShownClass("memory_bound", "memory", Unix(TIME - 10), 2, True),
    COUNTED,
    SICK,
    (("power_cap", 0.25),),
)
FLICKER = SETTLED._replace(shown_class=ShownClass("idle", "idle", Unix(TIME - 100), used=False))
OPEN = Result(
    RealUtilization(Interval(0.1, None, 0.9, ("sm_active_ratio", "dram_active_ratio")), 0.2),
    Workload("unknown", "unknown", ("idle", "mixed_or_moderate")),
    NOT_SATURATED,
    ShownClass("unknown", "unknown", Unix(TIME)),
    CounterSnapshot((None,) * len(COUNTER_POSITION), Unix(TIME)),
)


class Gpu(NamedTuple):
    """One device of a tick."""

    device: Device
    reading: Reading = NOTHING
    result: Result = SETTLED
    anomalies: tuple[str, ...] = ()
    owners: Owners | None = None


def gpu(number: int, node: str = "node1", result: Result = SETTLED, **reading: float | None) -> Gpu:
    entity = Entity("gpu", str(number), f"GPU-{node}-{number:04}", node=node)
    device = Device(entity, "NVIDIA H100 80GB HBM3", f"00000000:{number:02X}:00.0", "580.105.08", f"nvidia{number}")
    return Gpu(device, Reading(**reading), result)


def mig(number: int, instance: int, profile: str = "1g.10gb", **reading: float | None) -> Gpu:
    entity = Entity("mig", str(number), f"GPU-node1-{number:04}", str(instance), profile, "node1")
    return Gpu(Device(entity, "NVIDIA H100 80GB HBM3", mig_uuid=f"MIG-{number}-{instance}"), Reading(**reading), OPEN)


def tick(
    gpus: Sequence[Gpu],
    time: float = TIME,
    series: Sequence[tuple[Series, RawValue]] = (),
    help: Mapping[str, str] | None = None,
    types: Mapping[str, str] | None = None,
    rejected: Mapping[str, int] | None = None,
    layout: Layout | None = None,
) -> Tick:
    layout = layout or Layout("exporter", tuple(each for each, _ in series), help or {}, types or {})
    made = tick_of(
        RawTick("made", Unix(time), Monotonic(time), 1.0, layout, tuple(value for _, value in series), rejected or {}),
        tuple(each.device for each in gpus),
        tuple(each.reading for each in gpus),
        tuple(each.result for each in gpus),
        anomalies={position: each.anomalies for position, each in enumerate(gpus)},
        owners={position: each.owners for position, each in enumerate(gpus)},
    )
    split = {each.device.entity.board for each in gpus if each.device.entity.kind == "mig"}
    for row in made.gpus:
        row.is_split = row.device.entity.kind == "gpu" and row.device.entity.board in split
    return made


def target(name: str, computed: Tick | None = None, *, kind: str = "exporter", arrived: float = 100.0) -> Target:
    made = Target(kind, name, 1.0, 10.0)
    if computed is not None:
        made.accept(computed, Monotonic(arrived))
    return made


def store_of(*targets: Target) -> TargetStore:
    return TargetStore("here", list(targets))


FIRST_FORTY = tuple(QUANTITIES)[:40]


def busy_gpus(count: int, seed: int, node: str = "node1") -> list[Gpu]:
    """GPUs with forty readings each, different for every seed; an exporter prints six decimals."""
    rng = random.Random(seed)
    return [
        gpu(number, node)._replace(reading=NOTHING._replace(**{name: round(rng.random(), 6) for name in FIRST_FORTY}))
        for number in range(count)
    ]


def next_tick(before: Tick, seed: int) -> Tick:
    """A tick of the very same devices with other readings, as a stream delivers it."""
    rng = random.Random(f"next {seed}")
    readings = [
        Reading(*[None if value is None else round(rng.random(), 6) for value in row.reading]) for row in before.gpus
    ]
    results = [
        row.result._replace(real_utilization=RealUtilization(exactly(ratio), 1.0))
        for row in before.gpus
        for ratio in [rng.random()]
    ]
    raw = replace(before.raw, time=Unix(before.time + 1), clock=Monotonic(before.clock + 1))
    made = [
        replace(row, reading=reading, result=result)
        for row, reading, result in zip(before.gpus, readings, results, strict=True)
    ]
    return replace(before, raw=raw, gpus=made)
