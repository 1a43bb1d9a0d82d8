"""Growth of a counter within a window, with resets, glitches and restarts."""

from __future__ import annotations

import pytest

from pulsed.compute.health.counter_increase import CounterIncrease
from tests.compute.health.sim import Sim


def fed(values: list[float], *, lifetime: bool = False) -> CounterIncrease:
    window = CounterIncrease(60.0, lifetime)
    for second, value in enumerate(values):
        window.update(value, float(second))
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
    assert (window.due, window.total) == (61.0, 8)
    found = []
    for now in (60.9, 61.0, 62.9, 63.0):
        window.update(8, now)
        found.append((window.total, window.due))
    assert found == [(8, 61.0), (3, 63.0), (3, 63.0), (0, float("inf"))]
    assert window.grown == 3.0


def test_one_value_settles_nothing() -> None:
    window = fed([3])
    found = [(window.settled, window.due)]
    window.update(3, 5.0)
    found.append((window.settled, window.due))
    assert found == [(False, float("-inf")), (True, float("inf"))]


def test_a_busy_window_stays_small() -> None:
    window = CounterIncrease(3600.0, lifetime=False)
    for second in range(20_000):
        window.update(float(second), float(second))
    assert len(window.parts) <= 61
    assert window.total == pytest.approx(3600, abs=61)


@pytest.mark.parametrize(("gap", "total"), [(0.0, 12), (30.0, 12), (60.0, 12), (120.0, 6), (600.0, 1.2)])
def test_an_increase_in_a_gap_counts_with_the_share_of_the_window(gap: float, total: float) -> None:
    window = CounterIncrease(60.0, lifetime=False)
    window.update(0.0, 0.0)
    assert window.update(12.0, gap, gap) == pytest.approx(total)
    assert window.total == pytest.approx(total)


@pytest.mark.parametrize(("growth", "events"), [(0.0, 0), (0.5, 1), (1.0, 1), (3.0, 3)])
def test_each_step_of_a_counter_is_an_event(growth: float, events: int) -> None:
    sim = Sim()
    for value in (3.0, 3.0, 3.0 + growth, 3.0 + growth):
        health = sim.health(ecc_dbe_aggregate_total=value, ecc_dbe_volatile_total=0.0)
    assert dict(health.events)["ecc_uncorrectable"] == events
    assert health.check("ecc_uncorrectable").state == ("crit" if growth >= 1.0 else "ok")
