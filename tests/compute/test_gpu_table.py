"""The counters of a GPU that several targets show are those of one target that has all samples."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.layer import ComputeLayer
from pulsed.compute.settings import ComputeSettings, RealUtilizationSettings
from pulsed.model.clocks import Unix
from pulsed.model.counters import CounterSnapshot
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import NOTHING, Reading
from tests.compute.streams import BUSY, DAY, GPU, IDLE, MEMORY, NAMES, OTHER, counted, sample

READINGS = (BUSY, IDLE, MEMORY)


class Targets:
    """Targets of one process that show the same GPU, which has a state of its own at any time."""

    def __init__(self) -> None:
        self.table = GpuTable(ComputeSettings(real_utilization=RealUtilizationSettings(histogram=(0.5,))))
        self.layers: dict[str, ComputeLayer] = {}
        self.ticks: dict[str, Tick] = {}

    def show(self, target: str, clock: float, interval: float = 1.0, node: str = "", *, is_blank: bool = False) -> Tick:
        layer = self.layers.get(target)
        if layer is None:
            layer = ComputeLayer(self.table, "n1")
            self.layers[target] = layer
        number = int(clock)
        reading = READINGS[number // 5 % 3]._replace(power_watts=300.0, energy_joules_total=7e5 + 300.0 * clock)
        device = replace(GPU, entity=replace(GPU.entity, node=node))
        tick = sample(clock, NOTHING if is_blank else reading, devices=[device], interval=interval)
        self.ticks[target] = layer.compute(replace(tick, raw=replace(tick.raw, target=target)))
        return self.ticks[target]

    def counters(self) -> CounterSnapshot:
        """The counters of the GPU by the newest tick of the target that has it."""
        newest = max((tick for tick in self.ticks.values() if tick.gpus), key=lambda tick: tick.time)
        return newest.gpus[0].result.counters

    @property
    def seconds(self) -> float:
        """How long it was observed."""
        seconds = self.counters().value("observed_seconds")
        assert seconds is not None
        return seconds


def alone(clocks: Sequence[float]) -> CounterSnapshot:
    targets = Targets()
    for clock in clocks:
        targets.show("one", clock)
    return targets.counters()


def test_a_gpu_goes_on_with_another_exporter_when_one_stops() -> None:
    targets, seen = Targets(), list[float]()
    for clock in range(1, 41):
        if clock <= 20:
            targets.show("a", clock)
        if clock > 2:
            targets.show("b", clock)
            seen.append(targets.seconds)
    assert seen == sorted(seen)
    assert targets.counters().values == alone(range(1, 41)).values


@given(
    st.lists(st.sets(st.sampled_from("abc"), min_size=1), min_size=2, max_size=60),
    st.floats(-1e6, 1e9).map(round),
)
def test_samples_count_the_same_through_one_target_or_several(shown: list[set[str]], start: int) -> None:
    """Whichever of them has a sample."""
    targets = Targets()
    before = -1.0
    for number, names in enumerate([*shown, set("abc"), set("abc")]):
        for name in sorted(names):
            targets.show(name, start + number)
            now = targets.seconds
            assert now >= before, "counters never fall"
            before = now
    expected = alone([start + number for number in range(len(shown) + 2)])
    found = targets.counters()
    assert found.value("observed_seconds") == pytest.approx(expected.value("observed_seconds"))
    joules = [
        sum(each.value("class_energy_joules", name) or 0.0 for name in NAMES.values()) for each in (found, expected)
    ]
    assert joules[0] == pytest.approx(joules[1])


def test_a_gpu_stays_with_the_exporter_that_continued_it_when_the_first_is_back() -> None:
    targets = Targets()
    for clock in range(1, 41):
        if not 10 < clock <= 20:
            targets.show("a", clock)
        targets.show("b", clock)
        if clock == 20:
            assert targets.ticks["b"].duplicates == {}
    assert (targets.ticks["a"].gpus, targets.ticks["a"].duplicates) == ([], {"b": 1})
    assert counted(targets.ticks["b"], "observed_seconds") == 39.0


def test_an_exporter_without_values_leaves_the_gpu_to_another_one() -> None:
    targets = Targets()
    for clock in range(1, 41):
        targets.show("a", clock, is_blank=clock > 20)
        targets.show("b", clock)
    assert (targets.ticks["a"].gpus, targets.ticks["b"].duplicates) == ([], {})
    assert counted(targets.ticks["b"], "observed_seconds") == 39.0
    assert targets.ticks["b"].gpus[0].result.shown_class.workload_class != "unknown"


def test_a_gpu_goes_on_with_an_exporter_without_values_when_the_first_is_silent() -> None:
    """Until the first one delivers values again."""
    targets = Targets()
    for clock in range(1, 41):
        if clock <= 10 or clock > 30:
            targets.show("a", clock)
        targets.show("b", clock, is_blank=True)
        if clock == 30:
            assert targets.seconds == 29.0
    assert (targets.ticks["b"].gpus, targets.ticks["a"].duplicates) == ([], {})
    assert counted(targets.ticks["a"], "observed_seconds") == 39.0


def test_blanks_take_no_gpu_from_an_exporter_that_lists_blanks() -> None:
    targets = Targets()
    for clock in range(1, 41):
        targets.show("a", clock, is_blank=clock > 10)
        targets.show("b", clock, is_blank=True)
    assert (targets.ticks["b"].gpus, targets.ticks["b"].duplicates) == ([], {"a": 1})


def test_an_exporter_that_is_replaced_keeps_the_counters() -> None:
    targets = Targets()
    for clock in range(1, 11):
        targets.show("a", clock)
    targets.layers["a"].close()
    for clock in range(12, 21):
        targets.show("b", clock)
    assert counted(targets.ticks["b"], "observed_seconds") == 19.0
    assert targets.counters().created == alone([1]).created


@pytest.mark.parametrize(
    ("start", "covered", "elapsed"),
    [(1011, 1, 1), (1013, 3, 3), (1013.5, 0, 3.5), (1020, 0, 10), (1010, 0, 0), (1008, 0, 0), (1006, 0, 0), (0, 0, 0)],
)
def test_the_time_of_a_gpu_continues_whatever_clock_the_next_target_has(
    start: float, covered: float, elapsed: float
) -> None:
    """A replay after a live source has another clock."""
    targets = Targets()
    for clock in range(1000, 1011):
        targets.show("live", clock)
    targets.layers["live"].close()
    for second in range(5):
        targets.show("next", start + second)
    assert counted(targets.ticks["next"], "observed_seconds") == 10.0 + covered + 4.0
    layer = targets.layers["next"]
    layer.compute(sample(start + 5.0, devices=[]))
    (state,) = layer.absent
    assert state.now == 10.0 + elapsed + 5.0


def test_a_gpu_is_the_same_when_its_uuid_becomes_known() -> None:
    layer = ComputeLayer(GpuTable(), "n1")
    for clock in range(1, 7):
        device = replace(GPU, entity=replace(GPU.entity, uuid=GPU.entity.uuid if clock > 3 else ""))
        tick = layer.compute(sample(clock, BUSY, devices=[device]))
    assert counted(tick, "observed_seconds") == 5.0
    assert not layer.absent


def test_a_node_is_the_same_with_and_without_a_name_in_the_source() -> None:
    targets = Targets()
    for clock in range(1, 6):
        targets.show("a", clock, node="n1")
        targets.show("b", clock)
    assert targets.seconds == 4.0
    assert (targets.ticks["b"].gpus, targets.ticks["b"].duplicates) == ([], {"a": 1})


def test_a_slow_standby_and_a_fast_one_lose_no_time() -> None:
    targets = Targets()
    for clock in range(1, 61):
        if clock <= 30 and clock % 15 == 0:
            targets.show("slow", clock, 15.0)
        targets.show("fast", clock)
    assert counted(targets.ticks["fast"], "observed_seconds") == 45.0 + 14.0


def test_an_old_xid_of_a_target_that_continues_a_gpu_after_a_restart_is_not_new() -> None:
    saved = ComputeLayer(GpuTable())
    for clock in (1.0, 2.0):
        saved.compute(sample(clock, BUSY._replace(temperature_celsius=40.0, xid_last_code=0.0), devices=[GPU]))
    table = GpuTable()
    one, another = ComputeLayer(table), ComputeLayer(table)
    one.health_evaluator.restore(saved.health_evaluator.dump(), Unix(DAY + 3.0))
    reading = BUSY._replace(temperature_celsius=40.0, xid_last_code=13.0)
    assert another.compute(sample(4.0, reading, devices=[GPU])).xids == ()


def test_a_gpu_that_was_forgotten_is_another_one_when_it_returns() -> None:
    targets = Targets()
    for clock in range(1, 6):
        targets.show("a", clock)
    layer = targets.layers["a"]
    layer.compute(sample(6.0, devices=[]))
    (track,) = layer.absent
    layer.forget(track)
    targets.show("b", 7.0)
    assert counted(targets.ticks["b"], "observed_seconds") == 0.0


def test_no_reading_of_an_earlier_tick_is_kept() -> None:
    targets = Targets()
    energies = [targets.show("one", clock).gpus[0].reading.energy_joules_total for clock in range(1, 8)]
    gc.collect()
    kept = {each.energy_joules_total for each in gc.get_objects() if type(each) is Reading}
    assert kept & set(energies) == {energies[-1]}


def test_a_silent_exporter_loses_no_gpu_because_another_one_answers_for_a_shared_one() -> None:
    table = GpuTable()
    alive, silent = ComputeLayer(table, "n1"), ComputeLayer(table, "n1")
    for clock in range(1, 31):
        energy = 7e5 + 300.0 * clock
        reading = BUSY._replace(power_watts=300.0, temperature_celsius=40.0, energy_joules_total=energy)
        alive.compute(sample(clock, reading, devices=[GPU]))
        shown = reading if clock < 10 else NOTHING._replace(memory_bytes=8e10)
        tick = silent.compute(sample(clock, shown, shown, devices=[GPU, OTHER]))
    (row,) = tick.gpus
    assert (row.device, tick.duplicates) == (OTHER, {"test": 1})
    assert row.result.health.check("gpu_lost").state != "crit"
