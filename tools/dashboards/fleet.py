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
            "Boards with fresh data. If there are fewer than installed, check the sources below.",
            (Query(f"count(count by (uuid) (pulsed_gpu_last_sample_timestamp_seconds{{{N}}}))"),),
            width=3,
            height=4,
        ),
        Panel(
            "Real utilization",
            "stat",
            "Average real utilization of all GPUs over the range, from counters. Investigate values below 20 %.",
            (Query(average_use("", "$__range")),),
            RATIO,
            3,
            4,
            limits=USE,
        ),
        Panel(
            "Idle while held",
            "stat",
            "Average number of GPUs that were idle while a pod, job or process had them.",
            (Query(f'sum(rate(pulsed_gpu_idle_seconds_total{{kind="held",{N}}}[$__rate_interval]))'),),
            width=3,
            height=4,
            limits=((None, "green"), (0.5, "orange")),
        ),
        Panel(
            "Idle and free",
            "stat",
            "Average number of GPUs that were idle without an owner: free capacity.",
            (Query(f'sum(rate(pulsed_gpu_idle_seconds_total{{kind="free",{N}}}[$__rate_interval]))'),),
            width=3,
            height=4,
        ),
        Panel(
            "Power",
            "stat",
            "Power of all boards.",
            (Query(f"sum(pulsed_gpu_power_watts{{{N}}})"),),
            WATT,
            3,
            4,
        ),
        Panel(
            "Hot GPUs",
            "stat",
            "GPUs within 5 degrees of the temperature at which the hardware reduces its clocks.",
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
            "Unhealthy GPUs",
            "stat",
            "GPUs whose health is warn or worse. GPUs without health inputs do not count.",
            (Query(f"count(count by (uuid) (pulsed_gpu_health_severity{{{N}}} >= 2)) or vector(0)"),),
            width=3,
            height=4,
            limits=GOOD_BELOW_ONE,
        ),
        Panel(
            "Sources down",
            "stat",
            "Sources without a fresh sample at the last attempt, on all nodes. Their GPUs are missing above; the log"
            " of that pulsed has the reason and the remedy.",
            (Query("count(pulsed_source_up == 0) or vector(0)"),),
            width=3,
            height=4,
            limits=GOOD_BELOW_ONE,
        ),
    ),
)

WASTE = Row(
    "Idle GPUs by owner",
    (
        Panel(
            "Longest idle while held",
            "table",
            "The 20 GPUs that were idle longest while held in this range. Ask their owners to release them, or let"
            " the scheduler reclaim them. Click a uuid to open the GPU.",
            (
                Query(WASTERS, "Idle while held", SECONDS),
                Query(
                    f'sum by ({ONE}) (increase(pulsed_gpu_idle_energy_joules_total{{kind="held",{N}}}[$__range]))'
                    f" and {WASTERS}",
                    "Energy while idle",
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
            "The ten GPUs with the lowest average real utilization in the range.",
            (Query(f"sort(bottomk(10, {average_use(ONE, '$__range')}))", LEGEND),),
            RATIO,
            top=1.0,
            limits=USE,
        ),
        Panel(
            "Idle GPUs",
            "timeseries",
            "Average number of idle GPUs: held by a pod, job or process, free, or unknown if memory use is missing."
            " Held is waste, free is capacity.",
            (Query(f"sum by (kind) (rate(pulsed_gpu_idle_seconds_total{{{N}}}[$__rate_interval]))", "{{kind}}"),),
            stacked=True,
            states=IDLE,
        ),
        Panel(
            "Distribution of real utilization",
            "heatmap",
            "Distribution of real utilization over observed time. A dark stripe at the bottom with a high average"
            " means that few GPUs do most of the work.",
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
            "Average of all GPUs, from counters, compared with GPU utilization of nvidia-smi, the share of time in"
            " which any kernel ran. The difference is what the kernels leave unused.",
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
    "Workload",
    (
        Panel(
            "Workload classes",
            "timeseries",
            "Average number of GPUs by workload class. io_or_data_loading: speed up data loading; low_utilization:"
            " share GPUs. A board split by MIG is unknown itself; its instances have classes.",
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
            "Power by workload class. Power of idle is the cost of holding GPUs.",
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
            "Energy used in the range, by class; from energy counters, else from power.",
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
            "Number of GPUs by bottleneck.",
            (Query(f"sum by (bottleneck) (pulsed_gpu_bottleneck{{{N}}})", "{{bottleneck}}"),),
            stacked=True,
            states=BOTTLENECK,
        ),
        Panel(
            "Limiting resources",
            "timeseries",
            "Number of GPUs by the resource closest to its practical limit; none if no resource is close.",
            (Query(f"sum by (resource) (pulsed_gpu_limiting_resource{{{N}}})", "{{resource}}"),),
            stacked=True,
            states=RESOURCES,
        ),
        Panel(
            "Memory in use",
            "timeseries",
            "Device memory in use over its size, all GPUs. Much memory with low real utilization: GPUs are held, but"
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
    "Temperature and power limits",
    (
        Panel(
            "Hottest GPUs",
            "timeseries",
            "The ten hottest GPUs of the range. A single hot GPU on a node: check fan, heat sink and thermal paste. A"
            " whole node: check its air inlet.",
            (Query(f"pulsed_gpu_temperature_celsius{{{N}}} and {HOTTEST}", LEGEND),),
            CELSIUS,
            6,
        ),
        Panel(
            "Closest to thermal slowdown",
            "table",
            "Degrees below the temperature at which the hardware reduces its clocks, and the share of time in which"
            " heat or the power limit reduced them. Few degrees with time lost to heat: drain the node and check its"
            " cooling.",
            (
                Query(
                    f"bottomk(10, min by ({ONE}) (pulsed_gpu_slowdown_temperature_celsius{{{N}}}"
                    f" - pulsed_gpu_temperature_celsius{{{N}}}))",
                    "Degrees left",
                    CELSIUS,
                ),
                Query(
                    f"topk(10, sum by ({ONE}) (rate(pulsed_gpu_thermal_violation_seconds_total{{{N}}}[$__range])))",
                    "Throttled by heat",
                    RATIO,
                ),
                Query(
                    f"topk(10, sum by ({ONE}) (rate(pulsed_gpu_power_violation_seconds_total{{{N}}}[$__range])))",
                    "Throttled by power",
                    RATIO,
                ),
            ),
            width=12,
        ),
        Panel(
            "Power relative to its limit",
            "timeseries",
            "The ten GPUs closest to their power limit. 100 % is normal under heavy load unless the limit was lowered.",
            (Query(f"topk(10, pulsed_gpu_power_watts{{{N}}} / pulsed_gpu_power_limit_watts{{{N}}})", LEGEND),),
            RATIO,
            6,
        ),
    ),
)

HEALTH = Row(
    "Health",
    (
        Panel(
            "Worst health checks",
            "table",
            "The 20 worst checks of all GPUs. crit: drain and act at once; hot: check the cooling; warn: plan a reset"
            " or repair. /gpus has evidence and remedy.",
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
            "Boards by state",
            "timeseries",
            "Boards by the worst state of their checks. unknown is not ok: the inputs of all checks are missing;"
            " `pulsed doctor` on that node lists them.",
            (Query(f'sum by (state) (pulsed_gpu_health_state{{{N},mig_id=""}})', "{{state}}"),),
            width=12,
            stacked=True,
            states=SEVERITIES,
        ),
        Panel(
            "XIDs",
            "bargauge",
            "XID errors in this range, by code; HEALTH.md lists what to do.",
            (
                Query(
                    f"sort_desc(topk(10, sum by (xid) (increase(pulsed_gpu_xid_events_total{{{N}}}[$__range]))))",
                    "XID {{xid}}",
                ),
            ),
            limits=GOOD_BELOW_ONE,
        ),
        Panel(
            "Health events",
            "timeseries",
            "Errors by check. Repeated errors on one GPU: repair it before it fails.",
            (
                Query(
                    f"sum by (check) (increase(pulsed_gpu_health_events_total{{{N}}}[$__rate_interval]))",
                    "{{check}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            "Health coverage",
            "timeseries",
            "Share of health checks whose inputs are present, minimum and mean over all GPUs. If it is low, use a"
            " counters file of deploy/dcgm-exporter.",
            (
                Query(f"min(pulsed_gpu_health_coverage_ratio{{{N}}})", "minimum"),
                Query(f"avg(pulsed_gpu_health_coverage_ratio{{{N}}})", "mean"),
            ),
            RATIO,
            top=1.0,
        ),
    ),
)

SELF = Row(
    "Data quality",
    (
        Panel(
            "Input coverage",
            "timeseries",
            "Share of the inputs of real utilization that is present, minimum and mean over all GPUs. Below 1 it is"
            " an estimate with bounds; `pulsed doctor` lists missing inputs.",
            (
                Query(f"min(pulsed_gpu_real_utilization_coverage_ratio{{{N}}})", "minimum"),
                Query(f"avg(pulsed_gpu_real_utilization_coverage_ratio{{{N}}})", "mean"),
            ),
            RATIO,
            6,
            7,
            top=1.0,
        ),
        Panel(
            "Implausible inputs",
            "timeseries",
            "GPUs with implausible inputs, by reason: a stuck profiler, frozen values, ratios above 1. Restart the"
            " host engine or the exporter.",
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
            "Age of the oldest sample of each pulsed. Older than source.stale_after, a GPU leaves the page.",
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
            "Source errors and CPU",
            "timeseries",
            "Failed reads per second, by reason, and the CPU cores that each pulsed uses.",
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
    "All GPUs: idle GPUs by owner, workload, temperature, health and data quality.",
    (
        Variable(
            "node",
            "Node",
            "pulsed_gpu_last_sample_timestamp_seconds",
            "node",
            True,
            "Nodes. All includes GPUs without a node label.",
        ),
    ),
    (GLANCE, WASTE, WORK, HEAT, HEALTH, SELF),
)
