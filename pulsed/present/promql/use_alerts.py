"""Alerts on the use of GPUs, and recording rules of sums by owner with alerts on them.

Alerts use counters, which miss nothing between scrapes. `for` comes on top of the time that an expression looks back: a
GPU that has only just appeared does not fire.

Owners are jobs and pods, and their users, accounts and namespaces; sums by cluster, node and model (`rule_set`) have
the same metrics. A job has series on each of its nodes; every rule adds them up. Time in which the real utilization is
unknown counts neither as used nor as wasted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pulsed.compute.activity import MEDIA, PROFILED_MEDIA
from pulsed.compute.class_table import DEFAULT_THRESHOLDS
from pulsed.owners.report import owner_totals
from pulsed.present.promql.rule_types import GPU, GPU_KEY, OWNER, RATE, Alert, Recording, lookup, number, recorded
from pulsed.present.promql.scale_rules import PODS

NEARLY_ALWAYS = 0.95
"""Share of time that counts as all of it: a health check or a forgotten monitor may wake a GPU now and then."""

LOW_RATIO = 0.15
"""A GPU in use whose real utilization stays below this does little; the class table's low_utilization starts there."""

MEDIA_RATIO = DEFAULT_THRESHOLDS.idle_media_ratio
"""A GPU whose video engines are as busy as this does its work there, and real utilization does not show it."""

KILOWATT_HOUR = 3.6e6

MIN_KNOWN_SHARE = 0.05
"""Share of a quarter of an hour in which the real utilization must be known for a mean of it."""

WASTED_KILOWATT_HOURS = 1.0
"""A day. An idle data centre GPU with a CUDA context draws 50 to 120 W: one is reached in 8 to 20 hours."""

_HELD_WHY = (
    "A pod, job or process has it, or its memory is in use. The owner should release it; notebooks and crashed jobs are"
    " the usual cause."
)
_LOW_WHY = (
    "It is in use, but its SMs, tensor cores and memory do little. Look at its workload class (`pulsed top`), and "
    "advise the owner: io means slow data loading; low_utilization means small batches or a slow host."
)
_ENERGY_WHY = "The owner should release it. A time limit on idle jobs and notebooks prevents the waste."
_HANG_WHY = (
    "For 30 minutes, and three times the longest pause of its job, no GPU of the job has worked, while kernels on "
    "some run without memory work, traffic or changes: a typical sign of a deadlocked collective. The owner should "
    "read the logs and stacks of all ranks (py-spy, NCCL_DEBUG), and restart the job; `pulsed job` names the GPU "
    "that stopped first, or the node that is silent."
)
_STRAGGLER_WHY = (
    "For 10 minutes it has needed more time than its peers for the same tensor and memory work, with a lower SM "
    "clock, SMs that are active for longer, or a graphics engine that waits for the host. GPUs that work in step "
    "wait for the slowest. Check its health, temperature and clocks (`pulsed health`), and its host. `pulsed job` "
    "has the numbers."
)
_LEAK_WHY = (
    "For 10 minutes the GPU has been idle and without an owner, but its memory is in use: the next job may run out "
    "of memory. Find the remaining process (nvidia-smi, fuser /dev/nvidia*) and end it, or reset the GPU."
)
_ENERGY = ' used {{ $value | printf "%.1f" }} kWh while held idle, in a day'


_TRANSCODES = " or ".join(
    f"avg_over_time(pulsed_gpu_{quantity}[6h]) >= {MEDIA_RATIO}" for quantity in MEDIA if quantity not in PROFILED_MEDIA
)
"""Selects GPUs with a working video engine, from pulsed's own metrics."""


def _with_owner(expr: str, gpus: str) -> str:
    """Return the expression with the labels of each GPU's owner; without them for no owner, or several.

    `gpus` are the series of all of its GPUs.
    """
    labels = "job_id, namespace, pod"
    owners = f"group by ({GPU_KEY}, {labels}) (pulsed_gpu_owner_info)"
    return (
        f"({expr})\n* on ({GPU_KEY}) group_left ({labels}) (\n"
        f"  {owners} and on ({GPU_KEY}) count by ({GPU_KEY}) ({owners}) == 1\n"
        f"  or on ({GPU_KEY}) group by ({GPU_KEY}) ({gpus})\n)"
    )


HELD_KIND = '{kind="held"}'

PERIOD, PERIOD_SECONDS = "15m", 900
"""Of the means that `use_rules` records, and between them."""

MEAN, IDLE_SECONDS, IDLE_JOULES = (
    recorded("gpu", metric, f"{operation}{PERIOD}")
    for metric, operation in (
        ("real_utilization_ratio", "mean"),
        ("idle_seconds", "rate"),
        ("idle_energy_joules", "rate"),
    )
)


def use_rules() -> Iterator[Recording]:
    """Yield what the alerts on the use over hours read: 60 times fewer samples than the counters at 15 s."""

    def rate(counter: str, matcher: str = "") -> str:
        return f"rate(pulsed_gpu_{counter}_total{matcher}[{PERIOD}])"

    known_seconds = f"{rate('observed_seconds')} - {rate('real_utilization_unknown_seconds')}"
    yield Recording(MEAN, f"{rate('real_utilization_seconds')}\n/ ({known_seconds} > {MIN_KNOWN_SHARE})")
    yield Recording(IDLE_SECONDS, f"sum without (kind) ({rate('idle_seconds')})")
    yield Recording(IDLE_JOULES, rate("idle_energy_joules", HELD_KIND))


USE_RECORDING = """\
Real utilization, idle seconds a second, and power while held idle, by GPU: means of a quarter of an hour, which only
pulsed-alerts-use reads. Without that group, this one is not needed."""


def use_alerts(*, recorded: bool) -> tuple[Alert, ...]:
    """Return the alerts on the use over hours, from what `use_rules` records, or from pulsed's own counters."""

    def increase(counter: str, over: str, matcher: str = "") -> str:
        return f"increase(pulsed_gpu_{counter}_total{matcher}[{over}])"

    held_seconds = f"pulsed_gpu_idle_seconds_total{HELD_KIND}"
    held = (
        f"increase({held_seconds}[1h])"
        f" / ignoring (kind) ({increase('observed_seconds', '1h')} > 1800) >= {NEARLY_ALWAYS}"
    )
    if recorded:
        mean = f"avg_over_time({MEAN}[6h])"
        idle = f"sum_over_time({IDLE_SECONDS}[6h]) / count_over_time({MEAN}[6h])"
        joules = f"{PERIOD_SECONDS} * sum_over_time({IDLE_JOULES}[1d])"
    else:
        observed = increase("observed_seconds", "6h")
        known_seconds = f"({observed} - {increase('real_utilization_unknown_seconds', '6h')} > 3600)"
        mean = f"{increase('real_utilization_seconds', '6h')} / {known_seconds}"
        idle = f"sum without (kind) ({increase('idle_seconds', '6h')}) / {observed}"
        joules = increase("idle_energy_joules", "1d", HELD_KIND)
    return (
        Alert(
            "PulsedGpuIdleHeld",
            _with_owner(held, held_seconds),
            "10m",
            "warning",
            f"{GPU} was held and idle for {{{{ $value | humanizePercentage }}}} of an hour",
            _HELD_WHY + OWNER,
        ),
        Alert(
            "PulsedGpuLowRealUtilization",
            f"{mean} < {LOW_RATIO}\nunless {idle} >= 0.5\nunless on ({GPU_KEY}) ({_TRANSCODES})",
            "1h",
            "info",
            f"{GPU} had a real utilization of {{{{ $value | humanizePercentage }}}} in 6 hours",
            _LOW_WHY + OWNER,
        ),
        Alert(
            "PulsedGpuIdleEnergy",
            f"{joules} / {number(KILOWATT_HOUR)} > {number(WASTED_KILOWATT_HOURS)}",
            "1h",
            "info",
            GPU + _ENERGY,
            _ENERGY_WHY + OWNER,
        ),
    )


def finding_alerts() -> tuple[Alert, ...]:
    """Return the alerts on what the daemon finds, which has the history."""
    return (
        Alert(
            "PulsedHangSuspected",
            "pulsed_gpu_hang_suspected == 1",
            "1m",
            "warning",
            f"{GPU} is in a job that hangs",
            _HANG_WHY + OWNER,
        ),
        Alert(
            "PulsedStraggler",
            "pulsed_gpu_straggler == 1",
            "1m",
            "info",
            f"{GPU} is slower than the other GPUs of its job",
            _STRAGGLER_WHY + OWNER,
        ),
        Alert(
            "PulsedLeakedMemory",
            "pulsed_gpu_leaked_memory == 1",
            "1m",
            "warning",
            f"{GPU} has memory in use without a job or pod",
            _LEAK_WHY,
        ),
    )


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
    """A sum over owners: the level of its recorded series, whose counters it sums up, and by which labels besides
    `cluster`, which Prometheus may add.
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

WORKLOAD_UTILIZATION = recorded("workload", "real_utilization_ratio", "mean")


def owner_rules(group: str) -> Iterator[Recording]:
    """Yield the rules from the counters of jobs, pods or workloads."""
    for level in (each for each in LEVELS if each.group == group):
        for counter in COUNTERS:
            expr = f"sum {level.by} (rate(pulsed_{level.group}_{counter}_total[{RATE}]))"
            yield Recording(recorded(level.level, counter), expr)


def workload_rules() -> Iterator[Recording]:
    """Yield the rules for the current state of workloads over nodes."""
    gpus, total = "pulsed_workload_gpus", "pulsed_workload_real_utilization_ratio_sum"
    yield Recording("workload:pulsed_gpus:sum", f"sum {WORKLOAD.by} ({gpus})")
    yield Recording(PODS, f"sum {WORKLOAD.by} (pulsed_workload_pods)")
    yield Recording(
        WORKLOAD_UTILIZATION,
        f"sum {WORKLOAD.by} ({total})\n/ sum {WORKLOAD.by} ({gpus} and {total})",
        comment="Each GPU counts once, on whichever node it is; nodes where it is unknown of a GPU are left out.",
    )


OWNER_RECORDING = "\n".join(
    (
        "GPUs, real utilization, idle time and power by job, user and account. rate5m is a mean of 5 minutes in",
        "seconds per second (GPUs) or watts; series without user or account have no such label.",
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
    return (*_alerts(JOB), *_alerts(POD))


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
_LOW_OF_OWNER_WHY = (
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
        f"unless on ({owner_key}) group by ({owner_key}) (pulsed_gpu_owner_info and on ({GPU_KEY}) ({_TRANSCODES}))",
        "1h",
        "info",
        f"{name} had a real utilization of {{{{ $value | humanizePercentage }}}} in 6 hours",
        _LOW_OF_OWNER_WHY.format(where, owner),
    )
