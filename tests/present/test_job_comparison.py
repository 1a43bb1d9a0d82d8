from __future__ import annotations

from typing import Any

import pytest

from pulsed.present.job_comparison import compared_jobs, comparison_report
from tests.present.accounts import document, gpu_account


def run(*real: float, over_time: float = 0.0, buckets: int = 16, watts: float = 500.0) -> dict[str, Any]:
    """Return a job whose GPUs have these real utilizations, with a spread over time, in so many buckets."""
    made = document(*(gpu_account(at, real=each, watts=watts) for at, each in enumerate(real)))
    for part in (made, *made["gpus"]):
        part["statistics"]["real_utilization_ratio"]["over_time"] = over_time
    made["timeline"] = {
        "bucket_seconds": 900.0, "gpu_seconds": [900.0] * buckets, "real_utilization_seconds": [300.0] * buckets,
    }  # fmt: skip
    return made


@pytest.mark.parametrize(
    ("first", "second", "noise", "differs"),
    [
        (run(0.4), run(0.4), 0.0, False),
        (run(0.4), run(0.41), 0.0, True),
        (run(0.4, over_time=0.2), run(0.5, over_time=0.2), 2.0 * (2.0 * 0.2**2 / 16) ** 0.5, False),
        (run(0.4, over_time=0.2), run(0.6, over_time=0.2), 2.0 * (2.0 * 0.2**2 / 16) ** 0.5, True),
        (run(0.2, 0.6), run(0.4, 0.6), 2.0 * (0.2**2 / 2 + 0.1**2 / 2) ** 0.5, False),
        (run(*[0.38, 0.42] * 4), run(*[0.48, 0.52] * 4), 2.0 * (2.0 * 0.02**2 / 8) ** 0.5, True),
        (run(0.4, buckets=1), run(0.9), None, None),
    ],
    ids=["equal", "steady", "time", "beyond time", "GPUs", "beyond GPUs", "too short"],
)
def test_a_difference_counts_beyond_the_spread_over_gpus_and_time(
    first: dict[str, Any], second: dict[str, Any], noise: float | None, differs: bool | None
) -> None:
    found = compared_jobs(first, second)["quantities"]["real_utilization_ratio"]
    assert found["noise"] == pytest.approx(noise)
    assert found["differs"] is differs


def test_the_table_names_what_differs_and_what_is_not_known() -> None:
    first, second = run(0.4, 0.4), run(0.6, 0.6, watts=600.0)
    del second["statistics"]["sm_active_ratio"]
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
        "Not known: SM",
    ]
