"""Growth of a counter within a window, with resets, glitches and restarts."""

from __future__ import annotations

import pytest

from pulsed.compute.health.counter_increase import CounterIncrease


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
    window = fed([0, 1, 1])
    assert window.due == 61.0
    window.update(1, 60.9)
    assert window.total == 1
    window.update(1, 61.0)
    assert window.total == 0
    assert window.grown == 1.0


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
