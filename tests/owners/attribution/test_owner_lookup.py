"""The devices of ticks have the owners of this host's sources, and stay the same objects while nothing changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from pulsed.model.canonical_tick import CanonicalTick
from pulsed.model.gpu import Device, Entity
from pulsed.model.owner import Owner, Owners, pod
from pulsed.owners.attribution import Attribution, OwnerLookup
from pulsed.owners.attribution.mapping_directory import MappingDirectory
from pulsed.owners.attribution.source import Claims
from tests.compute.streams import IDLE, sample
from tests.support.waiting import eventually

U = "GPU-aa"
BOARD = Device(Entity("gpu", "0", U, node="here"))
FIRST = Device(Entity("mig", "0", U, "3", "1g.10gb", "here"))
SECOND = Device(Entity("mig", "0", U, "5", "1g.10gb", "here"), mig_uuid="MIG-bb")
FAR = Device(Entity("gpu", "1", "GPU-cc", node="there"))


class Directory:
    """A mapping directory that an attribution reads often."""

    def __init__(self, path: Path) -> None:
        self.path, self.attribution = path, Attribution()
        self.attribution.apply([MappingDirectory(str(path), 0.001)])

    async def write(self, files: Mapping[str, str]) -> None:
        """Replace all files, and wait until they have been read."""
        before = self.attribution.version
        for old in self.path.iterdir():
            old.unlink()
        for name, text in files.items():
            (self.path / name).write_text(text)
        await eventually(lambda: self.attribution.version > before)

    async def read(self, wanted: Mapping[str, str]) -> None:
        await self.write(wanted)
        state, jobs = self.attribution.states[0], set(wanted.values())
        await eventually(lambda: {each.id for found in state.claims.owners.values() for each in found} == jobs)


class Found:
    """A source that has these owners, and may have others."""

    name, interval, absence = "found", 60.0, ""

    def __init__(self, owners: Mapping[str, Owners]) -> None:
        self._claims = Claims(owners)

    async def read(self) -> Claims:
        return self._claims

    async def close(self) -> None:
        pass


@pytest.fixture
async def directory(tmp_path: Path) -> AsyncIterator[Directory]:
    made = Directory(tmp_path)
    yield made
    await made.attribution.stop()


def tick(*devices: Device, clock: float = 0.0) -> CanonicalTick:
    return sample(clock, *[IDLE] * len(devices), devices=devices)


def ids(found: CanonicalTick) -> list[list[str] | None]:
    return [None if device.owners is None else [owner.id for owner in device.owners] for device in found.devices]


async def test_without_sources_the_tick_is_the_same() -> None:
    lookup, given = OwnerLookup(Attribution(), "here"), tick(BOARD)
    assert lookup.add_owners(given) is given


async def test_a_job_by_index_and_free_gpus(directory: Directory) -> None:
    await directory.read({"0": "4711"})
    lookup = OwnerLookup(directory.attribution, "here")
    other = Device(Entity("gpu", "1", "GPU-dd", node="here"))
    assert ids(lookup.add_owners(tick(BOARD, other, FAR))) == [["4711"], [], None]


async def test_indexes_are_those_of_this_host_and_uuids_of_any(directory: Directory) -> None:
    await directory.read({"1": "4711"})
    lookup = OwnerLookup(directory.attribution, "here")
    assert ids(lookup.add_owners(tick(FAR))) == [None]
    await directory.read({"GPU-cc": "4712"})
    assert ids(lookup.add_owners(tick(FAR))) == [["4712"]]


async def test_a_board_has_the_owners_of_its_instances(directory: Directory) -> None:
    await directory.read({"0.3": "1", "MIG-bb": "2"})
    lookup = OwnerLookup(directory.attribution, "here")
    assert ids(lookup.add_owners(tick(BOARD, FIRST, SECOND))) == [["1", "2"], ["1"], ["2"]]


async def test_an_instance_is_found_by_its_profile_if_it_is_the_only_one() -> None:
    attribution = Attribution()
    owner = pod("ml", "a")
    attribution.apply([Found({"gpu-aa/1g10gb": (owner,)})])
    await eventually(lambda: attribution.version > 0)
    lookup = OwnerLookup(attribution, "here")
    other = Device(Entity("mig", "0", U, "1", "3g.40gb", "here"))
    assert ids(lookup.add_owners(tick(BOARD, FIRST, other))) == [[owner.id], [owner.id], None]
    assert ids(lookup.add_owners(tick(BOARD, FIRST, SECOND))) == [None, None, None]
    await attribution.stop()


async def test_instances_have_the_owners_of_their_board(directory: Directory) -> None:
    await directory.read({U: "1", "0.5": "2"})
    lookup = OwnerLookup(directory.attribution, "here")
    assert ids(lookup.add_owners(tick(BOARD, FIRST, SECOND))) == [["1", "2"], ["1"], ["2"]]


async def test_the_uuid_is_more_certain_than_the_index(directory: Directory) -> None:
    await directory.read({"0": "1", U: "2"})
    assert ids(OwnerLookup(directory.attribution, "here").add_owners(tick(BOARD))) == [["2"]]


async def test_labels_count_where_the_host_has_no_owner(directory: Directory) -> None:
    await directory.read({"1": "4711"})
    labelled = Device(BOARD.entity, owners=(pod("ml", "a"),))
    lookup = OwnerLookup(directory.attribution, "here")
    assert lookup.add_owners(tick(labelled)).devices[0].owners == (pod("ml", "a"),)
    assert [(state.name, state.up) for state in directory.attribution.states][1:] == [("labels", True)]


async def test_devices_are_the_same_while_nothing_changes(directory: Directory) -> None:
    await directory.read({"0": "4711"})
    lookup = OwnerLookup(directory.attribution, "here")
    given = tick(BOARD, FAR)
    first = lookup.add_owners(given).devices
    assert first[1] is FAR
    assert lookup.add_owners(given).devices == first
    assert lookup.add_owners(tick(BOARD, FAR)).devices == first
    version = directory.attribution.version
    (directory.path / "7").write_text("9")
    await eventually(lambda: directory.attribution.version > version)
    assert lookup.add_owners(given).devices == first
    await directory.read({"0": "4712"})
    assert lookup.add_owners(given).devices[0].owners != first[0].owners


async def test_owners_between_two_ticks(directory: Directory) -> None:
    await directory.read({"0": "1"})
    lookup = OwnerLookup(directory.attribution, "here")
    assert lookup.add_owners(tick(BOARD)).passing == {}
    await directory.read({"0": "2"})
    await directory.read({"0": "3"})
    found = lookup.add_owners(tick(BOARD))
    assert ids(found) == [["3"]]
    assert [owner.id for owner in found.passing[0]] == ["2"]
    assert lookup.add_owners(tick(BOARD)).passing == {}


def test_an_owner_continues_unless_its_id_is_used_again() -> None:
    job = Owner("slurm_job", "1", 10.0)
    assert Owner("slurm_job", "1", 10.0, user="ann").continues(job)
    assert Owner("slurm_job", "1").continues(job)
    assert Owner("slurm_job", "1", 11.0).continues(job)  # as another source dates it
    assert not Owner("slurm_job", "1", 20.0).continues(job)
    assert not Owner("slurm_job", "2", 10.0).continues(job)
    assert pod("ml", "a", uid="u").continues(pod("ml", "a"))
    assert not pod("ml", "a", uid="v").continues(pod("ml", "a", uid="u"))
