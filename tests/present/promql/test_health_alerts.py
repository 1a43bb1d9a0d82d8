"""Every check that can raise more than `info` has its alerts, and they fire for the GPU that they are about."""

from __future__ import annotations

from pathlib import Path

from pulsed.compute.health.checks import CHECKS
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.health.xids import XIDS, advice_on
from pulsed.compute.settings import ComputeSettings
from pulsed.model.health import SEVERITY, STATES
from pulsed.present.promql.health_alerts import METRIC, health_alerts
from pulsed.present.promql.rule_set import RuleSelection, document
from tests.present.promql.promtool import check, fired, selector

RULES = document(ComputeSettings(), RuleSelection("alerting"))
ALERTS = health_alerts(HealthSettings())


def firing(name: str, gpu: str) -> str:
    return f'ALERTS{{alertname="{name}", alertstate="firing", gpu="{gpu}"}}'


def test_each_state_alerts_as_loudly_as_it_should(tmp_path: Path) -> None:
    """A GPU per check and state; each must fire the alert of its severity, and no other."""
    gpus = {
        (each.id, state): {"gpu": state, "node": "node-1", "uuid": f"{each.id}-{state}"}
        for each in CHECKS
        for state in STATES
    }
    world = [(selector(METRIC, {"check": id_, **gpu}), f"{SEVERITY[state]}+0x20") for (id_, state), gpu in gpus.items()]
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
    names = {alert.name for alert in health_alerts(HealthSettings(disabled=frozenset({"xid_critical"})))}
    assert names == {alert.name for alert in ALERTS} - {"PulsedGpuHealthXidCritical"}


def test_an_xid_of_another_day_is_not_the_one_that_happened(tmp_path: Path) -> None:
    """One GPU has an old code beside a new one, the other an old one alone, which a daemon at a new address reports."""
    old, both = {"node": "n", "gpu": "0", "uuid": "GPU-0"}, {"node": "n", "gpu": "1", "uuid": "GPU-1"}
    steps = 2000 // 5

    def events(labels: dict[str, str], xid: str, values: str, instance: str = "a") -> tuple[str, str]:
        return selector("pulsed_gpu_xid_events_total", {**labels, "xid": xid, "instance": instance}), values

    world = [
        events(old, "79", f"1+0x{steps - 10} stale"),
        events(old, "79", f"_x{steps - 9} 1+0x20", "b"),
        events(both, "79", f"1+0x{steps}"),
        events(both, "48", f"0+0x{steps - 5} 1+0x20"),
        *((selector(METRIC, {**labels, "check": "xid_critical"}), f"_x{steps - 6} 4+0x20") for labels in (old, both)),
    ]
    name = "PulsedGpuHealthXidCritical"
    alerts = fired(tmp_path, RULES, world, {name: 2000}, "5m")[name]
    texts = {alert["labels"]["gpu"]: alert["annotations"]["description"] for alert in alerts}
    assert texts["0"].startswith("The XID is more than a day old: `pulsed health` on n has")
    assert texts["1"].startswith("XID 48 needs")
    assert "79" not in texts["1"]


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


def test_a_code_has_the_action_of_the_table_in_alert_and_log() -> None:
    (critical,) = [alert for alert in ALERTS if alert.name == "PulsedGpuHealthXidCritical"]
    for action in {advice_on(code, "crit") for code, xid in XIDS.items() if xid.severity == "crit"}:
        assert action in critical.description
