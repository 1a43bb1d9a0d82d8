"""Every check that can raise more than `info` has its alerts, and they fire for the GPU that they are about."""

from __future__ import annotations

from pathlib import Path

from pulsed.compute.health.checks import CHECKS
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.settings import ComputeSettings
from pulsed.host.node_checks import NODE_CHECKS
from pulsed.model.health import SEVERITY, STATES
from pulsed.present.exposition.host_families import NODE_CHECK
from pulsed.present.promql.health_alerts import METRIC, alerts_of_each_check
from pulsed.present.promql.rule_set import RuleSelection, document
from tests.present.promql.promtool import check, fired, selector

RULES = document(ComputeSettings(), RuleSelection("alerting", per_check=True))
ALERTS = alerts_of_each_check(HealthSettings())


def firing(name: str, gpu: str) -> str:
    return f'ALERTS{{alertname="{name}", alertstate="firing", gpu="{gpu}"}}'


def test_each_state_alerts_as_loudly_as_it_should(tmp_path: Path) -> None:
    """A GPU or node per check and state; each must fire the alert of its severity, and no other."""
    gpus = {
        (each.id, state): {"gpu": state, "node": "node-1", "uuid": f"{each.id}-{state}"}
        for each in CHECKS
        for state in STATES
    }
    world = [(selector(METRIC, {"check": id_, **gpu}), f"{SEVERITY[state]}+0x20") for (id_, state), gpu in gpus.items()]
    world += [
        (selector(NODE_CHECK, {"check": each.id, "gpu": state, "node": "node-1"}), f"{SEVERITY[state]}+0x20")
        for each in NODE_CHECKS
        for state in STATES
    ]
    fault = {"xid": "149", "link": "14", "origin": "true", "fabric": "c/1"}
    world += [
        (selector("pulsed_gpu_nvlink_fault_timestamp_seconds", {**gpus["nvlink_fault", state], **fault}), "60+0x20")
        for state in STATES
    ]
    asked: list[str] = []
    for alert in ALERTS:
        loud = {"crit"} if alert.severity == "critical" else {"warn", "hot"}
        asked += [f"absent({firing(alert.name, state)})" for state in loud]
        asked += [firing(alert.name, state) for state in STATES if state not in loud]
    assert check(tmp_path, RULES, [world], {15: asked, 0: [firing(alert.name, "crit") for alert in ALERTS]}) == ""


def test_a_wrong_expectation_is_noticed(tmp_path: Path) -> None:
    world = [(selector(METRIC, {"check": "xid_critical", "gpu": "0", "node": "n"}), "4+0x20")]
    assert "FAILED" in check(tmp_path, RULES, [world], {15: [firing("PulsedGpuHealthXidCritical", "0")]})


def test_names_are_unique() -> None:
    names = [alert.name for alert in ALERTS]
    assert len(names) == len(set(names))


def test_a_disabled_check_alerts_nobody() -> None:
    names = {alert.name for alert in alerts_of_each_check(HealthSettings(disabled=frozenset({"xid_critical"})))}
    assert names == {alert.name for alert in ALERTS} - {"PulsedGpuHealthXidCritical"}


def test_the_owner_of_a_job_that_the_fault_ended_is_named(tmp_path: Path) -> None:
    labels = {"node": "n", "gpu": "0", "uuid": "GPU-0"}
    world = [
        (selector(METRIC, {**labels, "check": "gpu_lost"}), "4+0x20"),
        (
            selector("pulsed_gpu_owner_info", {**labels, "kind": "slurm_job", "job_id": "7", "user": "ann"}),
            "1+0x5 stale",
        ),
    ]
    (alert,) = fired(tmp_path, RULES, world, {"PulsedGpuHealthGpuLost": 15})["PulsedGpuHealthGpuLost"]
    assert "Owner within the last hour: job 7 of ann." in alert["annotations"]["description"]
