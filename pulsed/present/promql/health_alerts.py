"""The alerts about health, from the tables of checks: one for what is critical, one for what is worse than fine.

A latched state outlives its event by ten minutes at least, so that `for` and a scrape of a minute never miss one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pulsed.compute.clock_events import REASONS
from pulsed.compute.health.check import Check
from pulsed.compute.health.link_faults import LINK_DOWN
from pulsed.compute.health.rule_kinds import NEWER_CODE, Codes, Duty
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.health.xid_rule import CORROBORATION, XidRule
from pulsed.compute.health.xids import FOLLOWER, XIDS, advice_on
from pulsed.host.node_checks import NODE_CHECKS, NodeCheck
from pulsed.model.health import SEVERITY, State
from pulsed.model.vocabulary import QUANTITIES
from pulsed.present.exposition.host_families import NODE_CHECK
from pulsed.present.promql.alert_text import GPU, LAST_OWNER, lookup, of_board, since
from pulsed.present.promql.rule_types import Alert, Severity

METRIC = "pulsed_gpu_health_check"

_WARN, _CRIT = SEVERITY["warn"], SEVERITY["crit"]

_SINCE = since("pulsed_gpu_health_check_since_timestamp_seconds{node=%q,uuid=%q,check=%q}", "node", "uuid", "check")


def health_alerts(settings: HealthSettings) -> tuple[Alert, ...]:
    """Return the alerts of the checks of GPUs that are not disabled; the state `info` has none."""
    return tuple(
        _alert(check, *condition, settings) for check in settings.checks() for condition in _conditions(METRIC, check)
    )


def node_health_alerts(settings: HealthSettings) -> tuple[Alert, ...]:
    """Return the alerts of the checks of nodes that are not disabled."""
    return tuple(
        _node_alert(check, *condition)
        for check in NODE_CHECKS
        if check.id not in settings.disabled
        for condition in _conditions(NODE_CHECK, check)
    )


def _conditions(metric: str, check: Check | NodeCheck) -> Iterator[tuple[str, str, str, Severity]]:
    """Yield suffix, expression, duration and severity of each alert of a check."""
    states = set(check.states)
    series = f'{metric}{{check="{check.id}"}}'
    if "crit" in states:
        yield "Critical" if states & {"warn", "hot"} else "", f"{series} == {_CRIT}", "1m", "critical"
    if states & {"warn", "hot"}:
        yield "", f"({series} >= {_WARN}) < {_CRIT}", "5m", "warning"


def _node_alert(check: NodeCheck, suffix: str, expr: str, hold: str, severity: Severity) -> Alert:
    return Alert(
        f"PulsedNodeHealth{_camel(check.id)}{suffix}",
        expr,
        hold,
        severity,
        f"{{{{ $labels.node }}}}: {_lowered(check.title)}",
        f"{check.remedy_at('crit' if severity == 'critical' else 'warn')} Details: {_ON_THE_NODE}.",
        check.id,
    )


def _camel(id_: str) -> str:
    return "".join(word.capitalize() for word in id_.split("_"))


_FAULT = 'pulsed_gpu_nvlink_fault_timestamp_seconds{{origin="true",xid{}"{}"}}'

_EXPLAINED = {"nvlink_down": "nvlink_fault", "nvlink_errors": "nvlink_fault"}
"""Checks without an alert while the other one is critical on the same GPU."""


def _expr(check: Check, raised: str) -> str:
    """Return the expression of an alert. Of the faults of a fabric, in which daemons of several nodes may each have an
    origin, those of links that are down count, else the first one."""
    if check.id in _EXPLAINED:
        other = f'{METRIC}{{check="{_EXPLAINED[check.id]}"}} == {_CRIT}'
        return f"({raised}) unless on (node, uuid) ({other})"
    if check.id != "nvlink_fault":
        return raised
    down, others = _FAULT.format("=", LINK_DOWN), _FAULT.format("!=", LINK_DOWN)
    first = f"bottomk by (fabric) (1, {others} and on (node, uuid) ({raised}))"
    return f"({down} and on (node, uuid) ({raised})) or ({first} unless on (fabric) {down})"


def _alert(check: Check, suffix: str, expr: str, hold: str, severity: Severity, settings: HealthSettings) -> Alert:
    link = "{{ with $labels.link }}, link {{ . }}{{ end }}" if check.id == "nvlink_fault" else ""
    since = _SINCE.replace("check=%q", f'check="{check.id}"').replace(" $labels.check", "") if link else _SINCE
    return Alert(
        f"PulsedGpuHealth{_camel(check.id)}{suffix}",
        _expr(check, expr),
        hold,
        severity,
        f"{GPU}: {_lowered(check.title)}{link}{since}",
        f"{_remedy(check, severity, settings)}{_readings(check)}{LAST_OWNER} Details: {_ON_THE_NODE}.",
        check.id,
    )


def _lowered(title: str) -> str:
    """Return a title with a small initial, unless its first word is a name such as NVLink.

    >>> _lowered("The die is too warm"), _lowered("NVLink errors"), _lowered("PCIe errors")
    ('the die is too warm', 'NVLink errors', 'PCIe errors')
    """
    first = title.split()[0]
    return title if any(letter.isupper() for letter in first[1:]) else title[0].lower() + title[1:]


def _remedy(check: Check, severity: Severity, settings: HealthSettings) -> str:
    """Return the template of what to do."""
    state: State = "crit" if severity == "critical" else "warn"
    remedy = check.remedy_at(state)
    for rule in check.rules:
        if isinstance(rule, XidRule) and "{xid" in remedy:
            return _for_each_xid(remedy, rule, state, settings)
        if isinstance(rule, Codes) and rule.actions:
            return _for_code(remedy, rule.name, rule.actions)
    return _PLACEHOLDER.sub(lambda found: _evidence(found[1]), remedy)


_PLACEHOLDER = re.compile(r"\{(\w+)\b[^{}]*\}")

_ON_THE_NODE = "`pulsed health` on {{ $labels.node }}"


def _evidence(name: str) -> str:
    """Return the template of a number in a remedy."""
    if name == "advice":
        return f"{_ON_THE_NODE} has the message and what to do"
    number = '{{ . | first | value | printf "%.0f" }}'
    return f"{{{{ with {of_board(f'pulsed_gpu_{name}')} }}}}{number}{{{{ else }}}}(not reported now){{{{ end }}}}"


def _for_code(remedy: str, quantity: str, actions: Mapping[int, str]) -> str:
    """Return the template of a remedy for the code that a quantity has now."""
    code = '{{ $code := . | first | value | printf "%.0f" }}'
    text = _with_code(remedy, actions, NEWER_CODE)
    missing = f"It is not reported now: {_ON_THE_NODE} has the code and what to do."
    return f"{{{{ with {of_board(f'pulsed_gpu_{quantity}')} }}}}{code}{text}{{{{ else }}}}{missing}{{{{ end }}}}"


def _for_each_xid(remedy: str, rule: XidRule, state: State, settings: HealthSettings) -> str:
    """Return the template of a remedy for each code that a rule counts and that happened within a day."""
    counted = {code: rule.counts(code, settings.severity_of(code)) for code in XIDS}
    codes = "|".join(str(code) for code, counts in counted.items() if counts)
    others = "|".join(str(code) for code, counts in counted.items() if not counts)  # and unknown codes
    matcher = {**dict.fromkeys(("critical", "nvlink"), f'xid=~"{codes}"'), "repeated": f'xid!="{FOLLOWER}"'}.get(
        str(rule.choose), f'xid!~"{others}"'
    )
    events = f"pulsed_gpu_xid_events_total{{node=%q,uuid=%q,{matcher}}}"
    recent = f"increase({events}[1d]) > 0 or {events} > 0 unless on (node, uuid, xid) {events} offset 1d"
    query = lookup(f"topk(1, {recent})" if rule.choose == "repeated" else recent, *("node", "uuid") * 3)
    actions = {code: advice_on(code, state) for code, counts in counted.items() if counts}
    text = _with_code(remedy, actions, advice_on(-1, state))
    return (
        f'{{{{ with {query} | sortByLabel "xid" }}}}{{{{ range $n, $event := . }}}}{{{{ if $n }}}} {{{{ end }}}}'
        f"{{{{ $code := $event.Labels.xid }}}}{text}{{{{ end }}}}"
        f"{{{{ else }}}}The XID is more than a day old: {_ON_THE_NODE} has the code and what to do.{{{{ end }}}}"
    )


def _with_code(remedy: str, actions: Mapping[int, str], other: str) -> str:
    """Return the template of a remedy with the code `$code`, and the action for it as advice."""
    by_action: dict[str, list[str]] = {}
    for code, action in actions.items():
        by_action.setdefault(action, []).append(str(code))
    by_action.pop(other, None)
    words = ["if", *["else if"] * len(by_action)]
    cases = "".join(
        f'{{{{ {word} match "^({"|".join(codes)})$" $code }}}}{action}'
        for word, (action, codes) in zip(words, by_action.items(), strict=False)
    )
    advice = f"{cases}{{{{ else }}}}{other}{{{{ end }}}}"
    return _PLACEHOLDER.sub(lambda found: advice if found[1] == "advice" else "{{ $code }}", remedy)


def _readings(check: Check) -> str:
    """Return a sentence for each reading that a check uses; those without a value are left out."""
    fallbacks = {rule.inputs[1]: rule.fallback for rule in check.rules if rule.fallback}
    is_of_xid = any(isinstance(rule, XidRule) for rule in check.rules)
    said = {"xid_last_code"} if "{xid" in check.remedy else set(_PLACEHOLDER.findall(check.remedy))
    texts = []
    for name in check.inputs:
        if name == "clocks_event_reasons":
            texts.append(_clock_events(check))
        elif name in QUANTITIES and name not in said and not (is_of_xid and name in CORROBORATION):
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
    words, _, codes = re.sub("^1 (if|once|while) ", "", meaning).partition(": ")
    words = f"{words[0].upper()}{re.split('[;,]', words)[0][1:]}"
    suffix, form, unit, more = next(row for row in _FORMATS if name.endswith(row[0]))
    if meaning.startswith("1 "):
        form = 'printf "%.0f" | reReplaceAll "^1$" "yes" | reReplaceAll "^0$" "no"'
    elif codes and suffix == "":
        unit = f" ({codes})"
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
