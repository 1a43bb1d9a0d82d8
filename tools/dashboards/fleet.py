"""The dashboard of all GPUs: who wastes, what runs, who is hot, who is sick, and is pulsed itself well."""

from __future__ import annotations

from tools.dashboards.model import (
    BOTTLENECK,
    CELSIUS,
    CLASSES,
    IDLE,
    JOULE,
    RATIO,
    RESOURCES,
    SECONDS,
    SEVERITIES,
    WATT,
    Dashboard,
    Panel,
    Query,
    Row,
    Variable,
    state_number,
)

N = 'node=~"$node"'
ONE = "node, gpu, uuid, mig_id"
"""What tells a GPU, or an instance of MIG, from all others."""

LEGEND = "GPU {{gpu}} {{mig_id}} {{node}}"
GOOD_BELOW_ONE = ((None, "green"), (1.0, "red"))
USE = ((None, "red"), (0.2, "orange"), (0.5, "green"))


def average_use(by: str, over: str) -> str:
    """Exact average of the real utilization over the time in which it is known; nothing where it never is."""
    total = f"sum by ({by}) (rate(pulsed_gpu_%s_total{{{N}}}[{over}]))"
    known = f"({total % 'observed_seconds'} - {total % 'real_utilization_unknown_seconds'})"
    return f"{total % 'real_utilization_seconds'} / ({known} > 0.001)"


HELD = f'(sum by ({ONE}) (increase(pulsed_gpu_idle_seconds_total{{kind="held",{N}}}[$__range])) > 0)'
WASTERS = f"topk(20, {HELD})"
HOTTEST = f"topk(10, max_over_time(pulsed_gpu_temperature_celsius{{{N}}}[$__range] @ end()))"

GLANCE = Row(
    "At a glance",
    (
        Panel(
            "GPUs",
            "stat",
            "Boards with fresh data. Fewer than you own: look at the sources at the bottom.",
            (Query(f"count(count by (uuid) (pulsed_gpu_last_sample_timestamp_seconds{{{N}}}))"),),
            width=3,
            height=4,
        ),
        Panel(
            "Real utilization",
            "stat",
            "How much of all GPUs did real work over the whole range: exact, from counters, not from samples at"
            " scrapes. Below 20 % somebody should ask why.",
            (Query(average_use("", "$__range")),),
            RATIO,
            3,
            4,
            limits=USE,
        ),
        Panel(
            "Idle though held",
            "stat",
            "GPUs' worth of time in which a GPU did nothing while a pod, a job or a process had it. This is what can be"
            " won back: see who wastes.",
            (Query(f'sum(rate(pulsed_gpu_idle_seconds_total{{kind="held",{N}}}[$__rate_interval]))'),),
            width=3,
            height=4,
            limits=((None, "green"), (0.5, "orange")),
        ),
        Panel(
            "Idle and free",
            "stat",
            "GPUs' worth of time that nobody had: room for more work.",
            (Query(f'sum(rate(pulsed_gpu_idle_seconds_total{{kind="free",{N}}}[$__rate_interval]))'),),
            width=3,
            height=4,
        ),
        Panel(
            "Power",
            "stat",
            "What all boards draw now.",
            (Query(f"sum(pulsed_gpu_power_watts{{{N}}})"),),
            WATT,
            3,
            4,
        ),
        Panel(
            "Hot",
            "stat",
            "GPUs within 5 degrees of the temperature at which the hardware cuts its clocks. Above 0: see who is hot.",
            (
                Query(
                    f"count(pulsed_gpu_slowdown_temperature_celsius{{{N}}} - pulsed_gpu_temperature_celsius{{{N}}} < 5)"
                    " or vector(0)"
                ),
            ),
            width=3,
            height=4,
            limits=GOOD_BELOW_ONE,
        ),
        Panel(
            "Sick",
            "stat",
            "GPUs whose health is warn or worse. Above 0: see who is sick. GPUs that cannot be judged do not count.",
            (Query(f"count(count by (uuid) (pulsed_gpu_health_severity{{{N}}} >= 2)) or vector(0)"),),
            width=3,
            height=4,
            limits=GOOD_BELOW_ONE,
        ),
        Panel(
            "Sources down",
            "stat",
            "Sources that gave no fresh sample at the last attempt, on all nodes. Their GPUs are missing above; the log"
            " of that pulsed names the remedy.",
            (Query("count(pulsed_source_up == 0) or vector(0)"),),
            width=3,
            height=4,
            limits=GOOD_BELOW_ONE,
        ),
    ),
)

WASTE = Row(
    "Who wastes",
    (
        Panel(
            "Idle though held, worst first",
            "table",
            "The 20 GPUs that were idle longest in this range while somebody had them. Talk to who holds them, or let"
            " the scheduler reclaim them. Click a uuid for the GPU itself.",
            (
                Query(WASTERS, "Idle while held", SECONDS),
                Query(
                    f'sum by ({ONE}) (increase(pulsed_gpu_idle_energy_joules_total{{kind="held",{N}}}[$__range]))'
                    f" and {WASTERS}",
                    "Energy for that",
                    JOULE,
                ),
                Query(f"{average_use(ONE, '$__range')} and {WASTERS}", "Real utilization", RATIO),
                Query(f"max by ({ONE}) (pulsed_gpu_memory_used_ratio{{{N}}}) and {WASTERS}", "Memory used", RATIO),
                Query(
                    state_number("pulsed_gpu_workload_class", "class", CLASSES, N, ONE) + f" and {WASTERS}",
                    "Class now",
                    states=CLASSES,
                ),
            ),
            width=16,
        ),
        Panel(
            "Least used",
            "bargauge",
            "The ten GPUs with the lowest real utilization over the range, without those of which it is not known.",
            (Query(f"sort(bottomk(10, {average_use(ONE, '$__range')}))", LEGEND),),
            RATIO,
            top=1.0,
            limits=USE,
        ),
        Panel(
            "GPUs idle",
            "timeseries",
            "GPUs' worth of idle time: held while somebody has the GPU, else free; unknown where the memory in use is"
            " not known. Held is waste, free is capacity.",
            (Query(f"sum by (kind) (rate(pulsed_gpu_idle_seconds_total{{{N}}}[$__rate_interval]))", "{{kind}}"),),
            stacked=True,
            states=IDLE,
        ),
        Panel(
            "Distribution of real utilization",
            "heatmap",
            "How many samples had a real utilization of how much. A dark stripe at the bottom under a busy average"
            " means that few GPUs carry the rest.",
            (
                Query(
                    "sum by (le) (increase("
                    f"pulsed_gpu_real_utilization_distribution_ratio_bucket{{{N}}}[$__rate_interval]))",
                    "{{le}}",
                ),
            ),
            RATIO,
        ),
        Panel(
            "Real utilization",
            "timeseries",
            "The average of all GPUs, exact, beside what nvidia-smi calls GPU utilization: the share of time in which"
            " any kernel ran, however small. The gap between the two is what kernels leave unused.",
            (
                Query(average_use("", "$__rate_interval"), "real utilization"),
                Query(f"avg(pulsed_gpu_gpu_utilization_ratio{{{N}}})", "GPU utilization (nvidia-smi)"),
            ),
            RATIO,
            top=1.0,
        ),
    ),
)

WORK = Row(
    "What runs",
    (
        Panel(
            "Classes",
            "timeseries",
            "GPUs' worth of time by what kind of work it was. Much io_or_data_loading: feed the GPUs better; much"
            " low_utilization: share them. A board that is split by MIG is itself unknown, beside its instances.",
            (
                Query(
                    f"sum by (class) (rate(pulsed_gpu_workload_class_seconds_total{{{N}}}[$__rate_interval]))",
                    "{{class}}",
                ),
            ),
            stacked=True,
            states=CLASSES,
        ),
        Panel(
            "Power by class",
            "timeseries",
            "What the energy is spent on. Power for idle is the price of holding GPUs.",
            (
                Query(
                    f"sum by (class) (rate(pulsed_gpu_class_energy_joules_total{{{N}}}[$__rate_interval]))",
                    "{{class}}",
                ),
            ),
            WATT,
            stacked=True,
            states=CLASSES,
        ),
        Panel(
            "Energy by class",
            "bargauge",
            "Energy used in the range, by class: from the energy counters, where there are none from power times time.",
            (
                Query(
                    f"sort_desc(sum by (class) (increase(pulsed_gpu_class_energy_joules_total{{{N}}}[$__range])) > 0)",
                    "{{class}}",
                ),
            ),
            JOULE,
            states=CLASSES,
        ),
        Panel(
            "Bottlenecks",
            "timeseries",
            "Number of GPUs by what limits their work now.",
            (Query(f"sum by (bottleneck) (pulsed_gpu_bottleneck{{{N}}})", "{{bottleneck}}"),),
            stacked=True,
            states=BOTTLENECK,
        ),
        Panel(
            "Limiting resources",
            "timeseries",
            "Number of GPUs by the resource that is nearest to its practical limit; none where all are far from it.",
            (Query(f"sum by (resource) (pulsed_gpu_limiting_resource{{{N}}})", "{{resource}}"),),
            stacked=True,
            states=RESOURCES,
        ),
        Panel(
            "Memory in use",
            "timeseries",
            "Device memory of all GPUs, in use over its size. Much memory with little real utilization: GPUs are held,"
            " not used.",
            (
                Query(
                    f"sum(pulsed_gpu_memory_used_bytes{{{N}}}) / sum(pulsed_gpu_memory_bytes{{{N}}})",
                    "in use over size",
                ),
            ),
            RATIO,
            top=1.0,
        ),
    ),
)

HEAT = Row(
    "Who is hot",
    (
        Panel(
            "Hottest",
            "timeseries",
            "The ten GPUs that were hottest in this range. One that stands out of its node: fan, heat sink or paste; a"
            " whole node: its inlet.",
            (Query(f"pulsed_gpu_temperature_celsius{{{N}}} and {HOTTEST}", LEGEND),),
            CELSIUS,
            6,
        ),
        Panel(
            "Nearest to slowing down",
            "table",
            "Degrees left until the hardware cuts the clocks, and the share of time in which heat or the power limit"
            " did hold them down. Little left and heat above 0: drain the node and look at its cooling.",
            (
                Query(
                    f"bottomk(10, min by ({ONE}) (pulsed_gpu_slowdown_temperature_celsius{{{N}}}"
                    f" - pulsed_gpu_temperature_celsius{{{N}}}))",
                    "Degrees left",
                    CELSIUS,
                ),
                Query(
                    f"topk(10, sum by ({ONE}) (rate(pulsed_gpu_thermal_violation_seconds_total{{{N}}}[$__range])))",
                    "Held down by heat",
                    RATIO,
                ),
                Query(
                    f"topk(10, sum by ({ONE}) (rate(pulsed_gpu_power_violation_seconds_total{{{N}}}[$__range])))",
                    "Held down by power",
                    RATIO,
                ),
            ),
            width=12,
        ),
        Panel(
            "Power over its limit",
            "timeseries",
            "The ten GPUs nearest to their power limit. At 100 % the limit sets the speed: normal for heavy work,"
            " unless somebody lowered it.",
            (Query(f"topk(10, pulsed_gpu_power_watts{{{N}}} / pulsed_gpu_power_limit_watts{{{N}}})", LEGEND),),
            RATIO,
            6,
        ),
    ),
)

HEALTH = Row(
    "Who is sick",
    (
        Panel(
            "Worst checks",
            "table",
            "The 20 worst checks of all GPUs now. crit: drain and act at once; hot: look at the cooling; warn: plan a"
            " reset or a repair. /gpus of that pulsed has the evidence and the remedy.",
            (
                Query(
                    f"topk(20, max by (node, gpu, uuid, check) (pulsed_gpu_health_check{{{N}}}))",
                    "State",
                    states=SEVERITIES,
                ),
            ),
            width=12,
        ),
        Panel(
            "Health",
            "timeseries",
            "Boards by the worst state of their checks. unknown is not ok: the inputs of all checks are missing;"
            " `pulsed doctor` on that node says how to get them.",
            (Query(f'sum by (state) (pulsed_gpu_health_state{{{N},mig_id=""}})', "{{state}}"),),
            width=12,
            stacked=True,
            states=SEVERITIES,
        ),
        Panel(
            "XIDs",
            "bargauge",
            "Errors that the driver reported in this range, by code. NVIDIA's XID catalogue explains them; 48, 63,"
            " 74, 79, 94 and 95 mean hardware.",
            (
                Query(
                    f"sort_desc(topk(10, sum by (xid) (increase(pulsed_gpu_xid_events_total{{{N}}}[$__range]))))",
                    "XID {{xid}}",
                ),
            ),
            limits=GOOD_BELOW_ONE,
        ),
        Panel(
            "Events of checks",
            "timeseries",
            "Errors and bursts that count for a check, as they come. A steady trickle on one GPU: have it repaired"
            " before it fails.",
            (
                Query(
                    f"sum by (check) (increase(pulsed_gpu_health_events_total{{{N}}}[$__rate_interval]))",
                    "{{check}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            "What can be judged",
            "timeseries",
            "Share of the checks whose inputs are there, least and mean over all GPUs. Low: the exporter's counters"
            " file lacks fields; deploy/dcgm-exporter has one that asks for all.",
            (
                Query(f"min(pulsed_gpu_health_coverage_ratio{{{N}}})", "least"),
                Query(f"avg(pulsed_gpu_health_coverage_ratio{{{N}}})", "mean"),
            ),
            RATIO,
            top=1.0,
        ),
    ),
)

SELF = Row(
    "Can this be trusted",
    (
        Panel(
            "Inputs known",
            "timeseries",
            "Share of the inputs of the real utilization that is known, least and mean over all GPUs. Below 1 the real"
            " utilization is an estimate between bounds; `pulsed doctor` says what is missing.",
            (
                Query(f"min(pulsed_gpu_real_utilization_coverage_ratio{{{N}}})", "least"),
                Query(f"avg(pulsed_gpu_real_utilization_coverage_ratio{{{N}}})", "mean"),
            ),
            RATIO,
            6,
            7,
            top=1.0,
        ),
        Panel(
            "Inputs that cannot be true",
            "timeseries",
            "GPUs some of whose inputs pulsed leaves out, by reason: a stuck profiler, frozen values, shares far"
            " above 1. Restart the host engine or the exporter there.",
            (
                Query(
                    f"count by (reason) (pulsed_gpu_inputs_inconsistent{{{N}}})"
                    ' or label_replace(vector(0), "reason", "none", "", "")',
                    "{{reason}}",
                ),
            ),
            width=6,
            height=7,
        ),
        Panel(
            "Oldest sample",
            "timeseries",
            "Age of the oldest sample that each pulsed shows. Past source.stale_after a GPU leaves the page.",
            (
                Query(
                    f"max by (instance) (timestamp(pulsed_gpu_last_sample_timestamp_seconds{{{N}}})"
                    f" - pulsed_gpu_last_sample_timestamp_seconds{{{N}}})",
                    "{{instance}}",
                ),
            ),
            SECONDS,
            6,
            7,
        ),
        Panel(
            "Failed attempts and cost",
            "timeseries",
            "Failed attempts to read a source per second, by reason, and the share of a core that each pulsed takes.",
            (
                Query(
                    "sum by (reason) (rate(pulsed_source_errors_total[$__rate_interval]))"
                    ' or label_replace(vector(0), "reason", "none", "", "")',
                    "failed: {{reason}}",
                ),
                Query(
                    "rate(process_cpu_seconds_total[$__rate_interval]) and on (instance, job) pulsed_build_info",
                    "cores: {{instance}}",
                ),
            ),
            width=6,
            height=7,
        ),
    ),
)

FLEET = Dashboard(
    "pulsed-fleet",
    "pulsed / Fleet",
    "All GPUs that pulsed watches: who wastes, what runs, who is hot, who is sick.",
    (
        Variable(
            "node",
            "Node",
            "pulsed_gpu_last_sample_timestamp_seconds",
            "node",
            True,
            "Which nodes; All also has the GPUs of a pulsed that says no node.",
        ),
    ),
    (GLANCE, WASTE, WORK, HEAT, HEALTH, SELF),
)
