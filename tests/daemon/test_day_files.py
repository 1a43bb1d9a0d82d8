"""Files of the days: their size is limited at every moment, and their lines stay in order."""

from __future__ import annotations

from math import inf
from pathlib import Path

from pulsed.daemon.day_files import DayFiles
from pulsed.durations import DAY


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_a_day_never_takes_more_than_the_limit_and_the_newest_lines_stay(tmp_path: Path) -> None:
    files = DayFiles(tmp_path, "jobs", "lines", lambda: (30 * DAY, 8000))
    for number in range(300):
        files.add(b"%07d %s" % (number, b"x" * 91))
        files.write()
        assert size_of(tmp_path) <= 8000
    lines = [line for path in files.paths() for line in path.read_bytes().splitlines()]
    numbers = [int(line[:7]) for line in lines]
    assert numbers == list(range(300 - len(numbers), 300))
    assert len(numbers) >= 70, "at most an eighth is removed at once"


def test_without_a_limit_a_day_is_one_file(tmp_path: Path) -> None:
    files = DayFiles(tmp_path, "history", "lines", lambda: (30 * DAY, inf))
    for _ in range(10):
        files.add(b"x" * 1000)
        files.write()
    assert len(files.paths()) == 1
