"""The devices of ticks have the owners of this host's sources, and stay the same objects while nothing changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pulsed.model.clocks import Unix
from pulsed.model.gpu import Device, Entity
from pulsed.model.owner import Owner, Owners, Ownership, OwnerUse, pod
from pulsed.model.tick import Tick
from pulsed.owners.attribution import Attribution, OwnerLookup
from pulsed.owners.attribution.mapping_directory import MappingDirectory
from pulsed.owners.attribution.source import Claims
from tests.compute.streams import IDLE, sample
from tests.support.ticks import owners_of, passing_in
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


def tick(*devices: Device, clock: float = 0.0) -> Tick:
    return sample(clock, *[IDLE] * len(devices), devices=devices)


def owned(lookup: OwnerLookup, *devices: Device) -> Tick:
    """A tick of these devices with their owners."""
    made = tick(*devices)
    lookup.add_owners(made)
    return made


def ids(found: Tick) -> list[list[str] | None]:
    return [None if owners is None else [owner.id for owner in owners] for owners in owners_of(found)]


async def test_without_sources_the_tick_is_the_same() -> None:
    assert owners_of(owned(OwnerLookup(Attribution(), "here"), BOARD)) == [None]


async def test_a_job_by_index_and_free_gpus(directory: Directory) -> None:
    await directory.read({"0": "4711"})
    lookup = OwnerLookup(directory.attribution, "here")
    other = Device(Entity("gpu", "1", "GPU-dd", node="here"))
    assert ids(owned(lookup, BOARD, other, FAR)) == [["4711"], [], None]


async def test_indexes_are_those_of_this_host_and_uuids_of_any(directory: Directory) -> None:
    await directory.read({"1": "4711"})
    lookup = OwnerLookup(directory.attribution, "here")
    assert ids(owned(lookup, FAR)) == [None]
    await directory.read({"GPU-cc": "4712"})
    assert ids(owned(lookup, FAR)) == [["4712"]]


async def test_a_board_has_the_owners_of_its_instances(directory: Directory) -> None:
    await directory.read({"0.3": "1", "MIG-bb": "2"})
    lookup = OwnerLookup(directory.attribution, "here")
    assert ids(owned(lookup, BOARD, FIRST, SECOND)) == [["1", "2"], ["1"], ["2"]]


async def test_an_instance_is_found_by_its_profile_if_it_is_the_only_one() -> None:
    attribution = Attribution()
    owner = pod("ml", "a")
    attribution.apply([Found({"gpu-aa/1g10gb": (owner,)})])
    await eventually(lambda: attribution.version > 0)
    lookup = OwnerLookup(attribution, "here")
    other = Device(Entity("mig", "0", U, "1", "3g.40gb", "here"))
    assert ids(owned(lookup, BOARD, FIRST, other)) == [[owner.id], [owner.id], None]
    assert ids(owned(lookup, BOARD, FIRST, SECOND)) == [None, None, None]
    await attribution.stop()


async def test_instances_have_the_owners_of_their_board(directory: Directory) -> None:
    await directory.read({U: "1", "0.5": "2"})
    lookup = OwnerLookup(directory.attribution, "here")
    assert ids(owned(lookup, BOARD, FIRST, SECOND)) == [["1", "2"], ["1"], ["2"]]


async def test_the_uuid_is_more_certain_than_the_index(directory: Directory) -> None:
    await directory.read({"0": "1", U: "2"})
    assert ids(owned(OwnerLookup(directory.attribution, "here"), BOARD)) == [["2"]]


async def test_labels_count_where_the_host_has_no_owner(directory: Directory) -> None:
    await directory.read({"1": "4711"})
    labelled = tick(BOARD)
    labelled.gpus[0].ownership = Ownership((pod("ml", "a"),), {("pod", "ml/a"): OwnerUse(1e9)})
    OwnerLookup(directory.attribution, "here").add_owners(labelled)
    assert labelled.gpus[0].ownership == Ownership((pod("ml", "a"),), {("pod", "ml/a"): OwnerUse(1e9)})
    assert [(state.name, state.up) for state in directory.attribution.states][1:] == [("labels", True)]


async def test_owners_follow_their_source(directory: Directory) -> None:
    await directory.read({"0": "4711"})
    lookup = OwnerLookup(directory.attribution, "here")
    assert ids(owned(lookup, BOARD, FAR)) == ids(owned(lookup, BOARD, FAR)) == [["4711"], None]
    await directory.read({"0": "4712"})
    assert ids(owned(lookup, BOARD, FAR)) == [["4712"], None]
    assert ids(owned(lookup, FAR, BOARD)) == [None, ["4712"]]


async def test_owners_between_two_ticks(directory: Directory) -> None:
    await directory.read({"0": "1"})
    lookup = OwnerLookup(directory.attribution, "here")
    assert passing_in(owned(lookup, BOARD)) == {}
    await directory.read({"0": "2"})
    await directory.read({"0": "3"})
    found = owned(lookup, BOARD)
    assert ids(found) == [["3"]]
    assert [owner.id for owner in passing_in(found)[0]] == ["2"]
    assert passing_in(owned(lookup, BOARD)) == {}


def test_an_owner_continues_unless_its_id_is_used_again() -> None:
    job = Owner("slurm_job", "1", Unix(10.0))
    assert Owner("slurm_job", "1", Unix(10.0), user="ann").continues(job)
    assert Owner("slurm_job", "1").continues(job)
    assert Owner("slurm_job", "1", Unix(11.0)).continues(job)  # as another source dates it
    assert not Owner("slurm_job", "1", Unix(20.0)).continues(job)
    assert not Owner("slurm_job", "2", Unix(10.0)).continues(job)
    assert pod("ml", "a", uid="u").continues(pod("ml", "a"))
    assert not pod("ml", "a", uid="v").continues(pod("ml", "a", uid="u"))


async def test_the_setting_for_numbers_is_named_where_they_are_ambiguous(
    directory: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    await directory.read({"0": "4711"})
    lookup = OwnerLookup(directory.attribution, "here")
    owned(lookup, replace(BOARD, device="nvidia0"))
    owned(lookup, replace(FAR, device="nvidia0"))
    assert "attribution.files.numbers" not in caplog.text
    for _ in range(3):
        owned(lookup, replace(BOARD, device="nvidia1"))
        owned(lookup, BOARD)
    assert caplog.text.count("GPU 0 is /dev/nvidia1: see whether") == 1
