"""Every check that can raise more than `info` has its alerts, and they fire for the GPU that they are about."""

from __future__ import annotations

from pathlib import Path

from pulsed.compute.health.checks import CHECKS
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.settings import ComputeSettings
from pulsed.host.node_checks import NODE_CHECKS
from pulsed.model.health import SEVERITY, STATES
from pulsed.present.exposition.host_families import NODE_CHECK
from pulsed.present.promql.health_alerts import METRIC
from pulsed.present.promql.rule_set import RuleSelection, document
from tests.present.promql.promtool import check, fired, selector

RULES = document(ComputeSettings(), RuleSelection("alerting"))
CAUSES = sorted({each.cause for each in CHECKS if each.cause})
SEVERITIES: dict[str, set[str]] = {"Critical": {"crit"}, "Warning": {"warn", "hot"}}
"""States of a check by the end of the name of their alerts."""


def firing(name: str, **labels: str) -> str:
    return selector("ALERTS", {"alertname": name, "alertstate": "firing", **labels})


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
    wrong = [f"absent({firing(f'PulsedNodeHealth{name}', check=cause)})" for cause in CAUSES for name in SEVERITIES]
    shared = {each.id for each in CHECKS if each.cause}
    for name, loud in SEVERITIES.items():
        for of, checks in (("Gpu", CHECKS), ("Node", NODE_CHECKS)):
            for state in STATES:
                for each in checks:
                    alert = firing(f"Pulsed{of}Health{name}", check=each.id, gpu=state)
                    is_loud = state in loud and each.id not in shared
                    wrong.append(f"absent({alert})" if is_loud else alert)
    early = [firing(f"Pulsed{of}Health{name}") for of in ("Gpu", "Node") for name in SEVERITIES]
    assert check(tmp_path, RULES, [world], {15: wrong, 0: early}) == ""


def test_a_wrong_expectation_is_noticed(tmp_path: Path) -> None:
    world = [(selector(METRIC, {"check": "xid_critical", "gpu": "0", "node": "n"}), "4+0x20")]
    assert "FAILED" in check(tmp_path, RULES, [world], {15: [firing("PulsedGpuHealthCritical", gpu="0")]})


def test_a_disabled_check_alerts_nobody(tmp_path: Path) -> None:
    settings = ComputeSettings(health=HealthSettings(disabled=frozenset({"xid_critical"})))
    rules = document(settings, RuleSelection("alerting"))
    world = [
        (selector(METRIC, {"check": "xid_critical", "gpu": gpu, "node": "n"}), value)
        for gpu, value in (("0", "4+0x20"), ("1", "0+0x20"))
    ]
    alert = 'ALERTS{alertstate="firing"}'
    assert check(tmp_path, rules, [world], {15: [alert]}) == ""
    assert "FAILED" in check(tmp_path, RULES, [world], {15: [alert]})


def test_the_owner_of_a_job_that_the_fault_ended_is_named(tmp_path: Path) -> None:
    labels = {"node": "n", "gpu": "0", "uuid": "GPU-0"}
    world = [
        (selector(METRIC, {**labels, "check": "gpu_lost"}), "4+0x20"),
        (
            selector("pulsed_gpu_owner_info", {**labels, "kind": "slurm_job", "job_id": "7", "user": "ann"}),
            "1+0x5 stale",
        ),
    ]
    (alert,) = fired(tmp_path, RULES, world, {"PulsedGpuHealthCritical": 15})["PulsedGpuHealthCritical"]
    assert "Owner within the last hour: job 7 of ann." in alert["annotations"]["description"]
