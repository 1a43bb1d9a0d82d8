from __future__ import annotations

from math import inf
from random import Random
from statistics import NormalDist

import pytest

from pulsed.present.job_comparison import (
    Course,
    MeanError,
    error_over_gpus,
    error_over_time,
    noise_of,
    student_quantile,
)


@pytest.mark.parametrize(
    ("probability", "freedom", "quantile"),
    [
        (0.5, 3.0, 0.0),
        (0.975, 1.0, 12.7062),
        (0.975, 2.0, 4.30265),
        (0.995, 3.0, 5.84091),
        (0.95, 10.0, 1.81246),
        (0.9995, 10.0, 4.58689),
        (0.975, 200.0, 1.97190),
    ],
)
def test_quantiles_of_students_t(probability: float, freedom: float, quantile: float) -> None:
    assert student_quantile(probability, freedom) == pytest.approx(quantile, rel=1e-3, abs=1e-9)


def test_few_gpus_need_a_larger_difference() -> None:
    few = error_over_gpus({0: 0.38, 1: 0.42}, {2: 0.40, 3: 0.44})
    assert few == pytest.approx(MeanError(0.0008, 2.0))
    assert few is not None
    assert noise_of([few], 0.05) == pytest.approx(4.30265 * 0.0008**0.5, rel=1e-3)
    many = error_over_gpus({at: 0.4 + 0.02 * (-1) ** at for at in range(400)}, dict.fromkeys(range(400, 800), 0.4))
    assert many is not None
    assert noise_of([many], 0.05) == pytest.approx(NormalDist().inv_cdf(0.975) * many.variance**0.5, rel=0.01)


def test_each_error_counts_with_its_own_degrees_of_freedom() -> None:
    errors = [MeanError(1e-4, 2.0), MeanError(4e-4, 10.0)]
    expected = (1e-4 * 4.30265**2 + 4e-4 * 2.22814**2) ** 0.5
    assert noise_of(errors, 0.05) == pytest.approx(expected, rel=1e-3)
    assert noise_of([MeanError(0.0, inf)], 0.05) == 0.0


def test_the_spread_over_single_gpus_is_known_of_the_same_gpu_only() -> None:
    assert error_over_gpus({0: 0.4}, {1: 0.5}) is None
    assert error_over_gpus({0: 0.4}, {0: 0.5}) == MeanError(0.0, inf)
    assert error_over_gpus({0: 0.4}, {1: 0.38, 2: 0.42}) == pytest.approx(MeanError(0.0012, 1.0))


def test_gpus_are_compared_with_themselves() -> None:
    """Their own differences, however large, are the same in both."""
    first: dict[object, float] = {0: 0.2, 1: 0.4, 2: 0.6}
    second: dict[object, float] = {0: 0.31, 1: 0.5, 2: 0.69}
    assert error_over_gpus(first, second) == pytest.approx(MeanError(0.0001 / 3.0, 2.0))


def _course(generator: Random, correlation: float, count: int = 60) -> Course:
    values, value = [], generator.gauss(0.0, 1.0)
    for _ in range(count):
        value = correlation * value + (1.0 - correlation**2) ** 0.5 * generator.gauss(0.0, 1.0)
        values.append(value)
    return Course(60.0, values)


@pytest.mark.parametrize(("correlation", "size"), [(0.0, 60.0), (0.5, 20.0), (0.8, 6.7)])
def test_correlated_values_count_as_fewer(correlation: float, size: float) -> None:
    """A value of an autoregressive process counts as (1 - r) / (1 + r) independent ones."""
    generator = Random(40)
    errors = [error_over_time(*(_course(generator, correlation) for _ in range(2))) for _ in range(200)]
    known = sorted(error.freedom for error in errors if error is not None)
    assert known[len(known) // 2] + 2.0 == pytest.approx(2.0 * size, rel=0.15)


def test_noise_that_is_as_slow_as_the_jobs_is_not_known() -> None:
    slow = Course(60.0, [0.01 * at for at in range(60)])
    assert error_over_time(slow, slow) is None
    assert error_over_time(Course(60.0, [0.4]), slow) is None
    assert error_over_time(Course(60.0, [0.4] * 60), Course(30.0, [0.5] * 60)) == MeanError(0.0, 103.0)
