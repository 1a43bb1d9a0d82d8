from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from pulsed.errors import AttributionError
from pulsed.model.clocks import Unix
from pulsed.model.owner import MAX_SHARERS, Owner
from pulsed.owners.attribution.mapping_directory import MAX_BYTES, MappingDirectory, boot_time
from pulsed.owners.attribution.source import Claims
from tests.support.clocks import ManualClock
from tests.support.waiting import SECONDS, returned

DAY = 1767225600.0


def write(path: Path, text: str, modified: float = DAY) -> None:
    """Write a file as a prolog does: beside it, then renamed."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text)
    os.utime(temporary, (modified, modified))
    temporary.replace(path)


def look(source: MappingDirectory) -> Claims:
    claims = source.read_files()
    assert claims is not None
    return claims


def ids(claims: Claims) -> Mapping[str, list[str]]:
    return {key: [owner.id for owner in owners] for key, owners in claims.owners.items()}


def begin(claims: Claims, key: str = "0") -> float | None:
    return claims.owners[key][0].begin


async def test_a_directory_that_is_not_there_is_none(tmp_path: Path) -> None:
    source = MappingDirectory(str(tmp_path / "jobs"))
    assert source.interval == 1.0
    assert await source.read() is None
    assert source.interval == 10.0, "it is looked for less often"
    (tmp_path / "jobs").mkdir()
    assert await source.read() is not None
    assert source.interval == 1.0
    await source.close()


async def test_the_jobs_of_all_devices(tmp_path: Path) -> None:
    write(tmp_path / "0", "4711 0")
    write(tmp_path / "1.7", "11\n12\n")
    write(tmp_path / "GPU-aa", "job_id=4712\nuser=ann\n")
    write(tmp_path / "README", "99")
    claims = await MappingDirectory(str(tmp_path)).read()
    assert claims == Claims(
        {
            "nvidia0": (Owner("slurm_job", "4711", Unix(DAY), user="root", user_id="0"),),
            "1/7": (Owner("slurm_job", "11", Unix(DAY)), Owner("slurm_job", "12", Unix(DAY))),
            "gpu-aa": (Owner("slurm_job", "4712", Unix(DAY), user="ann"),),
        },
        is_complete=True,
        has_numbers=True,
    )


def test_a_user_without_a_name_keeps_the_number(tmp_path: Path) -> None:
    write(tmp_path / "0", "4711 3999999999")
    assert look(MappingDirectory(str(tmp_path))).owners["nvidia0"][0].user == "3999999999"


def test_an_empty_directory_may_not_be_in_use_until_it_has_had_a_job(tmp_path: Path) -> None:
    source = MappingDirectory(str(tmp_path))
    assert not look(source).is_complete
    write(tmp_path / "0", "4711")
    look(source)
    (tmp_path / "0").unlink()
    assert look(source) == Claims({}, is_complete=True)


def test_a_job_begins_with_its_first_file_and_keeps_that_until_its_last_is_gone(tmp_path: Path) -> None:
    source = MappingDirectory(str(tmp_path))
    write(tmp_path / "0", "4711", DAY + 5)
    write(tmp_path / "1", "4711", DAY + 6)
    assert begin(look(source)) == begin(look(source), "1") == DAY + 5
    (tmp_path / "0").unlink()
    assert begin(look(source), "1") == DAY + 5


def test_a_requeued_job_begins_again(tmp_path: Path) -> None:
    source = MappingDirectory(str(tmp_path))
    write(tmp_path / "0", "4711", DAY)
    look(source)
    (tmp_path / "0").unlink()
    look(source)
    write(tmp_path / "0", "4711", DAY + 60)
    assert begin(look(source)) == DAY + 60


def test_a_file_that_is_written_again_for_another_job_leaves_the_begin(tmp_path: Path) -> None:
    source = MappingDirectory(str(tmp_path))
    write(tmp_path / "0", "4711", DAY)
    look(source)
    write(tmp_path / "0", "4711\n4712", DAY + 60)
    assert [owner.begin for owner in look(source).owners["0"]] == [DAY, DAY + 60]


def test_a_file_that_states_another_begin_begins_again(tmp_path: Path) -> None:
    source = MappingDirectory(str(tmp_path))
    write(tmp_path / "0", f"job_id=4711\nstart={DAY}", DAY)
    look(source)
    write(tmp_path / "0", f"job_id=4711\nstart={DAY + 60}", DAY + 60)
    assert begin(look(source)) == DAY + 60


def test_a_file_dates_its_job(tmp_path: Path) -> None:
    write(tmp_path / "0", f"job_id=4711\nstart={DAY - 9}", DAY)
    assert begin(look(MappingDirectory(str(tmp_path)))) == DAY - 9


def test_a_file_written_in_place_is_read_again(tmp_path: Path) -> None:
    source = MappingDirectory(str(tmp_path))
    write(tmp_path / "0", "4711")
    look(source)
    (tmp_path / "0").write_text("4712")
    assert ids(look(source)) == {"0": ["4712"]}


def test_files_from_before_the_start_of_the_host_do_not_count(tmp_path: Path) -> None:
    write(tmp_path / "0", "4711", DAY - 1)
    write(tmp_path / "1", "4712", DAY + 1)
    assert ids(look(MappingDirectory(str(tmp_path), boot_time=lambda: Unix(DAY)))) == {"1": ["4712"]}
    assert 0.0 < boot_time() < time.time()


def test_a_clock_that_is_set_back_hides_no_new_file(tmp_path: Path) -> None:
    booted = ManualClock(DAY)
    source = MappingDirectory(str(tmp_path), boot_time=booted)
    write(tmp_path / "0", "4711", DAY + 5)
    assert ids(look(source)) == {"0": ["4711"]}
    booted.now -= 3600.0
    write(tmp_path / "1", "4712", DAY - 3590)
    assert ids(look(source)) == {"0": ["4711"], "1": ["4712"]}


def test_unreadable_entries_are_counted_and_cost_nothing_else(tmp_path: Path) -> None:
    write(tmp_path / "0", "4711")
    write(tmp_path / "1", "4712 1 2 3\n4713")
    (tmp_path / "2").mkdir()
    os.mkfifo(tmp_path / "3")
    (tmp_path / "4").write_bytes(b"\xff\xfe")
    (tmp_path / "5").write_text("1\n" * MAX_BYTES)
    (tmp_path / "6").symlink_to(tmp_path / "nowhere")
    source = MappingDirectory(str(tmp_path))
    claims = look(source)
    assert ids(claims) == {"0": ["4711"], "1": ["4713"]}
    assert claims.rejected == {"unreadable_file": 5, "bad_line": 1}
    for name in "3456":
        (tmp_path / name).unlink()
    (tmp_path / "2").rmdir()
    assert look(source).rejected == {}


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("4711")
    (tmp_path / "0").symlink_to("other")
    claims = look(MappingDirectory(str(tmp_path)))
    assert (ids(claims), claims.rejected) == ({}, {"unreadable_file": 1})


@pytest.mark.parametrize("kind", ["fifo", "link", "folder", "gone"])
def test_a_file_that_is_swapped_between_two_system_calls_is_not_waited_for(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a user who may write to the directory: the look at the entry finds a file, opening it another thing."""
    write(tmp_path / "0", "4711")
    write(tmp_path / "1", "4712")
    found, path = os.stat(tmp_path / "1"), tmp_path / "1"
    path.unlink()
    (tmp_path / "other").write_text("4713")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("other")
    elif kind == "folder":
        path.mkdir()
    scan = os.scandir

    @dataclass
    class Entry:
        path: str
        name: str

        def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
            return found if self.name == "1" else os.stat(self.path)

    @contextlib.contextmanager
    def swapped(folder: str) -> Iterator[list[Entry]]:
        with scan(folder) as entries:
            names = {entry.name for entry in entries} | {"1"}
        yield [Entry(f"{folder}/{name}", name) for name in names]

    monkeypatch.setattr(os, "scandir", swapped)
    claims = returned(lambda: look(MappingDirectory(str(tmp_path))))
    assert ids(claims) == {"0": ["4711"]}
    assert claims.rejected == ({} if kind == "gone" else {"unreadable_file": 1})


def test_the_jobs_of_one_file_are_limited(tmp_path: Path) -> None:
    write(tmp_path / "0", "\n".join(map(str, range(10_000))))
    assert len(look(MappingDirectory(str(tmp_path))).owners["0"]) == MAX_SHARERS + 1


def test_a_removed_directory_and_one_that_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    source = MappingDirectory(str(folder))
    for number in range(2):
        folder.mkdir()
        write(folder / "0", "4711", DAY + number)
        assert begin(look(source)) == DAY + number
        (folder / "0").unlink()
        folder.rmdir()
        assert source.read_files() is None


def test_a_path_that_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("")
    with pytest.raises(AttributionError, match=r"jobs cannot be listed: Not a directory.*attribution.jobs.directories"):
        MappingDirectory(str(tmp_path / "jobs")).read_files()


async def test_a_file_system_that_hangs_keeps_no_other_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "0").write_text("4711")
    free, scandir = threading.Event(), os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: free.wait(SECONDS) and scandir(path))
    source = MappingDirectory(str(tmp_path))
    before = threading.active_count()
    for _ in range(5):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(source.read(), 0.02)
    assert threading.active_count() == before + 1
    free.set()
    claims = await source.read()
    assert claims is not None
    assert ids(claims) == {"0": ["4711"]}


def test_equal_settings_are_the_same_source(tmp_path: Path) -> None:
    first, second = MappingDirectory(str(tmp_path)), MappingDirectory(str(tmp_path))
    assert first == second
    assert hash(first) == hash(second)
    assert first != MappingDirectory(str(tmp_path), 2.0)


@pytest.mark.parametrize(
    ("numbers", "keys"),
    [
        ("auto", {"nvidia3", "2", "1/7", "nvidia0", "gpu-aa"}),
        ("index", {"3", "2", "1/7", "nvidia0", "gpu-aa"}),
        ("device", {"nvidia3", "nvidia2", "nvidia1/7", "nvidia0", "gpu-aa"}),
    ],
)
def test_numbers_are_indexes_or_those_of_device_files(
    tmp_path: Path, numbers: Literal["auto", "index", "device"], keys: set[str]
) -> None:
    """jobstats' exporter looks its files up by the number of the device file."""
    (tmp_path / "3").write_text("4711 1000")
    (tmp_path / "GPU-aa").write_text("4711 1000")
    (tmp_path / "2::4712").write_text("job_id=4712")
    (tmp_path / "1.7").write_text("4713")
    (tmp_path / "nvidia0").write_text("4714")
    claims = look(MappingDirectory(str(tmp_path), numbers=numbers))
    assert claims.owners.keys() == keys
    assert claims.has_numbers == (numbers == "auto")
