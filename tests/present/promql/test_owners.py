"""A job is the sum over its nodes, and a user the sum over jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsed.compute.derive import ComputeSettings
from pulsed.present.promql.rule_set import RuleSelection, document
from tests.present.promql.promtool import check, selector

RULES = document(ComputeSettings(), RuleSelection(metrics="pulsed"))


def counters(job: str, node: str, gpus: int, idle: int) -> list[tuple[str, str]]:
    """Return the series of a job on a node: its GPUs, and how many of them are idle."""
    labels = {"job_id": job, "user": "ann", "account": "lab", "instance": f"{node}:9401", "job": "pulsed"}
    values = {"gpu_seconds_total": gpus, "idle_seconds_total": idle, "real_utilization_unknown_seconds_total": 0}
    found = [(selector(f"pulsed_job_{name}", labels), f"0+{60 * each}x40") for name, each in values.items()]
    return [*found, (selector("pulsed_job_gpus", labels), f"{gpus}+0x40")]


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        ('job:pulsed_gpu_seconds:rate5m{job_id="1"}', 6),
        ('job:pulsed_idle_seconds:rate5m{job_id="1"}', 4),
        ('user:pulsed_gpu_seconds:rate5m{user="ann"}', 7),
        ('account:pulsed_idle_seconds:rate5m{account="lab"}', 5),
    ],
)
def test_sums_over_nodes_and_jobs(tmp_path: Path, series: str, expected: float) -> None:
    world = [*counters("1", "a", 2, 0), *counters("1", "b", 4, 4), *counters("2", "b", 1, 1)]
    wrong = [f"absent({series})", f"abs({series} - {expected}) > 1e-9"]
    assert check(tmp_path, RULES, [world], {20: wrong}) == ""


def test_a_job_that_works_on_one_of_its_nodes_is_not_idle(tmp_path: Path) -> None:
    world = [*counters("1", "a", 2, 0), *counters("1", "b", 4, 4), *counters("2", "b", 1, 1)]
    firing = 'ALERTS{alertname="PulsedJobIdle", alertstate="firing"'
    assert check(tmp_path, RULES, [world], {38: [f'{firing}, job_id="1"}}', f'absent({firing}, job_id="2"}})']}) == ""
