from __future__ import annotations

from math import exp, sqrt
from random import Random
from statistics import fmean, pvariance
from typing import Any

import pytest

from pulsed.present.job_comparison import compared_jobs, comparison_report
from pulsed.present.job_statistics import total_statistics
from tests.present.accounts import document, gpu_account

BUCKETS = 16


def run(
    *real: float, over_time: float = 0.0, buckets: int = BUCKETS, watts: float = 500.0, node: str = "gpu01"
) -> dict[str, Any]:
    """Return a job whose GPUs have these real utilizations, with this spread over time, in so many buckets."""
    made = document(*(gpu_account(at, real=each, watts=watts, node=node) for at, each in enumerate(real)))
    for part in (made, *made["gpus"]):
        part["statistics"]["real_utilization_ratio"]["over_time"] = over_time
    utilized = [900.0 * (fmean(real) + over_time * (1.0, 1.0, -1.0, -1.0)[at % 4]) for at in range(buckets)]
    made["timeline"] = {
        "bucket_seconds": 900.0, "gpu_seconds": [900.0] * buckets, "real_utilization_seconds": utilized,
    }  # fmt: skip
    return made


OTHER = "gpu02"


@pytest.mark.parametrize(
    ("first", "second", "differs"),
    [
        pytest.param(run(0.4), run(0.4), False, id="equal"),
        pytest.param(run(0.4), run(0.41), True, id="steady, on the same GPU"),
        pytest.param(run(0.4, over_time=0.2), run(0.5, over_time=0.2), False, id="time"),
        pytest.param(run(0.4, over_time=0.2), run(0.8, over_time=0.2), True, id="beyond time"),
        pytest.param(run(0.2, 0.6), run(0.4, 0.6, node=OTHER), False, id="GPUs"),
        pytest.param(run(*[0.38, 0.42] * 4), run(*[0.48, 0.52] * 4, node=OTHER), True, id="beyond GPUs"),
        pytest.param(run(0.38, 0.42), run(0.48, 0.52, node=OTHER), False, id="two GPUs say little"),
        pytest.param(run(0.2, 0.6), run(0.3, 0.7), True, id="the same GPUs"),
    ],
)
def test_a_difference_counts_beyond_the_spread_over_gpus_and_time(
    first: dict[str, Any], second: dict[str, Any], differs: bool
) -> None:
    found = compared_jobs(first, second)["quantities"]["real_utilization_ratio"]
    assert found["differs"] is differs
    assert found["missing"] is None
    assert (abs(found["difference"]) > found["noise"]) is differs or not differs


@pytest.mark.parametrize(
    ("first", "second", "missing"),
    [
        (run(0.4, buckets=1), run(0.9), "they have too few independent intervals"),
        (run(0.4), run(0.9, node=OTHER), "they have one GPU each, not the same, and how much GPUs differ is not known"),
    ],
)
def test_what_cannot_be_judged_is_named(first: dict[str, Any], second: dict[str, Any], missing: str) -> None:
    found = compared_jobs(first, second)["quantities"]["real_utilization_ratio"]
    assert (found["differs"], found["noise"], found["missing"]) == (None, None, missing)
    last = comparison_report(first, second).splitlines()[-1]
    assert last == f"Not evaluated: real work, SM, power: {missing}"


def test_the_table_names_what_differs_and_what_is_not_judged() -> None:
    first, second = run(0.4, 0.4), run(0.6, 0.6, watts=600.0)
    for part in (second, *second["gpus"]):
        del part["statistics"]["sm_active_ratio"]
    assert comparison_report(first, second).splitlines() == [
        "First   Job 4711 (ann, lab)  train   2 x H100, 1 node, 4 h, ended   seen 100.0 %",
        "Second  Job 4711 (ann, lab)  train   2 x H100, 1 node, 4 h, ended   seen 100.0 %",
        "",
        "             first  second  difference  noise",
        "  real work   40 %    60 %     +20.0 %  0.0 %  <- differs",
        "  SM          50 %       -           -      -",
        "  power      500 W   600 W    +100.0 W  0.0 W  <- differs",
        "",
        "Differs beyond noise: real work, power",
        "Not evaluated: SM: the second job has no value",
    ]


STEP, HOUR = 15.0, 3600.0


def noisy(
    generator: Random, number: int, gpus: int, spread: float, slow: float, hours: float, level: float = 0.5
) -> dict[str, Any]:
    """Return a job on GPUs of its own that differ by `spread`, whose load varies by 5 % within `slow` seconds.

    Each of its samples has a noise of 2 % of its own, too; power varies as the load does.
    """
    count, keep = round(hours * HOUR / STEP), exp(-STEP / slow) if slow else 0.0
    offsets = [generator.gauss(0.0, spread) for _ in range(gpus)]
    load, samples = generator.gauss(0.0, 0.05), []
    for _ in range(count):
        load = keep * load + sqrt(1.0 - keep * keep) * generator.gauss(0.0, 0.05)
        samples.append([level * (1.0 + load + offset + generator.gauss(0.0, 0.02)) for offset in offsets])
    made = document(*(gpu_account(at, hours, node=f"n{number}") for at in range(gpus)), hours=hours)
    for gpu, values in zip(made["gpus"], zip(*samples, strict=True), strict=True):
        mean, over_time = fmean(values), sqrt(pvariance(values))
        for name, size in (("real_utilization_ratio", 1.0), ("sm_active_ratio", 1.2), ("power_watts", 900.0)):
            gpu["statistics"][name] |= {"mean": size * mean, "over_time": size * over_time}
    made["statistics"] = total_statistics(made["gpus"])
    width = 2
    while count > 64 * width:
        width *= 2
    buckets = [[value for row in samples[at : at + width] for value in row] for at in range(0, count, width)]
    made["timeline"] = {
        "bucket_seconds": width * STEP,
        "gpu_seconds": [len(bucket) * STEP for bucket in buckets],
        "real_utilization_seconds": [sum(bucket) * STEP for bucket in buckets],
    }
    return made


NOISES = {
    "white": (2, 0.0, 0.0, 1.0),
    "2 GPUs that differ": (2, 0.03, 0.0, 1.0),
    "2 GPUs, slow": (2, 0.0, 600.0, 1.0),
    "8 GPUs that differ, slow": (8, 0.03, 600.0, 1.0),
    "8 GPUs, 4 hours": (8, 0.01, 1800.0, 4.0),
    "8 GPUs, 5 minutes": (8, 0.01, 300.0, 1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
def test_at_most_one_of_20_pairs_of_jobs_that_are_alike_differs(noise: str) -> None:
    generator = Random(40)
    jobs = [noisy(generator, number, *NOISES[noise]) for number in range(42)]
    pairs = list(zip(jobs[::2], jobs[1::2], strict=True)) + list(zip(jobs[1:-1:2], jobs[2::2], strict=True))
    found = [compared_jobs(*pair)["quantities"].values() for pair in pairs]
    assert len(found) > 40
    assert sum(any(each["differs"] for each in quantities) for quantities in found) <= len(found) / 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "factor"),
    [("white", 1.1), ("8 GPUs that differ, slow", 1.6), ("8 GPUs, 4 hours", 1.8), ("8 GPUs, 5 minutes", 1.5)],
)
def test_a_true_difference_is_found(noise: str, factor: float) -> None:
    generator, found, judged = Random(41), 0, 0
    for number in range(10):
        pair = [noisy(generator, 2 * number + at, *NOISES[noise], level=0.5 * factor**at) for at in range(2)]
        differs = compared_jobs(*pair)["quantities"]["real_utilization_ratio"]["differs"]
        found, judged = found + bool(differs), judged + (differs is not None)
    assert judged >= 5
    assert found >= 0.7 * judged
