from __future__ import annotations

import time
from pathlib import Path

import pytest

from pulsed.errors import HostEngineUnavailable, StreamBroke, StreamHung
from pulsed.model.raw_tick import Labels, Layout, Series
from pulsed.reader.dcgmi.discovery import (
    NOTHING_KNOWN,
    Topology,
    described,
    discover,
    is_outdated,
    merged_layout,
    parse_hierarchy,
    parse_listing,
    parse_versions,
    topology_of,
    versions,
)
from tests.reader.dcgmi.processes import children, script
from tests.support.standin.discovery import long_version
from tests.support.standin.fixture import standin
from tests.support.standin.install import Standin, install
from tests.support.standin.scenario import Scenario, gpus, with_mig

__all__ = ["standin"]

VERSIONS = ["2.2.9", "3.1.8", "3.3.9", "4.2.3", "4.6.0"]

UUID = "GPU-8f2c1a44-9b0d-5e17-a3c8-6d21e4b7f000"
FACTS = (("uuid", UUID), ("model", "NVIDIA A100-SXM4-80GB"), ("pci_bus_id", "00000000:1B:00.0"))

# As DCGM 4.5 and newer print it with `-a`; texts of Query.cpp and its tests.
DETACHED = """\
2 GPUs found (All).
+--------+----------------------------------------------------------------------+
| GPU ID | Device Information                                                   |
+--------+----------------------------------------------------------------------+
| 0      | Status: DETACHED                                                     |
|        | Name: Tesla T4 (last known)                                          |
|        | PCI Bus ID: 00000000:3B:00.0 (last known)                            |
|        | Device UUID: GPU-0a1b2c3d-0000-1111-2222-333344445555                |
+--------+----------------------------------------------------------------------+
| 1      | Name: <<<NULL>>>                                                     |
|        | PCI Bus ID: 00000000:AF:00.0                                         |
|        | Device UUID: GPU-0a1b2c3d-0000-1111-2222-333344446666                |
+--------+----------------------------------------------------------------------+
1 NvSwitch found.
+-----------+
| Switch ID |
+-----------+
| 0         |
+-----------+
1 CPU found.
+--------+----------------------------------------------------------------------+
| CPU ID | Device Information                                                   |
+--------+----------------------------------------------------------------------+
| 0      | Name: Grace                                                          |
|        | Cores: 0-71                                                          |
+--------+----------------------------------------------------------------------+
"""


@pytest.mark.parametrize("version", VERSIONS)
async def test_gpus_have_uuid_model_and_bus_id(tmp_path: Path, version: str) -> None:
    path = install(tmp_path, Scenario(version=version, gpus=gpus("ampere", 3), switches=2, cpus=1))
    found = await discover((str(path),), 10)
    assert found.labels.keys() == {("GPU", "0"), ("GPU", "1"), ("GPU", "2")}
    assert found.labels["GPU", "0"] == FACTS
    assert not found.has_instances


@pytest.mark.parametrize("version", VERSIONS)
async def test_mig_instances_know_their_gpu_and_number(tmp_path: Path, version: str) -> None:
    split = with_mig(gpus("ampere", 1)[0], "3g.40gb", "1g.10gb")
    path = install(tmp_path, Scenario(version=version, gpus=(*gpus("ampere", 1), split)))
    found = await discover((str(path),), 10)
    assert found.has_instances
    facts = found.labels["GPU", "1"]
    assert found.labels["GPU-I", "7"] == (("gpu", "1"), ("instance_id", "1"), *facts)
    assert found.labels["GPU-I", "8"] == (("gpu", "1"), ("instance_id", "7"), *facts)
    assert found.labels["GPU-CI", "8"] == (("gpu", "1"), ("instance_id", "7"), ("compute_instance_id", "0"), *facts)
    assert found.labels["GPU", "0"] == FACTS


def test_what_is_blank_or_last_known() -> None:
    assert parse_listing(DETACHED) == {
        "0": {
            "model": "Tesla T4",
            "pci_bus_id": "00000000:3B:00.0",
            "uuid": "GPU-0a1b2c3d-0000-1111-2222-333344445555",
        },
        "1": {"pci_bus_id": "00000000:AF:00.0", "uuid": "GPU-0a1b2c3d-0000-1111-2222-333344446666"},
    }


def test_a_gpu_is_its_entity_id_not_nvmls_index() -> None:
    text = (
        "| GPU 0             | GPU GPU-aa (EntityID: 3)            |\n"
        "| -> I 0/2          | GPU Instance (EntityID: 22)         |\n"
    )
    assert parse_hierarchy(text) == {
        ("GPU", "3"): {"uuid": "GPU-aa"},
        ("GPU-I", "22"): {"gpu": "3", "instance_id": "2"},
    }
    assert topology_of("", text).labels["GPU-I", "22"] == (("gpu", "3"), ("instance_id", "2"), ("uuid", "GPU-aa"))


@pytest.mark.parametrize("text", ["", "\n", "|\n", "| a | b |\n", "| GPU 0 | x |\n", "| -> I 0 | (EntityID: 1) |\n"])
def test_nonsense_says_nothing(text: str) -> None:
    assert topology_of(text, text).labels == NOTHING_KNOWN.labels


async def test_an_engine_that_is_away_is_an_error(tmp_path: Path) -> None:
    path = install(tmp_path, Scenario(engine=False))
    with pytest.raises(HostEngineUnavailable, match="discovery -l: the host engine cannot be reached"):
        await discover((str(path),), 10)
    assert children() == []


async def test_the_host_goes_with_both_questions(tmp_path: Path) -> None:
    path = script(tmp_path, f'echo "$@" >> {tmp_path}/asked; exit 0')
    assert await discover((path, "--host", "node7:5555"), 10) == NOTHING_KNOWN
    asked = sorted((tmp_path / "asked").read_text().splitlines())
    assert asked == ["discovery --host node7:5555 -c", "discovery --host node7:5555 -l"]


async def test_no_answer_about_mig_is_no_error(tmp_path: Path) -> None:
    whole = install(tmp_path, Scenario(gpus=gpus("ampere", 1)))
    path = script(tmp_path, f'[ "$2" = -c ] && exit 255; exec {whole} "$@"', "wrapped")
    assert (await discover((path,), 10)).labels == {("GPU", "0"): FACTS}


async def test_the_list_of_a_command_that_fails_at_its_end_counts(tmp_path: Path) -> None:
    whole = install(tmp_path, Scenario(gpus=gpus("ampere", 1)))
    end = "Error: Cannot get NvSwitch list from remote node. Return: This request is serviced by a module of DCGM that"
    path = script(tmp_path, f'{whole} "$@"; echo "{end} is not currently loaded"; exit 223', "failing")
    assert (await discover((path,), 10)).labels == {("GPU", "0"): FACTS}
    with pytest.raises(StreamBroke, match="a module of DCGM that is not loaded"):
        await discover((script(tmp_path, f'echo "{end} is not currently loaded"; exit 223'),), 10)


async def test_a_question_without_answer_ends(tmp_path: Path) -> None:
    path = script(tmp_path, "exec sleep 60")
    started = time.monotonic()
    with pytest.raises(StreamHung, match=r"did not answer for 0\.1 s"):
        await discover((path,), 0.1)
    assert time.monotonic() - started < 50
    assert children() == []


async def test_an_answer_without_end_is_cut(tmp_path: Path) -> None:
    with pytest.raises(StreamBroke, match="prints endlessly"):
        await discover((script(tmp_path, "exec yes"),), 20)
    assert children() == []


Known = dict[tuple[str, str], Labels]


def test_what_dmon_must_be_started_again_for() -> None:
    gpu: Known = {("GPU", "0"): ()}
    other: Known = {("GPU", "1"): ()}
    instance: Known = {("GPU-I", "0"): ()}
    outdated: list[tuple[Known, Known]] = [
        ({}, instance),
        (gpu, gpu | instance),
        (gpu | instance, gpu),
        (gpu, gpu | other),
        (gpu, other),
    ]
    current: list[tuple[Known, Known]] = [
        ({}, {}),
        (gpu, gpu),
        ({}, gpu),
        (gpu | other, gpu),
        (gpu, {}),
        (gpu | instance, gpu | instance),
    ]
    for before, now in outdated:
        assert is_outdated(Topology(before), Topology(now))
    for before, now in current:
        assert not is_outdated(Topology(before), Topology(now))


@pytest.mark.parametrize("version", ["2.1.4", "3.3.9", "4.5.3", "4.7.0"])
def test_both_versions_are_read(version: str) -> None:
    assert parse_versions(long_version(Scenario(version=version))) == (version, version)
    assert parse_versions(long_version(Scenario(version=version, engine=False))) == (version, "")
    assert parse_versions("dcgmi: command not found") == ("", "")


async def test_who_does_not_answer_has_no_version(standin: Standin) -> None:
    assert await versions(str(standin.path), 10.0) == ("4.4.1", "4.4.1")
    standin.change(engine=False)
    assert await versions(str(standin.path), 10.0) == ("4.4.1", "")
    standin.change(slow_start=60.0)
    assert await versions(str(standin.path), 0.05) == ("", "")


def test_in_words() -> None:
    assert described(("4.4.1", "4.4.0")) == "dcgmi 4.4.1, host engine 4.4.0"
    assert described(("4.4.1", "")) == "dcgmi 4.4.1"
    assert described(("", "")) == ""


def layout(*names: str) -> Layout:
    rows = [(("entity", "GPU"), ("id", number)) for number in "01"]
    return Layout("dmon", tuple(Series(name, row) for row in rows for name in names))


FAST, SLOW = layout("POWER", "TMPTR"), layout("ESVTL")
KNOWN = Topology({("GPU", "0"): (("uuid", "GPU-0"), ("model", "T4"))})


def test_slow_series_follow_the_fast_ones_with_the_same_labels() -> None:
    made = merged_layout(FAST, SLOW, KNOWN)
    assert made.dialect == "dmon"
    assert [series.name for series in made.series] == ["POWER", "TMPTR", "POWER", "TMPTR", "ESVTL", "ESVTL"]
    gpu0 = (("entity", "GPU"), ("id", "0"), ("uuid", "GPU-0"), ("model", "T4"))
    gpu1 = (("entity", "GPU"), ("id", "1"))
    assert [series.labels for series in made.series] == [gpu0, gpu0, gpu1, gpu1, gpu0, gpu1]
