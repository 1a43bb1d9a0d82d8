"""The rules of `pulsed rules`, with recording rules of sums by node, model and cluster, from the series of GPUs.

A board counts once, even if it is split by MIG. Only classes, bottlenecks and limiting resources also count MIG
instances. The Fleet dashboard reads the sums by node instead of the series of all GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

from pulsed import __version__
from pulsed.compute.settings import ComputeSettings
from pulsed.errors import UsageError, nearest
from pulsed.present.promql.health_alerts import health_alerts
from pulsed.present.promql.monitoring_alerts import gone_alerts, monitoring_alerts
from pulsed.present.promql.rule_types import (
    GPU_KEY,
    RATE,
    RUNBOOK,
    Alert,
    Group,
    KubernetesObject,
    Recording,
    prometheus_rule,
    recorded,
    rule_file,
)
from pulsed.present.promql.scale_rules import PERIOD as SCALE_PERIOD
from pulsed.present.promql.scale_rules import SCALE_RECORDING, SCALE_TARGET, scale_rules
from pulsed.present.promql.use_alerts import (
    OWNER_RECORDING,
    PERIOD,
    USE_RECORDING,
    finding_alerts,
    owner_alerts,
    owner_rules,
    use_alerts,
    use_rules,
    workload_rules,
)

INTERVAL = "1m"

MAX_RULES = 20
"""Rules of a group; Mimir refuses more by default."""

LEVELS: Mapping[str, tuple[str, ...]] = {
    "node": ("cluster", "node"),
    "model": ("cluster", "model"),
    "cluster": ("cluster",),
}
"""By level, the labels of its series; Prometheus may add `cluster`. A cluster's series are sums over its nodes."""

BOARDS = 'mig_id=""'
"""Selects the series of boards."""

MODEL_OF = f"on ({GPU_KEY}) group_left (model) group by ({GPU_KEY}, model) (pulsed_gpu_info)"
"""Multiplied by this, a series of a GPU also has the label `model`."""


class LevelRate(NamedTuple):
    """A recorded rate.

    Attributes:
        counter: of GPUs, without `pulsed_gpu_` and `_total`.
        label: one that is kept.
        selects: the series that count: of boards, or all.
    """

    metric: str
    counter: str
    label: str = ""
    selects: str = BOARDS

    @property
    def expr(self) -> str:
        """The rate of each series."""
        return f"rate(pulsed_gpu_{self.counter}_total{{{self.selects}}}[{RATE}])"


RATES = (
    LevelRate("gpu_seconds", "observed_seconds"),
    LevelRate("real_utilization_seconds", "real_utilization_seconds"),
    LevelRate("real_utilization_unknown_seconds", "real_utilization_unknown_seconds"),
    LevelRate("idle_seconds", "idle_seconds", "kind"),
    LevelRate("energy_joules", "class_energy_joules"),
    LevelRate("idle_energy_joules", "idle_energy_joules", "kind"),
)
"""Of all levels."""

CLASS_RATES = (
    LevelRate("workload_class_seconds", "workload_class_seconds", "class", ""),
    LevelRate("class_energy_joules", "class_energy_joules", "class"),
)
"""By node and model."""

STATES: Mapping[str, str] = {"bottleneck": "bottleneck", "limiting_resource": "resource"}
"""State sets of GPUs, with their label."""

UTILIZATION = "gpu_utilization_ratio"
COVERAGES = ("health_coverage_ratio", "real_utilization_coverage_ratio")
"""Every GPU has them."""

MEMORY = ("memory_used_bytes", "memory_bytes")

_SAMPLE = f"pulsed_gpu_last_sample_timestamp_seconds{{{BOARDS}}}"


of_node = partial(recorded, "node")
"""Returns the name of a series by node."""


def level_rules(level: str) -> Iterator[Recording]:
    """Yield the rules for nodes, models or clusters."""
    labels, is_summed = LEVELS[level], level == "cluster"
    model = f" * {MODEL_OF}" if level == "model" else ""

    def rule(metric: str, operation: str, function: str, expr: str, label: str = "") -> Recording:
        source = of_node(metric, operation) if is_summed else expr
        return Recording(recorded(level, metric, operation), f"{_by(function, labels, label)} ({source})")

    yield rule("gpus", "count", "sum" if is_summed else "count", f"pulsed_gpu_info{{{BOARDS}}}")
    for rate in (*RATES, *(() if level == "cluster" else CLASS_RATES)):
        yield rule(rate.metric, f"rate{RATE}", "sum", rate.expr + model, rate.label)
    yield rule("health_severity", "max", "max", "pulsed_gpu_health_severity" + model)
    if is_summed:
        yield Recording("cluster:pulsed_health_checks:sum", "sum by (cluster, check, state) (pulsed_health_checks)")


def _by(function: str, labels: tuple[str, ...], label: str = "") -> str:
    return f"{function} by ({', '.join((*labels, label) if label else labels)})"


def fleet_rules() -> Iterator[Recording]:
    """Yield the rules by node alone; of a mean the sum over GPUs, and their number if some can lack it."""
    labels = LEVELS["node"]

    def rule(metric: str, operation: str, expr: str, function: str = "", label: str = "") -> Recording:
        return Recording(of_node(metric, operation), f"{_by(function or operation, labels, label)} ({expr})")

    severity = f'"severity", pulsed_gpu_health_severity{{{BOARDS}}}'
    yield rule("health_gpus", "count", severity, "count_values")
    for state, label in STATES.items():
        yield rule(f"{state}_gpus", "count", f"pulsed_gpu_{state} == 1", label=label)
    for metric, other in (MEMORY, MEMORY[::-1]):
        yield rule(metric, "sum", f"{_of_boards(metric)} and {_of_boards(other)}")
    for metric in (UTILIZATION, *COVERAGES):
        yield rule(metric, "sum", _of_boards(metric))
    yield rule(UTILIZATION, "count", _of_boards(UTILIZATION))
    for metric in COVERAGES:
        yield rule(metric, "min", _of_boards(metric))
    for function in ("max", "min", "sum"):
        yield rule("sample_age_seconds", function, f"timestamp({_SAMPLE}) - {_SAMPLE}")
    yield rule("temperature_celsius", "max", "pulsed_gpu_temperature_celsius")
    yield rule("power_limit_ratio", "max", "pulsed_gpu_power_watts / (pulsed_gpu_power_limit_watts > 0)")


def _of_boards(metric: str) -> str:
    return f"pulsed_gpu_{metric}{{{BOARDS}}}"


LEVEL_RECORDING = "\n".join(
    (
        "GPUs, real utilization, idle time, power and worst health by node, and by cluster if Prometheus adds that",
        "label. The formulas of pulsed-recording-jobs apply; idle time has the label kind: held or free.",
    )
)


SLOW_INTERVAL = "5m"
"""Interval of the rules that look back for half an hour and more."""

Kind = Literal["recording", "alerting", "all"]


@dataclass(frozen=True, slots=True)
class RuleSelection:
    """A selection of rules.

    Attributes:
        kubernetes: metadata of a `PrometheusRule`; None for a rule file.
        exclude: alerts and groups to leave out, by name.
        runbook: URL of the document that alerts link to.
        scale_target: mean real utilization or saturation of a workload that autoscalers aim at, 0..1.
    """

    kind: Kind = "all"
    kubernetes: KubernetesObject | None = None
    exclude: tuple[str, ...] = ()
    runbook: str = RUNBOOK
    scale_target: float = SCALE_TARGET


def groups(settings: ComputeSettings, choice: RuleSelection) -> list[Group]:
    """Return the selected rules; groups without a rule are left out.

    Raises:
        UsageError: a name of `exclude` is not an alert or group of any selection; the message names the nearest.
    """
    _check_names(settings, choice)
    chosen = (group for group in _groups(settings, choice) if group.name not in choice.exclude)
    left = [
        (group, [rule for rule in group.rules if not (isinstance(rule, Alert) and rule.name in choice.exclude)])
        for group in chosen
    ]
    return [replace(group, rules=rules) for group, rules in left if rules]


def _check_names(settings: ComputeSettings, choice: RuleSelection) -> None:
    every = list(_groups(settings, RuleSelection()))
    alerts = [rule.name for group in every for rule in group.rules if isinstance(rule, Alert)]
    names_of_all = [*(group.name for group in every), *alerts]
    for name in choice.exclude:
        if name not in names_of_all:
            near = nearest(name, names_of_all)
            hint = f"Did you mean {near}?" if near else f"Groups: {', '.join(group.name for group in every)}"
            raise UsageError(f"--exclude: there is no alert or group {name}", hint)


def document(settings: ComputeSettings, choice: RuleSelection) -> str:
    """Return the selected rules as YAML; deterministic."""
    chosen = groups(settings, choice)
    if choice.kubernetes is None:
        return rule_file(chosen, HEADER, choice.runbook)
    return prometheus_rule(chosen, HEADER, choice.runbook, choice.kubernetes)


def _groups(settings: ComputeSettings, choice: RuleSelection) -> Iterator[Group]:
    if choice.kind != "alerting":
        of_clusters = (*level_rules("node"), *level_rules("cluster"))
        yield Group("pulsed-recording-nodes", of_clusters, LEVEL_RECORDING, INTERVAL)
        yield Group("pulsed-recording-models", tuple(level_rules("model")), "The same by model.", INTERVAL)
        yield Group("pulsed-recording-fleet", tuple(fleet_rules()), "Sums by node, for the Fleet dashboard.", INTERVAL)
        yield Group("pulsed-recording-jobs", tuple(owner_rules("job")), OWNER_RECORDING)
        yield Group("pulsed-recording-pods", tuple(owner_rules("pod")), "The same by pod and namespace.")
        of_workloads = (*owner_rules("workload"), *workload_rules())
        yield Group("pulsed-recording-workloads", of_workloads, "The same by workload, and its current state.")
        yield Group("pulsed-recording-scale", tuple(scale_rules(choice.scale_target)), SCALE_RECORDING, SCALE_PERIOD)
        yield Group("pulsed-recording-use", tuple(use_rules()), USE_RECORDING, PERIOD)
    if choice.kind != "recording":
        of_use = use_alerts(recorded=choice.kind == "all")
        yield Group("pulsed-alerts-use", of_use, "Idle and little used GPUs.", SLOW_INTERVAL)
        yield Group("pulsed-alerts-findings", finding_alerts(), "Hangs, stragglers and leaked memory.")
        yield Group(
            "pulsed-alerts-owners", owner_alerts(), "Jobs and pods with idle or little used GPUs.", SLOW_INTERVAL
        )
        yield Group("pulsed-alerts-gone", gone_alerts(), "GPUs that are no longer reported.", SLOW_INTERVAL)
        yield Group("pulsed-alerts-monitoring", monitoring_alerts(settings), "Daemons, sources, and what is absent.")
        yield Group("pulsed-alerts-health", health_alerts(settings.health), "The health checks of pulsed.")


HEADER = f"""\
Generated by `pulsed rules` {__version__} from the configuration: do not edit, generate it again.

Series are named level:metric:operation. The level is gpu, a GPU or MIG instance, or cluster, node, model, job, pod,
workload, user, account, namespace; the metric is pulsed's name of the quantity; the operation is the last one applied:
  sum, count, mean  aggregation over GPUs, also min and max
  raw               the result of the current evaluation alone
  rate5m, rate15m   mean rate of counters over 5 or 15 minutes; mean15m is the mean of a ratio"""
