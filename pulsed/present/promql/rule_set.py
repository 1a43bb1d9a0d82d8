"""All rules together: `pulsed rules`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from pulsed import __version__
from pulsed.compute.derive import ComputeSettings
from pulsed.present.promql.alerts import dcgm_alerts, pulsed_alerts
from pulsed.present.promql.classes import class_rules
from pulsed.present.promql.derived import derived_rules
from pulsed.present.promql.document import KubernetesObject, prometheus_rule, rule_file
from pulsed.present.promql.health_alerts import health_alerts
from pulsed.present.promql.inputs import LIMITS, input_rules
from pulsed.present.promql.rule_types import Group, IdentityLabels
from pulsed.present.promql.saturation import saturation_rules
from pulsed.present.promql.utilization import utilization_rules
from pulsed.present.promql.waste import waste_rules

Kind = Literal["recording", "alerting", "all"]
Metrics = Literal["dcgm", "pulsed", "both"]


@dataclass(frozen=True, slots=True)
class RuleSelection:
    """Which rules to give.

    Attributes:
        kind: recording or alerting rules, or both.
        metrics: whose series they start from: dcgm-exporter's, or pulsed's own, which need no recording.
        identity: which labels tell GPUs apart, for rules on dcgm-exporter's series.
        kubernetes: give a `PrometheusRule` with this metadata rather than a rule file.
    """

    kind: Kind = "all"
    metrics: Metrics = "both"
    identity: IdentityLabels = field(default_factory=IdentityLabels)
    kubernetes: KubernetesObject | None = None


def groups(settings: ComputeSettings, choice: RuleSelection) -> list[Group]:
    """Give the rules that were asked for."""
    return list(_groups(settings, choice))


def document(settings: ComputeSettings, choice: RuleSelection) -> str:
    """Write them as YAML; the same settings give the same text."""
    chosen = groups(settings, choice)
    if choice.kubernetes is None:
        return rule_file(chosen, HEADER)
    return prometheus_rule(chosen, HEADER, choice.kubernetes)


def _groups(settings: ComputeSettings, choice: RuleSelection) -> Iterator[Group]:
    identity = choice.identity
    of_dcgm, of_pulsed = choice.metrics != "pulsed", choice.metrics != "dcgm"
    if of_dcgm and choice.kind != "alerting":
        makers = (utilization_rules, class_rules, saturation_rules, derived_rules, waste_rules)
        rules = [*input_rules(identity), *(rule for make in makers for rule in make(settings, identity))]
        yield Group("pulsed-recording", rules, RECORDING)
    if of_dcgm and choice.kind != "recording":
        yield Group("pulsed-alerts-dcgm", dcgm_alerts(settings), "Alerts on the series recorded above.")
    if of_pulsed and choice.kind != "recording":
        yield Group("pulsed-alerts", pulsed_alerts(settings), "Alerts on the metrics of pulsed itself.")
        yield Group("pulsed-alerts-health", health_alerts(settings.health), "Alerts on the health checks of pulsed.")


HEADER = f"""\
Made by `pulsed rules` {__version__} from its tables and the configuration: make it again rather than edit it.

Series are named level:metric:operation. The level is gpu, a GPU or MIG instance; the metric is pulsed's word for the
quantity; the operation is what was done last:
  max               an input from DCGM_FI_* series, in base units, blanks left out; the largest of rows that repeat it
  low, high         the least and the most that it can be, whatever the missing inputs are
  mean, sum, count  worked out over inputs or classes
  possible          1 for each class that the inputs allow
  raw               the answer of this moment alone
  group             1 where something is so"""

RECORDING = "\n".join(
    (
        "From dcgm-exporter's series to pulsed's answers. The rules build on each other in this order: keep them in",
        "one group (Mimir: raise ruler_max_rules_per_rule_group), evaluated at least as often as DCGM is scraped.",
        "They say what pulsed says of the same values, but for this:",
        "- The class is the raw one. Nothing is held: a flicker of one scrape counts.",
        "- pulsed counts seconds and joules as they pass; here averages stand in, for any window:",
        "    hours by class:    avg_over_time(gpu:pulsed_workload_class:raw[1d]) * 24",
        "    mean utilization:  avg_over_time(gpu:pulsed_real_utilization_ratio:mean[1d])",
        '    idle joules:       avg_over_time(gpu:pulsed_idle_power_watts:raw{kind="held"}[1d]) * 86400',
        *(f"- {limit}" for limit in LIMITS),
    )
)
