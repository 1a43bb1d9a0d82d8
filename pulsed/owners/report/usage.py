"""Who used how many GPU hours: the rows of several daemons added up, as a table and as CSV.

A row is a part of the document of `/report`. It has what the accounts of its owners have together; an account counts
as a whole, even if it began before the reported time.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Literal, NamedTuple

from pulsed.json_text import duration_text
from pulsed.owners.report.job_numbers import (
    JOULES_PER_KWH,
    MAX_UNKNOWN_RATIO,
    MISSING,
    Account,
    job_key,
    job_name,
    percent,
)
from pulsed.owners.report.sums import added, mean_of, ratio_of
from pulsed.owners.report.text_table import DEMO_NOTICE, TextColumn, aligned, cells
from pulsed.printable import text_cell

GroupBy = Literal["user", "account", "namespace", "workload", "node"]

LABELS: Mapping[GroupBy, Sequence[str]] = {
    "user": ("user",),
    "account": ("account",),
    "namespace": ("namespace",),
    "workload": ("namespace", "workload_kind", "workload"),
    "node": ("node",),
}
"""The labels of a row; empty ones are of owners without."""

SUMS: Mapping[str, str] = {
    "gpu_seconds": "observed time of their GPUs, of shared ones a share",
    "held_seconds": "time for which they had GPUs, observed or not",
    "observed_seconds": "observed time, also of shared GPUs in full",
    "real_utilization_seconds": "integral of the real utilization: time of full work",
    "real_utilization_unknown_seconds": "observed time without it",
    "held_idle_seconds": "observed idle time",
    "energy_joules": "energy, where it is known; null without any",
    "energy_unknown_seconds": "observed time without energy",
    "estimated_joules": "part of the energy that is a share of boards with MIG, by compute slices; null without any",
    "allocated_gpu_seconds": "observed time by the parts of GPUs that were allocated; null if these are not known",
    "allocated_joules": "energy by the same parts",
}
"""Members of rows that are sums over the GPUs of owners."""

NULLABLE = ("energy_joules", "estimated_joules", "allocated_gpu_seconds", "allocated_joules")
"""Those that are null if they were never known."""

NO_SUMS: Mapping[str, float | None] = dict.fromkeys(SUMS, 0.0) | dict.fromkeys(NULLABLE)

WORST = 20
"""Owners in the report, those with the most held idle time."""

Row = dict[str, Any]


class MergedUsage(NamedTuple):
    """The reports of several daemons as one.

    Attributes:
        rows: each GPU once, the most GPU time first.
        worst: the owners with the most held idle time.
        duplicates: nodes whose GPUs several daemons report, in words.
    """

    rows: list[Row]
    worst: list[Row]
    duplicates: list[str]


def merged_usage(reports: Mapping[str, Row], labels: Sequence[str]) -> MergedUsage:
    """Return the reports of several daemons, by their names, as one.

    Parts of rows belong to nodes. For nodes with the same GPUs, the daemon with the most GPUs of the node counts.
    """
    parts = [
        (daemon, node, frozenset(gpus)) for daemon, report in reports.items() for node, gpus in report["gpus"].items()
    ]
    counted: dict[str, tuple[str, str]] = {}
    dropped: dict[tuple[str, str], str] = {}
    duplicates = []
    for daemon, node, gpus in sorted(parts, key=lambda part: -len(part[2])):
        if others := dict.fromkeys(counted[gpu] for gpu in sorted(gpus) if gpu in counted):
            first = next(iter(others))
            dropped[daemon, node] = first[0]
            missing = len(gpus - counted.keys())
            rest = f"; {missing} more GPUs of {daemon} are not counted" if missing else ""
            duplicates.append(
                f"{len(gpus) - missing} GPUs of {node}, such as {min(gpus & counted.keys())}, are reported by two"
                f" daemons, {first[0]} and {daemon}: they count once{rest}"
            )
        else:
            counted |= dict.fromkeys(gpus, (daemon, node))

    def kept(name: Literal["rows", "worst"]) -> Iterator[Row]:
        for daemon, report in reports.items():
            for row in report[name]:
                nodes = row["nodes"]
                if left := {node: part for node, part in nodes.items() if (daemon, node) not in dropped}:
                    yield row if len(left) == len(nodes) else with_parts(row, left)

    return MergedUsage(merged_rows(kept("rows"), labels), merged_jobs(kept("worst")), duplicates)


def with_parts(row: Row, nodes: Mapping[str, Row]) -> Row:
    """Return a row with the sums of its parts by node."""
    parts = list(nodes.values())
    sums = added({name: part.get(name) for name in SUMS} for part in parts)
    cost = reduce(_cost_sum, [part["cost"] for part in parts]) if parts else None
    co2 = {"co2_grams": added(part.get("co2_grams") for part in parts)}
    count = {"jobs": len(job_keys(parts))}
    if "gpu_count" in row:
        count = {"gpu_count": sum(part["gpu_count"] for part in parts)}
    return {**row, **(sums or NO_SUMS), **count, **co2, "cost": cost, "nodes": nodes}


def job_keys(parts: Iterable[Row]) -> set[str]:
    """Return the keys of the jobs in parts of rows."""
    return {key for part in parts for key in part["job_keys"]}


def merged_rows(rows: Iterable[Row], labels: Sequence[str]) -> list[Row]:
    """Return rows, merged by equal labels, the most GPU time first."""
    merged: dict[tuple[str, ...], Row] = {}
    for row in rows:
        key = tuple(str(row[label]) for label in labels)
        merged[key] = with_parts(row, _joined_parts(merged[key], row)) if key in merged else row
    return sorted(merged.values(), key=lambda row: -row["gpu_seconds"])


def _joined_parts(first: Row, second: Row) -> Mapping[str, Row]:
    """Return the parts of two rows, merged by node."""
    nodes = dict(first["nodes"])
    for node, part in second["nodes"].items():
        if node in nodes:
            before = nodes[node]
            sums = added({name: each.get(name) for name in SUMS} for each in (before, part))
            count = {"gpu_count": before["gpu_count"] + part["gpu_count"]} if "gpu_count" in part else {}
            keys = {"job_keys": list(job_keys((before, part)))}
            co2 = {"co2_grams": added((before.get("co2_grams"), part.get("co2_grams")))}
            nodes[node] = {**part, **sums, **count, **keys, **co2, "cost": _cost_sum(before["cost"], part["cost"])}
        else:
            nodes[node] = part
    return nodes


def merged_jobs(jobs: Iterable[Row]) -> list[Row]:
    """Return owners, merged if they ran at the same time with one id, the most held idle time first."""
    merged: dict[tuple[str, ...], list[Row]] = {}
    for job in sorted(jobs, key=lambda each: str(each["begin"])):
        same = merged.setdefault(job_key(job["owner"]), [])
        if same and job["owner"]["kind"] != "process" and (same[-1]["end"] or "~") > job["begin"]:
            same[-1] = _joined(same[-1], job)
        else:
            same.append(job)
    return sorted((job for jobs in merged.values() for job in jobs), key=lambda job: -job["held_idle_seconds"])


def _joined(first: Row, second: Row) -> Row:
    worst = max(first, second, key=lambda job: float(job["held_idle_seconds"]))
    ends = [first["end"], second["end"]]
    return with_parts(first, _joined_parts(first, second)) | {
        "end": None if None in ends else max(ends),
        "finding": worst["finding"] or first["finding"] or second["finding"],
    }


def _cost_sum(first: Row | None, second: Row | None) -> Row | None:
    """Return the sum of two costs; None if one is unknown, or they have different currencies."""
    if first is None or second is None or first["currency"] != second["currency"]:
        return None
    return {
        "currency": first["currency"],
        "total": first["total"] + second["total"],
        "allocated": added((first.get("allocated"), second.get("allocated"))),
        "is_lower_bound": first["is_lower_bound"] or second["is_lower_bound"],
    }


def real_utilization(row: Account) -> float | None:
    """Return the mean real utilization over the observed time in which it was known; None without any."""
    return mean_of("real_utilization", row, row["gpu_seconds"])


def lacks_energy(row: Account) -> bool:
    """Return whether the energy covers only a part of the time."""
    return bool(row["energy_unknown_seconds"] > MAX_UNKNOWN_RATIO * row["gpu_seconds"])


def _hours(seconds: float) -> str:
    return f"{seconds / 3600.0:,.1f}"


def _energy(row: Account) -> str:
    if row["energy_joules"] is None:
        return MISSING
    mark = ">= " if lacks_energy(row) else "~" if row.get("estimated_joules") else ""
    return mark + f"{row['energy_joules'] / JOULES_PER_KWH:,.1f}"


def _allocated(row: Account) -> str:
    seconds = row["allocated_gpu_seconds"]
    return MISSING if seconds is None else _hours(seconds)


def _co2(row: Account) -> str:
    grams = row["co2_grams"]
    return MISSING if grams is None else f"{grams / 1000.0:,.1f}"


def _cost(row: Account) -> str:
    if (cost := row["cost"]) is None:
        return MISSING
    return (">= " if cost["is_lower_bound"] else "") + f"{cost['total']:,.2f} {cost['currency']}"


def _idle(row: Account) -> str:
    return f"{_hours(row['held_idle_seconds'])} ({percent(ratio_of(row['held_idle_seconds'], row['gpu_seconds']))})"


_USE = (
    TextColumn("GPU HOURS", lambda row: _hours(row["gpu_seconds"])),
    TextColumn("REAL WORK", lambda row: percent(real_utilization(row))),
    TextColumn("HELD IDLE H", _idle),
    TextColumn("KWH", _energy),
    TextColumn("COST", _cost),
)
_ROW = (
    TextColumn("JOBS", lambda row: f"{row['jobs']}"),
    *_USE,
    TextColumn("OBSERVED", lambda row: percent(ratio_of(row["observed_seconds"], row["held_seconds"]))),
)
_OPTIONAL = (TextColumn("ALLOCATED H", _allocated), TextColumn("CO2 KG", _co2))
"""Of reports in which any row has them."""

_JOB = (
    TextColumn("JOB", lambda job: job_name(job["owner"])),
    TextColumn("USER", lambda job: job["owner"]["user"] or MISSING),
    TextColumn("BEGIN", lambda job: f"{job['begin'][:10]}"),
    TextColumn("GPUS", lambda job: f"{job['gpu_count']}"),
    *_USE[:3],
    TextColumn("FINDING", lambda job: job["finding"] or MISSING),
)


def usage_table(report: Mapping[str, Any]) -> str:
    """Return a report as text: a row per group, their sum, and the owners with the most held idle time."""
    labels, rows = LABELS[report["by"]], report["rows"]
    notice = f"{DEMO_NOTICE}\n" if any(job["is_demo"] for job in report["worst"]) else ""
    title = f"{notice}Jobs and pods that ran in the last {duration_text(report['seconds'])}, each as a whole"
    if not rows:
        return f"{title}: none\n"
    jobs = {key for row in rows for key in job_keys(row["nodes"].values())}
    sums = added({name: row.get(name) for name in SUMS} for row in rows)
    total = {**sums, "jobs": len(jobs), "cost": reduce(_cost_sum, [row["cost"] for row in rows])}
    total["co2_grams"] = added(row.get("co2_grams") for row in rows)
    group = [TextColumn(label.replace("_", " ").upper(), _label(label)) for label in labels]
    values = [*_ROW[:-1], *(column for column in _OPTIONAL if column.text(total) != MISSING), _ROW[-1]]
    columns = [*group, *values]
    table = cells(columns, rows)
    if len(rows) > 1:
        table.append(["all", *[""] * (len(labels) - 1), *(column.text(total) for column in values)])
    lines = [title, "", *aligned(table, left=len(labels), indent="")]
    if wasteful := [job for job in report["worst"] if job["held_idle_seconds"] > 0.0]:
        lines += ["", "Most held idle time", "", *aligned(cells(_JOB, wasteful), left=3, indent="")]
    return "".join(f"{line}\n" for line in lines)


def _label(label: str) -> Callable[[Account], str]:
    return lambda row: row[label] or MISSING


def usage_csv(report: Mapping[str, Any]) -> str:
    """Return the rows of a report as CSV, in seconds and joules; unknown values are empty."""
    out = io.StringIO()
    names = [*LABELS[report["by"]], "jobs", *SUMS]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*names, "cost", "currency", "cost_is_lower_bound", "co2_grams"])
    for row in report["rows"]:
        cost = row["cost"] or {}
        values = [
            *(row.get(name) for name in names),
            cost.get("total"),
            cost.get("currency"),
            cost.get("is_lower_bound"),
            row.get("co2_grams"),
        ]
        writer.writerow(["" if value is None else _cell(value) for value in values])
    return out.getvalue()


def _cell(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else text_cell(f"{value}")
