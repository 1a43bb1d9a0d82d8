"""The list of jobs, and rows of text in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pulsed.json_text import duration_text
from pulsed.present.demo_notice import demo_lines
from pulsed.present.job_numbers import MISSING, Account, idle_seconds, mean, percent
from pulsed.printable import clean


class _JobColumn(NamedTuple):
    title: str
    text: Callable[[Account], str]


_JOB_COLUMNS = (
    _JobColumn("JOB", lambda account: f"{account['owner']['id']}"),
    _JobColumn("KIND", lambda account: f"{account['owner']['kind']}"),
    _JobColumn("USER", lambda account: account["owner"]["user"] or MISSING),
    _JobColumn("STATE", lambda account: f"{account['state']}"),
    _JobColumn("BEGIN", lambda account: f"{account['begin'][:19]}Z"),
    _JobColumn("ELAPSED", lambda account: duration_text(account["elapsed_seconds"])),
    _JobColumn("GPUS", lambda account: f"{account['gpu_count']}"),
    _JobColumn("REAL WORK", lambda account: percent(mean([account["total"]], "real_utilization"))),
    _JobColumn("IDLE", lambda account: percent(_idle_ratio(account["total"]))),
    _JobColumn("ADVICE", lambda account: ", ".join(dict.fromkeys(each["id"] for each in account["advice"]))),
)


_FINDING = _JobColumn("FINDING", lambda account: first_finding(account) or "")
"""In place of the names of all advice."""


def first_finding(account: Account) -> str | None:
    """Return the name and the numbers of the first advice; None without any."""
    advice = account["advice"]
    return f"{advice[0]['id']}: {advice[0]['evidence']}" if advice else None


def job_table(accounts: Sequence[Account], *, with_findings: bool = False) -> str:
    """Return a table with a row per job, and the numbers of its first advice on request."""
    if not accounts:
        return "no jobs\n"
    columns = [*_JOB_COLUMNS[:-1], _FINDING] if with_findings else _JOB_COLUMNS
    rows = [[column.title for column in columns]]
    rows += [[column.text(account) for column in columns] for account in accounts]
    notice = demo_lines(gpu for account in accounts for gpu in account["gpus"])
    return "".join(f"{line}\n" for line in [*notice, *aligned(rows, left=5, indent="")])


def _idle_ratio(total: Account) -> float | None:
    return idle_seconds(total) / total["gpu_seconds"] if total["gpu_seconds"] > 0.0 else None


def aligned(rows: Sequence[Sequence[str]], left: int = 1, indent: str = "  ") -> Iterator[str]:
    """Yield rows in columns, of which the first ones are aligned to the left."""
    rows = [list(map(clean, row)) for row in rows]
    last = len(rows[0]) - 1
    widths = [max(len(row[at]) for row in rows) for at in range(last + 1)]
    for row in rows:
        cells = [
            text.ljust(widths[at]) if at < left or at == last else text.rjust(widths[at]) for at, text in enumerate(row)
        ]
        yield f"{indent}{'  '.join(cells)}".rstrip()
