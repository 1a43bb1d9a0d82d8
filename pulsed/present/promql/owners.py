"""Recording rules of sums by owner, and alerts by owner.

Owners are jobs and pods, and their users, accounts and namespaces; sums by cluster, node and model (`levels`) have the
same metrics. A job has series on each of its nodes; every rule adds them up. Time in which the real utilization is
unknown counts neither as used nor as wasted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pulsed.present import owner_totals
from pulsed.present.promql.alert_text import lookup
from pulsed.present.promql.rule_types import GPU_KEY, Alert, Recording
from pulsed.present.promql.use_alerts import LOW_RATIO, NEARLY_ALWAYS, transcodes

RATE = "5m"

COUNTERS = (
    "gpu_seconds",
    "real_utilization_seconds",
    "real_utilization_unknown_seconds",
    "idle_seconds",
    "energy_joules",
    "idle_energy_joules",
)
"""Counters of owners that are recorded, without `pulsed_{job|pod}_` and `_total`."""


class OwnerLevel(NamedTuple):
    """A sum over owners: the level of its recorded series, whose counters it sums up, and by which labels.

    Attributes:
        labels: kept in addition to `cluster`, which Prometheus may add.
    """

    level: str
    group: str
    labels: tuple[str, ...]

    @property
    def by(self) -> str:
        """The `by` clause of its sums.

        >>> LEVELS[2].by
        'by (cluster, user)'
        """
        return f"by ({', '.join(('cluster', *self.labels))})"


LEVELS = (
    OwnerLevel("job", "job", tuple(owner_totals.JOB.labels)),
    OwnerLevel("pod", "pod", ("namespace", "pod")),
    OwnerLevel("user", "job", ("user",)),
    OwnerLevel("account", "job", ("account",)),
    OwnerLevel("namespace", "pod", ("namespace",)),
    OwnerLevel("workload", "workload", tuple(owner_totals.WORKLOAD.labels)),
)

JOB, POD, WORKLOAD = *LEVELS[:2], LEVELS[-1]

WORKLOAD_UTILIZATION = "workload:pulsed_real_utilization_ratio:mean"


def recorded_owner(level: OwnerLevel, counter: str) -> str:
    """Return the name of a recorded series.

    >>> recorded_owner(JOB, "idle_seconds")
    'job:pulsed_idle_seconds:rate5m'
    """
    return f"{level.level}:pulsed_{counter}:rate{RATE}"


def owner_rules() -> Iterator[Recording]:
    """Yield the rules for jobs, pods, users, accounts and namespaces."""
    for level in LEVELS:
        for counter in COUNTERS:
            expr = f"sum {level.by} (rate(pulsed_{level.group}_{counter}_total[{RATE}]))"
            yield Recording(recorded_owner(level, counter), expr)


def workload_rules(scale_target: float, *, flat: bool) -> Iterator[Recording]:
    """Yield the rules for the current state of workloads over nodes.

    Args:
        scale_target: real utilization that the scale hint aims at, 0..1.
        flat: whether no rule may use the result of another one.
    """
    gpus, total = "pulsed_workload_gpus", "pulsed_workload_real_utilization_ratio_sum"
    yield Recording("workload:pulsed_gpus:sum", f"sum {WORKLOAD.by} ({gpus})")
    yield Recording("workload:pulsed_pods:sum", f"sum {WORKLOAD.by} (pulsed_workload_pods)")
    mean = f"sum {WORKLOAD.by} ({total})\n/ sum {WORKLOAD.by} ({gpus} and {total})"
    used = f"({mean})" if flat else WORKLOAD_UTILIZATION
    yield Recording(
        WORKLOAD_UTILIZATION,
        mean,
        comment="Each GPU counts once, on whichever node it is; nodes where it is unknown of a GPU are left out.",
    )
    yield Recording(
        "workload:pulsed_scale_hint:raw",
        f"({used} > bool {scale_target:g}) - ({used} < bool {scale_target / 2:g})",
        comment="1: more replicas are needed, -1: fewer, 0: neither, by publish.scale_target.",
    )


OWNER_RECORDING = "\n".join(
    (
        "GPUs, real utilization, idle time and power by job, pod, workload, user, account and namespace. rate5m is a",
        "mean of 5 minutes in seconds per second (GPUs) or watts; series without user or account have no such label.",
        "  GPU hours:         sum_over_time(user:pulsed_gpu_seconds:rate5m[30d:5m]) / 12",
        "  idle GPU hours:    sum_over_time(user:pulsed_idle_seconds:rate5m[30d:5m]) / 12",
        "  kWh:               sum_over_time(user:pulsed_energy_joules:rate5m[30d:5m]) * 300 / 3.6e6",
        "  real utilization:  sum_over_time(user:pulsed_real_utilization_seconds:rate5m[30d:5m])",
        "                     / (sum_over_time(user:pulsed_gpu_seconds:rate5m[30d:5m])",
        "                     - sum_over_time(user:pulsed_real_utilization_unknown_seconds:rate5m[30d:5m]))",
        "The first scrape interval of an owner is missing; /jobs of the daemons has exact accounts.",
    )
)


def owner_alerts() -> tuple[Alert, ...]:
    """Return the alerts on jobs and pods that hold idle GPUs or use them little."""
    return tuple(alert for level in (JOB, POD) for alert in _alerts(level))


_NAMES = {
    "job": "Job {{ $labels.job_id }}{{ with $labels.user }} of {{ . }}{{ end }}"
    "{{ with $labels.account }} ({{ . }}){{ end }}",
    "pod": "Pod {{ $labels.pod }} in {{ $labels.namespace }}",
}
_OWNERS = {"job": "{{ or $labels.user `the owner` }}", "pod": "the owner of {{ $labels.namespace }}"}
_IDLE_WHY = (
    "Its GPUs did almost no work.{} Contact {} to release them; notebooks, crashed jobs and waiting jobs are"
    " the usual causes."
)
_LOW_WHY = (
    "Its GPUs are in use, but their SMs, tensor cores and memory do little.{} /jobs of pulsed on these nodes has its "
    "classes and peaks: io means slow data loading; low_utilization means small batches or a slow host. Advise {}."
)


def _alerts(level: OwnerLevel) -> Iterator[Alert]:
    word, key = level.level, ("namespace", "pod") if level is POD else ("job_id",)
    owner_key = ", ".join(("cluster", *key))
    matchers = ",".join(f"{label}=%q" for label in ("cluster", *key))

    def increase(counter: str, over: str) -> str:
        return f"sum {level.by} (increase(pulsed_{level.group}_{counter}_total[{over}]))"

    gpus = f"sum {level.by} (pulsed_{level.group}_gpus)"
    nodes = lookup(f"count by (node) (pulsed_gpu_owner_info{{{matchers}}})", "cluster", *key)
    where = (
        f'{{{{ range {nodes} | sortByLabel "node" }}}} GPUs on {{{{ .Labels.node }}}}: {{{{ .Value }}}}.{{{{ end }}}}'
    )
    name, owner = _NAMES[word], _OWNERS[word]
    yield Alert(
        f"Pulsed{word.title()}Idle",
        f"{increase('idle_seconds', '30m')}\n/ {increase('gpu_seconds', '30m')} >= {NEARLY_ALWAYS}\n"
        f"and {increase('observed_seconds', '30m')} > 900 * {gpus}\nand {gpus.removesuffix(')')} offset 30m)",
        "5m",
        "warning",
        f"{name} held idle GPUs for {{{{ $value | humanizePercentage }}}} of 30 minutes",
        _IDLE_WHY.format(where, owner),
    )
    known_seconds = f"({increase('gpu_seconds', '6h')} - {increase('real_utilization_unknown_seconds', '6h')} > 3600)"
    yield Alert(
        f"Pulsed{word.title()}LowRealUtilization",
        f"{increase('real_utilization_seconds', '6h')}\n/ {known_seconds} < {LOW_RATIO}\n"
        f"and {increase('idle_seconds', '6h')} / {increase('gpu_seconds', '6h')} < 0.5\nand {gpus}\n"
        f"unless on ({owner_key}) group by ({owner_key}) (pulsed_gpu_owner_info and on ({GPU_KEY}) {transcodes('6h')})",
        "1h",
        "info",
        f"{name} had a real utilization of {{{{ $value | humanizePercentage }}}} in 6 hours",
        _LOW_WHY.format(where, owner),
    )
