"""The files of accounts: what they keep over a restart and a day, and that they are never in the way."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from pulsed.accounting.accounting import OwnerAccounting
from pulsed.accounting.ended import EndedAccounts
from pulsed.collector import account_files
from pulsed.collector.account_files import KEPT_DAYS, AccountFiles
from tests.accounting.streams import A, B, Node, seconds
from tests.compute.streams import BUSY
from tests.waiting import eventually


class Run:
    """A run of pulsed with a state folder."""

    def __init__(self, folder: Path | None, clock: float = 0.0) -> None:
        self.ended = EndedAccounts()
        self.node = Node(accounting=OwnerAccounting(on_end=self.ended.add))
        self.node.clock = clock
        self.files = AccountFiles(folder, self.node.accounting, self.ended)
        self.files.restore()

    def job_ends(self) -> None:
        """A runs for two seconds, while B goes on."""
        for owners in [(A,), (A,), (A,), (), (), ()]:
            self.node.sees((owners, BUSY), ((B,), BUSY))


def test_a_restart_keeps_running_and_ended_accounts(tmp_path: Path) -> None:
    first = Run(tmp_path / "state")
    first.job_ends()
    first.files.write()
    second = Run(tmp_path / "state", first.node.clock)
    second.node.sees(((), BUSY), ((B,), BUSY))
    (ended,) = second.ended.find()
    assert (ended.owner, seconds(ended)) == (A, 2.0)
    assert seconds(second.node.running(B)) == 5.0
    second.files.write()
    assert len((tmp_path / "state").glob("*.ndjson").__next__().read_text().splitlines()) == 1


def test_accounts_that_were_not_seen_again_are_not_lost_by_another_restart(tmp_path: Path) -> None:
    first = Run(tmp_path)
    first.job_ends()
    first.files.write()
    for _ in range(3):
        Run(tmp_path).files.write()
    last = Run(tmp_path, first.node.clock)
    last.node.sees(((), BUSY), ((B,), BUSY))
    assert seconds(last.node.running(B)) == 5.0


def test_without_a_folder_nothing_is_kept_in_memory_for_it() -> None:
    run = Run(None)
    run.job_ends()
    run.files.write()
    assert run.ended.unwritten == []
    assert len(run.ended) == 1


def test_damaged_files_are_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "jobs.json").write_text('{"version": 1, "accounts": [{"owner": 1}]}')
    (tmp_path / "jobs-2026-01-01.ndjson").write_bytes(b'\xff\n{"owner": {}}\n[1')
    run = Run(tmp_path)
    assert (tmp_path / "jobs.json.broken").exists()
    assert len(run.ended) == 0
    assert caplog.text.count("of no use") == 3
    run.job_ends()
    run.files.write()
    assert len(Run(tmp_path).ended) == 1


def test_old_days_are_removed(tmp_path: Path) -> None:
    for day in range(1, 12):
        (tmp_path / f"jobs-2026-01-{day:02}.ndjson").write_text("")
    (tmp_path / "jobs-of-mine.ndjson").write_text("")
    run = Run(tmp_path)
    run.job_ends()
    run.files.write()
    kept = sorted(path.name for path in tmp_path.glob("jobs-2*"))
    assert len(kept) == KEPT_DAYS
    assert kept[0] == "jobs-2026-01-06.ndjson"
    assert (tmp_path / "jobs-of-mine.ndjson").exists()


def test_days_beyond_the_size_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_files, "KEPT_BYTES", 100)
    (tmp_path / "jobs-2026-01-01.ndjson").write_text("x" * 101)
    run = Run(tmp_path)
    run.job_ends()
    run.files.write()
    assert not (tmp_path / "jobs-2026-01-01.ndjson").exists()
    assert len(list(tmp_path.glob("*.ndjson"))) == 1  # the newest, whatever its size


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/self").exists(), reason="needs a folder that refuses files")
def test_a_folder_that_refuses_files_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(Path("/proc/self/nowhere"))
    for _ in range(3):
        run.job_ends()
        run.files.write()
    assert caplog.text.count("accounts of ended owners cannot be kept") == 1
    assert caplog.text.count("accounts of owners cannot be kept") == 1


async def test_an_account_is_written_when_its_owner_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_files, "LOOK_SECONDS", 0.01)
    run = Run(tmp_path)
    writing = asyncio.create_task(run.files.write_regularly(lambda changes: None))
    run.job_ends()
    await eventually(lambda: (tmp_path / "jobs.json").exists())
    writing.cancel()
    await asyncio.wait([writing])
    assert len(Run(tmp_path).ended) == 1
