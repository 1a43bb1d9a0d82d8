"""Counters of a GPU over time: increases, and the signs of a reset."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsed.compute.health.inputs import GpuInputs
from pulsed.compute.health.reachability import ResetSign
from pulsed.compute.health.rule import RuleState
from pulsed.compute.health.rule_kinds import Increase, step
from pulsed.compute.health.windows import CounterIncrease
from pulsed.model.clocks import GpuSeconds
from pulsed.model.raw_tick import Epoch
from tests.compute.health.sim import Sim, give
from tests.compute.streams import DAY


def fed(values: list[float], *, lifetime: bool = False) -> CounterIncrease:
    window = CounterIncrease(60.0, lifetime)
    for second, value in enumerate(values):
        window.update(value, GpuSeconds(float(second)))
    return window


@pytest.mark.parametrize(
    ("values", "lifetime", "total"),
    [
        ([5], False, 0),
        ([5, 5, 7], False, 2),
        ([5, 0, 2], False, 2),
        ([5, 0, 5], False, 0),
        ([5, 0, 6], False, 1),
        ([5, 0, 5], True, 0),
        ([5, 3, 4, 6], True, 1),
        ([5, 0, 2], True, 0),
    ],
)
def test_growth_is_what_was_added(values: list[float], lifetime: bool, total: float) -> None:
    assert fed(values, lifetime=lifetime).total == total


def test_growth_leaves_the_window() -> None:
    window = fed([0, 5, 5, 8])
    assert window.total == 8
    found = []
    for now in (60.9, 61.0, 62.9, 63.0):
        window.update(8, GpuSeconds(now))
        found.append(window.total)
    assert found == [8, 3, 3, 0]
    assert window.grown == 3.0


def test_one_value_settles_nothing() -> None:
    window = fed([3])
    found = [(window.settled, window.total)]
    window.update(3, GpuSeconds(5.0))
    found.append((window.settled, window.total))
    assert found == [(False, 0), (True, 0)]


def test_a_busy_window_stays_small() -> None:
    window = CounterIncrease(3600.0, lifetime=False)
    for second in range(20_000):
        window.update(float(second), GpuSeconds(float(second)))
    assert len(window.parts) <= 61
    assert window.total == pytest.approx(3600, abs=61)


def test_a_part_is_a_sixtieth_of_the_window() -> None:
    window = CounterIncrease(60.0, lifetime=False)
    for value, now in enumerate([0.0, 1.0, 1.99, 2.0, 2.5, 9.0]):
        window.update(float(value), GpuSeconds(now))
    assert window.parts == ((1.0, 2.0), (2.0, 2.0), (9.0, 1.0))


def test_by_default_there_was_no_gap_before_a_value() -> None:
    window = CounterIncrease(0.5, lifetime=False)
    assert [window.update(value, GpuSeconds(value)) for value in (0.0, 1.0)] == [0.0, 1.0]


def evaluated(rule: Increase, *samples: tuple[float, float | None, float]) -> list[tuple[int, int]]:
    """Evaluate samples: time, value of the counter, and the gap before; return severity and number of events."""
    state, inputs, found = RuleState(), GpuInputs(), []
    for now, value, gap in samples:
        give(inputs, pcie_replays_total=value)
        inputs.measured_at, inputs.gap_seconds = GpuSeconds(now), gap
        rule.observe(state, inputs, GpuSeconds(now))
        rule.evaluate(state, inputs, GpuSeconds(now))
        found.append((state.severity, state.events))
    return found


def test_a_step_lasts_until_it_leaves_its_window() -> None:
    rule = step("pcie_replays_total", "warn", "replays", 60.0)
    samples = [(0, 5, 0), (1, 5, 0), (3, 7, 0), (4, 7, 0), (5, 8, 0), (64.9, 8, 0), (65, 8, 0), (66, None, 0)]
    assert evaluated(rule, *samples) == [(-1, 0), (0, 0), (2, 2), (2, 2), (2, 3), (2, 3), (0, 3), (-1, 3)]
    assert evaluated(rule, *samples[:5], (6, None, 0), (64.9, None, 0), (65, None, 0))[5:] == [(2, 3), (2, 3), (-1, 3)]


def test_steps_between_two_evaluations_are_not_lost() -> None:
    rule, state, inputs = step("pcie_replays_total", "warn", "replays", 60.0), RuleState(), GpuInputs()
    for now, value in ((0.0, 5.0), (0.1, 5.0), (0.2, 7.0), (0.3, 0.0), (0.4, 1.0), (0.5, 0.0)):
        give(inputs, pcie_replays_total=value)
        rule.observe(state, inputs, GpuSeconds(now))
    rule.evaluate(state, inputs, GpuSeconds(0.5))
    assert (state.severity, state.measure, state.events, state.event_at) == (2, 3.0, 3, 0.4)


@pytest.mark.parametrize(("per", "held"), [(0.0, 2), (60.0, 0)])
def test_only_rates_are_shared_out_over_a_gap(per: float, held: int) -> None:
    rule = Increase("errors", {"warn": 6}, "errors", ("pcie_replays_total",), window=60.0, per=per)
    assert evaluated(rule, (0, 0, 0), (600, 12, 600.0), (601, 12, 0))[-1][0] == held


def test_a_rate_is_given_per_its_time_and_divided_by_its_limit() -> None:
    rule = Increase("rate", {"warn": 6}, "errors", ("pcie_replays_total",), window=120.0, per=60.0)
    limited = replace(rule, limit=lambda inputs: 4.0)
    for growth, held, limited_held in ((11.9, 0, 0), (12.0, 2, 0), (47.9, 2, 0), (48.0, 2, 2)):
        samples = ((0.0, 0.0, 0.0), (1.0, growth, 0.0))
        assert evaluated(rule, *samples)[-1][0] == held
        assert evaluated(limited, *samples)[-1][0] == limited_held


def test_of_several_counters_the_first_that_is_present_counts() -> None:
    inputs = ("pcie_replays_total", "pcie_correctable_errors_total")
    rule = Increase("errors", {"warn": 1}, "errors", inputs, window=60.0)
    for first, held, events in ((0.0, 0, 0), (None, 2, 3)):
        state, facts = RuleState(), GpuInputs()
        for now in (0.0, 1.0):
            give(facts, pcie_replays_total=first, pcie_correctable_errors_total=3 * now)
            rule.observe(state, facts, GpuSeconds(now))
            rule.evaluate(state, facts, GpuSeconds(now))
        assert (state.severity, state.events) == (held, events)


@pytest.mark.parametrize(("gap", "total"), [(0.0, 12), (30.0, 12), (60.0, 12), (120.0, 6), (600.0, 1.2)])
def test_an_increase_in_a_gap_counts_with_the_share_of_the_window(gap: float, total: float) -> None:
    window = CounterIncrease(60.0, lifetime=False)
    window.update(0.0, GpuSeconds(0.0))
    assert window.update(12.0, GpuSeconds(gap), gap) == pytest.approx(total)
    assert window.total == pytest.approx(total)


@pytest.mark.parametrize(("growth", "events"), [(0.0, 0), (0.5, 1), (1.0, 1), (3.0, 3)])
def test_each_step_of_a_counter_is_an_event(growth: float, events: int) -> None:
    sim = Sim()
    for value in (3.0, 3.0, 3.0 + growth, 3.0 + growth):
        health = sim.health(ecc_dbe_aggregate_total=value, ecc_dbe_volatile_total=0.0)
    assert dict(health.events)["ecc_uncorrectable"] == events
    assert health.check("ecc_uncorrectable").state == ("crit" if growth >= 1.0 else "ok")


def resets(*energies: float | None) -> list[float | None]:
    sign = ResetSign()
    return [sign.update(energy, GpuSeconds(float(now))) for now, energy in enumerate(energies)]


def test_the_second_lower_energy_is_a_reset_at_the_time_of_the_first() -> None:
    assert resets(50.0, 60.0, 5.0, 6.0, 7.0, 6.0, 8.0) == [None, None, None, 2.0, None, None, None]
    assert resets(50.0, 5.0, None, 6.0) == [None, None, None, 1.0]


def test_energy_that_returns_was_misread() -> None:
    assert resets(50.0, 5.0, 50.0, 5.0, 60.0, 5.0, 5.0) == [None, None, None, None, None, None, 5.0]


@pytest.mark.parametrize(
    ("values", "increases"),
    [
        ([5, 0, 0, 5], [0, 0, 0, 5]),
        ([5, 0, 5], [0, 0, 0]),
        ([5, 0, 7], [0, 0, 2]),
        ([5, 0, 3, 5], [0, 0, 3, 2]),
        ([5, 3, 1, 4], [0, 0, 0, 3]),
        ([1, 0, 0, 1], [0, 0, 0, 1]),
    ],
)
def test_a_counter_that_falls_was_reset_if_the_next_value_is_lower_too(
    values: list[float], increases: list[float]
) -> None:
    window = CounterIncrease(60.0, lifetime=False)
    assert [window.update(value, GpuSeconds(float(now))) for now, value in enumerate(values)] == increases


def test_a_lifetime_counter_grows_above_its_peak_only() -> None:
    window = CounterIncrease(60.0, lifetime=True)
    assert [window.update(value, GpuSeconds(float(now))) for now, value in enumerate([5.0, 0.0, 0.0, 5.0, 6.0])] == [
        0,
        0,
        0,
        0,
        1,
    ]


def test_cleared_ecc_counters_are_no_reset() -> None:
    """`nvidia-smi -p 0` clears them on a GPU that still needs its reset."""
    sim = Sim()
    energy = iter(range(1000, 9000))
    sim.health(ecc_dbe_volatile_total=0.0, ecc_sbe_volatile_total=40.0, xid_last_code=0.0, energy_joules_total=999.0)
    for dbe, sbe in ((1.0, 40.0), (1.0, 40.0), *[(0.0, 0.0)] * 100):
        health = sim.health(
            ecc_dbe_volatile_total=dbe,
            ecc_sbe_volatile_total=sbe,
            xid_last_code=48.0,
            energy_joules_total=float(next(energy)),
        )
    assert (health.state, health.check("xid_critical").state, health.last_reset) == ("crit", "crit", None)


@pytest.mark.parametrize(("down", "state"), [(0.0, "warn"), (3 * 86_400.0, "ok")])
def test_what_a_counter_grew_by_while_pulsed_was_stopped_is_shared_out(down: float, state: str) -> None:
    sim = Sim()
    for _ in range(3):
        sim.health(ecc_sbe_aggregate_total=0.0, ecc_sbe_volatile_total=0.0)
    sim.restart(down=down)
    for _ in range(3):
        health = sim.health(ecc_sbe_aggregate_total=150.0, ecc_sbe_volatile_total=150.0)
    assert health.check("ecc_correctable_rate").state == state


def test_a_failed_link_recovery_during_a_restart_of_pulsed_is_critical() -> None:
    sim = Sim()
    for _ in range(3):
        sim.health(nvlink_link_recoveries_failed_total=1.0)
    sim.restart(down=30.0)
    assert sim.check("nvlink_errors", nvlink_link_recoveries_failed_total=2.0).state == "crit"


def test_the_time_of_the_last_reset_is_that_of_its_first_sign_and_survives_a_restart_of_pulsed() -> None:
    sim = Sim()
    sim.epoch = Epoch(boot="a")
    energies = [50.0, 60.0, 5.0, 6.0]
    assert [sim.health(energy_joules_total=energy).last_reset for energy in energies] == [None] * 3 + [DAY + 3]
    sim.restart(down=10.0)
    assert sim.health(energy_joules_total=7.0).last_reset == DAY + 3
    sim.epoch = Epoch(boot="b")
    assert sim.health(energy_joules_total=8.0).last_reset == sim.time
