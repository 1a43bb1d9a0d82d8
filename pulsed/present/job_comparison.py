"""Two jobs side by side: the means of their quantities, and which of them differ beyond noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulsed.present.job_numbers import Account, joules
from pulsed.present.job_report import job_head
from pulsed.present.job_statistics import FLOPS, JOB_QUANTITIES
from pulsed.present.job_table import aligned
from pulsed.present.mean_noise import Course, MeanError, error_over_gpus, error_over_time, noise_of
from pulsed.printable import clean

CHANCE = 0.05
"""Probability that a quantity of two jobs that are alike differs: of any of them, as there are several."""

COMPARISONS = len([quantity for quantity in JOB_QUANTITIES if quantity.name != FLOPS])  # that one is `mfu_ratio` again

MIN_BUCKET_RATIO = 0.5
"""Buckets of the timeline with less observed time than this share of the others' are left out."""

ROUNDING = 1e-6
"""Relative error of sums of floats."""


def compared_jobs(first: Account, second: Account) -> dict[str, Any]:
    """Return the document of a comparison: by quantity the means of both, their difference, and its noise.

    The noise is what one of `COMPARISONS` differences of jobs that are alike exceeds with the probability `CHANCE`, by
    the spread of both over their GPUs and over time. How much of the latter remains in the mean is taken from the real
    utilization, which has a timeline. Where it cannot be judged, `differs` and `noise` are null, and `missing` is why.
    """
    over_time = error_over_time(_course(first), _course(second))
    quantities = {}
    for name in (quantity.name for quantity in JOB_QUANTITIES):
        means = [account.get("statistics", {}).get(name, {}).get("mean") for account in (first, second)]
        if means == [None, None]:
            continue
        errors, missing = _errors(first, second, name, over_time)
        noise = None if missing else noise_of(errors, CHANCE / COMPARISONS)
        difference = None if None in means else means[1] - means[0]
        differs = None if noise is None or difference is None else abs(difference) > max(noise, ROUNDING * means[0])
        quantities[name] = {
            "first": means[0], "second": means[1], "difference": difference, "noise": noise, "differs": differs,
            "missing": missing or None,
        }  # fmt: skip
    return {"jobs": [_facts(first), _facts(second)], "quantities": quantities}


def comparison_report(first: Account, second: Account) -> str:
    """Return the comparison as a table, and what differs."""
    quantities = compared_jobs(first, second)["quantities"]
    lines = [f"First   {job_head(first)}", f"Second  {job_head(second)}", "", *aligned(comparison_rows(quantities)), ""]
    return "".join(f"{clean(line)}\n" for line in [*lines, *comparison_notes(quantities)])


def comparison_notes(quantities: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return which quantities of a comparison differ, and which are not evaluated and why."""
    titles = {quantity.name: quantity.title for quantity in JOB_QUANTITIES}
    differing = [titles[name] for name, each in quantities.items() if each["differs"]]
    is_judged = any(each["differs"] is not None for each in quantities.values())
    lines = [f"Differs beyond noise: {', '.join(differing) or 'nothing'}"] if is_judged else []
    reasons: dict[str, list[str]] = {}
    for name, each in quantities.items():
        if each["missing"]:
            reasons.setdefault(each["missing"], []).append(titles[name])
    return [*lines, *(f"Not evaluated: {', '.join(names)}: {reason}" for reason, names in reasons.items())]


def comparison_rows(quantities: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return the table of a comparison with its head."""
    rows = [["", "first", "second", "difference", "noise", ""]]
    for name, title, size, unit in JOB_QUANTITIES:
        if (each := quantities.get(name)) is not None:
            first, second, difference, noise = (
                "-" if each[key] is None else f"{each[key] / size:{form}} {unit}"
                for key, form in (("first", ".0f"), ("second", ".0f"), ("difference", "+.1f"), ("noise", ".1f"))
            )
            rows.append([title, first, second, difference, noise, "<- differs" if each["differs"] else ""])
    return rows


def _errors(first: Account, second: Account, name: str, over_time: MeanError | None) -> tuple[Sequence[MeanError], str]:
    """Return the errors of the difference of a quantity, or why they are not known."""
    gpus = [_gpu_means(account, name) for account in (first, second)]
    for title, means in zip(("first", "second"), gpus, strict=True):
        if not means:
            return (), f"the {title} job has no value"
    over_gpus = error_over_gpus(*gpus)
    if over_gpus is None:
        return (), "they have one GPU each, not the same, and how much GPUs differ is not known"
    if over_time is None:
        return (), "they have too few independent intervals"
    own, reference = (_squares(first, second, of) for of in (name, "real_utilization_ratio"))
    share = own / reference if reference > 0.0 else 0.0
    return (over_gpus, MeanError(over_time.variance * share, over_time.freedom)), ""


def _gpu_means(account: Account, name: str) -> dict[object, float]:
    """Return the mean of a quantity of each GPU for which it is known."""
    return {
        (gpu["node"], gpu["uuid"] or gpu["gpu"], gpu["mig_id"]): gpu["statistics"][name]["mean"]
        for gpu in account["gpus"]
        if name in gpu.get("statistics", {})  # absent in documents of older daemons
    }


def _squares(first: Account, second: Account, name: str) -> float:
    """Return the variance over time of a quantity within the GPUs, summed over both."""
    errors = [account.get("statistics", {}).get(name, {}).get("over_time", 0.0) for account in (first, second)]
    return float(sum(spread * spread for spread in errors))


def _course(account: Account) -> Course:
    """Return the real utilization over time."""
    line = account.get("timeline", {"bucket_seconds": 0.0, "gpu_seconds": (), "real_utilization_seconds": ()})
    seconds, integral = line["gpu_seconds"], line["real_utilization_seconds"]
    least = MIN_BUCKET_RATIO * max(seconds, default=0.0)
    means = [total / time for time, total in zip(seconds, integral, strict=True) if time > 0.0 and time >= least]
    return Course(line["bucket_seconds"], means)


def _facts(account: Account) -> dict[str, Any]:
    names = ("owner", "state", "begin", "end", "elapsed_seconds", "gpu_count", "coverage", "statistics")
    facts = {name: account.get(name) for name in names}
    return facts | {"gpu_seconds": account["total"]["gpu_seconds"], "joules": joules(account["total"])}
