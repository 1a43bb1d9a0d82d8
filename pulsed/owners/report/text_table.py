"""Tables of text: the notice above simulated data, rows in columns, and the list of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pulsed.json_text import duration_text
from pulsed.model.gpu import DEMO_MARK
from pulsed.owners.report.job_numbers import MISSING, Account, job_name, percent, summary_of
from pulsed.printable import clean

DEMO_NOTICE = "DEMO DATA: these GPUs do not exist"
"""Above data of the source `demo`, for people who may take it for real."""


def has_demo(gpus: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether any GPU of a document is simulated, by its product name."""
    return any(DEMO_MARK in (gpu["model"] or "") for gpu in gpus)


def demo_lines(gpus: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the notice as the first line of a text, if any GPU is simulated."""
    return [DEMO_NOTICE] if has_demo(gpus) else []


class TextColumn(NamedTuple):
    """A column of a table: its title, and the text of a row's cell."""

    title: str
    text: Callable[[Account], str]


def cells(columns: Sequence[TextColumn], rows: Iterable[Account]) -> list[list[str]]:
    """Return the titles, and the texts of each row."""
    return [[column.title for column in columns], *([column.text(row) for column in columns] for row in rows)]


_JOB_COLUMNS = (
    TextColumn("JOB", lambda account: job_name(account["owner"])),
    TextColumn("KIND", lambda account: f"{account['owner']['kind']}"),
    TextColumn("USER", lambda account: account["owner"]["user"] or MISSING),
    TextColumn("STATE", lambda account: f"{account['state']}"),
    TextColumn("BEGIN", lambda account: f"{account['begin'][:19]}Z"),
    TextColumn("ELAPSED", lambda account: duration_text(account["elapsed_seconds"])),
    TextColumn("GPUS", lambda account: f"{account['gpu_count']}"),
    TextColumn("NODES", lambda account: f"{len({gpu['node'] for gpu in account['gpus']})}"),
    TextColumn("REAL WORK", lambda account: percent(summary_of(account["total"]).real_utilization_ratio)),
    TextColumn("IDLE", lambda account: percent(summary_of(account["total"]).idle_ratio)),
    TextColumn("ADVICE", lambda account: ", ".join(dict.fromkeys(each["id"] for each in account["advice"]))),
)


_FINDING = TextColumn("FINDING", lambda account: first_finding(account) or "")
"""In place of the names of all advice."""


def first_finding(account: Account) -> str | None:
    """Return the name and the numbers of the first advice, otherwise the reason for its absence; None without both."""
    advice = account["advice"]
    if not advice and account["exempt"]:
        return f"exempt: {account['exempt']}"
    return f"{advice[0]['id']}: {advice[0]['evidence']}" if advice else None


def job_table(accounts: Sequence[Account], *, with_findings: bool = False) -> str:
    """Return a table with a row per job, and the numbers of its first advice on request."""
    if not accounts:
        return "no jobs\n"
    columns = [*_JOB_COLUMNS[:-1], _FINDING] if with_findings else _JOB_COLUMNS
    notice = demo_lines(gpu for account in accounts for gpu in account["gpus"])
    return "".join(f"{line}\n" for line in [*notice, *aligned(cells(columns, accounts), left=5, indent="")])


def aligned(rows: Sequence[Sequence[str]], left: int = 1, indent: str = "  ") -> Iterator[str]:
    """Yield rows in columns; the first columns are left-aligned."""
    rows = [list(map(clean, row)) for row in rows]
    last = len(rows[0]) - 1
    widths = [max(len(row[at]) for row in rows) for at in range(last + 1)]
    for row in rows:
        padded = [
            text.ljust(widths[at]) if at < left or at == last else text.rjust(widths[at]) for at, text in enumerate(row)
        ]
        yield f"{indent}{'  '.join(padded)}".rstrip()
