"""Two jobs side by side: the means of their quantities, and which of them differ beyond noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import sqrt
from typing import Any

from pulsed.present.job_numbers import Account, joules
from pulsed.present.job_report import aligned, job_head
from pulsed.present.job_statistics import JOB_QUANTITIES
from pulsed.printable import clean

ERRORS = 2.0
"""A difference counts from two standard errors on, which chance exceeds in one of 20 comparisons."""

MIN_BUCKETS = 2

ROUNDING = 1e-6
"""Relative error of sums of floats."""


def compared_jobs(first: Account, second: Account) -> dict[str, Any]:
    """Return the document of a comparison: by quantity the means of both, their difference, and its noise.

    The noise of a difference is `ERRORS` times its standard error, by the spread of both jobs over GPUs and over time.
    Samples that follow each other are alike, so that only the buckets of the timeline count as independent.
    `differs` is null, as is `noise`, where one of them has no spread: less than `MIN_BUCKETS` buckets.
    """
    quantities = {}
    for name in (quantity.name for quantity in JOB_QUANTITIES):
        means = [account.get("statistics", {}).get(name, {}).get("mean") for account in (first, second)]
        errors = [_squared_error(account, name) for account in (first, second)]
        noise = None if None in errors else ERRORS * sqrt(sum(error for error in errors if error is not None))
        difference = None if None in means else means[1] - means[0]
        differs = None if noise is None or difference is None else abs(difference) > max(noise, ROUNDING * means[0])
        if means != [None, None]:
            quantities[name] = {
                "first": means[0], "second": means[1], "difference": difference, "noise": noise, "differs": differs,
            }  # fmt: skip
    return {"jobs": [_facts(first), _facts(second)], "quantities": quantities}


def comparison_report(first: Account, second: Account) -> str:
    """Return the comparison as a table, and what differs."""
    quantities = compared_jobs(first, second)["quantities"]
    lines = [f"First   {job_head(first)}", f"Second  {job_head(second)}", "", *_rows(quantities), ""]
    titles = {quantity.name: quantity.title for quantity in JOB_QUANTITIES}
    differing = [titles[name] for name, each in quantities.items() if each["differs"]]
    lines.append(f"Differs beyond noise: {', '.join(differing) or 'nothing'}")
    unknown = [titles[name] for name, each in quantities.items() if each["differs"] is None]
    lines += [f"Not known: {', '.join(unknown)}"] if unknown else []
    return "".join(f"{clean(line)}\n" for line in lines)


def _rows(quantities: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    rows = [["", "first", "second", "difference", "noise", ""]]
    for name, title, size, unit in JOB_QUANTITIES:
        if (each := quantities.get(name)) is not None:
            first, second, difference, noise = (
                "-" if each[key] is None else f"{each[key] / size:{form}} {unit}"
                for key, form in (("first", ".0f"), ("second", ".0f"), ("difference", "+.1f"), ("noise", ".1f"))
            )
            rows.append([title, first, second, difference, noise, "<- differs" if each["differs"] else ""])
    return aligned(rows)


def _squared_error(account: Account, name: str) -> float | None:
    """Return the squared standard error of the mean of a quantity; None without a spread over time."""
    found = account.get("statistics", {}).get(name)
    buckets = sum(1 for known in account.get("timeline", {}).get("gpu_seconds", ()) if known > 0.0)
    if found is None or buckets < MIN_BUCKETS:
        return None
    over_gpus = found["over_gpus"] or 0.0
    return float(over_gpus**2 / account["gpu_count"] + found["over_time"] ** 2 / buckets)


def _facts(account: Account) -> dict[str, Any]:
    names = ("owner", "state", "begin", "end", "elapsed_seconds", "gpu_count", "coverage", "statistics")
    facts = {name: account.get(name) for name in names}
    return facts | {"gpu_seconds": account["total"]["gpu_seconds"], "joules": joules(account["total"])}
