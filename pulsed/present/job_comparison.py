"""Two jobs side by side: the means of their quantities, and which of them differ beyond noise.

The noise of the difference of two means is the variance that their spreads give it, and Student's t for few of them.
Spreads are those of samples. GPUs differ from each other, and the noise over time is correlated: a job of an hour whose
noise changes within ten minutes has three independent values, however often it was sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import atan, cos, exp, fsum, inf, lgamma, pi, sqrt
from operator import mul
from statistics import fmean, variance
from typing import Any, NamedTuple

from pulsed.present.job_numbers import Account, joules
from pulsed.present.job_report import job_head
from pulsed.present.job_statistics import FLOPS, JOB_QUANTITIES
from pulsed.present.text_table import aligned
from pulsed.printable import clean

MAX_CORRELATION = 0.999
MAX_FREEDOM = 200.0
"""Student's t is a normal distribution from here on."""

_STEPS = 200
_HALVINGS = 50
_MAX_QUANTILE = 1000.0


class MeanError(NamedTuple):
    """The variance of the difference of two means, and the degrees of freedom with which it is known."""

    variance: float
    freedom: float


class Course(NamedTuple):
    """Means of a quantity in intervals of the same length that follow each other, in seconds."""

    seconds: float
    means: Sequence[float]


def error_over_gpus(first: Mapping[object, float], second: Mapping[object, float]) -> MeanError | None:
    """Return the error that the spread over GPUs causes, from means by GPU; None if it is not known, with one GPU each.

    GPUs that are all in both are compared with themselves.
    """
    if first.keys() == second.keys():
        changes = [second[gpu] - first[gpu] for gpu in first]
        if len(changes) == 1:
            return MeanError(0.0, inf)
        return MeanError(variance(changes) / len(changes), len(changes) - 1)
    freedom = len(first) + len(second) - 2
    if freedom < 1:
        return None
    squares = sum((len(means) - 1) * variance(means.values()) for means in (first, second) if len(means) > 1)
    return MeanError(squares / freedom * (1.0 / len(first) + 1.0 / len(second)), freedom)


def error_over_time(first: Course, second: Course) -> MeanError | None:
    """Return the error that the noise over time causes; None with too few independent intervals for an estimate.

    Noise is taken as an autoregressive process of first order, the same in both.
    """
    courses = [course for course in (first, second) if len(course.means) > 1]
    if len(courses) < 2:
        return None
    rate = fmean([_independent_ratio(course.means) / course.seconds for course in courses])
    sizes = [min(rate * course.seconds, 1.0) * len(course.means) for course in courses]
    freedom = sum(sizes) - 2.0
    if freedom < 1.0:
        return None
    squares = sum(
        size * fmean([(value - fmean(course.means)) ** 2 for value in course.means])
        for size, course in zip(sizes, courses, strict=True)
    )
    return MeanError(squares / freedom * sum(1.0 / size for size in sizes), freedom)


def _independent_ratio(values: Sequence[float]) -> float:
    """Return how many independent values each of these is worth.

    The estimate of a correlation from few values is too low, by Kendall's (1 + 3 r) / n.
    """
    middle, count = fmean(values), len(values)
    offsets = [value - middle for value in values]
    squares = sum(each * each for each in offsets)
    if squares <= 0.0:
        return 1.0
    lag_correlation = sum(a * b for a, b in pairwise(offsets)) / squares
    correlation = min(max(lag_correlation + (1.0 + 3.0 * max(lag_correlation, 0.0)) / count, 0.0), MAX_CORRELATION)
    return (1.0 - correlation) / (1.0 + correlation)


def noise_of(errors: Sequence[MeanError], chance: float) -> float:
    """Return what a difference of means exceeds by chance with this probability at most.

    Each error has the quantile of its own degrees of freedom. Joint ones (Welch and Satterthwaite) follow the variances
    as they were found, and are too many where the one with few is too low by chance.
    """
    quantiles = [student_quantile(1.0 - chance / 2.0, error.freedom) for error in errors]
    return sqrt(sum(quantile**2 * error.variance for quantile, error in zip(quantiles, errors, strict=True)))


def student_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t distribution, for at least one degree of freedom and a probability of 0.5 or
    more, by integration of its density and bisection."""
    freedom = min(max(freedom, 1.0), MAX_FREEDOM)
    scale = exp(lgamma((freedom + 1.0) / 2.0) - lgamma(freedom / 2.0)) / sqrt(pi)

    def above_middle(t: float) -> float:
        """Return the probability of 0 to t; with t = sqrt(freedom) * tan(x), the density is cos(x) ** (freedom - 1)."""
        width = atan(t / sqrt(freedom)) / _STEPS
        weights = [1.0, *[4.0, 2.0] * (_STEPS // 2 - 1), 4.0, 1.0]  # Simpson's rule
        density = [float(cos(at * width) ** (freedom - 1.0)) for at in range(len(weights))]
        return scale * width / 3.0 * fsum(map(mul, weights, density))

    low, high = 0.0, _MAX_QUANTILE
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if above_middle(middle) < probability - 0.5 else (low, middle)
    return high


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
