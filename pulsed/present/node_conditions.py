"""Health of a node's GPUs as conditions of the node on Kubernetes: `GPUHealthy` and `GPUSourceHealthy`.

`True` is good, as for `Ready`. Without samples the GPUs are `Unknown`, and the source is what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulsed.kubernetes.node_conditions import NodeCondition
from pulsed.model.health import SEVERITY
from pulsed.present.health_report import CRITICAL, Row, exit_code_of, name_of

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
