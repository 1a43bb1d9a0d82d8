from __future__ import annotations

import pytest

from pulsed.compute.workload import ClassDebouncer
from pulsed.model.clocks import Unix
from pulsed.model.result import NO_SHOWN_CLASS, ShownClass, Workload

IDLE = Workload("idle", "idle")
BUSY = Workload("compute_heavy", "compute")
UNSETTLED = Workload("unknown", "unknown", ("idle", "compute_heavy"))


HOLD = 2.0


def held_after(hold: ClassDebouncer, *samples: tuple[Workload, float], seconds_held: float = HOLD) -> list[str]:
    """Follow samples that begin at time 100, and tell the held class after each."""
    time, names = 100.0, []
    for workload, seconds in samples:
        time += seconds
        hold.update(workload, seconds, Unix(time), seconds_held)
        names.append(hold.shown_class.workload_class)
    return names


def settled() -> ClassDebouncer:
    hold = ClassDebouncer()
    hold.reset(IDLE, Unix(100.0))
    return hold


def test_before_the_first_sample_nothing_is_held() -> None:
    assert ClassDebouncer().shown_class is NO_SHOWN_CLASS


def test_the_first_sample_counts_at_once_and_is_no_change() -> None:
    assert settled().shown_class == ShownClass("idle", "idle", Unix(100.0), 0, used=False)


def test_a_sample_of_15_seconds_counts_at_once() -> None:
    hold = settled()
    assert held_after(hold, (BUSY, 15.0)) == ["compute_heavy"]
    assert hold.shown_class == ShownClass("compute_heavy", "compute", Unix(115.0), 1, used=True)


def test_a_flicker_of_100_ms_does_not() -> None:
    hold = settled()
    before = hold.shown_class
    assert set(held_after(hold, (IDLE, 0.1), (BUSY, 0.1), (IDLE, 0.1), (BUSY, 0.1), (IDLE, 0.1))) == {"idle"}
    assert hold.shown_class is before


def test_two_seconds_at_10_hz_are_twenty_samples() -> None:
    hold = settled()
    names = held_after(hold, *[(BUSY, 0.1)] * 21)
    assert names.index("compute_heavy") == 19
    assert hold.shown_class.since == pytest.approx(100.1)  # the first sample of the run


def test_a_class_between_two_others_begins_a_run_of_its_own() -> None:
    other = Workload("memory_bound", "memory")
    hold = settled()
    names = held_after(hold, (BUSY, 1.0), (other, 1.0), (BUSY, 1.0), (other, 1.0), (other, 1.0))
    assert names == ["idle"] * 4 + ["memory_bound"]
    assert hold.shown_class == ShownClass("memory_bound", "memory", Unix(104.0), 1, used=True)


def test_going_back_forgets_the_run() -> None:
    assert held_after(settled(), (BUSY, 1.5), (IDLE, 0.1), (BUSY, 1.5)) == ["idle"] * 3


def test_without_a_hold_every_change_counts() -> None:
    assert held_after(settled(), (BUSY, 0.1), (IDLE, 0.0), seconds_held=0.0) == ["compute_heavy", "idle"]


def test_unknown_is_a_class_like_any_other() -> None:
    hold = settled()
    assert held_after(hold, (UNSETTLED, 1.0), (IDLE, 1.0)) == ["idle", "idle"]
    assert held_after(hold, (UNSETTLED, 1.0), (UNSETTLED, 1.0)) == ["idle", "unknown"]
    assert hold.shown_class.bottleneck == "unknown"


def test_the_bottleneck_is_that_of_the_newest_sample_of_the_held_class() -> None:
    hold = ClassDebouncer()
    hold.reset(UNSETTLED, Unix(100.0))
    hold.update(Workload("unknown", "compute", ("compute_heavy", "compute_active")), 1.0, Unix(101.0), HOLD)
    assert hold.shown_class == ShownClass("unknown", "compute", Unix(100.0), 0, used=True)
    hold.update(IDLE, 1.0, Unix(102.0), HOLD)
    assert hold.shown_class == ShownClass("unknown", "compute", Unix(100.0), 0, used=True)


@pytest.mark.parametrize(
    ("next_workload", "bottleneck", "used"),
    [
        (Workload("compute_heavy", "memory"), "memory", True),
        (Workload("compute_heavy", "compute", ("idle", "compute_heavy")), "compute", None),
    ],
)
def test_bottleneck_and_use_follow_each_sample_of_the_held_class(
    next_workload: Workload, bottleneck: str, used: bool | None
) -> None:
    hold = settled()
    hold.reset(BUSY, Unix(100.0))
    hold.update(next_workload, 1.0, Unix(101.0), HOLD)
    assert (hold.shown_class.bottleneck, hold.shown_class.used) == (bottleneck, used)


def test_settling_counts_a_change_only_if_it_is_one() -> None:
    hold = settled()
    hold.reset(IDLE, Unix(200.0))
    assert hold.shown_class == ShownClass("idle", "idle", Unix(200.0), 0, used=False)
    hold.reset(BUSY, Unix(300.0))
    assert hold.shown_class == ShownClass("compute_heavy", "compute", Unix(300.0), 1, used=True)
