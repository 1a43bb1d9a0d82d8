"""The alerts about health, from the table of checks: one for what is critical, one for what is worse than fine.

A latched state outlives its event by ten minutes at least, so that `for` and a scrape of a minute never miss one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pulsed.compute.health.check import Check
from pulsed.compute.health.model import SEVERITY
from pulsed.compute.health.settings import HealthSettings
from pulsed.present.promql.rule_types import Alert, Severity

METRIC = "pulsed_gpu_health_check"

_GPU = "GPU {{ $labels.gpu }} of {{ $labels.node }}"
_WARN, _CRIT = SEVERITY["warn"], SEVERITY["crit"]


def health_alerts(settings: HealthSettings) -> tuple[Alert, ...]:
    """Return the alerts of the checks that are not disabled; the state `info` has none."""
    return tuple(alert for check in settings.checks() for alert in _alerts(check))


def _alerts(check: Check) -> Iterator[Alert]:
    states = set(check.states)
    series = f'{METRIC}{{check="{check.id}"}}'
    if "crit" in states:
        yield _alert(check, "Critical" if states & {"warn", "hot"} else "", f"{series} == {_CRIT}", "1m", "critical")
    if states & {"warn", "hot"}:
        yield _alert(check, "", f"({series} >= {_WARN}) < {_CRIT}", "5m", "warning")


def _alert(check: Check, suffix: str, expr: str, hold: str, severity: Severity) -> Alert:
    name = "".join(word.capitalize() for word in check.id.split("_"))
    remedy = re.sub(r"\{(\w+)[^}]*\}", lambda found: _PLACEHOLDERS.get(found[1], "N"), check.remedy)
    return Alert(
        f"PulsedGpuHealth{name}{suffix}",
        expr,
        hold,
        severity,
        f"{_GPU}: {check.title[0].lower()}{check.title[1:]}",
        f"{remedy} Raised: {check.rule}. `pulsed health` on the node and /gpus have the evidence.",
    )


_PLACEHOLDERS = {"advice": "follow HEALTH.md for the code"}
"""What stands for evidence that a description cannot have."""
