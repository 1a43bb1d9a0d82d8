"""The runbook has an entry for each check and alert, and no others."""

from __future__ import annotations

from pulsed.compute.health.checks import CHECKS
from pulsed.compute.settings import ComputeSettings
from pulsed.host.node_checks import NODE_CHECKS
from pulsed.present.promql.rule_set import RuleSelection, groups
from pulsed.present.promql.rule_types import Alert
from pulsed.present.runbook import ALERTS, RUNBOOK, runbook
from tools.generate_docs import ROOT


def test_each_check_has_an_entry() -> None:
    assert set(RUNBOOK) == {check.id for check in CHECKS} | {check.id for check in NODE_CHECKS}
    text = (ROOT / "docs/health.md").read_text(encoding="utf-8")
    for check in RUNBOOK:
        assert runbook(check) in text.split(f"### {check}\n")[1].split("\n### ")[0]


def test_each_other_alert_has_an_entry() -> None:
    alerts = {
        rule.name.replace("PulsedPod", "PulsedJob")
        for group in groups(ComputeSettings(), RuleSelection("alerting"))
        for rule in group.rules
        if isinstance(rule, Alert) and not rule.runbook
    }
    assert set(ALERTS) == alerts
