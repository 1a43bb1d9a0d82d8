"""Sums of the accounts in files: equal to those of all accounts, and each account is read once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from pulsed.daemon.kept_usage import FILE_NAME, GROUPINGS, KeptUsage
from pulsed.owners.accounting.saved_accounts import account_key, ended_account
from pulsed.owners.report.usage import GroupBy
from pulsed.present.api.account_lookup import AccountDigests, ReadingStopped, ReadingTime, digest
from pulsed.present.api.usage_documents import MAX_ROWS, OTHERS, Usage, usage
from tests.support.attacks.account_files import write_account_files


class Files:
    """Files of accounts, and their sums; `checks` counts the accounts that were read."""

    def __init__(self, folder: Path, users: int = 7) -> None:
        self.folder, self.checks = folder, 0
        write_account_files(folder, 0.2, days=4, users=users)
        self.kept = KeptUsage(self.paths, "here")

    def paths(self, since: float = 0.0) -> list[Path]:
        return sorted(self.folder.glob("jobs-*.ndjson"))

    def lines(self) -> list[bytes]:
        return [line for path in self.paths() for line in path.read_bytes().splitlines(keepends=True)]

    def usage(self, since: float = 0.0, by: GroupBy = "user", newer: Iterable[int] = ()) -> Usage:
        self.checks = 0

        def check() -> None:
            self.checks += 1

        return self.kept.usage(since, by, AccountDigests(newer), check)

    def expected(self, lines: list[bytes], by: GroupBy = "user") -> dict[str, Any]:
        return sums(usage([ended_account(line) for line in lines], by, "here"), by)


def sums(of: Usage, by: GroupBy = "user") -> dict[str, Any]:
    return {row.get(by, ""): (row["jobs"], pytest.approx(row["gpu_seconds"])) for row in of.rows}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_sums_are_those_of_all_accounts_and_are_kept(files: Files) -> None:
    lines = files.lines()
    for number, by in enumerate(GROUPINGS):
        expected = files.expected(lines, by)
        assert sums(files.usage(by=by), by) == expected
        assert files.checks == (0 if number else len(lines)), by
        assert sums(files.usage(by=by), by) == expected
        assert files.checks == 0, by


def test_of_a_file_that_grows_the_end_is_read(files: Files) -> None:
    files.usage()
    newest, oldest = files.paths()[-1], files.paths()[0]
    line = oldest.read_bytes().splitlines(keepends=True)[0].replace(b'"id":"', b'"id":"new')
    with newest.open("ab") as file:
        file.write(line)
    assert sums(files.usage()) == files.expected(files.lines())
    assert files.checks == 1


@pytest.mark.parametrize("place", [0, -1], ids=["another file", "the same file"])
def test_of_an_account_that_continued_the_last_one_counts(files: Files, place: int) -> None:
    files.usage()
    again = files.paths()[place].read_bytes().splitlines(keepends=True)[0]
    with files.paths()[-1].open("ab") as file:
        file.write(again)
    lines = [line for line in files.lines() if line != again]
    assert sums(files.usage()) == files.expected([*lines, again])


def test_accounts_that_are_elsewhere_do_not_count_in_files(files: Files) -> None:
    files.usage()
    first, *others = files.lines()
    assert sums(files.usage(newer={digest(account_key(ended_account(first)))})) == files.expected(others)
    assert sums(files.usage()) == files.expected([first, *others])


def test_a_time_within_a_file_counts_the_accounts_after_it(files: Files) -> None:
    lines = files.lines()
    ends = sorted({ended_account(line).end or 0.0 for line in lines})
    since = ends[1]
    later = [line for line in lines if (ended_account(line).end or 0.0) >= since]
    assert sums(files.usage(since)) == files.expected(later)
    assert sums(files.usage()) == files.expected(lines)


def test_torn_lines_and_files_that_are_gone_are_left_out(files: Files) -> None:
    files.usage()
    files.paths()[0].unlink()
    with files.paths()[-1].open("ab") as file:
        file.write(b'{"owner": {"id"\n')
    assert sums(files.usage()) == files.expected([line for line in files.lines() if line[-3:] != b'd"\n'])


def test_what_was_read_before_the_time_was_over_is_kept(files: Files) -> None:
    lines, read = files.lines(), 0

    def check() -> None:
        nonlocal read
        read += 1
        if read > len(lines) * 0.7:
            raise ReadingStopped

    with pytest.raises(ReadingStopped):
        files.kept.usage(0.0, "user", AccountDigests(), check)
    assert sums(files.usage()) == files.expected(lines)
    assert files.checks <= len(lines) // 2


def test_groups_beyond_the_limit_are_one_row(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsed.present.api.usage_documents.MAX_ROWS", 3)
    found = sums(files.usage())
    assert len(found) <= 4
    assert OTHERS in found
    assert sum(jobs for jobs, _ in found.values()) == len(files.lines())
    assert MAX_ROWS > 3


@pytest.mark.parametrize("stops", [lambda: ReadingTime(-1.0), lambda: ReadingTime(60.0, lambda: True)])
def test_reading_stops_when_it_takes_too_long_or_the_client_is_gone(stops: Callable[[], ReadingTime]) -> None:
    check = stops()
    time.sleep(0.001)
    with pytest.raises(ReadingStopped):
        check()


def test_the_sums_of_past_days_are_kept_over_a_restart(files: Files) -> None:
    lines = files.lines()
    files.kept = KeptUsage(files.paths, "here", files.folder)
    files.kept.refresh(AccountDigests(), lambda: None)
    assert sums(files.usage()) == files.expected(lines)
    assert files.checks == 0, "the refresh has read all"
    files.kept = KeptUsage(files.paths, "here", files.folder)
    files.kept.load()
    assert sums(files.usage()) == files.expected(lines)
    assert files.checks == len(files.paths()[-1].read_bytes().splitlines()), "the file of today may have grown"


def test_saved_sums_that_are_not_valid_are_computed_again(files: Files) -> None:
    files.kept = KeptUsage(files.paths, "here", files.folder)
    files.kept.refresh(AccountDigests(), lambda: None)
    saved, lines = files.folder / FILE_NAME, files.lines()
    text, expected = saved.read_text(), files.expected(lines)
    for change in (
        text[: len(text) // 2],
        "[]",
        text.replace('"format":["', '"format":["x'),
        text.replace('"packed":{"user":"', '"packed":{"user":"AAAA'),
        text.replace('"packed":{"user":', '"packed":{"others":'),
        text.replace('"keys":"', '"keys":"A'),
        text.replace('"inode":', '"inode":"x","other":'),
    ):
        assert change != text
        saved.write_text(change)
        files.kept = KeptUsage(files.paths, "here", files.folder)
        files.kept.load()
        assert sums(files.usage()) == expected, change[:200]
        assert files.checks == len(lines), change[:200]
