"""A job is the sum over its nodes, and a user the sum over jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pulsed.compute.settings import ComputeSettings
from pulsed.present.promql.rule_set import RuleSelection, document
from tests.present.promql.promtool import check, fired, rules_of, selector

RULES = document(ComputeSettings(), RuleSelection())


def counters(job: str, node: str, gpus: int, idle: int) -> list[tuple[str, str]]:
    """Return the series of a job on a node: its GPUs, and how many of them are idle."""
    labels = {"job_id": job, "user": "ann", "account": "lab", "instance": f"{node}:9401", "job": "pulsed"}
    values = {
        "gpu_seconds_total": gpus,
        "observed_seconds_total": gpus,
        "idle_seconds_total": idle,
        "real_utilization_unknown_seconds_total": 0,
    }
    found = [(selector(f"pulsed_job_{name}", labels), f"0+{60 * each}x40") for name, each in values.items()]
    return [*found, (selector("pulsed_job_gpus", labels), f"{gpus}+0x40")]


def other_than(expected: Mapping[str, float]) -> list[str]:
    """Return expressions that have an answer where a series is absent or has another value."""
    return [
        wrong
        for series, value in expected.items()
        for wrong in (f"absent({series})", f"abs({series} - {value}) > 1e-9")
    ]


def of(*names: str) -> str:
    """Return these rules and those that they need."""
    return rules_of(RULES, names)


def test_sums_over_nodes_and_jobs(tmp_path: Path) -> None:
    world = [*counters("1", "a", 2, 0), *counters("1", "b", 4, 4), *counters("2", "b", 1, 1)]
    wrong = other_than(
        {
            'job:pulsed_gpu_seconds:rate5m{job_id="1"}': 6,
            'job:pulsed_idle_seconds:rate5m{job_id="1"}': 4,
            'user:pulsed_gpu_seconds:rate5m{user="ann"}': 7,
            'account:pulsed_idle_seconds:rate5m{account="lab"}': 5,
        }
    )
    rules = of(*re.findall(r"\w+:pulsed_\w+:rate5m", " ".join(wrong)))
    assert check(tmp_path, rules, [world], {20: wrong}) == ""


def test_a_job_that_works_on_one_of_its_nodes_is_not_idle(tmp_path: Path) -> None:
    world = [*counters("1", "a", 2, 0), *counters("1", "b", 4, 4), *counters("2", "b", 1, 1)]
    firing = 'ALERTS{alertname="PulsedJobIdle", alertstate="firing"'
    wrong = [f'{firing}, job_id="1"}}', f'absent({firing}, job_id="2"}})']
    assert check(tmp_path, of("PulsedJobIdle"), [world], {38: wrong}) == ""


def test_owners_of_an_idle_gpu_that_several_share_are_idle(tmp_path: Path) -> None:
    """Each of four has a quarter of its time; one of a pod that works has not all of it idle."""
    world = []
    for name, idle in (("a", 15), ("b", 5)):
        labels = {"namespace": "ml", "pod": name, "container": "main", "instance": "n:9401", "job": "pulsed"}
        values = {"gpu_seconds_total": 15, "observed_seconds_total": 60, "idle_seconds_total": idle}
        world += [(selector(f"pulsed_pod_{each}", labels), f"0+{value}x40") for each, value in values.items()]
        world.append((selector("pulsed_pod_gpus", labels), "1+0x40"))
    firing = 'ALERTS{alertname="PulsedPodIdle", alertstate="firing"'
    wrong = [f'absent({firing}, pod="a"}})', f'{firing}, pod="b"}}']
    assert check(tmp_path, of("PulsedPodIdle"), [world], {38: wrong}) == ""


def test_an_idle_gpu_has_the_labels_of_its_owner_if_it_has_one_only(tmp_path: Path) -> None:
    """GPU 0 has a job, 1 a pod with two containers, 2 two jobs, 3 a process; of 4 the owner is unknown."""
    owners: list[tuple[str, dict[str, str]]] = [
        ("0", {"kind": "slurm_job", "job_id": "4711", "user": "ann"}),
        *(("1", {"kind": "pod", "namespace": "ml", "pod": "train-0", "container": each}) for each in "ab"),
        *(("2", {"kind": "slurm_job", "job_id": each}) for each in ("1", "2")),
        ("3", {"kind": "process", "user": "bob"}),
    ]

    def labels(gpu: str) -> dict[str, str]:
        return {"node": "n", "gpu": gpu, "uuid": f"GPU-{gpu}", "instance": "n:9401", "job": "pulsed"}

    world = [(selector("pulsed_gpu_owner_info", labels(gpu) | owner), "1+0x75") for gpu, owner in owners]
    for gpu in "01234":
        world.append((selector("pulsed_gpu_observed_seconds_total", labels(gpu)), "0+60x75"))
        world.append((selector("pulsed_gpu_idle_seconds_total", labels(gpu) | {"kind": "held"}), "0+60x75"))
    found = [alert["labels"] for alert in fired(tmp_path, RULES, world, {"PulsedGpuIdleHeld": 72})["PulsedGpuIdleHeld"]]
    expected = {
        "0": {"job_id": "4711"},
        "1": {"namespace": "ml", "pod": "train-0"},
        "2": {},
        "3": {},
        "4": {},
    }
    common = {"alertname": "PulsedGpuIdleHeld", "severity": "warning"}
    assert {each["gpu"]: each for each in found} == {
        gpu: common | labels(gpu) | owner for gpu, owner in expected.items()
    }
    assert len(found) == len(expected)


def workload(name: str, node: str, gpus: float, total: float | None) -> list[tuple[str, str]]:
    """Return the series of a workload on a node; `total` is its summed real utilization, None if it is unknown."""
    labels = {"namespace": "ml", "workload": name, "workload_kind": "Deployment", "instance": f"{node}:9401"}
    found = [(selector("pulsed_workload_gpus", labels), f"{gpus}+0x10")]
    found.append((selector("pulsed_workload_pods", labels), "2+0x10"))
    if total is not None:
        found.append((selector("pulsed_workload_real_utilization_ratio_sum", labels), f"{total}+0x10"))
    return found


def workload_rules() -> str:
    return of("workload:pulsed_gpus:sum", "workload:pulsed_pods:sum", "workload:pulsed_real_utilization_ratio:mean")


def test_the_utilization_of_a_workload_is_weighted_by_gpus_over_nodes(tmp_path: Path) -> None:
    world = [*workload("w", "a", 8, 7.2), *workload("w", "b", 1, 0), *workload("w", "c", 4, None)]
    world += [*workload("idle", "a", 2, 0)]
    wrong = other_than(
        {
            'workload:pulsed_gpus:sum{workload="w"}': 13,
            'workload:pulsed_pods:sum{workload="w"}': 6,
            # 8 GPUs at 0.9 and one at 0; 4 GPUs with an unknown value are left out of both sums.
            'workload:pulsed_real_utilization_ratio:mean{workload="w"}': 0.8,
            'workload:pulsed_real_utilization_ratio:mean{workload="idle"}': 0,
        }
    )
    assert check(tmp_path, workload_rules(), [world], {5: wrong}) == ""


def test_a_workload_without_a_known_value_has_no_utilization(tmp_path: Path) -> None:
    wrong = ["workload:pulsed_real_utilization_ratio:mean"]
    assert check(tmp_path, workload_rules(), [workload("w", "a", 8, None)], {5: wrong}) == ""
