"""Shares of time with reduced clocks, by reason."""

from __future__ import annotations

import random

import pytest

from pulsed.compute.health.windows import (
    REASONS,
    UNNAMED_BIT,
    ClockEvents,
)
from pulsed.model.clocks import GpuSeconds
from tests.support.nightly import nightly_after


def followed(masks: dict[float, float | None], is_busy: bool = False, seconds: float = 1.0) -> ClockEvents:
    events = ClockEvents()
    for now, mask in masks.items():
        events.update(mask, is_busy, seconds, GpuSeconds(now))
    return events


def test_a_part_is_complete_every_five_seconds() -> None:
    events = ClockEvents()
    complete = [now for now in range(16) if events.update(0.0, False, 1.0, GpuSeconds(float(now)))]
    assert complete == [5, 10, 15]


def test_shares_of_the_last_minute_by_reason() -> None:
    events = followed({float(now): 4.0 if now % 2 else 0x24 for now in range(1, 62)})
    assert dict(events.shares) == {"power_cap": 1.0, "sw_thermal": 0.492}
    assert events.share(0x20, 60.0) == pytest.approx(30 / 61)
    assert events.share(0x40, 60.0) == 0.0
    for now in range(62, 123):
        events.update(0.0, False, 1.0, GpuSeconds(float(now)))
    assert events.shares == ()
    assert events.share(0x20, 60.0) == 0.0


def test_a_share_of_little_time_is_measured_against_the_window() -> None:
    assert followed({float(now): 4.0 for now in range(6)}).share(4, 60.0) == 0.1


def test_fewer_than_three_samples_have_no_share() -> None:
    events = ClockEvents()
    found = []
    for number in range(4):
        events.update(4.0, False, 10.0, GpuSeconds(number * 10.0))
        found.append(events.share(4, 20.0))
    assert found == [None, None, 1.0, 1.0]


def test_three_samples_are_enough_however_rare_they_are() -> None:
    events = followed({float(now): 4.0 if now > 20 else 0.0 for now in range(0, 60, 10)}, seconds=10.0)
    assert events.share(4, 5.0) == 1.0


def test_parts_end_after_the_same_number_of_samples_at_any_rate() -> None:
    events, now = ClockEvents(), 0.0
    complete = []
    for number in range(160):
        if events.update(0.0, False, 0.1, GpuSeconds(now)):
            complete.append(number)
        now += 0.1  # with its rounding errors
    assert complete == [50, 100, 150]


def test_samples_without_a_mask_are_no_time() -> None:
    events = followed({float(now): None if now % 2 else 4.0 for now in range(21)})
    assert dict(events.shares) == {"power_cap": 1.0}
    assert events.share(4, 10.0) == 0.5  # 5 of 10 samples, of a second each


def test_ten_minutes_are_remembered_and_no_more() -> None:
    events = ClockEvents()
    for now in range(5, 1500, 5):
        events.update(4.0 if now <= 300 else 0.0, False, 5.0, GpuSeconds(float(now)))
        if now == 600:
            assert events.share(4, 600.0) == pytest.approx(0.5, abs=0.01)
        if now == 840:
            assert events.share(4, 600.0) == pytest.approx(0.1, abs=0.09)
    assert events.share(4, 600.0) == 0.0


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
        (0x1, True, False),
        (0x0, True, False),
    ],
)
def test_an_unnamed_slowdown_is_one_of_a_busy_gpu_without_a_named_reason(
    mask: int, is_busy: bool, expected: bool
) -> None:
    events = followed({float(now): float(mask) for now in range(11)}, is_busy)
    assert bool(events.share(UNNAMED_BIT, 60.0)) is expected


def test_before_the_first_sample_there_are_no_shares() -> None:
    events = ClockEvents()
    assert (events.shares, events.share(4, 60.0)) == ((), None)


@pytest.mark.parametrize(("now", "is_known"), [(610.0, True), (610.5, False)])
def test_a_reason_is_remembered_for_ten_minutes(now: float, is_known: bool) -> None:
    masks = {0.0: 0.0, 10.0: 4.0, 15.0: 0.0, 20.0: 0.0, 25.0: 0.0, 400.0: 0.0, now: 0.0}
    assert bool(followed(dict(masks), seconds=60.0).share(4, 1000.0)) is is_known


@pytest.mark.parametrize(("now", "is_known"), [(605.0, True), (605.5, False)])
def test_a_reason_of_rare_samples_is_forgotten_as_soon(now: float, is_known: bool) -> None:
    assert bool(followed({0.0: 0.0, 2.5: 0.0, 5.0: 4.0, 200.0: 0.0, now: 0.0}).share(4, 1000.0)) is is_known


def test_of_rare_samples_the_last_three_count_however_old() -> None:
    masks: dict[float, float | None] = {number * 200.0: 4.0 if number == 2 else 0.0 for number in range(5)}
    events = followed(masks, seconds=200.0)
    assert events.share(4, 60.0) == pytest.approx(1 / 3)
    assert events.share(8, 60.0) == 0.0
    assert events.share(8, 600.0) == 0.0


def test_samples_that_cover_no_time_are_no_share() -> None:
    events = followed({float(now): 4.0 for now in range(0, 100, 10)}, seconds=0.0)
    assert (events.share(4, 60.0), events.share(8, 60.0), events.shares) == (None, None, ())


@pytest.mark.parametrize("interval", nightly_after(5, [30.0, 20.0, 15.0, 5.0, 1.0, 0.5]))
def test_shares_are_those_of_a_plain_recomputation(interval: float) -> None:
    rng, events = random.Random(interval), ClockEvents()
    ended: list[tuple[float, int]] = []
    new: list[int] = []
    for number in range(int(1500 / interval)):
        now = number * interval
        new.append(rng.choice([0, 0, 4, 0x24, 0x100]))
        is_complete = events.update(float(new[-1]), False, interval, GpuSeconds(now))
        if is_complete:
            ended += [(now, mask) for mask in new]
            new = []
        if not is_complete or now < 120.0:
            continue
        minute = [mask for when, mask in ended if now - when < 60.0]
        assert dict(events.shares) == {
            name: round(share, 3)
            for bit, name in REASONS.items()
            if (share := sum(bool(mask & bit) for mask in minute) / len(minute))
        }
        for bits in (0x4, 0x20, 0x24, 0x120, 0x40):
            last = minute if len(minute) >= 3 else [mask for _, mask in ended[-3:]]
            share = sum(bool(mask & bits) for mask in last) * interval / max(len(last) * interval, 60.0)
            assert events.share(bits, 60.0) == pytest.approx(share)
            long = [mask for when, mask in ended if now - when < 600.0]
            longer = [mask for when, mask in ended if now - when < 660.0]
            held = [sum(bool(mask & bits) for mask in masks) * interval for masks in (long, longer)]
            found = events.share(bits, 600.0)
            assert found is not None
            assert held[0] / 660.0 - 1e-9 <= found <= held[1] / 600.0 + 1e-9
