"""Every check that can raise more than `info` has its alerts, and they fire for the GPU that they are about."""

from __future__ import annotations

from pathlib import Path

from pulsed.compute.health.checks import CHECKS
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.settings import ComputeSettings
from pulsed.model.health import SEVERITY, STATES
from pulsed.present.promql.health_alerts import METRIC, health_alerts
from pulsed.present.promql.rule_set import RuleSelection, document
from tests.present.promql.promtool import check, selector

RULES = document(ComputeSettings(), RuleSelection("alerting", "pulsed"))
ALERTS = health_alerts(HealthSettings())


def firing(name: str, gpu: str) -> str:
    return f'ALERTS{{alertname="{name}", alertstate="firing", gpu="{gpu}"}}'


def test_each_state_alerts_as_loudly_as_it_should(tmp_path: Path) -> None:
    """One GPU per state; each must fire the alert of its severity, of every check, and no other."""
    world = [
        (selector(METRIC, {"check": each.id, "gpu": state, "node": "node-1"}), f"{SEVERITY[state]}+0x20")
        for each in CHECKS
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


def test_alerts_state_the_configured_threshold() -> None:
    default = next(alert for alert in ALERTS if alert.name == "PulsedGpuHealthRetiredPages")
    settings = HealthSettings(thresholds={"retired_pages": {"retired_pages.warn": 20}})
    changed = next(alert for alert in health_alerts(settings) if alert.name == default.name)
    assert "warn at 48 or more, crit at 63 or more retired pages" in default.description
    assert "warn at 20 or more, crit at 63 or more retired pages" in changed.description
