"""Health of GPUs for people and monitors: a table, and one line in the format of Nagios plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulsed.json_text import moment_of
from pulsed.model.health import SEVERITY, STATES
from pulsed.present.text_table import demo_lines
from pulsed.printable import clean

OK, WARNING, CRITICAL, UNKNOWN = 0, 1, 2, 3
"""Exit codes of Nagios plugins."""

_WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")

Row = Mapping[str, Any]
"""An element of `/health/gpus`: a GPU, a target that does not deliver, or the node, which has no target."""


def exit_code_of(rows: Sequence[Row]) -> int:
    """Return the exit code: the worst of critical and warning, then unknown if any GPU or target is, then ok."""
    worst = max((SEVERITY[row["state"]] for row in rows), default=SEVERITY["unknown"])
    if worst >= SEVERITY["warn"]:
        return CRITICAL if worst == SEVERITY["crit"] else WARNING
    return UNKNOWN if not rows or any(row["state"] == "unknown" for row in rows) else OK


def health_table(rows: Sequence[Row]) -> str:
    """Return the verdict, the problems with their remedies, and the state of every GPU."""
    lines = [*demo_lines(rows), f"{_WORDS[exit_code_of(rows)]}: {_summary(rows)}"]
    for row in rows:
        for problem in row["problems"]:
            lines += [
                "",
                f"{name_of(row)}  {problem['state'].upper()}  {problem['id']}"
                + (f"  since {problem['since']}" if problem["since"] else ""),
                f"  {problem['message']}",
                f"  -> {problem['remedy']}",
            ]
    lines += ["", *(_verdict(row) for row in rows)]
    return "\n".join(map(clean, lines)).rstrip() + "\n"


def _verdict(row: Row) -> str:
    return f"{name_of(row)}  {row['state']}  ({'stale: ' if row['stale'] else ''}{_percent(row['coverage'])})"


def health_line(rows: Sequence[Row]) -> str:
    """Return one line in the format of Nagios plugins: state, problems, performance data.

    `last_reset` among the performance data is the Unix time since which every GPU has been reset; absent without one.
    """
    wrong = [f"{name_of(row)} {each['state']}: {each['id']}" for row in rows for each in row["problems"]]
    numbers = " ".join(f"{state}={_count(rows, state)}" for state in reversed(STATES))
    summary = "; ".join([*demo_lines(rows), *wrong, _summary(rows)]).replace("|", "/")
    gpus = sum(row["gpu"] is not None for row in rows)
    data = f"gpus={gpus} {numbers} coverage={_coverage(rows)}%{_last_reset(rows)}"
    return clean(f"PULSED {_WORDS[exit_code_of(rows)]} - {summary} | {data}") + "\n"


def _last_reset(rows: Sequence[Row]) -> str:
    """Return the performance data of the earliest of the last resets; empty if a GPU was not seen to be reset."""
    times = [moment_of(time) for row in rows if (time := row.get("last_reset"))]
    is_of_all = len(times) == sum(row["gpu"] is not None or bool(row["target"]) for row in rows)
    return f" last_reset={int(min(times).timestamp())}" if times and is_of_all else ""


def name_of(row: Row) -> str:
    """Return the node and GPU of a row; the target of one without a GPU."""
    if row["gpu"] is None:
        return f"{row['target'] or row['node']}"
    return f"{row['node']} GPU {row['gpu'] or row['uuid']}" + (f":{row['mig']['id']}" if row["mig"] else "")


def _summary(rows: Sequence[Row]) -> str:
    """Return the number of rows by state, and how much was evaluated."""
    if not rows:
        return "no GPUs"
    counts = [f"{number} {state}" for state in reversed(STATES) if (number := _count(rows, state))]
    silent = sum(row["gpu"] is None and bool(row["target"]) for row in rows)
    targets = f"; {silent} without data" if silent else ""
    return f"{', '.join(counts)} ({_percent(_coverage(rows) / 100)}{targets})"


def _count(rows: Sequence[Row], state: str) -> int:
    return sum(row["state"] == state for row in rows)


def _coverage(rows: Sequence[Row]) -> int:
    """Return the mean coverage in percent; a target without data counts as 0."""
    return round(100 * sum(row["coverage"] for row in rows) / len(rows)) if rows else 0


def _percent(coverage: float) -> str:
    return f"{100 * coverage:.0f} % of the checks have data"
