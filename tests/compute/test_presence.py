"""Absent GPUs: which of them are missing, and when they are forgotten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from pulsed.compute.gpu_table import GpuState, GpuTable
from pulsed.compute.layer import ComputeLayer
from pulsed.compute.presence import KEPT, ExpectedGpu, PageHosts
from pulsed.compute.target_gpus import Tracker
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.gpu import Device, Entity
from pulsed.model.owner import Owner, Ownership
from pulsed.model.result import Removal
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import NOTHING, Reading
from tests.compute.streams import DAY, GPU, OTHER, PART, WITHOUT_UUID, TrackedTarget, sample


def test_a_board_that_is_divided_is_not_missing() -> None:
    target = TrackedTarget()
    target.tick(GPU, OTHER)
    assert target.tick(PART, OTHER).missing == ()
    unknown_board = Device(Entity("mig", "", "", "1"))
    assert target.tick(unknown_board).missing == ()
    assert [track.device for track in target.tick(OTHER).missing] == [GPU]


def test_a_board_without_a_uuid_is_divided_by_its_index() -> None:
    target = TrackedTarget()
    target.tick(WITHOUT_UUID, OTHER)
    assert target.tick(PART, OTHER).missing == ()


def test_a_board_is_divided_whatever_the_name_of_its_host_is_now() -> None:
    target = TrackedTarget()
    target.tick(replace(GPU, entity=replace(GPU.entity, node="n1")))
    assert target.tick(replace(PART, entity=replace(PART.entity, node="n1.example.com"))).missing == ()


ADDRESS = "00000000:01:00.0"


def test_a_board_in_the_slot_of_another_one_does_not_end_it() -> None:
    one, other = (Device(Entity("gpu", "0", uuid), pci_bus_id=ADDRESS) for uuid in ("GPU-0", "GPU-9"))
    target = TrackedTarget()
    target.tick(one)
    assert [state.device for state in target.tick(other).missing] == [one]
    assert target.removed == ()


def test_a_gpu_is_its_uuid_whatever_its_node_index_and_address() -> None:
    target = TrackedTarget()
    before = target.track(Device(Entity("gpu", "0", "GPU-0", node="n1"), pci_bus_id=ADDRESS))
    after = target.track(Device(Entity("gpu", "3", "GPU-0", node="n1.example.com"), pci_bus_id="00000000:02:00.0"))
    assert after is before
    assert (after.decision.kind, after.device.entity.node) == ("next", "n1.example.com")


def test_guests_with_one_uuid_on_two_nodes_are_two() -> None:
    target = TrackedTarget()
    one, other = (Device(Entity("gpu", "0", "GPU-0", node=node, is_guest=True)) for node in ("n1", "n2"))
    assert len(set(target.tick(one, other).states)) == 2


def in_mode(mode: float | None, *parts: Device, clock: float) -> Tick:
    """A board whose MIG mode is known, and instances of it."""
    readings = [Reading(mig_mode=mode, power_watts=clock), *[Reading(sm_active_ratio=0.5)] * len(parts)]
    return sample(clock, *readings, devices=(GPU, *parts))


H100 = "NVIDIA H100 80GB HBM3"
PARTS = tuple(Device(Entity("mig", "0", "GPU-0", str(at), "1g.10gb"), model=H100) for at in range(7))
NEW = Device(Entity("mig", "0", "GPU-0", "9", "2g.20gb"), model=PARTS[0].model)
SAME_ID = replace(PARTS[6], entity=replace(PARTS[6].entity, mig_profile="1g.20gb"))


def lasting_parts(*ticks: tuple[float, float, Sequence[Device]]) -> list[str]:
    """The ids of the instances that last after all seven were there, and then ticks at a time with a MIG mode."""
    layer = ComputeLayer(GpuTable())
    for clock, mode, parts in [(1.0, 1.0, PARTS), *ticks]:
        tick = layer.compute(in_mode(mode, *parts, clock=clock))
    return [row.device.entity.mig_id for row in tick.gpus if not row.is_listed]


@pytest.mark.parametrize(
    ("ticks", "lasting"),
    [
        ([(2.0, 1.0, PARTS[:5])], ["5", "6"]),
        ([(2.0, 1.0, PARTS[:5]), (3.0, 1.0, PARTS)], []),
        ([(2.0, 0.0, ())], []),
        ([(2.0, 1.0, ()), (3.0, 0.0, ())], []),
        ([(2.0, 1.0, PARTS[:6]), (301.0, 1.0, PARTS[:6])], ["6"]),
        ([(2.0, 1.0, PARTS[:6]), (302.0, 1.0, PARTS[:6])], []),
        ([(2.0, 1.0, (*PARTS[:5], NEW))], []),
        ([(2.0, 1.0, (*PARTS[:4], NEW))], ["4"]),
        ([(2.0, 1.0, (*PARTS[:6], SAME_ID))], []),
    ],
    ids=[
        "gap",
        "back",
        "no longer partitioned",
        "partitioned for a tick",
        "300 s",
        "more",
        "no room",
        "room",
        "its id",
    ],
)
def test_an_instance_lasts_while_nothing_shows_that_it_is_gone(
    ticks: list[tuple[float, float, Sequence[Device]]], lasting: list[str]
) -> None:
    assert lasting_parts(*ticks) == lasting


@pytest.mark.parametrize(("mode", "lasting"), [(None, []), (1.0, ["0"])], ids=["unknown", "partitioned"])
def test_a_board_with_owners_of_its_own_is_not_partitioned(mode: float | None, lasting: list[str]) -> None:
    layer, job = ComputeLayer(GpuTable()), Ownership((Owner("slurm_job", "1"),))
    layer.compute(in_mode(mode, PARTS[0], clock=1.0))
    tick = in_mode(mode, clock=2.0)
    tick.gpus[0].ownership = job
    layer.compute(tick)
    assert [row.device.entity.mig_id for row in tick.gpus if not row.is_listed] == lasting


def test_pages_of_other_hosts_in_turns_are_a_balanced_address() -> None:
    hosts = PageHosts()
    seen = []
    for clock, names in enumerate(["a", "a", "b", "a", "b", "b"]):
        hosts.update([names], Monotonic(float(clock)))
        seen.append((hosts.alternating, hosts.are_others("a")))
    turns = ("a", "b")
    assert seen == [((), False)] * 2 + [((), True), (turns, False), (turns, True), (turns, True)]
    hosts.update(["b"], Monotonic(1000.0))
    assert hosts.alternating == ()


def test_a_page_that_names_fewer_hosts_than_before_is_not_of_other_hosts() -> None:
    hosts = PageHosts()
    hosts.update(["a", "b"], Monotonic(1.0))
    hosts.update(["b"], Monotonic(2.0))
    hosts.update(["a", "b"], Monotonic(3.0))
    assert (hosts.alternating, hosts.are_others("a")) == ((), False)
    hosts.update(["b"], Monotonic(4.0))
    assert not hosts.are_others("a")
    hosts.update([], Monotonic(5.0))
    assert not hosts.are_others("a")


def test_a_gpu_of_another_host_than_the_page_keeps_its_health_for_minutes() -> None:
    layer = ComputeLayer(GpuTable())
    one, other = (Device(Entity("gpu", "0", f"GPU-{node}", node=node)) for node in "ab")

    def states(device: Device, clock: float) -> dict[str, str]:
        reading = Reading(power_watts=clock, temperature_celsius=40.0, row_remap_failure=float(device is one))
        tick = layer.compute(sample(clock, reading, devices=[device], interval=15.0))
        return {row.device.entity.node: row.result.health.check("telemetry").state for row in tick.gpus}

    states(one, 0.0)
    found = [states(other if at % 3 else one, 15.0 * at) for at in range(1, 30)]
    assert {each.get("a") for each in found} == {"ok"}
    assert {each["b"] for each in found[1:]} == {"ok"}
    gone = [states(other, 15.0 * at)["a"] for at in range(30, 60)]
    assert (gone[0], gone[-1]) == ("ok", "warn")


def test_a_board_of_an_earlier_run_in_the_same_slot_is_missing() -> None:
    target = TrackedTarget()
    one, other = (Device(Entity("gpu", "0", uuid), pci_bus_id=ADDRESS) for uuid in ("GPU-0", "GPU-1"))
    target.tracker.presence.expect("test", [ExpectedGpu(one, Unix(DAY)), ExpectedGpu(other, Unix(DAY))])
    tick = target.tick(other, time=DAY)
    assert target.removed == ()
    assert [track.device for track in tick.missing] == [one]


def test_the_longest_absent_gpus_are_forgotten_first() -> None:
    target = TrackedTarget()
    devices = [Device(Entity("gpu", str(number), f"GPU-{number}")) for number in range(KEPT + 2)]
    tracks = [target.track(device) for device in devices]
    assert len(target.tick(devices[-1]).missing) == KEPT
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
    target.tracker.presence.expect("test", [ExpectedGpu(GPU, Unix(DAY)), ExpectedGpu(OTHER, Unix(DAY))])
    assert target.tick(time=DAY).missing == (), "a tick without GPUs proves nothing"
    roster = target.tick(GPU, time=DAY)
    assert [track.device for track in roster.missing] == [OTHER]
    assert (roster.states[0].status, roster.states[0].decision.kind) == ("new", "first")
    track = target.track(OTHER, time=DAY)
    assert track is roster.missing[0]
    assert track.decision.kind == "first"


def test_a_gpu_of_an_earlier_run_whose_uuid_is_known_now() -> None:
    target = TrackedTarget()
    target.tracker.presence.expect("test", [ExpectedGpu(WITHOUT_UUID, Unix(DAY))])
    roster = target.tick(GPU, time=DAY)
    assert roster.missing == ()
    assert len(roster.states[0].other_keys) == 1


@pytest.mark.parametrize(("name", "age"), [("another target", 0.0), ("test", DAY)])
def test_gpus_of_another_target_or_time_are_not_expected(name: str, age: float) -> None:
    target = TrackedTarget()
    target.forget_after(DAY)
    target.tracker.presence.expect(name, [ExpectedGpu(OTHER, Unix(DAY - age))])
    assert target.tick(GPU, time=DAY).missing == ()


def test_a_divided_board_grows_no_older() -> None:
    target = TrackedTarget()
    target.forget_after(60.0)
    target.tick(GPU, OTHER)
    for _ in range(3):
        target.tick(PART, OTHER, after=50.0)
        assert target.removed == ()
    assert target.tracker.presence.boards == ()
    assert [track.device for track in target.tick(OTHER).missing] == [GPU]
    target.tick(OTHER, after=59.0)
    assert not target.removed
    target.tick(OTHER, after=1.0)
    removal = target.removed[0]
    assert (removal.device, removal.reason) == (GPU, "expired")
    assert target.tick(PART, OTHER).states[0].status == "new", "parts go with their board"


def test_the_parts_of_a_forgotten_board_are_forgotten() -> None:
    target = TrackedTarget()
    target.tick(GPU, PART, OTHER)
    (absent,) = target.tick(OTHER).missing
    target.tracker.forget(absent)
    assert [track.status for track in target.tick(PART, OTHER).states] == ["new", "present"]


def expire(target: TrackedTarget, state: GpuState) -> None:
    target.forget_after(0.5)


def ignore(target: TrackedTarget, state: GpuState) -> None:
    target.tracker.presence.watch(lambda device: device is not state.device)


def forget(target: TrackedTarget, state: GpuState) -> None:
    assert target.tracker.forget(state).reason == "forgotten"
    assert state not in target.tracker.presence.boards


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
    assert tracker.track(sample(3.0, NOTHING, devices=devices)).missing is before.missing
    change(target, before.missing[0])
    last = sample(4.0, NOTHING, devices=devices)
    after = tracker.track(last)
    assert (after.missing, [each.reason for each in last.removed]) == ((), reasons)
    assert [track.device for track in tracker.presence.boards] == ([GPU] if change is ignore else [])


def test_a_part_of_another_board_ends_none() -> None:
    target = TrackedTarget()
    target.tracker.presence.expect("test", [ExpectedGpu(GPU, Unix(DAY))])
    first = sample(1.0, NOTHING, devices=(Device(Entity("mig", "7", "GPU-9", "1")),), time=DAY)
    tick = target.tracker.track(first)
    assert ([track.device for track in tick.missing], first.removed) == ([GPU], ())


def test_a_removal_in_words() -> None:
    assert Removal(GPU, Unix(0.0), "expired", Unix(DAY)).message == (
        "The GPU is no longer expected: it was absent for health.forget_after"
    )
