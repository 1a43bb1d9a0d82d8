"""What rules are made of: their types, names of recorded series, parts of alert texts, and their files as YAML.

Names are Prometheus' `level:metric:operations`. The level is `gpu`, one series per GPU or MIG instance, or of a
sum. The metric is `pulsed_` and pulsed's name of the quantity. The operation is the last one applied: `sum`, `count`,
`mean`, `min`, `max`, `rate5m`, `raw` (of the current evaluation alone).

Texts are Prometheus templates: what labels do not have (model, owner, measured values) is looked up when an alert
fires. An expression never depends on such a look-up: a join that finds nothing would drop the alert.

Files are rendered without a YAML library, for comments and block scalars.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import indent
from typing import Literal

Severity = Literal["critical", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording rule; `expr` may have several lines, the comment is empty if the name is sufficient."""

    record: str
    expr: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule.

    Attributes:
        expr: PromQL; the alert fires for every series of its result.
        hold: the duration `for`, such as `10m`.
        severity: `critical` (act now), `warning` (act today), `info` (no action).
        summary: who and what, a template of Prometheus.
        description: why and what to do, a template of Prometheus.
        runbook: anchor of the runbook, a template of Prometheus, if it is not the alert's name.
        annotations: further ones, templates of Prometheus.
    """

    name: str
    expr: str
    hold: str
    severity: Severity
    summary: str
    description: str
    runbook: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def anchor(self) -> str:
        """The anchor of its heading in the runbook, as in rendered Markdown."""
        return self.runbook or self.name.lower()


Rule = Recording | Alert


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated in order at the same instant, so that each can use the results of earlier ones.

    The interval is such as `5m`; empty for the engine's interval.
    """

    name: str
    rules: Sequence[Rule]
    comment: str
    interval: str = ""


RATE = "5m"
"""Window of the rates that are recorded by default."""


def recorded(level: str, metric: str, operation: str = f"rate{RATE}") -> str:
    """Return the name of a recorded series.

    >>> recorded("gpu", "idle_seconds")
    'gpu:pulsed_idle_seconds:rate5m'
    """
    return f"{level}:pulsed_{metric}:{operation}"


GPU_KEY = "cluster, node, gpu, uuid, mig_id"
"""Labels that identify a GPU or MIG instance in pulsed's own series."""


def number(value: float) -> str:
    """Return a number as PromQL, without loss of precision.

    >>> number(1e9), number(0.05), number(0.0)
    ('1e9', '0.05', '0')
    """
    text = repr(value).removesuffix(".0")
    short = f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    return short if float(short) == value and len(short) < len(text) and value >= 1e5 else text


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
    return _comment(header) + "\n".join([*lines, "spec:"]) + "\n" + indent(_groups(groups, runbook), "  ")


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
    else:
        yield from _alert(rule, runbook)


def _alert(alert: Alert, runbook: str) -> Iterator[str]:
    yield f"- alert: {alert.name}"
    yield from _text("expr", alert.expr)
    yield f"  for: {alert.hold}"
    yield from _pairs("labels", {"severity": alert.severity})
    texts = {"summary": CLUSTER + alert.summary, "description": alert.description, **alert.annotations}
    yield from _pairs("annotations", texts | {"runbook_url": f"{runbook}#{alert.anchor}"})


def _pairs(key: str, values: Mapping[str, str]) -> Iterator[str]:
    yield f"  {key}:"
    for name, value in values.items():
        yield f"    {name}: {json.dumps(value, ensure_ascii=False)}"


def _text(key: str, text: str) -> Iterator[str]:
    yield f"  {key}: |-"
    for line in text.splitlines():
        yield "    " + line


def _comment(text: str) -> str:
    return "".join(line + "\n" for line in _commented(text, ""))


def _commented(text: str, margin: str) -> Iterator[str]:
    for line in text.splitlines():
        yield f"{margin}# {line}".rstrip()


CLUSTER = "{{ with $labels.cluster }}{{ . }}: {{ end }}"
"""The cluster of an alert, before its summary; empty without one."""

RUNBOOK = "docs/health.md"
"""The document that `runbook_url` leads to, where no URL is known."""


def lookup(promql: str, *labels: str) -> str:
    """Return the template of a query; each `%q` is the value of one of the labels, quoted.

    Each selector with such a value is also limited to the cluster of the alert: nodes of several have the same names.
    Without that label the value is empty, which matches series without it.

    >>> lookup("up{job=%q}", "job")
    'printf `up{cluster=%q,job=%q}` $labels.cluster $labels.job | query'
    """
    if not labels:
        return f"query `{promql}`"
    rest, names = iter(labels), list[str]()

    def in_cluster(selector: re.Match[str]) -> str:
        own = [next(rest) for _ in range(selector[0].count("%q"))]
        if not own or "cluster" in own:
            names.extend(own)
            return selector[0]
        names.extend(["cluster", *own])
        return f"{{cluster=%q,{selector[0][1:]}"

    promql = re.sub(r"\{[^{}]*\}", in_cluster, promql)
    return f"printf `{promql}` {' '.join(f'$labels.{label}' for label in names)} | query"


def of_board(metric: str, *matchers: str, more: str = "") -> str:
    """Return the look-up of a metric of the alert's board; `more` is the rest of the expression.

    >>> of_board("up", more=" > 0")
    'printf `up{cluster=%q,node=%q,uuid=%q} > 0` $labels.cluster $labels.node $labels.uuid | query'
    """
    return lookup(f"{metric}{{{','.join(('node=%q', 'uuid=%q', *matchers))}}}{more}", "node", "uuid")


_MODEL = (
    "{{ with "
    + of_board("last_over_time(pulsed_gpu_info", more="[1d])")
    + ' }} ({{ . | first | label "model" }}){{ end }}'
)
GPU = "GPU {{ $labels.gpu }}{{ with $labels.mig_id }} instance {{ . }}{{ end }} of {{ $labels.node }}" + _MODEL
"""Index, MIG instance, node and model of a GPU of pulsed."""

_OWNER_LABELS = (
    "{{ with .Labels.pod }} pod {{ . }}{{ end }}"
    "{{ with .Labels.namespace }} in {{ . }}{{ end }}"
    "{{ with .Labels.job_id }} job {{ . }}{{ end }}{{ if eq .Labels.kind `process` }} process{{ end }}"
    "{{ with .Labels.user }} of {{ . }}{{ end }}."
)


def _owners(over: str = "{}") -> str:
    """Return the template of the owners of a GPU or MIG instance, or of all instances of a board, in order."""
    query = over.format("pulsed_gpu_owner_info{cluster=%q,node=%q,uuid=%q,mig_id=~%q}")
    labels = "$labels.cluster $labels.node $labels.uuid (or $labels.mig_id `.*`)"
    return f"printf `{query}` {labels} | query | sortByLabel `kind`"


OWNER = f"{{{{ range {_owners()} }}}} Owner:{_OWNER_LABELS}{{{{ end }}}}"
"""A sentence per owner; empty if none is known."""

LAST_OWNER = (
    f'{{{{ define "owner" }}}}{_OWNER_LABELS}{{{{ end }}}}'
    f'{{{{ range {_owners()} }}}} Owner:{{{{ template "owner" . }}}}{{{{ else }}}}'
    f"{{{{ range {_owners('last_over_time({}[1h])')} }}}} Owner within the last hour:"
    '{{ template "owner" . }}{{ end }}{{ end }}'
)
"""The same, but a GPU without an owner has the owners of the last hour: a fault may have ended the job."""


def since(promql: str, *labels: str) -> str:
    """Return the template of ` (since TIME)`, from a query of Unix seconds; empty if it finds nothing."""
    return f"{{{{ with {lookup(promql, *labels)} }}}} (since {_TIME}){{{{ end }}}}"


def last_seen(series: str, *labels: str) -> str:
    """Return the template of `Last seen TIME. `, from the samples of a series within a day; empty without samples."""
    query = lookup(f"max(max_over_time(timestamp({series})[1d:1m]))", *labels)
    return f"{{{{ with {query} }}}}Last seen {_TIME}. {{{{ end }}}}"


_TIME = '{{ (. | first | value | toTime).UTC.Format "2006-01-02 15:04" }} UTC'

_OF_DAEMON = ("job", "instance")
DAEMON = (
    "pulsed at {{ $labels.instance }}{{ with "
    + lookup("group by (node) (last_over_time(pulsed_gpu_info{job=%q,instance=%q}[1d]))", *_OF_DAEMON)
    + ' }} ({{ if eq (len .) 1 }}{{ . | first | label "node" }}{{ else }}{{ len . }} nodes{{ end }}){{ end }}'
)
"""Address of a daemon, and the node whose GPUs it reports, or the number of nodes."""

UNMONITORED = (
    "{{ with "
    + lookup("count(group by (node, gpu, uuid) (last_over_time(pulsed_gpu_info{job=%q,instance=%q}[1d])))", *_OF_DAEMON)
    + " }}Its {{ . | first | value }} GPUs are not monitored. {{ end }}"
)
"""A sentence about the GPUs that a daemon reported within a day; empty without GPUs."""
