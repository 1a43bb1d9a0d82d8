"""Shares of time with reduced clocks, by reason."""

from __future__ import annotations

import pytest

from pulsed.compute.health.clock_events import UNNAMED_BIT, ClockEvents


def followed(masks: dict[float, float | None], is_busy: bool = False, seconds: float = 1.0) -> ClockEvents:
    events = ClockEvents()
    for now, mask in masks.items():
        events.update(mask, is_busy, seconds, now)
    return events


def test_a_part_is_complete_every_five_seconds() -> None:
    events = ClockEvents()
    complete = [now for now in range(16) if events.update(0.0, False, 1.0, float(now))]
    assert complete == [5, 10, 15]


def test_shares_of_the_last_minute_by_reason() -> None:
    events = followed({float(now): 4.0 if now % 2 else 0x24 for now in range(1, 62)})
    assert dict(events.shares) == {"power_cap": 1.0, "sw_thermal": 0.492}
    assert events.share(0x20, 60.0, 61.0) == pytest.approx(30 / 61)
    assert events.share(0x40, 60.0, 61.0) == 0.0
    assert events.seen == 0x24
    for now in range(62, 123):
        events.update(0.0, False, 1.0, float(now))
    assert events.shares == ()
    assert events.share(0x20, 60.0, 121.0) == 0.0


def test_a_share_of_little_time_is_measured_against_the_window() -> None:
    assert followed({float(now): 4.0 for now in range(6)}).share(4, 60.0, 5.0) == 0.1


def test_fewer_than_three_samples_have_no_share() -> None:
    events = ClockEvents()
    found = []
    for number in range(4):
        events.update(4.0, False, 10.0, number * 10.0)
        found.append(events.share(4, 20.0, number * 10.0))
    assert found == [None, None, 1.0, 1.0]


def test_three_samples_are_enough_however_rare_they_are() -> None:
    events = followed({float(now): 4.0 if now > 20 else 0.0 for now in range(0, 60, 10)}, seconds=10.0)
    assert events.share(4, 5.0, 50.0) == 1.0


def test_parts_end_after_the_same_number_of_samples_at_any_rate() -> None:
    events, now = ClockEvents(), 0.0
    complete = []
    for number in range(160):
        if events.update(0.0, False, 0.1, now):
            complete.append(number)
        now += 0.1  # with its rounding errors
    assert complete == [50, 100, 150]


def test_samples_without_a_mask_are_no_time() -> None:
    events = followed({float(now): None if now % 2 else 4.0 for now in range(21)})
    assert dict(events.shares) == {"power_cap": 1.0}
    assert events.share(4, 10.0, 20.0) == 0.5  # 5 of 10 samples, of a second each


def test_ten_minutes_are_remembered_and_no_more() -> None:
    events = ClockEvents()
    for now in range(5, 1500, 5):
        events.update(4.0 if now <= 300 else 0.0, False, 5.0, float(now))
        if now == 600:
            assert events.share(4, 600.0, 600.0) == pytest.approx(0.5, abs=0.01)
            assert events.seen == 4
        if now == 840:
            assert events.share(4, 600.0, 840.0) == pytest.approx(0.1, abs=0.09)
    assert events.seen == 0
    assert events.share(4, 600.0, 1495.0) == 0.0


@pytest.mark.parametrize(
    ("mask", "is_busy", "expected"),
    [
        (0x8, True, True),
        (0x8, False, False),
        (0x48, True, False),
        (0x88, True, False),
        (0x248, True, True),
        (0x200, True, True),
        (0x400, True, True),
        (0x400, False, False),
        (0x4, True, False),
    ],
)
def test_an_unnamed_slowdown_is_one_of_a_busy_gpu_without_a_named_reason(
    mask: int, is_busy: bool, expected: bool
) -> None:
    events = followed({float(now): float(mask) for now in range(11)}, is_busy)
    assert events.seen == mask | (UNNAMED_BIT if expected else 0)
