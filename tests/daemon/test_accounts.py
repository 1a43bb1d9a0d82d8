"""The files of accounts: what they keep over a restart, a day and a full disk, and that they are never in the way."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pulsed.config.configuration import Config
from pulsed.daemon import accounts, day_files, state_folder
from pulsed.daemon.accounts import AccountsFeature, EndedFiles
from pulsed.daemon.changes import EventsFeature
from pulsed.daemon.feature import Feature, Section
from pulsed.daemon.state_folder import StateFolder
from pulsed.model.clocks import Monotonic
from pulsed.model.owner import Owner
from pulsed.model.target_store import TargetStore
from pulsed.owners.accounting import OwnerAccounting
from pulsed.owners.accounting.account import FREE, OwnerAccount
from pulsed.owners.settings import AccountsSettings
from pulsed.present.api.account_documents import account_document
from tests.compute.streams import BUSY
from tests.daemon.parts import feature_parts, features_before_restore
from tests.owners.accounting.streams import A, B, Node, seconds
from tests.present.api.client import ask, routes
from tests.support.full_disk import file_size_limit, filled, small_disk
from tests.support.tampering import tampered
from tests.support.waiting import cancelled_before_it_has_a_thread, eventually


class Run:
    """A run of pulsed with a state folder."""

    def __init__(self, folder: Path | None, settings: AccountsSettings | None = None, clock: float = 0.0) -> None:
        config = Config(state_dir=str(folder or ""), accounts=settings or AccountsSettings())
        self.features = features_before_restore(
            TargetStore("node"), config, EventsFeature, AccountsFeature, StateFolder
        )
        self.accounts, self.state = self.features.by_class[AccountsFeature], self.features.by_class[StateFolder]
        assert isinstance(self.accounts, AccountsFeature)
        assert isinstance(self.state, StateFolder)
        self.ended = self.accounts.ended
        self.node = Node(accounting=self.accounts.accounting)
        self.node.clock = clock
        self.features.restore()

    def stop(self) -> None:
        """Write everything, as at the end of a run."""
        self.features.save()

    @property
    def up(self) -> dict[str, float]:
        """Whether each file can be written, by its name."""
        return {
            sample.labels["file"]: sample.value
            for family in self.features.metrics(Monotonic(0.0))
            for sample in family.samples
            if sample.name == "pulsed_state_up"
        }

    @property
    def ended_jobs(self) -> list[OwnerAccount]:
        """The accounts of owners that have ended and are in memory, without the time that is no owner's."""
        return list(self.ended.find(lambda owner, end: owner.key != FREE.key))

    def found(self) -> list[float]:
        """When these owners have ended, the oldest first."""
        return sorted(account.last_seen for account in self.ended_jobs)

    def job_ends(self) -> None:
        """A runs for two seconds, while B goes on."""
        for owners in [(A,), (A,), (A,), (), (), ()]:
            self.node.sees((owners, BUSY), ((B,), BUSY))


def test_a_restart_keeps_running_and_ended_accounts(tmp_path: Path) -> None:
    first = Run(tmp_path / "state")
    first.job_ends()
    first.stop()
    second = Run(tmp_path / "state", clock=first.node.clock)
    second.node.sees(((), BUSY), ((B,), BUSY))
    (ended,) = second.ended_jobs
    assert (ended.owner, seconds(ended)) == (A, 2.0)
    assert seconds(second.node.running(B)) == 5.0
    second.stop()
    lines = next((tmp_path / "state").glob("*.ndjson")).read_text().splitlines()
    assert [json.loads(line)["owner"]["id"] for line in lines] == ["a", "free"]


def test_accounts_that_were_not_seen_again_are_not_lost_by_another_restart(tmp_path: Path) -> None:
    first = Run(tmp_path)
    first.job_ends()
    first.stop()
    for _ in range(3):
        Run(tmp_path).stop()
    last = Run(tmp_path, clock=first.node.clock)
    last.node.sees(((), BUSY), ((B,), BUSY))
    assert seconds(last.node.running(B)) == 5.0


@pytest.mark.parametrize("writer", ["accounts", "state"])
def test_an_account_is_not_lost_while_its_write_waits_for_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    monkeypatch.setattr(accounts, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(state_folder, "LOOK_SECONDS", 0.01)
    first = Run(tmp_path)
    first.job_ends()
    writing = first.accounts.run() if writer == "accounts" else first.state.run()
    asyncio.run(cancelled_before_it_has_a_thread(writing, first.stop))
    second = Run(tmp_path, clock=first.node.clock)
    assert [account.owner for account in second.ended_jobs] == [A]
    assert [account.owner for account in second.node.accounting.unfinished] == [B], "the rest of the time has ended"


def test_without_a_folder_only_ended_accounts_are_kept() -> None:
    run = Run(None)
    run.job_ends()
    run.stop()
    assert len(run.ended) == 1
    assert run.up == {}


def test_damaged_files_are_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "state.json").write_text('{"version": 1, "sections": {"accounts": [{"owner": 1}]}}')
    (tmp_path / "jobs-2026-01-01.ndjson").write_bytes(b'\xff\n{"owner": {}}\n[1')
    run = Run(tmp_path)
    assert (tmp_path / "state.json.broken").exists()
    assert len(run.ended) == 0
    assert caplog.text.count("cannot be used") == 3
    assert caplog.text.count("set aside") == 1
    run.job_ends()
    run.stop()
    assert len(Run(tmp_path).ended_jobs) == 1


def test_a_section_that_fails_stays_as_it_was_and_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Other(Feature):
        name = "other"

        def sections(self) -> Iterable[Section]:
            yield Section("other", lambda: 0, lambda: {"kept": True}, lambda saved: None)

    config = Config(state_dir=str(tmp_path))
    state = StateFolder(feature_parts(TargetStore("node"), config, EventsFeature, AccountsFeature, Other))
    state.save()

    def fail(account: object) -> object:
        raise RuntimeError("broken")

    monkeypatch.setattr(accounts, "dump_account", fail)
    monkeypatch.setattr(OwnerAccounting, "unfinished", [1])
    state.save()
    saved = json.loads((tmp_path / "state.json").read_bytes())["sections"]
    assert saved == {"accounts": [], "other": {"kept": True}}
    assert caplog.text.count("internal error in a section of the state") == 1


def old_days(folder: Path) -> None:
    """Write the files of the 11 days before today."""
    for ago in range(1, 12):
        (folder / time.strftime("jobs-%Y-%m-%d.ndjson", time.gmtime(time.time() - ago * 86400))).write_text("")


def test_old_days_are_removed(tmp_path: Path) -> None:
    old_days(tmp_path)
    (tmp_path / "jobs-of-mine.ndjson").write_text("")
    run = Run(tmp_path, AccountsSettings(keep=6 * 86400.0))
    run.job_ends()
    run.stop()
    kept = sorted(path.name for path in tmp_path.glob("jobs-2*"))
    assert len(kept) == 1 + 6
    assert kept[0] == time.strftime("jobs-%Y-%m-%d.ndjson", time.gmtime(time.time() - 6 * 86400))
    assert (tmp_path / "jobs-of-mine.ndjson").exists()


def test_what_cannot_be_removed_keeps_no_other_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    old_days(tmp_path)
    oldest = min(tmp_path.iterdir())
    oldest.unlink()
    oldest.mkdir()
    run = Run(tmp_path, AccountsSettings(keep=6 * 86400.0))
    for _ in range(2):
        run.job_ends()
        run.stop()
    assert len(list(tmp_path.glob("jobs-2*"))) == 1 + 6 + 1
    assert caplog.text.count("an old file in state_dir cannot be removed") == 1


def test_days_beyond_the_size_are_removed(tmp_path: Path) -> None:
    (tmp_path / "jobs-2026-01-01.ndjson").write_text("x" * 101)
    run = Run(tmp_path, AccountsSettings(keep=1e9, max_bytes=100))
    run.job_ends()
    run.stop()
    assert not (tmp_path / "jobs-2026-01-01.ndjson").exists()
    assert len(list(tmp_path.glob("*.ndjson"))) == 1  # the newest, whatever its size


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/self").exists(), reason="needs a folder that refuses files")
def test_a_folder_that_refuses_files_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(Path("/proc/self/nowhere"))
    for _ in range(3):
        run.job_ends()
        run.stop()
    assert caplog.text.count("accounts of ended owners cannot be saved") == 1
    assert caplog.text.count("state cannot be saved") == 1


async def test_what_has_changed_is_written_regularly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(state_folder, "LOOK_SECONDS", 0.01)
    run = Run(tmp_path)
    writing = [asyncio.create_task(run.accounts.run()), asyncio.create_task(run.state.run())]
    await eventually(lambda: (tmp_path / "state.json").exists())
    (tmp_path / "state.json").unlink()
    run.job_ends()
    await eventually(lambda: (tmp_path / "state.json").exists() and bool(lines_of(tmp_path)[0]))
    for task in writing:
        task.cancel()
    await asyncio.wait(writing)
    second = Run(tmp_path)
    assert (len(second.ended_jobs), len(list(second.node.accounting.unfinished))) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("ends_often", [False, True])
async def test_silent_targets_are_looked_for_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_often: bool
) -> None:
    """Whether accounts are kept or not, and however often they are written."""
    run = Run(tmp_path if ends_often else None)
    clock, sweeps = itertools.count(step=accounts.LOOK_SECONDS), 0

    async def pause(seconds: float) -> None:
        if ends_often:
            run.job_ends()
        now = next(clock)
        monkeypatch.setattr(time, "monotonic", lambda: now)
        if now >= 300.0:
            raise asyncio.CancelledError

    def count(now: float, targets: Sequence[str]) -> tuple[()]:
        nonlocal sweeps
        sweeps += 1
        return ()

    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    monkeypatch.setattr(accounts, "aligned_sleep", pause)
    monkeypatch.setattr(run.node.accounting, "sweep", count)
    with pytest.raises(asyncio.CancelledError):
        await run.accounts.run()
    assert sweeps == 4


def lines_of(folder: Path) -> list[bytes]:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("jobs-*.ndjson"))).split(b"\n")


def test_nothing_that_ended_is_lost_by_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with small_disk(tmp_path / "disk") as disk:
        run = Run(disk / "state")
        run.job_ends()
        run.stop()
        with filled(disk):
            for _ in range(3):
                run.job_ends()
                run.stop()
            assert run.up == {"state.json": 0.0, "jobs-DAY.ndjson": 0.0}
            assert not (disk / "state" / "state.json.new").exists(), "it would take up room"
            assert caplog.text.count("accounts of ended owners cannot be saved") == 1
        run.job_ends()
        run.stop()
        assert run.up == {"state.json": 1.0, "jobs-DAY.ndjson": 1.0}
        assert caplog.text.count("accounts of ended owners can be saved again") == 1
        *lines, rest = lines_of(disk / "state")
        assert (len(lines), rest) == (5, b"")
        assert len(set(lines)) == 5
        again = Run(disk / "state")
        assert again.found() == run.found()
        assert "cannot be used" not in caplog.text


def test_a_write_that_ends_in_the_middle_leaves_nothing_and_is_repeated(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.job_ends()
    run.stop()
    (path,) = tmp_path.glob("*.ndjson")
    before = path.read_bytes()
    run.job_ends()
    with file_size_limit(len(before) + 100):
        run.stop()
        assert path.read_bytes() == before
        run.job_ends()
        run.stop()
    run.stop()
    assert len(path.read_bytes().splitlines()) == 3
    assert Run(tmp_path).found() == run.found()


def test_accounts_that_could_not_be_written_survive_a_restart(tmp_path: Path) -> None:
    """As when the file of the day belongs to root, because pulsed was started as root once."""
    today = tmp_path / time.strftime("jobs-%Y-%m-%d.ndjson", time.gmtime())
    today.mkdir()
    first = Run(tmp_path)
    first.job_ends()
    first.stop()
    second = Run(tmp_path, clock=first.node.clock)
    assert second.found() == first.found()
    second.node.sees(((), BUSY), ((B,), BUSY))
    assert seconds(second.node.running(B)) == 5.0
    today.rmdir()
    second.stop()
    assert [json.loads(line)["owner"]["id"] for line in today.read_bytes().splitlines()] == ["a", "free"]
    assert Run(tmp_path).found() == first.found()


def test_an_account_that_has_ended_does_not_run_again_after_a_crash(tmp_path: Path) -> None:
    """A crash may come between the two files."""
    first = Run(tmp_path)
    for owners in [(A,), (A,), (A,)]:
        first.node.sees((owners, BUSY), ((B,), BUSY))
    first.stop()
    running = (tmp_path / "state.json").read_bytes()
    for _ in range(3):
        first.node.sees(((), BUSY), ((B,), BUSY))
    first.stop()
    (tmp_path / "state.json").write_bytes(running)
    second = Run(tmp_path, clock=first.node.clock)
    assert [account.owner for account in second.node.accounting.unfinished] == [B], "the rest of the time has ended"
    assert second.found() == first.found()


def test_a_line_that_was_torn_costs_itself_only(tmp_path: Path) -> None:
    first = Run(tmp_path)
    first.job_ends()
    first.stop()
    (path,) = tmp_path.glob("*.ndjson")
    path.write_bytes(path.read_bytes() + path.read_bytes()[:-20])
    second = Run(tmp_path, clock=first.node.clock)
    second.job_ends()
    second.stop()
    assert Run(tmp_path).found() == second.found()
    assert len(second.found()) == 2


@pytest.mark.parametrize("torn", [b'{"owner":{"kind":"slurm_job","id":"x","na', b"\0\0\0", b'[{"owner":'])
def test_a_torn_line_without_an_end_does_not_swallow_the_next_job(tmp_path: Path, torn: bytes) -> None:
    """As of an earlier version, which did not end it."""
    first = Run(tmp_path)
    first.job_ends()
    first.stop()
    (path,) = tmp_path.glob("*.ndjson")
    path.write_bytes(torn + path.read_bytes())
    assert Run(tmp_path).found() == first.found() != []


def test_what_waits_is_limited_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(day_files, "WAITING_BYTES", 1000)
    files = EndedFiles(tmp_path / "state", AccountsSettings)
    (tmp_path / "state").write_text("a file where the folder should be")
    for number in range(30):
        files.add(b"%0100d" % number)
        if number % 10 == 9:
            files.write()
            assert files.status.is_failing
    assert files.dropped == 20
    assert [record.dropped for record in caplog.records if "too many wait" in record.message] == [10, 10]  # type: ignore[attr-defined]
    (tmp_path / "state").unlink()
    files.write()
    assert not files.status.is_failing
    assert [int(line) for line in files.last_lines(100)] == list(range(20, 30))


def test_what_is_no_file_of_a_day_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither waits pulsed for a FIFO, nor does it write where a link leads."""
    first = Run(tmp_path)
    first.job_ends()
    first.stop()
    os.mkfifo(tmp_path / "jobs-2026-01-01.ndjson")
    (tmp_path / "jobs-2026-01-02.ndjson").symlink_to("/etc/passwd")
    (tmp_path / "jobs-2026-01-03.ndjson").mkdir()
    assert Run(tmp_path).found() == first.found()
    assert caplog.text.count("accounts of ended owners cannot be read") == 3
    (path,) = [path for path in tmp_path.glob("*.ndjson") if path.is_file() and not path.is_symlink()]
    (tmp_path / "elsewhere").touch()
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    first.job_ends()
    first.stop()
    assert (tmp_path / "elsewhere").read_bytes() == b""


def test_a_day_larger_than_memory_is_read_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "READ_BYTES", 1000)
    files = EndedFiles(tmp_path, AccountsSettings)
    for day in (1, 2):
        (tmp_path / f"jobs-2026-01-{day:02}.ndjson").write_bytes(b"".join(b"%099d\n" % at for at in range(100)))
    assert [int(line) for line in files.last_lines(5)] == list(range(95, 100))
    assert [int(line) for line in files.last_lines(1000)] == list(range(91, 100))


def test_others_cannot_read_the_names_of_users(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        run = Run(tmp_path / "state")
        run.job_ends()
        run.stop()
    finally:
        os.umask(before)
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o750
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "state").iterdir()} == {0o640}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["state.json", time.strftime("jobs-%Y-%m-%d.ndjson")])
def test_no_change_of_a_file_stops_pulsed(tmp_path: Path, name: str) -> None:
    first = Run(tmp_path)
    first.job_ends()
    first.stop()
    (day,) = tmp_path.glob("*.ndjson")
    document = json.loads((tmp_path / "state.json" if name == "state.json" else day).read_bytes())
    for text, change in tampered(document, 500, seed=1):
        for path in tmp_path.iterdir():
            path.unlink()
        (tmp_path / name).write_text(text + "\n")
        try:
            run = Run(tmp_path, clock=first.node.clock)
            for owners in [(B,)] * 3 + [()] * 3:
                run.node.sees(((), BUSY), (owners, BUSY))
            seen = [*run.node.accounting.unfinished, *run.ended.find()]
            run.stop()
            assert Run(tmp_path).found() == run.found()
            for account in seen:
                json.dumps(account_document(account, "node"), allow_nan=False)
        except Exception as error:
            raise AssertionError(change) from error


async def test_the_rows_of_a_report_add_up_to_all_time_of_the_gpus(tmp_path: Path) -> None:
    """Over a restart, a day that ends, and changes of owners."""
    first = Run(tmp_path)
    first.job_ends()
    first.stop()
    second = Run(tmp_path, clock=first.node.clock)
    for _ in range(2):
        second.job_ends()
        second.node.accounting.end_free()
    second.node.sees(((), BUSY), ((), BUSY))
    app = routes(*second.accounts.routes())
    for by in ("user", "node", "namespace"):
        _, document, _ = await ask(app, f"/report?by={by}&since=1")
        observed = 2 * ((6 - 1) + (12 + 1 - 1))
        assert sum(row["gpu_seconds"] for row in document["rows"]) == observed
        assert sum(row["jobs"] for row in document["rows"]) == 2, "one was requeued"
        assert {job["owner"]["kind"] for job in document["worst"]} <= {"slurm_job"}
    _, document, _ = await ask(app, "/jobs?state=ended&since=1")
    assert {job["owner"]["id"] for job in document["jobs"]} == {"a"}


async def test_what_is_no_longer_in_memory_is_found_in_its_file(tmp_path: Path) -> None:
    """By every name, by filters with `since`, and in the report; the one that goes on is there once."""
    run = Run(tmp_path)
    for number in range(6):
        owner = Owner("slurm_job", str(number), user="ann" if number < 4 else "bob")
        for owners in [(owner,), (owner,), (owner,), (), (), ()]:
            run.node.sees((owners, BUSY), ((B,), BUSY))
    run.stop()
    while len(run.ended) > 2:  # as of a long list
        run.ended.drop(next(reversed(list(run.ended.find()))))
    app = routes(*run.accounts.routes())

    async def found(path: str) -> Any:
        status, document, _ = await ask(app, path)
        return document if status == 200 else status

    def ids(document: Any) -> list[str]:
        return [each["owner"]["id"] for each in document["jobs"]]

    assert ids(await found("/jobs?state=ended")) == ["5", "4"]
    assert ids(await found("/jobs?state=ended&since=1")) == ["5", "4", "3", "2", "1", "0"]
    assert ids(await found("/jobs?since=1&user=ann")) == ["3", "2", "1", "0"]
    assert ids(await found("/jobs?state=ended&since=1&limit=2&offset=3")) == ["2", "1"]
    assert (await found("/jobs/0"))["total"]["gpu_seconds"] == 2.0
    assert await found("/jobs/6") == 404
    assert [each["owner"]["id"] for each in await found("/jobs/1?all=true")] == ["1"]
    rows = {row["user"]: row for row in (await found("/report?by=user&since=1"))["rows"]}
    assert {user: (row["jobs"], row["gpu_seconds"]) for user, row in rows.items()} == {
        "ann": (4, 8.0),
        "bob": (2, 4.0),
        "(no owner)": (0, 23.0),
        "": (1, (await found("/jobs/b"))["total"]["gpu_seconds"]),
    }
    assert ids(await found(f"/jobs?state=ended&since={time.time() + 10 * 86400:.0f}")) == []
