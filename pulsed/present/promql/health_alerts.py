"""The alerts about health, from the tables of checks: one per severity, with a label `check`.

Their texts come from the daemon: `pulsed_gpu_health_problem_info` has the problem and the remedy of a raised check,
`pulsed_gpu_health_evidence` its readings. A latched state outlives its event by ten minutes at least, so that `for` and
a scrape of a minute never miss one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pulsed.compute.health.checks import CHECKS
from pulsed.compute.health.link_faults import LINK_DOWN
from pulsed.compute.health.settings import HealthSettings
from pulsed.model.health import SEVERITY
from pulsed.present.exposition.host_families import NODE_CHECK
from pulsed.present.promql.rule_types import GPU, LAST_OWNER, Alert, Severity, lookup, since

METRIC = "pulsed_gpu_health_check"

HOLDS: Mapping[Severity, str] = {"critical": "1m", "warning": "5m"}
"""Duration of each severity before its alerts fire."""

_INFO = SEVERITY["info"]

_LEVELS: Mapping[Severity, str] = {
    "critical": f"== {SEVERITY['crit']}",
    "warning": f">= {SEVERITY['warn']} < {SEVERITY['crit']}",
}

OF_PROGRAMS = "xid_warning"
"""The check that is `info` for an XID that a program causes: on all GPUs of a node, it is a warning about the node."""

EXPLAINED = ("nvlink_down", "nvlink_errors")
"""Checks without an alert while `nvlink_fault` is critical on the same GPU."""


def health_alerts(settings: HealthSettings) -> tuple[Alert, ...]:
    """Return a critical alert and a warning for GPUs, and for nodes; the label `check` has the check.

    A check with a cause that the GPUs of a node share, and any check that all GPUs of a node raise, is an alert of the
    node, which names the GPUs; its label `check` has the cause or the check.
    """
    gpus = (_of_gpu(f"PulsedGpuHealth{each.title()}", _gpu_expr(settings, each), each) for each in HOLDS)
    nodes = (_of_node(f"PulsedNodeHealth{each.title()}", _node_expr(settings, each), each) for each in HOLDS)
    return (*gpus, *nodes)


def _series(severity: Severity, matcher: str, metric: str = METRIC) -> str:
    """Return the expression of checks in the states of a severity.

    >>> _series("critical", 'check="imex"')
    'pulsed_gpu_health_check{check="imex"} == 4'
    """
    return f"{metric}{{{matcher}}} {_LEVELS[severity]}"


def _one_of(ids: Sequence[str]) -> str:
    return f'check=~"{"|".join(ids)}"'


def _nvlink_fault(severity: Severity) -> str:
    """Return the expression of the faults of NVLinks from which others follow.

    In a fabric, which may have several nodes and daemons, faults of links that are down count, otherwise the first
    fault.
    """
    raised = _series(severity, 'check="nvlink_fault"')
    down, others = (
        f'pulsed_gpu_nvlink_fault_timestamp_seconds{{xid{operator}"{LINK_DOWN}"}}' for operator in ("=", "!=")
    )
    first = f"bottomk by (cluster, fabric) (1, {others} and on (cluster, node, uuid) ({raised}))"
    faults = f"({down} and on (cluster, node, uuid) ({raised})) or ({first} unless on (cluster, fabric) {down})"
    return f'label_replace({faults}, "check", "nvlink_fault", "", "")'


def _unexplained(severity: Severity, matcher: str) -> str:
    fault = _series("critical", 'check="nvlink_fault"')
    return f"{_series(severity, matcher)} unless on (cluster, node, uuid) {fault}"


def _single(settings: HealthSettings, severity: Severity) -> str:
    """Return the expression of the checks of single GPUs."""
    others = sorted({*(check.id for check in CHECKS if check.cause), *settings.disabled, "nvlink_fault"})
    return _series(severity, f'check!~"{"|".join(others)}"')


def _on_all_gpus(raised: str) -> str:
    """Return the expression of the checks that all GPUs of a node raise, if it has more than one."""
    raising = f"count by (cluster, node, check) (group by (cluster, node, uuid, check) ({raised})) > 1"
    gpus = "count by (cluster, node) (group by (cluster, node, uuid) (pulsed_gpu_health_severity))"
    return f"({raising}) == on (cluster, node) group_left () {gpus}"


def _gpu_expr(settings: HealthSettings, severity: Severity) -> str:
    single = _single(settings, severity)
    return (
        f"{single}\nunless on (cluster, node, check) ({_on_all_gpus(single)})\nor on (cluster, node, uuid, check)"
        f" {_nvlink_fault(severity)}"
    )


def _shared(settings: HealthSettings) -> Mapping[str, Sequence[str]]:
    """Return the checks of each cause that the GPUs of a node share."""
    causes = defaultdict[str, list[str]](list)
    for check in settings.checks():
        if check.cause:
            causes[check.cause].append(check.id)
    return causes


def _node_expr(settings: HealthSettings, severity: Severity) -> str:
    """Return the expression of the checks of the node, of shared causes, and of checks that all GPUs raise."""
    parts = [_series(severity, "", NODE_CHECK).replace("{}", ""), _on_all_gpus(_single(settings, severity))]
    if severity == "warning":
        parts.append(_on_all_gpus(f'{METRIC}{{check="{OF_PROGRAMS}"}} == {_INFO}'))
    for cause, ids in _shared(settings).items():
        direct = [id_ for id_ in ids if id_ not in EXPLAINED]
        raised = [_series(severity, _one_of(direct))] if direct else []
        if explained := [id_ for id_ in ids if id_ in EXPLAINED]:
            raised.append(_unexplained(severity, _one_of(explained)))
        count = f"count by (cluster, node) ({' or '.join(raised)})"
        parts.append(f'label_replace({count}, "check", "{cause}", "", "")')
    return "\nor ".join(parts)


_VALUE = "{{ $each.Labels.reading }}: {{ $each.Value | printf `%.6g` }}."


def _list(query: str, text: str, before: str = "", between: str = " ") -> str:
    """Return the template of a text for each `$each` of the result of a query; empty if it finds nothing."""
    separator = f"{{{{ if $n }}}}{between}{{{{ else }}}}{before}{{{{ end }}}}"
    return f"{{{{ range $n, $each := {query} }}}}{separator}{text}{{{{ end }}}}"


def _alert(name: str, expr: str, severity: Severity, summary: str, texts: Sequence[str], more: str = "") -> Alert:
    """Return an alert with these texts: problem, remedy and readings."""
    problem, remedy, reading = texts
    return Alert(
        name,
        expr,
        HOLDS[severity],
        severity,
        summary,
        f"{remedy} {reading}{more} Details: `pulsed health` on {{{{ $labels.node }}}}.",
        "{{ $labels.check }}",
        {"problem": problem, "remedy": remedy, "reading": reading},
    )


_GPU_CHECK = ("node", "uuid", "check")
_OF_GPU = "{node=%q,uuid=%q,check=%q}"


def _of_gpu(name: str, expr: str, severity: Severity) -> Alert:
    """Return an alert about a check of one GPU."""
    lines = lookup(f"pulsed_gpu_health_problem_info{_OF_GPU}", *_GPU_CHECK)
    problem, remedy = (
        f'{{{{ with {lines} }}}}{{{{ . | first | label "{label}" }}}}{{{{ else }}}}{otherwise}{{{{ end }}}}'
        for label, otherwise in (("problem", "check {{ $labels.check }}"), ("remedy", "It is no longer reported."))
    )
    readings = lookup(f"pulsed_gpu_health_evidence{_OF_GPU}", *_GPU_CHECK)
    reading = _list(f"{readings} | sortByLabel `reading`", _VALUE)
    began = since(f"pulsed_gpu_health_check_since_timestamp_seconds{_OF_GPU}", *_GPU_CHECK)
    return _alert(name, expr, severity, f"{GPU}: {problem}{began}", (problem, remedy, reading), LAST_OWNER)


def _of_node(name: str, expr: str, severity: Severity) -> Alert:
    """Return an alert about a check of a node, or about checks of its GPUs, which it names."""
    state = "=" if severity == "critical" else "!="
    raised = '{{__name__=~"pulsed_{}_health_problem_info",node=%q,cause=%q,state' + f'{state}"crit"}}}}'

    def each(by: str, text: str, before: str = "", between: str = " ", of: str = "(gpu|node)") -> str:
        lines = lookup(f"count by ({by}) ({raised.format(of)})", "node", "check")
        return _list(f"{lines} | sortByLabel `{by}`", text, before, between)

    problem = each("problem", "{{ $each.Labels.problem }}", between="; ")
    remedy = each("remedy", "{{ $each.Labels.remedy }}")
    evidence = '{__name__=~"pulsed_(gpu|node)_health_evidence",node=%q}'
    readings = f"max by (gpu, reading) ({evidence} and on (cluster, node, uuid, check) {raised.format('(gpu|node)')})"
    reading = _list(
        f"{lookup(readings, 'node', 'node', 'check')} | sortByLabel `gpu`",
        f"{{{{ with $each.Labels.gpu }}}}GPU {{{{ . }}}} {{{{ end }}}}{_VALUE}",
    )
    gpus = each("gpu", "{{ $each.Labels.gpu }}", " on GPU ", ", ", "gpu")
    return _alert(name, expr, severity, f"{{{{ $labels.node }}}}: {problem}{gpus}", (problem, remedy, reading))
