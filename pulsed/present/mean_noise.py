"""The noise of the difference of two means: the variance that their spreads give it, and Student's t for few of them.

Spreads are those of samples. GPUs differ from each other, and the noise over time is correlated: a job of an hour whose
noise changes within ten minutes has three independent values, however often it was sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import atan, cos, exp, fsum, inf, lgamma, pi, sqrt
from operator import mul
from statistics import fmean, variance
from typing import NamedTuple

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
    """Return the error that the spread over GPUs causes; None if it is not known, with one GPU each.

    Args:
        first: means by GPU. GPUs that are all in both are compared with themselves.
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
