"""The dashboard of all GPUs: what is down, idle, hot or unhealthy, what runs, and the quality of the data.

With 100,000 GPUs a query that reads a series of each takes 0.3 s, and over a range 3 s: few of the latter do.
"""

from __future__ import annotations

from pulsed.model.health import SEVERITY
from pulsed.present.promql.rule_set import BOARDS, UTILIZATION
from tools.dashboards.model import Annotation, Dashboard, Found, Panel, Query, Row
from tools.dashboards.panel_kinds import number
from tools.dashboards.promql import (
    BOARD,
    CHOSEN,
    GPU,
    HOUR,
    KILOWATT_HOUR,
    LEGEND,
    RANGE,
    RATE,
    RECORDED,
    SCOPE,
    UNRECORDED,
    among,
    average_of_all,
    average_utilization,
    beside_none,
    by_node,
    either,
    grown,
    highest_ever,
    known_zero,
    observed,
    or_none,
    selected,
    slowdown_of_model,
    state_number,
    total,
    total_of_all,
    with_words,
)
from tools.dashboards.units import BYTE_RATE, CELSIUS, HOURS, KWH, RATIO, SECONDS, WATT
from tools.dashboards.value_colors import (
    BAD_FROM_ONE,
    BOTTLENECK,
    CLASSES,
    IDLE,
    RESOURCES,
    SEVERITIES,
    UNKNOWN_FROM_ONE,
    UP,
    USE,
)
from tools.dashboards.variables import chained_variables

HELD, FREE = 'kind="held"', 'kind="free"'
_OF_NODES = f'{SCOPE},node=~"$node",model=~"$model"'
THERMAL_CHECKS = 'check=~"(temp|thermal)_.+"'
PRESENT_CHOSEN = f"group by ({BOARD}) {selected('pulsed_gpu_info')}"
_EARLIER = f'group by ({BOARD}) (last_over_time(pulsed_gpu_info{{{CHOSEN},model=~"$model"}}[{RANGE}]))'
GONE = f"count({_EARLIER} unless {PRESENT_CHOSEN}) or 0 * count({_EARLIER})"
DAEMONS = (
    f'(up{{{SCOPE},job=~"pulsed.*"}}'
    f" or up{{{SCOPE}}} and on (cluster, job, instance) last_over_time(pulsed_build_info{{{SCOPE}}}[{RANGE}]))"
)


def severity(*matchers: str) -> str:
    """Return the health severity of each chosen board."""
    return f"max by ({BOARD}) {selected('pulsed_gpu_health_severity', *matchers)}"


CHECKED = f"0 * count({severity()} >= 0)"
THERMAL = f"max by ({BOARD}) {selected('pulsed_gpu_health_check', THERMAL_CHECKS)}"
IDLEST, MIN_USED, HOTTEST, NEAREST, STRONGEST = (
    f'node=~"${name}"' for name in ("idlest", "least_used", "hottest", "nearest", "strongest")
)
"""True of the nodes of a ranking, see `RANKINGS`."""


def held_hours(*matchers: str) -> str:
    """Return the hours for which each GPU was held and idle."""
    return f"{total(GPU, 'pulsed_gpu_idle_seconds_total', RANGE, HELD, *matchers, function='increase')} / {HOUR} > 0"


def degrees_left(*matchers: str) -> str:
    """Return the degrees of each GPU below its limit, or that of its model."""
    temperature = selected("pulsed_gpu_temperature_celsius", *matchers)
    margin = selected("pulsed_gpu_temperature_margin_celsius", *matchers)
    limit = selected("pulsed_gpu_slowdown_temperature_celsius", *matchers)
    return (
        f"min by ({GPU}, limit) (({margin} or {limit} - {temperature})"
        f" or on ({GPU}) label_replace(({slowdown_of_model(*matchers)}) - on ({GPU}) {temperature},"
        ' "limit", "of the model", "", ""))'
    )


MOSTLY_FREE = (
    f"{total(GPU, 'pulsed_gpu_idle_seconds_total', RANGE, FREE, function='increase')}"
    f" > 0.5 * {total(GPU, 'pulsed_gpu_observed_seconds_total', RANGE, function='increase')}"
)
MAX_HELD = f"topk(20, {held_hours(IDLEST)})"
COOLEST_MARGIN = f"bottomk(10, {degrees_left(NEAREST)})"
_TEMPERATURES, _POWERS = (
    grown("max_over_time", f"pulsed_gpu_{name}", RANGE, UNRECORDED) for name in ("temperature_celsius", "power_watts")
)
_RANKINGS = {
    "idlest": (f"topk(20, {held_hours()})", "were held and idle longest"),
    "least_used": (
        f"bottomk(30, {grown('avg_over_time', 'pulsed_gpu_real_utilization_ratio', RANGE)})",
        "were used least; by samples, so that the panel has some to order by counters",
    ),
    "hottest": (
        f"topk(10, max_over_time({by_node('temperature_celsius', 'max')}[{RANGE}]) or {_TEMPERATURES})",
        "were hottest",
    ),
    "nearest": (
        f"bottomk(10, {degrees_left()})",
        "are closest to thermal slowdown, by their own limits or those of their models",
    ),
    "strongest": (
        f"topk(10, max_over_time({by_node('power_limit_ratio', 'max')}[{RANGE}])"
        f" or {_POWERS} / pulsed_gpu_power_limit_watts{{{CHOSEN},{UNRECORDED}}})",
        "came closest to their power limits",
    ),
}
RANKINGS = tuple(
    Found(name, expr, "node", True, f"The nodes of the GPUs that {what}.") for name, (expr, what) in _RANKINGS.items()
)
"""The nodes of the GPUs in each ranking: its panels read only their series."""


def share_of(part: str, whole: str) -> str:
    """Return the ratio of two sums over those that have both."""

    def summed(name: str, with_name: str) -> str:
        gpus, others = (selected(f"pulsed_gpu_{each}", UNRECORDED, BOARDS) for each in (name, with_name))
        return either(f"sum({by_node(name, 'sum')})", f"sum({gpus} and {others})")

    return f"{summed(part, whole)} / {summed(whole, part)}"


def mean_of(name: str) -> str:
    """Return the mean of a ratio of all chosen GPUs."""
    return either(
        f"sum({by_node(name, 'sum')}) / sum({by_node(name if name == UTILIZATION else 'gpus', 'count')})",
        f"avg({selected(f'pulsed_gpu_{name}', UNRECORDED, BOARDS)})",
    )


def least_of(name: str) -> str:
    """Return the minimum of a coverage of all chosen GPUs."""
    return either(f"min({by_node(name, 'min')})", f"min({selected(f'pulsed_gpu_{name}', UNRECORDED, BOARDS)})")


def counted_now(state: str, label: str) -> str:
    """Return the number of chosen GPUs by a state set."""
    return either(
        f"sum by ({label}) ({by_node(f'{state}_gpus', 'count')})",
        f"count by ({label}) {selected(f'pulsed_gpu_{state}', UNRECORDED, where=' == 1')}",
    )


def age(function: str) -> str:
    """Return the largest, smallest or mean age of samples, at the time of the scrape."""
    sample = f"pulsed_gpu_last_sample_timestamp_seconds{{{CHOSEN},{UNRECORDED},{BOARDS}}}"
    of_gpus, recorded = f"(timestamp({sample}) - {sample})", by_node("sample_age_seconds", function)
    if function != "sum":
        return either(f"{function}({recorded})", f"{function}({of_gpus})")
    return either(f"sum({recorded}) / sum({by_node('gpus', 'count')})", f"avg({of_gpus})")


OVERVIEW = Row(
    "Overview",
    (
        number(
            "GPUs",
            f"count({PRESENT_CHOSEN})",
            "Boards with fresh data. If there are fewer than installed, see the panels beside this one.",
            opens="Nodes",
        ),
        number(
            "GPUs gone",
            GONE,
            "Boards that were reported in the range and are not now.",
            limits=BAD_FROM_ONE,
            opens="Daemons and sources down",
        ),
        number(
            "Daemons down",
            f"sum(1 - {DAEMONS})",
            "Daemons that do not answer Prometheus, on all nodes of the cluster and job. Their GPUs are not monitored.",
            limits=BAD_FROM_ONE,
            opens="Daemons and sources down",
        ),
        number(
            "Sources down",
            f"sum(1 - pulsed_source_up{{{SCOPE}}})",
            "Sources without a fresh sample at the last attempt, on all nodes of the cluster and job. The log of that"
            " daemon has the reason and the remedy. Sources of daemons that are down are not counted.",
            limits=BAD_FROM_ONE,
            opens="Daemons and sources down",
        ),
        number(
            "Unhealthy GPUs",
            f"sum({severity()} >= bool 2)",
            "GPUs whose health is warn or worse.",
            limits=BAD_FROM_ONE,
            opens="Raised health checks",
        ),
        number(
            "GPUs with unknown health",
            f"sum({severity()} == bool -1)",
            "GPUs without the inputs of any check: their health is not ok, but unknown. pulsed doctor names what is"
            " missing.",
            limits=UNKNOWN_FROM_ONE,
            opens="Checks that are raised or unknown",
        ),
        number(
            "Real utilization",
            average_of_all(RANGE),
            "Average real utilization of all GPUs over the range, from counters. Free GPUs count as 0: compare it with"
            " the number of GPUs that are idle and free.",
            RATIO,
            opens="Real utilization",
        ),
        number(
            "Idle while held",
            known_zero(total_of_all("", "idle_seconds", RATE, HELD)),
            "Average number of GPUs that were idle while a pod, job or process had them.",
            limits=((None, "green"), (0.5, "orange")),
            opens="Longest idle while held",
        ),
        number(
            "Idle and free",
            known_zero(total_of_all("", "idle_seconds", RATE, FREE)),
            "Average number of GPUs that were idle without an owner: free capacity.",
            opens="Idle GPUs",
        ),
        number(
            "Power",
            f"sum({selected('pulsed_gpu_power_watts')})",
            "Power of all boards that have it.",
            WATT,
            opens="Power by class",
        ),
        number(
            "Energy",
            f"{total_of_all('', 'energy_joules', RANGE, function='increase')} / {KILOWATT_HOUR}",
            "Energy used in the range; from energy counters, else from power.",
            KWH,
            opens="Energy by class",
        ),
        number(
            "Hot GPUs",
            f"count({THERMAL} >= 3) or {CHECKED}",
            "GPUs with a temperature or thermal check at hot or worse: at the limit that the GPU reports, else at the"
            " limit of its model (docs/health.md).",
            limits=BAD_FROM_ONE,
            opens="Hottest GPUs",
        ),
    ),
)

ATTENTION = Row(
    "Needs attention",
    (
        Panel(
            "Raised health checks",
            "table",
            "The 20 worst checks of all GPUs. crit: drain and act at once; hot: check the cooling; warn: plan a reset"
            " or repair. The check links to its runbook, the GPU to its dashboard.",
            (
                Query(
                    f"topk(20, max by ({BOARD}, check) {selected('pulsed_gpu_health_check')} > 0)"
                    f" or label_replace({observed(RATE)} unless on () ({selected('pulsed_gpu_health_check')} > 0),"
                    ' "check", "none", "", "")',
                    "State",
                    states=SEVERITIES,
                ),
            ),
            width=14,
        ),
        Panel(
            "Daemons and sources down",
            "table",
            "Daemons that do not answer Prometheus, and sources that deliver nothing: check the node, the service and"
            " its log.",
            (
                Query(
                    f'label_replace({DAEMONS} == 0, "source", "(daemon)", "", "")\n'
                    f"or pulsed_source_up{{{SCOPE}}} == 0\n"
                    f"or label_replace(min({DAEMONS}) == 1 and min(pulsed_source_up{{{SCOPE}}}) == 1,"
                    ' "source", "all", "", "")',
                    "State",
                    states=UP,
                ),
            ),
            width=10,
        ),
    ),
)

_WORST_NODES = f"topk(50, max by (node) ({severity()}))"

NODES_ROW = Row(
    "Nodes",
    (
        Panel(
            "Nodes",
            "table",
            "The 50 nodes with the worst health. A click on a node chooses its GPUs here; its GPUs link to their"
            " dashboard.",
            (
                Query(_WORST_NODES, "Worst health", states=SEVERITIES),
                Query(among(f"count by (node) ({PRESENT_CHOSEN})", _WORST_NODES, "node"), "GPUs"),
                Query(
                    among(
                        f"avg by (node) {selected('pulsed_gpu_real_utilization_ratio', BOARDS)}", _WORST_NODES, "node"
                    ),
                    "Real utilization",
                    RATIO,
                ),
                Query(
                    among(f"sum by (node) {selected('pulsed_gpu_power_watts')}", _WORST_NODES, "node"), "Power", WATT
                ),
                Query(
                    among(
                        " + ".join(
                            total("node", f"pulsed_gpu_observed_nvlink_{way}_bytes_total", RATE)
                            for way in ("transmit", "receive")
                        ),
                        _WORST_NODES,
                        "node",
                    ),
                    "NVLink",
                    BYTE_RATE,
                ),
            ),
            width=24,
            height=9,
            links_to_nodes=True,
        ),
    ),
)

IDLE_GPUS = Row(
    "Idle and little used GPUs",
    (
        Panel(
            "Longest idle while held",
            "table",
            "The 20 GPUs that were idle longest while held in this range. Their owners should release them; else let"
            " the scheduler reclaim them.",
            (
                Query(
                    f"{MAX_HELD} or label_replace({observed()} unless on () ({held_hours(IDLEST)}),"
                    ' "node", "none", "", "")',
                    "Idle while held",
                    HOURS,
                ),
                Query(
                    among(
                        total(*(GPU, "pulsed_gpu_idle_energy_joules_total", RANGE, HELD, IDLEST), function="increase")
                        + f" / {KILOWATT_HOUR}",
                        MAX_HELD,
                    ),
                    "Energy while idle",
                    KWH,
                ),
                Query(among(average_utilization(GPU, RANGE, IDLEST), MAX_HELD), "Real utilization", RATIO),
                Query(
                    among(f"max by ({GPU}) {selected('pulsed_gpu_memory_used_ratio', IDLEST)}", MAX_HELD),
                    "Memory used",
                    RATIO,
                ),
                Query(
                    among(
                        state_number("pulsed_gpu_workload_class", "class", CLASSES, f"{CHOSEN},{IDLEST}", GPU),
                        MAX_HELD,
                    ),
                    "Class now",
                    states=CLASSES,
                ),
            ),
            width=16,
        ),
        Panel(
            "Least used",
            "bargauge",
            "The ten GPUs with the lowest average real utilization in the range, without those that were free for most"
            " of it.",
            (
                Query(
                    f"sort(bottomk(10, {average_utilization(GPU, RANGE, MIN_USED)} unless on ({GPU}) ({MOSTLY_FREE})))",
                    LEGEND,
                ),
            ),
            RATIO,
            top=1.0,
            limits=USE,
        ),
        Panel(
            "Idle GPUs",
            "timeseries",
            "Average number of idle GPUs: held by a pod, job or process, free, or unknown if memory use is missing."
            " Held is waste, free is capacity.",
            (Query(beside_none(total_of_all("kind", "idle_seconds", RATE), "kind"), "{{kind}}"),),
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
                    f"sum by (le) (rate(pulsed_real_utilization_distribution_ratio_bucket{{{_OF_NODES}}}[{RATE}]))",
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
                Query(average_of_all(RATE), "real utilization"),
                Query(mean_of(UTILIZATION), "GPU utilization (nvidia-smi)"),
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
            (Query(f"{total_of_all('class', 'workload_class_seconds', RATE)} > 0", "{{class}}"),),
            stacked=True,
            states=CLASSES,
        ),
        Panel(
            "Power by class",
            "timeseries",
            "Power by workload class. Power of idle is the cost of holding GPUs.",
            (Query(f"{total_of_all('class', 'class_energy_joules', RATE)} > 0", "{{class}}"),),
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
                    f"sort_desc({total_of_all('class', 'class_energy_joules', RANGE, function='increase')}"
                    f" / {KILOWATT_HOUR} > 0)",
                    "{{class}}",
                ),
            ),
            KWH,
            states=CLASSES,
        ),
        Panel(
            "Bottlenecks",
            "timeseries",
            "Number of GPUs by bottleneck.",
            (Query(counted_now("bottleneck", "bottleneck"), "{{bottleneck}}"),),
            stacked=True,
            states=BOTTLENECK,
        ),
        Panel(
            "Limiting resources",
            "timeseries",
            "Number of GPUs by the resource closest to its practical limit; none if no resource is close.",
            (Query(counted_now("limiting_resource", "resource"), "{{resource}}"),),
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
                    share_of("memory_used_bytes", "memory_bytes"),
                    "in use over size",
                ),
            ),
            RATIO,
            top=1.0,
        ),
    ),
)

HEAT = Row(
    "Temperature and power",
    (
        Panel(
            "Hottest GPUs",
            "timeseries",
            "The ten hottest GPUs of the range. A single hot GPU on a node: check fan, heat sink and thermal paste. A"
            " whole node: check its air inlet.",
            (
                Query(
                    among(
                        f"pulsed_gpu_temperature_celsius{{{CHOSEN},{HOTTEST}}}",
                        highest_ever(10, "pulsed_gpu_temperature_celsius", HOTTEST),
                    ),
                    LEGEND,
                ),
            ),
            CELSIUS,
        ),
        Panel(
            "Closest to thermal slowdown",
            "table",
            "Degrees below the temperature at which the hardware reduces its clocks, and the share of time in which"
            " heat or the power limit reduced them. Few degrees with time lost to heat: drain the node and check its"
            " cooling. limit: empty for a GPU that reports it, else pulsed's table of models is used.",
            (
                Query(COOLEST_MARGIN, "Degrees left", CELSIUS),
                *(
                    Query(
                        among(total(GPU, f"pulsed_gpu_{name}_violation_seconds_total", RANGE, NEAREST), COOLEST_MARGIN),
                        f"Throttled by {word}",
                        RATIO,
                    )
                    for name, word in (("thermal", "heat"), ("power", "power"))
                ),
            ),
        ),
        Panel(
            "Power relative to its limit",
            "timeseries",
            "The ten GPUs that came closest to their power limit. 100 % is normal under heavy load unless the limit was"
            " lowered.",
            (
                Query(
                    f"(pulsed_gpu_power_watts{{{CHOSEN},{STRONGEST}}} and on ({GPU}) "
                    + highest_ever(10, "pulsed_gpu_power_watts", STRONGEST, divided_by="pulsed_gpu_power_limit_watts")
                    + f") / pulsed_gpu_power_limit_watts{{{CHOSEN},{STRONGEST}}}",
                    LEGEND,
                ),
            ),
            RATIO,
        ),
    ),
)

HEALTH = Row(
    "Health",
    (
        Panel(
            "GPUs by health",
            "timeseries",
            "Boards by the worst state of their checks. unknown is not ok: the inputs of all checks are missing;"
            " `pulsed doctor` on that node lists them.",
            (
                Query(
                    with_words(
                        "severity",
                        either(
                            f"sum by (severity) ({by_node('health_gpus', 'count')})",
                            f'count_values("severity", {severity(UNRECORDED)})',
                        ),
                        SEVERITIES,
                    ),
                    "{{severity}}",
                ),
            ),
            stacked=True,
            states=SEVERITIES,
        ),
        Panel(
            "Checks that are raised or unknown",
            "timeseries",
            "GPUs by check, in any state but ok, of all nodes of the cluster and job.",
            (
                Query(
                    "topk(10, "
                    + either(
                        f"sum by (check, state) (cluster:pulsed_health_checks:sum{{{SCOPE}}})",
                        f"sum by (check, state) (pulsed_health_checks{{{SCOPE}}})",
                    )
                    + ")",
                    "{{check}}: {{state}}",
                ),
            ),
        ),
        Panel(
            "Health coverage",
            "timeseries",
            "Share of health checks whose inputs are present, minimum and mean over all GPUs. If it is low, use a"
            " counters file of deploy/dcgm-exporter.",
            (
                Query(least_of("health_coverage_ratio"), "minimum"),
                Query(mean_of("health_coverage_ratio"), "mean"),
            ),
            RATIO,
            top=1.0,
        ),
        Panel(
            "XIDs",
            "bargauge",
            "XID errors in this range, by code; the runbook lists what to do.",
            (
                Query(
                    "sort_desc(topk(10, "
                    + or_none(total("xid", "pulsed_gpu_xid_events_total", RANGE, function="increase"), "xid")
                    + "))",
                    "XID {{xid}}",
                ),
            ),
            limits=BAD_FROM_ONE,
            runbook="xids",
        ),
        Panel(
            "Health events",
            "bargauge",
            "Errors in this range, by check. Repeated errors on one GPU: repair it before it fails.",
            (
                Query(
                    "sort_desc(topk(10, "
                    + or_none(total("check", "pulsed_gpu_health_events_total", RANGE, function="increase"), "check")
                    + "))",
                    "{{check}}",
                ),
            ),
            limits=BAD_FROM_ONE,
        ),
        Panel(
            "GPUs with errors",
            "table",
            "The 20 GPUs with the most health events in the range. Repair or replace those that come back.",
            (
                Query(
                    f"topk(20, {total(BOARD + ', check', 'pulsed_gpu_health_events_total', RANGE, function='increase')}"
                    f" > 0) or label_replace({observed()} unless on ()"
                    f" ({grown('increase', 'pulsed_gpu_health_events_total', RANGE)} > 0),"
                    ' "check", "none", "", "")',
                    "Events",
                ),
            ),
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
                Query(least_of("real_utilization_coverage_ratio"), "minimum"),
                Query(mean_of("real_utilization_coverage_ratio"), "mean"),
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
                    beside_none(f"count by (reason) {selected('pulsed_gpu_inputs_inconsistent')}", "reason"),
                    "{{reason}}",
                ),
            ),
            width=6,
            height=7,
        ),
        Panel(
            "Age of samples",
            "timeseries",
            "Age of the samples of GPUs at the scrape. Older than source.stale_after, a GPU leaves the page."
            " Negative or very large: the clocks of the node and Prometheus differ.",
            tuple(Query(age(name), word) for name, word in (("max", "oldest"), ("sum", "mean"), ("min", "newest"))),
            SECONDS,
            6,
            7,
        ),
        Panel(
            "Source errors and CPU",
            "timeseries",
            "Failed reads per second by reason, and the CPU cores that all daemons, and the busiest one, use.",
            (
                Query(
                    f"sum by (reason) (rate(pulsed_source_errors_total{{{SCOPE}}}[{RATE}])) > 0", "failed: {{reason}}"
                ),
                *(
                    Query(
                        f"{name}(rate(process_cpu_seconds_total{{{SCOPE}}}[{RATE}])"
                        f" and on (cluster, job, instance) pulsed_build_info{{{SCOPE}}})",
                        word,
                    )
                    for name, word in (("sum", "cores: all"), ("max", "cores: busiest"))
                ),
            ),
            width=6,
            height=7,
        ),
    ),
)

_EVENTS, _XID_CHECKS = "pulsed_gpu_health_events_total", 'check=~"xid_(critical|warning)"'
"""Series of GPUs with XIDs alone, whereas all have one for each code."""

_IS_CRITICAL = f" == {SEVERITY['crit']}"

FLEET = Dashboard(
    "pulsed-fleet",
    "pulsed / Fleet",
    "All GPUs: what is down, idle, hot or unhealthy, what runs, and the quality of the data.",
    chained_variables(several=True),
    (OVERVIEW, ATTENTION, NODES_ROW, IDLE_GPUS, WORK, HEAT, HEALTH, SELF),
    (
        Annotation(
            "XIDs",
            f"topk(20, {total('node, gpu, check', _EVENTS, RATE, _XID_CHECKS, function='increase')} > 0)",
            "{{check}} of {{node}} / {{gpu}}",
            "orange",
        ),
        Annotation(
            "Critical health",
            f"topk(20, max by (node, gpu, check) {selected('pulsed_gpu_health_check', where=_IS_CRITICAL)})",
            "{{check}} of {{node}} / {{gpu}}",
            "red",
        ),
    ),
    points=120,  # rates are averages over a point, so that none is missed
    found=(RECORDED, *RANKINGS),
)
