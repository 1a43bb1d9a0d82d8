"""GPUs over ticks: the time that their samples cover, their boards, and the roster."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.gpu_table import GpuState, GpuTable
from pulsed.compute.sample import GAP_INTERVALS
from pulsed.compute.target_gpus import Tracker
from pulsed.model.gpu import Device, Entity
from pulsed.model.vocabulary import NOTHING
from tests.compute.readings import many
from tests.compute.streams import DAY, GPU, OTHER, PART, WITHOUT_UUID, TrackedTarget, sample


def kinds(steps: Sequence[float], interval: float = 1.0) -> list[tuple[str, float, float]]:
    target = TrackedTarget()
    return [target.track(GPU, after=step, interval=interval).decision[:3] for step in steps]


def test_a_sample_covers_the_time_since_the_previous_one() -> None:
    assert kinds([0.0, 1.0, 0.5, 2.0]) == [
        ("first", 0.0, 0.0),
        ("next", 1.0, 1.0),
        ("next", 0.5, 0.5),
        ("next", 2.0, 2.0),
    ]


def test_a_gpu_is_new_in_one_tick_only_although_the_devices_stay_the_same_object() -> None:
    tracker, devices = Tracker(GpuTable()), (GPU,)
    (track,) = tracker.track(sample(1.0, NOTHING, devices=devices)).states
    statuses = [track.status]
    for clock in (2.0, 3.0):
        tracker.track(sample(clock, NOTHING, devices=devices))
        statuses.append(track.status)
    assert statuses == ["new", "present", "present"]


def test_a_gap_covers_nothing() -> None:
    assert kinds([0.0, 3.0, 3.5, 1.0])[1:] == [("next", 3.0, 3.0), ("gap", 3.5, 0.0), ("next", 1.0, 1.0)]


def test_the_limit_of_a_gap_tolerates_rounding() -> None:
    target = TrackedTarget()
    target.clock = 1e7
    target.track(GPU, interval=0.1, after=0.0)
    assert target.track(GPU, interval=0.1, after=GAP_INTERVALS * 0.1).decision.kind == "next"


def test_repeated_and_out_of_order_samples_are_not_counted() -> None:
    assert kinds([0.0, 1.0, 0.0, -2.0, 2.0, 1.0]) == [
        ("first", 0.0, 0.0),
        ("next", 1.0, 1.0),
        ("repeat", 0.0, 0.0),
        ("repeat", 0.0, 0.0),
        ("repeat", 0.0, 0.0),
        ("next", 1.0, 1.0),
    ]


def test_a_clock_that_begins_anew_is_bridged_by_the_wall_clock() -> None:
    target = TrackedTarget()
    target.track(GPU, time=DAY)
    track = target.track(GPU, after=-1000.0, time=DAY + 20.0)
    assert track.decision == ("restart", 20.0, 0.0)
    assert (track.now, track.time) == (20.0, DAY + 20.0)
    track = target.track(GPU, after=-1000.0, time=DAY - 5.0)
    assert track.decision == ("restart", 0.0, 0.0)
    assert track.now == 20.0


def test_without_an_interval_every_sample_is_a_gap() -> None:
    target = TrackedTarget()
    target.track(GPU, interval=0.0)
    assert target.track(GPU, interval=0.0).decision == ("gap", 1.0, 0.0)


@pytest.mark.parametrize(("step", "continued"), [(1.0, 1.0), (5.0, 5.0), (6.0, 0.0), (0.0, 0.0), (-100.0, 0.0)])
def test_a_short_gap_can_be_bridged(step: float, continued: float) -> None:
    target = TrackedTarget()
    target.track(GPU)
    assert target.track(GPU, after=step).decision.continued(5.0) == continued


def test_status_of_a_gpu_that_leaves_and_returns() -> None:
    target = TrackedTarget()
    ticks = [(OTHER, GPU), (OTHER, GPU), (GPU,), (OTHER, GPU), (OTHER, GPU)]
    track = target.track(OTHER, GPU)
    statuses = [track.status, *(target.tick(*devices) and track.status for devices in ticks[1:])]
    assert statuses == ["new", "present", "gone", "back", "present"]


def test_a_gpu_that_returns_covers_its_own_absence_if_that_was_short() -> None:
    target = TrackedTarget()
    target.tick(OTHER, GPU)
    target.tick(GPU)
    assert target.track(OTHER, GPU).decision == ("next", 2.0, 2.0)
    for _ in range(4):
        decision = target.tick(GPU).decision
        assert decision == ("next", 1.0, 1.0)
    track = target.track(OTHER, GPU)
    assert track.decision == ("gap", 5.0, 0.0)
    assert track.now == 7.0


def test_a_gpu_that_returns_with_another_clock_covers_nothing() -> None:
    target = TrackedTarget()
    target.tick(OTHER, GPU)
    target.tick(GPU, after=-500.0, time=DAY)
    assert target.track(OTHER, GPU).decision.kind == "restart"


def test_missing_gpus_grow_older() -> None:
    target = TrackedTarget()
    target.tick(GPU, OTHER)
    missing = target.tick(GPU).missing
    assert [track.device for track in missing] == [OTHER]
    target.tick(GPU)
    assert missing[0].now == 2.0
    assert target.tick().missing[0].device is OTHER
    assert target.tick(GPU, OTHER).missing == ()


def test_the_states_are_the_same_while_nothing_changes() -> None:
    target = TrackedTarget()
    devices = (GPU, OTHER)
    ticks = [target.tracker.track(sample(float(at), NOTHING, NOTHING, devices=devices)) for at in range(3)]
    assert all(tracked.states == ticks[0].states for tracked in ticks)


def boards_of(*devices: Device) -> list[Device]:
    """The boards of the devices of a tick."""
    return [state.board.device for state in TrackedTarget().tick(*devices).states]


def test_the_board_of_a_part() -> None:
    assert boards_of(PART, GPU, OTHER) == [GPU, GPU, OTHER]
    assert boards_of(PART, OTHER) == [PART, OTHER]


def test_boards_without_uuids_have_their_own_parts() -> None:
    boards = [Device(Entity("gpu", index)) for index in "01"]
    parts = [Device(Entity("mig", index, "", "1")) for index in "01"]
    assert boards_of(*boards, *parts) == boards * 2


steps = st.one_of(st.sampled_from([0.0, 1.0, 1.0, 1.0, 3.0, 3.5, -1.0, 600.0, -600.0]), st.floats(-5.0, 5.0))
rosters = st.sampled_from([(), (GPU,), (OTHER,), (GPU, OTHER), (WITHOUT_UUID, OTHER), (PART, GPU), (PART,)])


@many
@given(st.lists(st.tuples(steps, st.floats(-100.0, 100.0), rosters), max_size=40))
def test_no_time_is_counted_twice(stream: list[tuple[float, float, tuple[Device, ...]]]) -> None:
    target, time, elapsed = TrackedTarget(), DAY, 0.0
    covered: dict[GpuState, float] = {}
    before: dict[GpuState, float] = {}
    for step, wall_step, devices in stream:
        time += wall_step
        roster = target.tick(*devices, after=step, time=time)
        elapsed += roster.decision.elapsed
        assert [track.device for track in roster.states] == list(devices)
        assert len({id(track) for track in (*roster.states, *roster.missing)}) == len((*roster.states, *roster.missing))
        for track in roster.states:
            sample_decision = track.decision
            covered[track] = covered.get(track, 0.0) + sample_decision.covered
            assert covered[track] <= track.now + 1e-6
            assert (sample_decision.covered > 0.0) == (sample_decision.kind == "next")
            assert sample_decision.is_interrupted == (sample_decision.kind in ("gap", "restart"))
            assert sample_decision.elapsed >= sample_decision.covered
            assert (sample_decision.kind == "first") == (track not in before)
            assert (track.status == "new") == (track not in before)
            before.setdefault(track, 0.0)
        for track in (*roster.states, *roster.missing):
            assert track.now >= before.get(track, 0.0)
            before[track] = track.now
            assert track.now <= elapsed + 1e-6
