"""Absent GPUs: which of them are missing, and when they are forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pulsed.compute.absence import KEPT, ExpectedGpu
from pulsed.compute.gpu_table import GpuState
from pulsed.compute.target_gpus import Tracker
from pulsed.model.computed_tick import Removal
from pulsed.model.gpu import Device, Entity
from pulsed.model.raw_tick import Epoch
from pulsed.model.vocabulary import NOTHING
from tests.compute.streams import DAY, GPU, OTHER, PART, WITHOUT_UUID, TrackedTarget, sample


def test_a_board_that_is_divided_is_not_missing() -> None:
    target = TrackedTarget()
    target.tick(GPU, OTHER)
    assert target.tick(PART, OTHER).gpus.missing == ()
    unknown_board = Device(Entity("mig", "", "", "1"))
    assert target.tick(unknown_board).gpus.missing == ()
    assert [track.device for track in target.tick(OTHER).gpus.missing] == [GPU]


def test_a_board_without_a_uuid_is_divided_by_its_index() -> None:
    target = TrackedTarget()
    target.tick(WITHOUT_UUID, OTHER)
    assert target.tick(PART, OTHER).gpus.missing == ()


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
    target = TrackedTarget()
    if is_old_expected:
        target.tracker.absence.expect("test", [ExpectedGpu(before, DAY)])
    else:
        target.tick(before, time=DAY)
    removed = target.tick(after, time=DAY).removed.values()
    expected = [(before, "replaced", after)] if is_replaced else []
    assert [(each.device, each.reason, each.replacement) for each in removed] == expected


@pytest.mark.parametrize(
    ("boot_id", "replacements"),
    [("b", {"GPU-0": "GPU-8", "GPU-1": "GPU-9"}), ("a", {"GPU-0": "GPU-8"}), ("", {"GPU-0": "GPU-8"})],
)
def test_after_a_restart_of_the_node_each_new_board_replaces_an_absent_one(
    boot_id: str, replacements: dict[str, str]
) -> None:
    def board(index: str, uuid: str) -> Device:
        return Device(Entity("gpu", index, uuid), pci_bus_id=f"0000000{index}:01:00.0")

    target = TrackedTarget()
    old = [ExpectedGpu(board(index, f"GPU-{index}"), DAY, "a") for index in "012"]
    target.tracker.absence.expect("test", old)
    tick = sample(1.0, *[NOTHING] * 2, devices=(board("0", "GPU-8"), board("7", "GPU-9")), time=DAY)
    removed = target.tracker.track(replace(tick, epoch=Epoch(boot=boot_id))).removed.values()
    found = {each.device.entity.uuid: each.replacement.entity.uuid for each in removed if each.replacement}
    assert found == replacements
    missing = {track.device.entity.uuid for track in target.tracker.absence.missing}
    assert missing == {"GPU-0", "GPU-1", "GPU-2"} - replacements.keys()


def test_a_board_of_an_earlier_run_replaces_none() -> None:
    target = TrackedTarget()
    one, other = (Device(Entity("gpu", "0", uuid), pci_bus_id=ADDRESS) for uuid in ("GPU-0", "GPU-1"))
    target.tracker.absence.expect("test", [ExpectedGpu(one, DAY), ExpectedGpu(other, DAY)])
    tick = target.tick(other, time=DAY)
    assert tick.removed == {}
    assert [track.device for track in tick.gpus.missing] == [one]


def test_the_longest_absent_gpus_are_forgotten_first() -> None:
    target = TrackedTarget()
    devices = [Device(Entity("gpu", str(number), f"GPU-{number}")) for number in range(KEPT + 2)]
    tracks = [target.track(device) for device in devices]
    assert len(target.tick(devices[-1]).gpus.missing) == KEPT
    assert target.track(devices[1]) is tracks[1]
    assert target.track(devices[0]) is not tracks[0]
    assert target.track(devices[0]).now == 1.0


def test_the_place_of_a_forgotten_gpu_is_free() -> None:
    target = TrackedTarget()
    unnamed = [Device(Entity("gpu", str(number))) for number in range(KEPT + 2)]
    tracks = [target.track(device) for device in unnamed]
    named = Device(Entity("gpu", "0", "GPU-0"))
    assert target.track(named) is not tracks[0]
    assert target.track(named).now == 1.0
    last = Device(Entity("gpu", str(KEPT + 1), "GPU-last"))
    assert target.track(last) is tracks[-1]


def test_gpus_of_an_earlier_run_are_missing_until_they_are_seen() -> None:
    target = TrackedTarget()
    target.tracker.absence.expect("test", [ExpectedGpu(GPU, DAY), ExpectedGpu(OTHER, DAY)])
    assert target.tick(time=DAY).gpus.missing == (), "a tick without GPUs proves nothing"
    roster = target.tick(GPU, time=DAY).gpus
    assert [track.device for track in roster.missing] == [OTHER]
    assert (roster.states[0].status, roster.states[0].decision.kind) == ("new", "first")
    track = target.track(OTHER, time=DAY)
    assert track is roster.missing[0]
    assert track.decision.kind == "first"


def test_a_gpu_of_an_earlier_run_whose_uuid_is_known_now() -> None:
    target = TrackedTarget()
    target.tracker.absence.expect("test", [ExpectedGpu(WITHOUT_UUID, DAY)])
    roster = target.tick(GPU, time=DAY).gpus
    assert roster.missing == ()
    assert len(roster.states[0].other_keys) == 1


@pytest.mark.parametrize(("name", "age"), [("another target", 0.0), ("test", DAY)])
def test_gpus_of_another_target_or_time_are_not_expected(name: str, age: float) -> None:
    target = TrackedTarget()
    target.forget_after(DAY)
    target.tracker.absence.expect(name, [ExpectedGpu(OTHER, DAY - age)])
    assert target.tick(GPU, time=DAY).gpus.missing == ()


def test_a_divided_board_grows_no_older() -> None:
    target = TrackedTarget()
    target.forget_after(60.0)
    target.tick(GPU, OTHER)
    for _ in range(3):
        assert target.tick(PART, OTHER, after=50.0).removed == {}
    assert target.tracker.absence.boards == ()
    assert [track.device for track in target.tick(OTHER).gpus.missing] == [GPU]
    assert target.tick(OTHER, after=59.0).removed == {}
    (removal,) = target.tick(OTHER, after=1.0).removed.values()
    assert (removal.device, removal.reason) == (GPU, "expired")
    assert target.tick(PART, OTHER).gpus.states[0].status == "new", "parts go with their board"


def test_the_parts_of_a_forgotten_board_are_forgotten() -> None:
    target = TrackedTarget()
    target.tick(GPU, PART, OTHER)
    (absent,) = target.tick(OTHER).gpus.missing
    target.tracker.forget(absent)
    assert [track.status for track in target.tick(PART, OTHER).gpus.states] == ["new", "present"]


def expire(target: TrackedTarget, state: GpuState) -> None:
    target.forget_after(0.5)


def ignore(target: TrackedTarget, state: GpuState) -> None:
    target.tracker.absence.watch(lambda device: device is not state.device)


def forget(target: TrackedTarget, state: GpuState) -> None:
    assert target.tracker.forget(state).reason == "forgotten"
    assert state not in target.tracker.absence.boards


def move(target: TrackedTarget, state: GpuState) -> None:
    Tracker(target.table).track(sample(3.5, NOTHING, devices=(state.device,)))


@pytest.mark.parametrize(("change", "reasons"), [(expire, ["expired"]), (ignore, []), (forget, []), (move, ["moved"])])
def test_a_change_counts_from_the_next_tick_on_though_the_devices_stay(
    change: Callable[[TrackedTarget, GpuState], None], reasons: list[str]
) -> None:
    target = TrackedTarget()
    tracker = target.tracker
    tracker.track(sample(1.0, NOTHING, NOTHING, devices=(GPU, OTHER)))
    devices = (OTHER,)
    before = tracker.track(sample(2.0, NOTHING, devices=devices))
    assert tracker.track(sample(3.0, NOTHING, devices=devices)).gpus is before.gpus
    change(target, before.gpus.missing[0])
    after = tracker.track(sample(4.0, NOTHING, devices=devices))
    assert (after.gpus.missing, [each.reason for each in after.removed.values()]) == ((), reasons)
    assert [track.device for track in tracker.absence.boards] == ([GPU] if change is ignore else [])


def test_a_part_replaces_no_board() -> None:
    target = TrackedTarget()
    target.tracker.absence.expect("test", [ExpectedGpu(GPU, DAY, "a")])
    part = Device(Entity("mig", "7", "GPU-9", "1"))
    first = replace(sample(1.0, NOTHING, devices=(part,), time=DAY), epoch=Epoch(boot="b"))
    tick = target.tracker.track(first)
    assert ([track.device for track in tick.gpus.missing], tick.removed) == ([GPU], {})


def test_a_removal_in_words() -> None:
    assert Removal(GPU, 0.0, "expired", DAY).message == (
        "The GPU is no longer expected: it was absent for health.forget_after"
    )
    assert Removal(GPU, 0.0, "replaced", DAY, OTHER).message == (
        "The GPU is no longer expected: another board has replaced it: GPU-1"
    )
