from __future__ import annotations

from typing import Any

import pytest

from pulsed.owners.report.job_comparison import compared_jobs, comparison_report
from pulsed.owners.report.job_statistics import total_statistics
from tests.owners.report.accounts import document, gpu_account


def run(*real: float, over_time: float = 0.0, watts: float = 500.0) -> dict[str, Any]:
    """Return a job whose GPUs have these real utilizations, with this spread over time."""
    made = document(*(gpu_account(at, real=each, watts=watts) for at, each in enumerate(real)))
    for gpu in made["gpus"]:
        gpu["statistics"]["real_utilization_ratio"]["over_time"] = over_time
    made["statistics"] = total_statistics(made["gpus"])
    return made


SPREAD = "the spread is larger than the difference"
NUMBERS = "1 GPU against 2"


@pytest.mark.parametrize(
    ("first", "second", "differs", "missing"),
    [
        pytest.param(run(0.4), run(0.4), False, None, id="equal"),
        pytest.param(run(0.4), run(0.41), True, None, id="steady"),
        pytest.param(run(0.4, over_time=0.2), run(0.5, over_time=0.2), None, SPREAD, id="within the spread over time"),
        pytest.param(run(0.4, over_time=0.05), run(0.5), True, None, id="beyond the spread over time"),
        pytest.param(run(0.2, 0.6), run(0.3, 0.7), None, SPREAD, id="within the spread over GPUs"),
        pytest.param(run(0.4, 0.42), run(0.5, 0.52), True, None, id="beyond the spread over GPUs"),
        pytest.param(run(0.4), run(0.9, 0.9), None, NUMBERS, id="one GPU and two"),
    ],
)
def test_a_difference_counts_beyond_the_spread(
    first: dict[str, Any], second: dict[str, Any], differs: bool | None, missing: str | None
) -> None:
    found = compared_jobs(first, second)["quantities"]["real_utilization_ratio"]
    assert (found["differs"], found["missing"]) == (differs, missing)


def test_the_spread_is_over_gpus_and_time() -> None:
    found = compared_jobs(run(0.2, 0.8, over_time=0.4), run(0.5))["quantities"]["real_utilization_ratio"]
    assert (found["first_spread"], found["second_spread"]) == (pytest.approx(0.5), 0.0)


def test_the_table_names_what_differs_and_what_is_not_judged() -> None:
    first, second = run(0.4, 0.4), run(0.6, 0.6, over_time=0.05, watts=600.0)
    for part in (second, *second["gpus"]):
        del part["statistics"]["sm_active_ratio"]
    assert comparison_report(first, second).splitlines() == [
        "First   Job 4711 (ann, lab)  train   2 x H100, 1 node, 4 h, ended   seen 100.0 %",
        "Second  Job 4711 (ann, lab)  train   2 x H100, 1 node, 4 h, ended   seen 100.0 %",
        "",
        "             first  spread  second  spread  difference",
        "  real work   40 %     0 %    60 %     5 %    +20.0 pp  <- differs",
        "  SM          50 %     0 %       -       -           -  cannot be judged: the second job has no value",
        "  power      500 W     0 W   600 W     0 W    +100.0 W  <- differs",
        "",
        "Differs by more than the spread: real work, power",
        "Cannot be judged: SM: the second job has no value",
    ]
