"""Groups of rules as YAML: a rule file of Prometheus, or a `PrometheusRule` of the Prometheus operator.

Rendered without a YAML library, for comments and block scalars.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pulsed.present.promql.rule_types import Alert, Group, Recording, Rule, indented


@dataclass(frozen=True, slots=True)
class KubernetesObject:
    """Metadata of a `PrometheusRule`. The labels are for the operator's `ruleSelector`."""

    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    name: str = "pulsed"


def rule_file(groups: Sequence[Group], header: str, runbook: str) -> str:
    """Return a rule file of Prometheus, Thanos or Mimir; `runbook` is the URL of the document that alerts link to."""
    return _comment(header) + "\n" + _groups(groups, runbook)


def prometheus_rule(groups: Sequence[Group], header: str, runbook: str, target: KubernetesObject) -> str:
    """Return a `PrometheusRule`."""
    lines = [
        "apiVersion: monitoring.coreos.com/v1",
        "kind: PrometheusRule",
        "metadata:",
        f"  name: {json.dumps(target.name)}",
    ]
    if target.namespace:
        lines.append(f"  namespace: {json.dumps(target.namespace)}")
    if target.labels:
        lines.append("  labels:")
        lines += [f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in target.labels.items()]
    return _comment(header) + "\n".join([*lines, "spec:"]) + "\n" + indented(_groups(groups, runbook)) + "\n"


def _groups(groups: Sequence[Group], runbook: str) -> str:
    return "groups:\n" + "".join(line + "\n" for group in groups for line in _group(group, runbook))


def _group(group: Group, runbook: str) -> Iterator[str]:
    yield from _commented(group.comment, "  ")
    yield f"  - name: {group.name}"
    if group.interval:
        yield f"    interval: {group.interval}"
    yield "    rules:"
    for rule in group.rules:
        for line in _rule(rule, runbook):
            yield "      " + line if line else ""


def _rule(rule: Rule, runbook: str) -> Iterator[str]:
    if isinstance(rule, Recording):
        yield from _commented(rule.comment, "")
        yield f"- record: {rule.record}"
        yield from _text("expr", rule.expr)
        yield from _pairs("labels", rule.labels)
    else:
        yield from _alert(rule, runbook)


def _alert(alert: Alert, runbook: str) -> Iterator[str]:
    yield f"- alert: {alert.name}"
    yield from _text("expr", alert.expr)
    yield f"  for: {alert.hold}"
    yield from _pairs("labels", {"severity": alert.severity})
    texts = {"summary": alert.summary, "description": alert.description}
    yield from _pairs("annotations", texts | {"runbook_url": f"{runbook}#{alert.anchor}"})


def _pairs(key: str, values: Mapping[str, str]) -> Iterator[str]:
    if values:
        yield f"  {key}:"
        for name, value in values.items():
            yield f"    {name}: {json.dumps(value, ensure_ascii=False)}"


def _text(key: str, text: str) -> Iterator[str]:
    yield f"  {key}: |-"
    for line in text.splitlines():
        yield "    " + line


def _comment(text: str) -> str:
    return "".join(line + "\n" for line in _commented(text, ""))


def _commented(text: str, indent: str) -> Iterator[str]:
    for line in text.splitlines():
        yield f"{indent}# {line}".rstrip()
