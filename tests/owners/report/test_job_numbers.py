"""The summary of a part: what all views show of it."""

from __future__ import annotations

from pulsed.owners.report.job_numbers import summary_of
from tests.owners.report.accounts import document, gpu_account


def test_a_summary_is_of_the_counters() -> None:
    account = document(gpu_account(0, hours=2.0, real=0.4), gpu_account(1, hours=2.0, real=0.6))
    summary, (first, _) = account["total"]["summary"], account["gpus"]
    assert summary["real_utilization_ratio"] == 0.5
    assert summary["idle_ratio"] == summary["idle_seconds"] / account["total"]["gpu_seconds"]
    assert summary["joules"] == 2 * (summary_of(first).joules or 0.0)


def test_what_is_not_known_is_null() -> None:
    counters = {"workload_class_seconds": {"unknown": 60.0}, "energy_unknown_seconds": 60.0, "idle_seconds": {}}
    part = {"counters": counters, "gpu_seconds": 60.0, "bridged_joules": 0.0}
    assert summary_of(part) == (None, None, None, None, None)
    assert summary_of({**part, "bridged_joules": 5.0}).joules == 5.0
