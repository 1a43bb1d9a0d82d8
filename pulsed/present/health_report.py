"""Health of GPUs for people and monitors: a table, a line in the format of Nagios plugins, and conditions of a node.

All are made of the rows of `/health/gpus`. The conditions are `GPUHealthy` and `GPUSourceHealthy`; `True` is good, as
for `Ready`. Without samples the GPUs are `Unknown`, and the source is what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulsed.json_text import moment_of
from pulsed.kubernetes.objects import NodeCondition
from pulsed.model.health import SEVERITY, STATES
from pulsed.owners.report.text_table import demo_lines
from pulsed.printable import clean

OK, WARNING, CRITICAL, UNKNOWN = 0, 1, 2, 3
"""Exit codes of Nagios plugins."""

_WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")

Row = Mapping[str, Any]
"""An element of `/health/gpus`: a GPU, a target that does not deliver, or the node, which has no target."""


def exit_code_of(rows: Sequence[Row], require_coverage: float = 0.0) -> int:
    """Return the exit code: the worst of critical and warning, then unknown if any GPU or target is, then ok.

    Args:
        require_coverage: share of the checks of each GPU that must be known; with fewer it is unknown, 0..1.
    """
    worst = max((SEVERITY[row["state"]] for row in rows), default=SEVERITY["unknown"])
    if worst >= SEVERITY["warn"]:
        return CRITICAL if worst == SEVERITY["crit"] else WARNING
    is_short = require_coverage > 0.0 and any(
        row["gpu"] is not None and row["coverage"] < require_coverage for row in rows
    )
    return UNKNOWN if not rows or is_short or any(row["state"] == "unknown" for row in rows) else OK


def health_table(rows: Sequence[Row], require_coverage: float = 0.0) -> str:
    """Return the verdict, the problems with their remedies, and the state of every GPU."""
    lines = [*demo_lines(rows), f"{_WORDS[exit_code_of(rows, require_coverage)]}: {_summary(rows)}"]
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
    known = _known_of([row]) if row["state"] == "ok" else ""
    return f"{name_of(row)}  {row['state']}{known}  ({'stale: ' if row['stale'] else ''}{_percent(row['coverage'])})"


def health_line(rows: Sequence[Row], require_coverage: float = 0.0) -> str:
    """Return one line in the format of Nagios plugins: state, problems, performance data.

    `last_reset` among the performance data is the Unix time since which every GPU has been reset; absent without one.
    """
    wrong = [f"{name_of(row)} {each['state']}: {each['id']}" for row in rows for each in row["problems"]]
    numbers = " ".join(f"{state}={_count(rows, state)}" for state in reversed(STATES))
    summary = "; ".join([*demo_lines(rows), *wrong, _summary(rows)]).replace("|", "/")
    gpus = sum(row["gpu"] is not None for row in rows)
    data = f"gpus={gpus} {numbers} coverage={_coverage(rows)}%{_last_reset(rows)}"
    return clean(f"PULSED {_WORDS[exit_code_of(rows, require_coverage)]} - {summary} | {data}") + "\n"


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
    by_state = {state: [row for row in rows if row["state"] == state] for state in reversed(STATES)}
    counts = [
        f"{len(of_state)} {state}{_known_of(of_state) if state == 'ok' else ''}"
        for state, of_state in by_state.items()
        if of_state
    ]
    silent = sum(row["gpu"] is None and bool(row["target"]) for row in rows)
    targets = f"; {silent} without data" if silent else ""
    return f"{', '.join(counts)} ({_percent(_coverage(rows) / 100)}{targets})"


def _known_of(rows: Sequence[Row]) -> str:
    """Return how many checks are known of those that apply, `` 4/23``; empty where none applies."""
    known, applicable = (sum(row.get(key) or 0 for row in rows) for key in ("known_checks", "applicable_checks"))
    return f" {known}/{applicable}" if applicable else ""


def _count(rows: Sequence[Row], state: str) -> int:
    return sum(row["state"] == state for row in rows)


def _coverage(rows: Sequence[Row]) -> int:
    """Return the mean coverage in percent; a target without data counts as 0."""
    return round(100 * sum(row["coverage"] for row in rows) / len(rows)) if rows else 0


def _percent(coverage: float) -> str:
    return f"{100 * coverage:.0f} % of the checks have data"


MAX_PROBLEMS = 3
"""Problems in a message; of the others there is the number."""

HEALTHY, SOURCE_HEALTHY = "GPUHealthy", "GPUSourceHealthy"


def node_conditions(rows: Sequence[Row]) -> Sequence[NodeCondition]:
    """Return both conditions, from the rows of `/health/gpus`."""
    silent = [row for row in rows if _is_silent(row)]
    problems = [(row, each) for row in rows if row not in silent for each in row["problems"]]
    problems.sort(key=lambda problem: -SEVERITY[problem[1]["state"]])  # stable: in the order of GPUs and checks
    reason, message = _reason_of(problems[0][1]["id"]) if problems else "GPUsAreHealthy", _message(problems)
    unknown = [name_of(row) for row in rows if row["state"] == "unknown"]
    if exit_code_of(rows) == CRITICAL:
        health = NodeCondition(HEALTHY, "False", reason, message)
    elif unknown or not rows:
        reason, what = ("NoSamples", "no current samples") if silent else ("NotEvaluated", "not enough inputs")
        names = ", ".join([*unknown[:MAX_PROBLEMS], *(["..."] if len(unknown) > MAX_PROBLEMS else [])])
        health = NodeCondition(HEALTHY, "Unknown", reason, "; ".join(filter(None, (f"{what}: {names}", message))))
    else:
        health = NodeCondition(HEALTHY, "True", reason, message or "no check is raised")
    return health, _source(rows, silent)


def _is_silent(row: Row) -> bool:
    """Return whether a row is a target that does not deliver."""
    return row["gpu"] is None and row["stale"]


def _source(rows: Sequence[Row], silent: Sequence[Row]) -> NodeCondition:
    if silent or not rows:
        problems = [(row, each) for row in silent for each in row["problems"]]
        return NodeCondition(SOURCE_HEALTHY, "False", "NoSamples", _message(problems) or "no source is configured")
    return NodeCondition(SOURCE_HEALTHY, "True", "SourceDelivers", "all sources deliver samples")


def _message(problems: Sequence[tuple[Row, Mapping[str, Any]]]) -> str:
    """Return the worst problems with their remedies; empty without one."""
    shown = [
        f"{name_of(row)}{f' {uuid}' if (uuid := row['uuid']) else ''} {each['state']} {each['id']}: "
        f"{each['message']} -> {each['remedy']}"
        for row, each in problems[:MAX_PROBLEMS]
    ]
    more = len(problems) - len(shown)
    return "; ".join([*shown, *([f"and {more} more"] if more > 0 else [])])


def _reason_of(check: str) -> str:
    """Return the id of a check in CamelCase.

    >>> _reason_of("row_remap_failed")
    'RowRemapFailed'
    """
    return "".join(map(str.capitalize, check.split("_")))
