"""The runbook has an entry for each check, and no others."""

from __future__ import annotations

from pulsed.compute.health.checks import CHECKS
from pulsed.host.node_checks import NODE_CHECKS
from tools.generate_docs import ROOT
from tools.runbook import RUNBOOK, runbook


def test_each_check_has_an_entry() -> None:
    assert set(RUNBOOK) == {check.id for check in CHECKS} | {check.id for check in NODE_CHECKS}
    text = (ROOT / "docs/health.md").read_text(encoding="utf-8")
    for check in RUNBOOK:
        assert runbook(check) in text.split(f"### {check}\n")[1].split("\n### ")[0]
