"""Identity of GPUs over ticks, and the time that their samples cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.plausibility.rules import PlausibilitySettings
from pulsed.compute.sample_decision import GAP_INTERVALS
from pulsed.compute.tracker import FORGET_SECONDS, KEPT, ExpectedGpu, GpuTrack, TrackedTick, Tracker
from pulsed.translate.tick import Device, Entity
from pulsed.translate.vocabulary import NOTHING
from tests.compute.readings import many
from tests.compute.streams import DAY, GPU, OTHER, sample

PART = Device(Entity("mig", "0", "GPU-0", "1", "1g.10gb"))
WITHOUT_UUID = Device(Entity("gpu", "0"))


class Target:
    """A target whose ticks are tracked."""

    def __init__(self) -> None:
        self.tracker = Tracker()
        self.clock = 1000.0

    def tick(
        self, *devices: Device, after: float = 1.0, interval: float = 1.0, time: float | None = None
    ) -> TrackedTick:
        self.clock += after
        readings = [NOTHING] * len(devices)
        return self.tracker.track(sample(self.clock, *readings, devices=devices, interval=interval, time=time))

    def track(self, *devices: Device, after: float = 1.0, interval: float = 1.0, time: float | None = None) -> GpuTrack:
        return self.tick(*devices, after=after, interval=interval, time=time).roster.tracks[0]


def kinds(steps: Sequence[float], interval: float = 1.0) -> list[tuple[str, float, float]]:
    target = Target()
    return [target.track(GPU, after=step, interval=interval).decision[:3] for step in steps]


def test_a_sample_covers_the_time_since_the_previous_one() -> None:
    assert kinds([0.0, 1.0, 0.5, 2.0]) == [
        ("first", 0.0, 0.0),
        ("next", 1.0, 1.0),
        ("next", 0.5, 0.5),
        ("next", 2.0, 2.0),
    ]


def test_a_gpu_is_new_in_one_tick_only_although_the_devices_stay_the_same_object() -> None:
    tracker, devices = Tracker(), (GPU,)
    (track,) = tracker.track(sample(1.0, NOTHING, devices=devices)).roster.tracks
    statuses = [track.status]
    for clock in (2.0, 3.0):
        tracker.track(sample(clock, NOTHING, devices=devices))
        statuses.append(track.status)
    assert statuses == ["new", "present", "present"]


def test_a_gap_covers_nothing() -> None:
    assert kinds([0.0, 3.0, 3.5, 1.0])[1:] == [("next", 3.0, 3.0), ("gap", 3.5, 0.0), ("next", 1.0, 1.0)]


def test_the_limit_of_a_gap_tolerates_rounding() -> None:
    target = Target()
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
    target = Target()
    target.track(GPU, time=DAY)
    track = target.track(GPU, after=-1000.0, time=DAY + 20.0)
    assert track.decision == ("restart", 20.0, 0.0, 20.0)
    assert (track.now, track.time) == (20.0, DAY + 20.0)
    track = target.track(GPU, after=-1000.0, time=DAY - 5.0)
    assert track.decision == ("restart", 0.0, 0.0, 0.0)
    assert track.now == 20.0


def test_without_an_interval_every_sample_is_a_gap() -> None:
    target = Target()
    target.track(GPU, interval=0.0)
    assert target.track(GPU, interval=0.0).decision == ("gap", 1.0, 0.0, GAP_INTERVALS + 1)


@pytest.mark.parametrize(("step", "continued"), [(1.0, 1.0), (5.0, 5.0), (6.0, 0.0), (0.0, 0.0), (-100.0, 0.0)])
def test_a_short_gap_can_be_bridged(step: float, continued: float) -> None:
    target = Target()
    target.track(GPU)
    assert target.track(GPU, after=step).decision.continued(5.0) == continued


def test_status_of_a_gpu_that_leaves_and_returns() -> None:
    target = Target()
    ticks = [(OTHER, GPU), (OTHER, GPU), (GPU,), (OTHER, GPU), (OTHER, GPU)]
    track = target.track(OTHER, GPU)
    statuses = [track.status, *(target.tick(*devices) and track.status for devices in ticks[1:])]
    assert statuses == ["new", "present", "gone", "back", "present"]


def test_a_gpu_that_returns_covers_its_own_absence_if_that_was_short() -> None:
    target = Target()
    target.tick(OTHER, GPU)
    target.tick(GPU)
    assert target.track(OTHER, GPU).decision == ("next", 2.0, 2.0, 0.0)
    for _ in range(4):
        decision = target.tick(GPU).decision
        assert decision == ("next", 1.0, 1.0, 0.0)
    track = target.track(OTHER, GPU)
    assert track.decision == ("gap", 5.0, 0.0, 5.0)
    assert track.now == 7.0


def test_a_gpu_that_returns_with_another_clock_covers_nothing() -> None:
    target = Target()
    target.tick(OTHER, GPU)
    target.tick(GPU, after=-500.0, time=DAY)
    assert target.track(OTHER, GPU).decision.kind == "restart"


def test_missing_gpus_grow_older() -> None:
    target = Target()
    target.tick(GPU, OTHER)
    missing = target.tick(GPU).roster.missing
    assert [track.device for track in missing] == [OTHER]
    target.tick(GPU)
    assert missing[0].now == 2.0
    assert target.tick().roster.missing[0].device is OTHER
    assert target.tick(GPU, OTHER).roster.missing == ()


def test_the_roster_is_the_same_object_while_nothing_changes() -> None:
    target = Target()
    devices = (GPU, OTHER)
    rosters = [target.tracker.track(sample(float(at), NOTHING, NOTHING, devices=devices)).roster for at in range(3)]
    assert all(roster is rosters[0] for roster in rosters)


def test_a_board_that_is_divided_is_not_missing() -> None:
    target = Target()
    target.tick(GPU, OTHER)
    assert target.tick(PART, OTHER).roster.missing == ()
    unknown_board = Device(Entity("mig", "", "", "1"))
    assert target.tick(unknown_board).roster.missing == ()
    assert [track.device for track in target.tick(OTHER).roster.missing] == [GPU]


def test_the_board_of_a_part() -> None:
    roster = Target().tick(PART, GPU, OTHER).roster
    assert [track.device for track in roster.boards] == [GPU, GPU, OTHER]
    assert [track.device for track in Target().tick(PART, OTHER).roster.boards] == [PART, OTHER]


def test_boards_without_uuids_have_their_own_parts() -> None:
    boards = [Device(Entity("gpu", index)) for index in "01"]
    parts = [Device(Entity("mig", index, "", "1")) for index in "01"]
    assert [track.device for track in Target().tick(*boards, *parts).roster.boards] == boards * 2


ADDRESS = "00000000:01:00.0"


@pytest.mark.parametrize(
    ("old", "new", "is_replaced"),
    [
        (("0", "GPU-0", ADDRESS), ("0", "GPU-9", ADDRESS), True),
        (("0", "GPU-0", ADDRESS), ("1", "GPU-9", ADDRESS), False),
        (("0", "GPU-0", ADDRESS), ("0", "GPU-9", "00000000:02:00.0"), False),
        (("0", "GPU-0", ""), ("0", "GPU-9", ""), False),
        (("", "GPU-0", ADDRESS), ("", "GPU-9", ADDRESS), False),
    ],
)
@pytest.mark.parametrize("is_old_expected", [False, True])
def test_another_board_in_the_same_slot_replaces_the_absent_one(
    old: tuple[str, str, str], new: tuple[str, str, str], is_replaced: bool, is_old_expected: bool
) -> None:
    before, after = (Device(Entity("gpu", index, uuid), pci_bus_id=address) for index, uuid, address in (old, new))
    target = Target()
    if is_old_expected:
        target.tracker.expect("test", [ExpectedGpu(before, DAY)])
    else:
        target.tick(before, time=DAY)
    removed = target.tick(after, time=DAY).removed
    expected = [(before, "replaced", after)] if is_replaced else []
    assert [(each.track.device, each.reason, each.replacement) for each in removed] == expected


def test_a_board_of_an_earlier_run_replaces_none() -> None:
    target = Target()
    one, other = (Device(Entity("gpu", "0", uuid), pci_bus_id=ADDRESS) for uuid in ("GPU-0", "GPU-1"))
    target.tracker.expect("test", [ExpectedGpu(one, DAY), ExpectedGpu(other, DAY)])
    tick = target.tick(other, time=DAY)
    assert tick.removed == ()
    assert [track.device for track in tick.roster.missing] == [one]


def test_a_gpu_whose_uuid_becomes_known_is_the_same() -> None:
    target = Target()
    track = target.track(WITHOUT_UUID)
    before = track.key
    assert target.track(GPU) is track
    assert (track.device, track.other_keys) == (GPU, (before,))
    assert target.track(WITHOUT_UUID) is track


def test_another_gpu_at_the_same_index_is_another_gpu() -> None:
    target = Target()
    track = target.track(GPU)
    swapped = target.track(Device(Entity("gpu", "0", "GPU-9")))
    assert swapped is not track
    assert target.track(GPU) is track


def test_a_gpu_whose_index_changes_is_the_same() -> None:
    target = Target()
    track = target.track(GPU)
    assert target.track(Device(Entity("gpu", "5", "GPU-0"))) is track


def test_keys_of_a_device() -> None:
    unprofiled = replace(PART, entity=replace(PART.entity, mig_profile=""))
    keys = {
        device: (track.key, *track.other_keys)
        for device in (GPU, WITHOUT_UUID, PART, unprofiled)
        for track in [Target().track(device)]
    }
    assert keys == {
        GPU: ("|GPU-0",),
        WITHOUT_UUID: ("|gpu 0",),
        PART: ("|GPU-0|mig|1|1g.10gb", "|GPU-0|mig|1"),
        unprofiled: ("|GPU-0|mig|1",),
    }


def test_an_instance_of_another_profile_is_another_instance() -> None:
    target = Target()
    track = target.track(PART)
    other = replace(PART, entity=replace(PART.entity, mig_profile="2g.20gb"))
    assert target.track(other) is not track
    assert target.track(PART) is track


def test_devices_that_the_source_does_not_distinguish_have_tracks_of_their_own() -> None:
    target = Target()
    first = target.tick(GPU, GPU, GPU).roster.tracks
    assert len({track.key for track in first}) == 3
    assert target.tick(GPU, GPU, GPU).roster.tracks == first
    assert {track.decision.kind for track in first} == {"next"}


def test_the_longest_absent_gpus_are_forgotten_first() -> None:
    target = Target()
    devices = [Device(Entity("gpu", str(number), f"GPU-{number}")) for number in range(KEPT + 2)]
    tracks = [target.track(device) for device in devices]
    assert len(target.tick(devices[-1]).roster.missing) == KEPT
    assert target.track(devices[1]) is tracks[1]
    assert target.track(devices[0]) is not tracks[0]
    assert target.track(devices[0]).now == 1.0


def test_the_place_of_a_forgotten_gpu_is_free() -> None:
    target = Target()
    unnamed = [Device(Entity("gpu", str(number))) for number in range(KEPT + 2)]
    tracks = [target.track(device) for device in unnamed]
    named = Device(Entity("gpu", "0", "GPU-0"))
    assert target.track(named) is not tracks[0]
    assert target.track(named).now == 1.0
    last = Device(Entity("gpu", str(KEPT + 1), "GPU-last"))
    assert target.track(last) is tracks[-1]


def test_gpus_of_an_earlier_run_are_missing_until_they_are_seen() -> None:
    target = Target()
    target.tracker.expect("test", [ExpectedGpu(GPU, DAY), ExpectedGpu(OTHER, DAY)])
    assert target.tick(time=DAY).roster.missing == (), "a tick without GPUs proves nothing"
    roster = target.tick(GPU, time=DAY).roster
    assert [track.device for track in roster.missing] == [OTHER]
    assert (roster.tracks[0].status, roster.tracks[0].decision.kind) == ("new", "first")
    track = target.track(OTHER, time=DAY)
    assert track is roster.missing[0]
    assert track.decision.kind == "first"


def test_a_gpu_of_an_earlier_run_whose_uuid_is_known_now() -> None:
    target = Target()
    target.tracker.expect("test", [ExpectedGpu(WITHOUT_UUID, DAY)])
    roster = target.tick(GPU, time=DAY).roster
    assert roster.missing == ()
    assert len(roster.tracks[0].other_keys) == 1


@pytest.mark.parametrize(("name", "age"), [("another target", 0.0), ("test", FORGET_SECONDS)])
def test_gpus_of_another_target_or_time_are_not_expected(name: str, age: float) -> None:
    target = Target()
    target.tracker.expect(name, [ExpectedGpu(OTHER, DAY - age)])
    assert target.tick(GPU, time=DAY).roster.missing == ()


def test_a_divided_board_grows_no_older() -> None:
    target = Target()
    target.tracker.reconfigure(PlausibilitySettings(), 60.0)
    target.tick(GPU, OTHER)
    for _ in range(3):
        assert target.tick(PART, OTHER, after=50.0).removed == ()
    assert target.tracker.absent == ()
    assert [track.device for track in target.tick(OTHER).roster.missing] == [GPU]
    assert target.tick(OTHER, after=59.0).removed == ()
    (removal,) = target.tick(OTHER, after=1.0).removed
    assert (removal.track.device, removal.reason) == (GPU, "expired")
    assert target.tick(PART, OTHER).roster.tracks[0].status == "new", "parts go with their board"


def test_the_parts_of_a_forgotten_board_are_forgotten() -> None:
    target = Target()
    target.tick(GPU, PART, OTHER)
    (absent,) = target.tick(OTHER).roster.missing
    target.tracker.forget(absent)
    assert [track.status for track in target.tick(PART, OTHER).roster.tracks] == ["new", "present"]


steps = st.one_of(st.sampled_from([0.0, 1.0, 1.0, 1.0, 3.0, 3.5, -1.0, 600.0, -600.0]), st.floats(-5.0, 5.0))
rosters = st.sampled_from([(), (GPU,), (OTHER,), (GPU, OTHER), (WITHOUT_UUID, OTHER), (PART, GPU), (PART,)])


@many
@given(st.lists(st.tuples(steps, st.floats(-100.0, 100.0), rosters), max_size=40))
def test_no_time_is_counted_twice(stream: list[tuple[float, float, tuple[Device, ...]]]) -> None:
    target, time, elapsed = Target(), DAY, 0.0
    covered: dict[GpuTrack, float] = {}
    before: dict[GpuTrack, float] = {}
    for step, wall_step, devices in stream:
        time += wall_step
        roster, decision, _ = target.tick(*devices, after=step, time=time)
        elapsed += decision.elapsed
        assert [track.device for track in roster.tracks] == list(devices)
        assert len({id(track) for track in (*roster.tracks, *roster.missing)}) == len(roster.tracks + roster.missing)
        for track in roster.tracks:
            sample_decision = track.decision
            covered[track] = covered.get(track, 0.0) + sample_decision.covered
            assert covered[track] <= track.now + 1e-6
            assert (sample_decision.covered > 0.0) == (sample_decision.kind == "next")
            assert sample_decision.is_interrupted == (sample_decision.kind in ("gap", "restart"))
            assert sample_decision.elapsed >= sample_decision.covered
            assert (sample_decision.kind == "first") == (track not in before)
            assert (track.status == "new") == (track not in before)
            before.setdefault(track, 0.0)
        for track in (*roster.tracks, *roster.missing):
            assert track.now >= before.get(track, 0.0)
            before[track] = track.now
            assert track.now <= elapsed + 1e-6
