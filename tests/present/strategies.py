"""Random boards: texts with every character, numbers of every kind, repeated and missing identities."""

from __future__ import annotations

from math import inf, nan

from hypothesis import strategies as st

from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.counters import COUNTERS, CounterSnapshot, Distribution
from pulsed.model.gpu import Device, Entity
from pulsed.model.health import NOT_EVALUATED
from pulsed.model.interval import Interval
from pulsed.model.result import RealUtilization, Result, ShownClass, Workload
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.vocabulary import NOTHING, QUANTITIES
from tests.present.boards import COUNTED, NOT_SATURATED, SATURATED, SICK, Gpu, tick
from tests.present.reference import BOTTLENECKS, CLASSES

NOW = 100.0

texts = st.text(st.one_of(st.sampled_from('"\\\n,{}= #é値'), st.characters(codec="utf-8")), max_size=8)
ratios = st.floats(0, 1)
amounts = st.floats(0, 1e15)
times = st.floats(0, 4e9)
classes, bottlenecks = st.sampled_from(CLASSES), st.sampled_from(BOTTLENECKS)
quantities = st.sampled_from(tuple(QUANTITIES))
numbers = st.none() | st.one_of(
    st.floats(), st.integers(0, 2**63), st.sampled_from([0.0, -1.0, nan, inf, -inf, 1e300])
).map(lambda number: number + 0.0)  # as Translate delivers them: floats, and no -0.0

readings = st.dictionaries(quantities, numbers, max_size=8).map(lambda values: NOTHING._replace(**values))
entities = st.builds(
    Entity,
    st.sampled_from(["gpu", "mig", "vgpu"]),
    st.sampled_from(["", "0", "1", "2"]) | texts,
    st.sampled_from(["", "GPU-a", "GPU-b"]) | texts,
    st.sampled_from(["", "1", "7"]) | texts,
    texts,
    st.sampled_from(["", "here", "there", 'n"2']),
)
devices = st.builds(Device, entities, texts, texts, texts, texts, texts)


@st.composite
def counters(draw: st.DrawFn) -> CounterSnapshot:
    """A counter per state has all of its states or none."""
    values: list[float | None] = []
    for counter in COUNTERS:
        known = draw(st.booleans())
        values.extend(draw(amounts) if known else None for _ in counter.states)
    counts = st.lists(st.integers(0, 10**9), min_size=3, max_size=3).map(tuple)
    distribution = st.none() | st.builds(Distribution, st.just((0.05, 0.5)), counts, amounts)
    return CounterSnapshot(tuple(values), draw(st.none() | times.map(Unix)), draw(distribution))


results = st.builds(
    Result,
    st.builds(
        RealUtilization,
        st.builds(Interval, ratios, st.none() | ratios, ratios, st.lists(quantities, max_size=3).map(tuple)),
        ratios,
    ),
    st.builds(Workload, classes, bottlenecks, st.lists(classes, max_size=3).map(tuple)),
    st.sampled_from([SATURATED, NOT_SATURATED]),
    st.builds(ShownClass, classes, bottlenecks, st.none() | times, st.integers(0, 2**40)),
    st.just(COUNTED) | counters(),
    st.sampled_from([SICK, NOT_EVALUATED]),
    st.sampled_from([(), (("power_cap", 0.25), ("sw_thermal", 0.0))]),
    st.none() | ratios,
    health_seconds=st.just(()),
)
gpus = st.builds(Gpu, devices, readings, results, st.lists(texts.filter(bool), max_size=2, unique=True).map(tuple))


@st.composite
def boards(draw: st.DrawFn) -> TargetStore:
    """Up to three targets: with and without a tick, fresh and stale at NOW, working and failing."""
    targets = []
    for number in range(draw(st.integers(0, 3))):
        target = Target(draw(st.sampled_from(["exporter", "replay", "demo"])), f"target {number}", 1.0, 10.0)
        if draw(st.integers(0, 4)):
            computed = tick(draw(st.lists(gpus, max_size=3)), draw(times))
            target.accept(computed, Monotonic(NOW - draw(st.sampled_from([0.0, 2.0, 11.0, 60.0]))))
        if draw(st.booleans()):
            target.fail("scrape_failed", draw(texts))
        targets.append(target)
    return TargetStore("here", targets)
