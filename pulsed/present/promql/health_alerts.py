"""The alerts about health, from the table of checks: one for what is critical, one for what is worse than fine.

A latched state outlives its event by ten minutes at least, so that `for` and a scrape of a minute never miss one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pulsed.compute.health.check import Check
from pulsed.compute.health.clock_events import REASONS
from pulsed.compute.health.rule_kinds import Duty, Level
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.health.xid_rule import CORROBORATION, XidRule
from pulsed.compute.health.xids import FOLLOWER, XIDS
from pulsed.model.health import SEVERITY
from pulsed.model.vocabulary import QUANTITIES
from pulsed.present.promql.alert_text import GPU, OWNER, lookup, of_board
from pulsed.present.promql.rule_types import Alert, Severity

METRIC = "pulsed_gpu_health_check"

_WARN, _CRIT = SEVERITY["warn"], SEVERITY["crit"]

_SINCE = (
    "{{ with "
    + lookup(
        "time() - pulsed_gpu_health_check_since_timestamp_seconds{node=%q,uuid=%q,check=%q}", "node", "uuid", "check"
    )
    + " }} (for {{ . | first | value | humanizeDuration }}){{ end }}"
)


def health_alerts(settings: HealthSettings) -> tuple[Alert, ...]:
    """Return the alerts of the checks that are not disabled; the state `info` has none."""
    return tuple(alert for check in settings.checks() for alert in _alerts(check, settings))


def _alerts(check: Check, settings: HealthSettings) -> Iterator[Alert]:
    states = set(check.states)
    series = f'{METRIC}{{check="{check.id}"}}'
    if "crit" in states:
        suffix = "Critical" if states & {"warn", "hot"} else ""
        yield _alert(check, suffix, f"{series} == {_CRIT}", "1m", "critical", settings)
    if states & {"warn", "hot"}:
        yield _alert(check, "", f"({series} >= {_WARN}) < {_CRIT}", "5m", "warning", settings)


def _alert(check: Check, suffix: str, expr: str, hold: str, severity: Severity, settings: HealthSettings) -> Alert:
    name = "".join(word.capitalize() for word in check.id.split("_"))
    remedy = re.sub(r"\{(\w+)\b[^{}]*\}", lambda found: _evidence(found[1], check, settings), check.remedy)
    return Alert(
        f"PulsedGpuHealth{name}{suffix}",
        expr,
        hold,
        severity,
        f"{GPU}: {_lowered(check.title)}{_SINCE}",
        f"{remedy}{_readings(check)}{OWNER} Rule: {check.rule}. `pulsed health` on the node and /gpus have the"
        " evidence.",
        check.id,
    )


def _lowered(title: str) -> str:
    """Return a title with a small initial, unless its first word is a name such as NVLink.

    >>> _lowered("The die is too warm"), _lowered("NVLink errors"), _lowered("PCIe errors")
    ('the die is too warm', 'NVLink errors', 'PCIe errors')
    """
    first = title.split()[0]
    return title if any(letter.isupper() for letter in first[1:]) else title[0].lower() + title[1:]


def _evidence(name: str, check: Check, settings: HealthSettings) -> str:
    """Return the template of a number in a remedy."""
    if name == "advice":
        return "follow HEALTH.md for the code"
    if name == "xid":
        return _xids(check, settings)
    number = '{{ . | first | value | printf "%.0f" }}'
    return f"{{{{ with {of_board(f'pulsed_gpu_{name}')} }}}}{number}{{{{ else }}}}(not reported now){{{{ end }}}}"


def _xids(check: Check, settings: HealthSettings) -> str:
    """Return the template of the codes that a check counts and that happened, separated by commas."""
    (rule,) = (rule for rule in check.rules if isinstance(rule, XidRule))
    counted = {code: rule.counts(code, settings.severity_of(code)) for code in XIDS}
    codes = "|".join(str(code) for code, counts in counted.items() if counts)
    others = "|".join(str(code) for code, counts in counted.items() if not counts)  # and unknown codes
    metric = "pulsed_gpu_xid_events_total"
    match rule.choose:
        case "critical":
            query = of_board(metric, f'xid=~"{codes}"', more=" > 0")
        case "repeated":
            query = of_board(f"topk(1, {metric}", f'xid!="{FOLLOWER}"', more=" > 0)")
        case _:
            query = of_board(metric, f'xid!~"{others}"', more=" > 0")
    return (
        f'{{{{ with {query} | sortByLabel "xid" }}}}{{{{ range $n, $event := . }}}}{{{{ if $n }}}}, {{{{ end }}}}'
        "{{ $event.Labels.xid }}{{ end }}{{ else }}(of an earlier run of pulsed){{ end }}"
    )


def _readings(check: Check) -> str:
    """Return a sentence for each reading that a check uses; those without a value are left out."""
    fallbacks = {rule.inputs[1]: rule.fallback for rule in check.rules if isinstance(rule, Level) and rule.fallback}
    is_of_xid = any(isinstance(rule, XidRule) for rule in check.rules)
    texts = []
    for name in check.inputs:
        if name == "clocks_event_reasons":
            texts.append(_clock_events(check))
        elif name in QUANTITIES and f"{{{name}" not in check.remedy and not (is_of_xid and name in CORROBORATION):
            texts.append(_reading(name, name in fallbacks))
    return "".join(texts)


def _clock_events(check: Check) -> str:
    """Return a sentence for each reason of reduced clocks that a check is about."""
    bits = [rule.bits for rule in check.rules if isinstance(rule, Duty) and rule.bits]
    reasons = "|".join(dict.fromkeys(REASONS.get(bit, UNNAMED) for bit in bits))
    shares = of_board("pulsed_gpu_clock_event_ratio", f'reason=~"{reasons}"', more=" > 0")
    text = "Clocks reduced by {{ .Labels.reason }} in {{ .Value | humanizePercentage }} of the last minute."
    return f"{{{{ range {shares} }}}} {text}{{{{ end }}}}"


UNNAMED = "hw_slowdown|board_limit|reliability"
"""The reasons behind a hardware slowdown without one of its own."""


def _reading(name: str, has_fallback: bool) -> str:
    meaning = QUANTITIES[name].meaning
    words = name if meaning.startswith("1 ") else re.split("[:;,]", meaning)[0]
    suffix, form, unit, more = next(row for row in _FORMATS if name.endswith(row[0]))
    of_span = suffix == "_seconds_total"
    query = of_board(f"{'rate(' if of_span else ''}pulsed_gpu_{name}", more=f"[10m]){more}" if of_span else more)
    missing = f"{{{{ else }}}} {words}: not reported, that of the model counts." if has_fallback else ""
    return f"{{{{ with {query} }}}} {words}: {{{{ . | first | value | {form} }}}}{unit}.{missing}{{{{ end }}}}"


_FORMATS = (
    ("_celsius", 'printf "%.0f"', " °C", ""),
    ("bit_error_ratio", 'printf "%.2g"', "", ""),
    ("_ratio", "humanizePercentage", "", ""),
    ("_seconds_total", "humanizePercentage", " of the last 10 minutes", " > 0"),
    ("_total", 'printf "%.0f"', "", " > 0"),
    ("xid_last_code", 'printf "%.0f"', "", " > 0"),
    ("", 'printf "%.0f"', "", ""),
)
"""By the end of a quantity's name, how its value is written, its unit, and a condition on it."""
