"""The summary of a part: what all views show of it."""

from __future__ import annotations

import pytest

from pulsed.model.gpu import Device, Entity
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


@pytest.mark.parametrize(
    ("gpus", "count"),
    [
        (["GPU-0"], 1),
        (["GPU-0", "GPU-1"], 2),
        (["GPU-0 1", "GPU-0 2"], 2),
        (["GPU-0", "GPU-0 1", "GPU-0 2"], 1),
        (["GPU-0 1", "GPU-0", "GPU-1 1"], 2),
    ],
)
def test_a_board_that_a_job_had_whole_is_one_gpu_with_its_instances(gpus: list[str], count: int) -> None:
    parts = [gpu_account(0) for _ in gpus]
    for part, name in zip(parts, gpus, strict=True):
        uuid, _, mig_id = name.partition(" ")
        part.device = Device(Entity("mig" if mig_id else "gpu", "0", uuid, mig_id), "NVIDIA H100")
    assert document(*parts)["gpu_count"] == count
