"""Two jobs side by side: the means of their quantities with their spread, and which of them differ by more."""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot
from typing import Any

from pulsed.owners.report.job_numbers import Account, joules
from pulsed.owners.report.job_report import job_head
from pulsed.owners.report.job_statistics import JOB_QUANTITIES
from pulsed.owners.report.text_table import aligned
from pulsed.printable import clean


def compared_jobs(first: Account, second: Account) -> dict[str, Any]:
    """Return the document of a comparison: by quantity the means and spreads of both, and their difference.

    A spread is the standard deviation over the GPUs and over time. Where it is larger than the difference, or the jobs
    have different numbers of GPUs, `differs` is null, and `missing` is why.
    """
    quantities = {}
    for name in (quantity.name for quantity in JOB_QUANTITIES):
        statistics = [account["statistics"].get(name) for account in (first, second)]
        if statistics == [None, None]:
            continue
        means = [each and each["mean"] for each in statistics]
        spreads = [each and hypot(each["over_time"], each["over_gpus"] or 0.0) for each in statistics]
        difference = None if None in means else means[1] - means[0]
        missing = ""
        if difference is None:
            missing = f"the {'first' if means[0] is None else 'second'} job has no value"
        elif first["gpu_count"] != second["gpu_count"]:
            missing = f"{_gpus(first)} against {second['gpu_count']}"
        elif max(spreads) > abs(difference):
            missing = "the spread is larger than the difference"
        quantities[name] = {
            "first": means[0], "first_spread": spreads[0], "second": means[1], "second_spread": spreads[1],
            "difference": difference, "differs": None if missing else difference != 0.0, "missing": missing or None,
        }  # fmt: skip
    return {"jobs": [_facts(first), _facts(second)], "quantities": quantities}


def comparison_report(first: Account, second: Account) -> str:
    """Return the comparison as a table, and what differs."""
    quantities = compared_jobs(first, second)["quantities"]
    lines = [f"First   {job_head(first)}", f"Second  {job_head(second)}", "", *aligned(comparison_rows(quantities)), ""]
    return "".join(f"{clean(line)}\n" for line in [*lines, *comparison_notes(quantities)])


def comparison_notes(quantities: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return which quantities of a comparison differ, and which cannot be judged and why."""
    titles = {quantity.name: quantity.title for quantity in JOB_QUANTITIES}
    differing = [titles[name] for name, each in quantities.items() if each["differs"]]
    reasons: dict[str, list[str]] = {}
    for name, each in quantities.items():
        if each["missing"]:
            reasons.setdefault(each["missing"], []).append(titles[name])
    return [
        *([f"Differs by more than the spread: {', '.join(differing)}"] if differing else []),
        *(f"Cannot be judged: {', '.join(names)}: {reason}" for reason, names in reasons.items()),
    ]


def comparison_rows(quantities: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return the table of a comparison with its head."""
    rows = [["", "first", "spread", "second", "spread", "difference", ""]]
    for name, title, size, unit in JOB_QUANTITIES:
        if (each := quantities.get(name)) is not None:
            forms = {"first": ".0f", "first_spread": ".0f", "second": ".0f", "second_spread": ".0f"}
            units = dict.fromkeys(forms, unit) | {"difference": "pp" if unit == "%" else unit}  # percentage points
            cells = [
                "-" if each[key] is None else f"{each[key] / size:{form}} {units[key]}"
                for key, form in (forms | {"difference": "+.1f"}).items()
            ]
            verdict = (
                f"cannot be judged: {each['missing']}"
                if each["differs"] is None
                else "<- differs"
                if each["differs"]
                else ""
            )
            rows.append([title, *cells, verdict])
    return rows


def _facts(account: Account) -> dict[str, Any]:
    names = ("owner", "state", "begin", "end", "elapsed_seconds", "gpu_count", "coverage", "statistics")
    facts = {name: account[name] for name in names}
    return facts | {"gpu_seconds": account["total"]["gpu_seconds"], "joules": joules(account["total"])}


def _gpus(account: Account) -> str:
    return f"{account['gpu_count']} GPU{'s' if account['gpu_count'] != 1 else ''}"
