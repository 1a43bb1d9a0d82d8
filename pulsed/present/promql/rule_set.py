"""The rules of `pulsed rules`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from pulsed import __version__
from pulsed.compute.settings import ComputeSettings
from pulsed.errors import UsageError, nearest
from pulsed.present.owner_totals import SCALE_TARGET
from pulsed.present.promql.alert_text import RUNBOOK
from pulsed.present.promql.classes import class_rules, waste_rules
from pulsed.present.promql.health_alerts import health_alerts, node_health_alerts
from pulsed.present.promql.inputs import LIMITS, derived_rules, input_rules
from pulsed.present.promql.levels import INTERVAL, LEVEL_RECORDING, level_rules
from pulsed.present.promql.monitoring_alerts import dcgm_monitoring_alerts, gone_alerts, monitoring_alerts
from pulsed.present.promql.owners import OWNER_RECORDING, owner_alerts, owner_rules, workload_rules
from pulsed.present.promql.rule_types import (
    Alert,
    Group,
    IdentityLabels,
    KubernetesObject,
    prometheus_rule,
    rule_file,
)
from pulsed.present.promql.saturation import saturation_rules
from pulsed.present.promql.use_alerts import (
    PERIOD,
    USE_RECORDING,
    dcgm_use_alerts,
    finding_alerts,
    use_alerts,
    use_rules,
)
from pulsed.present.promql.utilization import utilization_rules

SLOW_INTERVAL = "5m"
"""Interval of the rules that look back for half an hour and more."""

Kind = Literal["recording", "alerting", "all"]
Metrics = Literal["dcgm", "pulsed", "both"]


@dataclass(frozen=True, slots=True)
class RuleSelection:
    """A selection of rules.

    Attributes:
        metrics: based on dcgm-exporter's series, or on pulsed's own.
        identity: labels that identify a GPU in dcgm-exporter's series.
        kubernetes: metadata of a `PrometheusRule`; None for a rule file.
        exclude: alerts and groups to leave out, by name.
        runbook: URL of the document that alerts link to.
        scale_target: real utilization that scale hints of workloads aim at, 0..1.
        flat: whether no rule may use the result of another one; not for rules on dcgm-exporter's series.
    """

    kind: Kind = "all"
    metrics: Metrics = "pulsed"
    identity: IdentityLabels = field(default_factory=IdentityLabels)
    kubernetes: KubernetesObject | None = None
    exclude: tuple[str, ...] = ()
    runbook: str = RUNBOOK
    scale_target: float = SCALE_TARGET
    flat: bool = False


def groups(settings: ComputeSettings, choice: RuleSelection) -> list[Group]:
    """Return the selected rules; groups without a rule are left out.

    Raises:
        UsageError: a name of `exclude` is no alert or group of any selection; the message names the nearest.
    """
    _check_names(settings, choice.exclude)
    chosen = (group for group in _groups(settings, choice) if group.name not in choice.exclude)
    left = [
        (group, [rule for rule in group.rules if not (isinstance(rule, Alert) and rule.name in choice.exclude)])
        for group in chosen
    ]
    return [replace(group, rules=rules) for group, rules in left if rules]


def _check_names(settings: ComputeSettings, names: tuple[str, ...]) -> None:
    every = list(_groups(settings, RuleSelection(metrics="both")))
    alerts = [rule.name for group in every for rule in group.rules if isinstance(rule, Alert)]
    known = [*(group.name for group in every), *alerts]
    for name in names:
        if name not in known:
            near = nearest(name, known)
            hint = f"Did you mean {near}?" if near else f"Groups: {', '.join(group.name for group in every)}"
            raise UsageError(f"--exclude: there is no alert or group {name}", hint)


def document(settings: ComputeSettings, choice: RuleSelection) -> str:
    """Return the selected rules as YAML; deterministic."""
    chosen = groups(settings, choice)
    if choice.kubernetes is None:
        return rule_file(chosen, HEADER, choice.runbook)
    return prometheus_rule(chosen, HEADER, choice.runbook, choice.kubernetes)


def _groups(settings: ComputeSettings, choice: RuleSelection) -> Iterator[Group]:
    identity = choice.identity
    of_dcgm, of_pulsed = choice.metrics != "pulsed", choice.metrics != "dcgm"
    if of_dcgm and choice.kind != "alerting":
        makers = (utilization_rules, class_rules, saturation_rules, derived_rules, waste_rules)
        rules = [*input_rules(identity), *(rule for make in makers for rule in make(settings, identity))]
        yield Group("pulsed-recording", rules, RECORDING)
    if of_dcgm and choice.kind != "recording":
        yield Group(
            "pulsed-alerts-dcgm-use", dcgm_use_alerts(), "Idle and little used GPUs, recorded above.", SLOW_INTERVAL
        )
        alerts = dcgm_monitoring_alerts(settings)
        yield Group("pulsed-alerts-dcgm", alerts, "Alerts on the series recorded above.")
    if of_pulsed and choice.kind != "alerting":
        yield Group("pulsed-recording-gpus", tuple(level_rules(flat=choice.flat)), LEVEL_RECORDING, INTERVAL)
        yield Group(
            "pulsed-recording-owners",
            (*owner_rules(), *workload_rules(choice.scale_target, flat=choice.flat)),
            OWNER_RECORDING,
        )
        if not choice.flat:
            yield Group("pulsed-recording-use", tuple(use_rules()), USE_RECORDING, PERIOD)
    if of_pulsed and choice.kind != "recording":
        of_use = use_alerts(flat=choice.flat or choice.kind == "alerting")  # those alone do not depend on recordings
        yield Group("pulsed-alerts-use", of_use, "Idle and little used GPUs.", SLOW_INTERVAL)
        yield Group("pulsed-alerts-findings", finding_alerts(), "Hangs, stragglers and leaked memory.")
        yield Group(
            "pulsed-alerts-owners", owner_alerts(), "Jobs and pods with idle or little used GPUs.", SLOW_INTERVAL
        )
        yield Group("pulsed-alerts-gone", gone_alerts(), "GPUs that are no longer reported.", SLOW_INTERVAL)
        yield Group("pulsed-alerts-monitoring", monitoring_alerts(settings), "Daemons, sources, and what is absent.")
        of_health = (*health_alerts(settings.health), *node_health_alerts(settings.health))
        yield Group("pulsed-alerts-health", of_health, "The health checks of pulsed.")


HEADER = f"""\
Generated by `pulsed rules` {__version__} from the configuration: do not edit, generate it again.

Series are named level:metric:operation. The level is gpu, a GPU or MIG instance, or cluster, node, model, job, pod,
workload, user, account, namespace; the metric is pulsed's name of the quantity; the operation is the last one applied:
  max               an input from DCGM_FI_* series in base units, without blanks; the maximum of repeated rows
  low, high         lower and upper bound, given the missing inputs
  mean, sum, count  aggregation over inputs or classes
  possible          1 for each class that the inputs allow
  raw               the result of the current evaluation alone
  group             1 where a condition is true
  rate5m, rate15m   mean rate of counters over so many minutes; mean15m the mean of a ratio"""

RECORDING = "\n".join(
    (
        "From dcgm-exporter's series to pulsed's results. The rules depend on each other in this order: keep them in",
        "one group (Mimir: raise ruler_max_rules_per_rule_group), evaluated at least as often as DCGM is scraped.",
        "The results are those of pulsed for the same values, with these differences:",
        "- The class is the raw one, without debouncing: a change of one scrape counts.",
        "- pulsed counts seconds and joules; here averages replace the counters, for any window:",
        "    hours by class:    avg_over_time(gpu:pulsed_workload_class:raw[1d]) * 24",
        "    mean utilization:  avg_over_time(gpu:pulsed_real_utilization_ratio:mean[1d])",
        '    idle joules:       avg_over_time(gpu:pulsed_idle_power_watts:raw{kind="held"}[1d]) * 86400',
        *(f"- {limit}" for limit in LIMITS),
    )
)
