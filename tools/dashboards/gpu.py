"""The dashboard of one GPU, or one instance of MIG, in depth."""

from __future__ import annotations

from pulsed.model.health import SEVERITY
from tools.dashboards.model import Annotation, Dashboard, Limits, Panel, Query, Row, State, Variable
from tools.dashboards.panel_kinds import chart
from tools.dashboards.promql import HOUR, KILOWATT_HOUR, RANGE, RATE, SCOPE, state_number
from tools.dashboards.units import BYTE_RATE, BYTES, CELSIUS, COUNT, HERTZ, HOURS, KWH, RATIO, SECONDS, WATT
from tools.dashboards.value_colors import BAD_FROM_ONE, BOTTLENECK, CLASSES, RESOURCES, SEVERITIES, UP, USE
from tools.dashboards.variables import chained_variables

_HERE = f'{SCOPE},node="$node",gpu="$gpu"'
IT = f'{_HERE},mig_id="$mig_id"'
"""What was chosen. On a GPU without MIG `mig_id` is empty, and matches series without that label."""

BOARD = f'{_HERE},mig_id=""'
"""The board under it: what DCGM measures of the whole board only."""

KEY = "uuid, mig_id"
RECOVERY = tuple(
    State(value, word, color)
    for value, (word, color) in enumerate(
        (
            *(("none", "green"), ("reset the GPU", "red"), ("restart the node", "red"), ("drain peers", "yellow")),
            *(("drain and reset", "red"), ("IMEX", "yellow"), ("reset the bus", "red"), ("restart the system", "red")),
        )
    )
)
"""Recovery actions of the driver (NVML's nvmlDeviceGetGpuRecoveryAction)."""

RECENT_QUANTITIES = frozenset(
    {
        *(f"{name}_active_ratio" for name in ("integer", "tensor_hmma", "tensor_imma", "tensor_dfma")),
        *(f"{name}_utilization_ratio" for name in ("encoder", "decoder", "memory")),
        "nvlink_bandwidth_bytes_per_second",
    }
)
"""Quantities whose series end on a lean page while they are 0."""

OBSERVED = f"0 * sum(rate(pulsed_gpu_observed_seconds_total{{{IT}}}[{RATE}]))"


def recent(name: str, of: str = IT) -> str:
    """A quantity whose series may end while it is 0: then 0, if the daemon reads it."""
    read = f'pulsed_quantity_gpus{{quantity="{name}"}} > 0'
    zero = f"0 * (pulsed_gpu_last_sample_timestamp_seconds{{{of}}} and on (cluster, job, instance) ({read}))"
    return f"pulsed_gpu_{name}{{{of}}} or ({zero})"


def or_none(expr: str, label: str) -> str:
    """What an expression has above 0; if that is nothing though the GPU is observed, 0 with the label `none`."""
    return f'({expr} > 0) or label_replace({OBSERVED} unless on () ({expr} > 0), "{label}", "none", "", "")'


def average_use(over: str) -> str:
    """Exact average of the real utilization over the time in which it is known."""
    rate = f"rate(pulsed_gpu_%s_total{{{IT}}}[{over}])"
    known = f"({rate % 'observed_seconds'} - {rate % 'real_utilization_unknown_seconds'})"
    return f"{rate % 'real_utilization_seconds'} / ({known} > 0.001)"


def quantities(names: str, legend: str = "", of: str = IT) -> tuple[Query, ...]:
    """A query per metric, without prefix; its legend is its name without the last word, or the words given by comma."""
    legends = legend.split(",") if legend else [name.rsplit("_", 1)[0].replace("_", " ") for name in names.split()]
    return tuple(
        Query(recent(name, of) if name in RECENT_QUANTITIES else f"pulsed_gpu_{name}{{{of}}}", text)
        for name, text in zip(names.split(), legends, strict=True)
    )


def grown(names: str, legend: str, over: str = RATE) -> tuple[Query, ...]:
    """A query per counter of the board: what it grew by."""
    return tuple(
        Query(f"increase(pulsed_gpu_{name}_total{{{BOARD}}}[{over}])", text)
        for name, text in zip(names.split(), legend.split(","), strict=True)
    )


def traffic(link: str, suffix: str = "") -> tuple[Query, ...]:
    """Averages of what a link sent and received, exact between two scrapes."""
    return tuple(
        Query(f"rate(pulsed_gpu_observed_{link}_{way}_bytes_total{{{BOARD}}}[{RATE}])", f"{word}{suffix}")
        for way, word in (("transmit", "sent"), ("receive", "received"))
    )


def bounded(name: str) -> tuple[Query, ...]:
    """Upper and lower bound of a ratio; where there are none they are its value."""
    return tuple(
        Query(
            f'pulsed_gpu_{name}_bound_ratio{{bound="{bound}",{IT}}}'
            f" or ignoring (bound) pulsed_gpu_{name}_ratio{{{IT}}}",
            f"{bound} bound",
        )
        for bound in ("upper", "lower")
    )


def codes(title: str, names: str, legends: str, meaning: str, states: tuple[State, ...] = ()) -> Panel:
    """Numbers that are names, as bars over time."""
    return Panel(title, "state-timeline", meaning, quantities(names, legends, BOARD), states=states)


def stat(title: str, unit: str, expr: str, meaning: str, limits: Limits = ()) -> Panel:
    """One number."""
    return Panel(title, "stat", meaning, (Query(expr),), unit, 3, 4, limits=limits, opens="Real utilization")


NOW = Row(
    "$node / $gpu $mig_id",
    (
        stat(
            "Real utilization",
            RATIO,
            f"pulsed_gpu_real_utilization_ratio{{{IT}}}",
            "The share of the GPU that does work: the weighted mean of SM, tensor, DRAM and graphics engine activity."
            " Empty if too many inputs are missing.",
            USE,
        ),
        stat(
            "Average of the range",
            RATIO,
            average_use(RANGE),
            "Average over the range, from counters, over the time with a value.",
            USE,
        ),
        Panel(
            "Class",
            "stat",
            "Workload class, without flicker. unknown: the inputs allow several classes, listed in /gpus.",
            (Query(state_number("pulsed_gpu_workload_class", "class", CLASSES, IT, KEY)),),
            width=4,
            height=4,
            states=CLASSES,
            opens="Class",
        ),
        Panel(
            "Health",
            "stat",
            "Worst state of all checks. crit: drain and act; hot: check cooling; warn: plan a repair. unknown is not"
            " ok.",
            (Query(f"max(pulsed_gpu_health_severity{{{BOARD}}})"),),
            width=2,
            height=4,
            states=SEVERITIES,
            opens="Health over time",
        ),
        Panel(
            "Limiting resource",
            "stat",
            "The resource closest to its practical limit.",
            (Query(state_number("pulsed_gpu_limiting_resource", "resource", RESOURCES, IT, KEY)),),
            width=2,
            height=4,
            states=RESOURCES,
            opens="Limiting resource",
        ),
        Panel(
            "Memory used",
            "stat",
            "Device memory in use over its size. Near 100 % the next allocation can fail.",
            (Query(f"pulsed_gpu_memory_used_ratio{{{IT}}}"),),
            RATIO,
            2,
            4,
            opens="Device memory",
        ),
        Panel(
            "Device",
            "table",
            "Model, node, PCI bus id and driver of the board.",
            (Query(f"max by (node, gpu, model, pci_bus_id, driver_version) (pulsed_gpu_info{{{BOARD}}})"),),
            width=8,
            height=4,
        ),
    ),
)

UTILIZATION = Row(
    "Real utilization and class",
    (
        Panel(
            "Real utilization",
            "timeseries",
            "Value and bounds of each sample, given the missing inputs; without a band all inputs are present. The"
            " average is exact between scrapes.",
            (
                *bounded("real_utilization"),
                Query(f"pulsed_gpu_real_utilization_ratio{{{IT}}}", "real utilization"),
                Query(average_use(RATE), "average"),
            ),
            RATIO,
            16,
            9,
            top=1.0,
            band=True,
        ),
        Panel(
            "Input coverage",
            "timeseries",
            "Share of the inputs of real utilization and of the health checks that is present. Below 1, `pulsed"
            " doctor` lists the missing ones.",
            (
                *quantities("real_utilization_coverage_ratio", "real utilization"),
                Query(f"max(pulsed_gpu_health_coverage_ratio{{{BOARD}}})", "health checks"),
            ),
            RATIO,
            8,
            9,
            top=1.0,
        ),
        *(
            Panel(
                title,
                "state-timeline",
                meaning,
                (Query(state_number(f"pulsed_gpu_{metric}", label, states, IT, KEY), title.lower()),),
                width=24,
                height=4,
                states=states,
            )
            for title, metric, label, states, meaning in (
                (
                    "Class",
                    "workload_class",
                    "class",
                    CLASSES,
                    "Workload class over time. Regular stripes of io_or_data_loading: data loading is too slow.",
                ),
                (
                    "Bottleneck",
                    "bottleneck",
                    "bottleneck",
                    BOTTLENECK,
                    "Bottleneck of the workload class.",
                ),
                (
                    "Limiting resource",
                    "limiting_resource",
                    "resource",
                    RESOURCES,
                    "The resource closest to its practical limit; none if no resource is close.",
                ),
            )
        ),
    ),
)


def saturation(resource: str) -> str:
    """Activity of a resource over its practical peak."""
    name = f"{resource}_active_ratio"
    activity = recent(name) if name in RECENT_QUANTITIES else f"pulsed_gpu_{name}{{{IT}}}"
    peak = (
        f'max by (cluster, job, instance) (pulsed_resource_peak_ratio{{resource="{resource}"}}'
        f" and on (cluster, job, instance, model) pulsed_gpu_info{{{IT}}})"
    )
    quotient = f"clamp_max(({activity}) / on (cluster, job, instance) group_left () {peak}, 1)"
    return f'pulsed_gpu_resource_saturation_ratio{{resource="{resource}",{IT}}} or ignoring (resource) {quotient}'


SATURATION = Row(
    "Saturation",
    (
        chart(
            "Saturation by resource",
            RATIO,
            tuple(Query(saturation(name), name) for name in ("tensor", "fp64", "fp32", "fp16", "integer", "dram")),
            "Activity over the practical peak of the architecture. The highest line limits the work. All low on a"
            " busy GPU: latency, small kernels or waiting.",
            1.0,
        ),
        Panel(
            "Saturation",
            "timeseries",
            "The largest of them, with bounds while inputs are missing.",
            (
                *bounded("saturation"),
                *quantities("saturation_ratio", "saturation"),
            ),
            RATIO,
            top=1.0,
            band=True,
        ),
        chart(
            "Model FLOP utilization",
            RATIO,
            quantities("mfu_ratio tensor_active_ratio", "MFU estimate,tensor active"),
            "Upper estimate for models whose data sheet is known: tensor activity times SM clock over the clock of the"
            " data sheet's peak. Below tensor activity, the clocks are reduced.",
            1.0,
        ),
    ),
)

ACTIVITY = Row(
    "Activity",
    (
        chart(
            "Engines",
            RATIO,
            quantities(
                "graphics_engine_active_ratio sm_active_ratio sm_occupancy_ratio tensor_active_ratio dram_active_ratio",
                "graphics engine,SM,occupancy,tensor,DRAM",
            ),
            "Shares of time or cycles from the profiler. SM far below graphics engine: few blocks run at a time. DRAM"
            " reaches about 0.8.",
            1.0,
        ),
        chart(
            "Pipes",
            RATIO,
            quantities(
                "fp64_active_ratio fp32_active_ratio fp16_active_ratio integer_active_ratio tensor_hmma_active_ratio"
                " tensor_imma_active_ratio tensor_dfma_active_ratio",
                "FP64,FP32,FP16,integer,tensor half,tensor integer,tensor double",
            ),
            "Arithmetic by type. FP32 instead of tensor: the job does not use tensor cores.",
            1.0,
        ),
        chart(
            "Utilization from the driver",
            RATIO,
            quantities(
                "gpu_utilization_ratio memory_utilization_ratio encoder_utilization_ratio decoder_utilization_ratio",
                of=BOARD,
            ),
            "NVML's time shares, of the whole board: a kernel ran, memory was accessed, video engines were busy. 100"
            " % does not mean that the GPU is fully used.",
            1.0,
        ),
    ),
)

TRAFFIC = Row(
    "Traffic and memory",
    (
        chart(
            "PCIe",
            BYTE_RATE,
            (*traffic("pcie"), *traffic("c2c", " over C2C")),
            "Data over PCIe and C2C, with headers. Much received with low SM activity: the GPU waits for data.",
        ),
        chart(
            "NVLink",
            BYTE_RATE,
            (*traffic("nvlink"), *quantities("nvlink_bandwidth_bytes_per_second", "both (driver)", BOARD)),
            "Data over all NVLinks. 0 in a job on several GPUs of a node: it communicates over PCIe.",
        ),
        Panel(
            "Device memory",
            "timeseries",
            "Device memory. Memory in use without work is held unnecessarily.",
            (
                *quantities("memory_used_bytes memory_reserved_bytes", "used,reserved"),
                Query(
                    f"pulsed_gpu_memory_bytes{{{IT}}} - pulsed_gpu_memory_used_bytes{{{IT}}}"
                    f" - pulsed_gpu_memory_reserved_bytes{{{IT}}}",
                    "free",
                ),
            ),
            BYTES,
            stacked=True,
        ),
    ),
)

POWER = Row(
    "Power, heat and clocks",
    (
        chart(
            "Power",
            WATT,
            (
                *quantities("power_watts power_limit_watts", "power,limit in force", BOARD),
                Query(f"rate(pulsed_gpu_energy_joules_total{{{BOARD}}}[{RATE}])", "average from the energy counter"),
            ),
            "Board power, its limit, and the average from the energy counter. At the limit the clocks are reduced.",
        ),
        chart(
            "Temperatures",
            CELSIUS,
            quantities(
                "temperature_celsius memory_temperature_celsius max_operating_temperature_celsius"
                " slowdown_temperature_celsius shutdown_temperature_celsius",
                "die,memory,maximum operating,slowdown,shutdown",
                BOARD,
            ),
            "At the slowdown temperature the hardware reduces the clocks; drain the GPU earlier and check its cooling.",
        ),
        chart(
            "Clocks",
            HERTZ,
            quantities(
                "sm_clock_hertz sm_clock_max_hertz memory_clock_hertz memory_clock_max_hertz",
                "SM,SM maximum,memory,memory maximum",
                BOARD,
            ),
            "SM clock far below its maximum on a busy GPU: power, heat or a setting limits it; see the next panel.",
        ),
        chart(
            "Throttling",
            RATIO,
            tuple(
                Query(f"rate(pulsed_gpu_{name}_violation_seconds_total{{{BOARD}}}[{RATE}])", f"by {text}")
                for name, text in (("power", "the power limit"), ("thermal", "heat"))
            ),
            "Share of time in which a limit reduced the clocks. Power is normal under heavy load, heat is not.",
            1.0,
        ),
        chart(
            "Clock event reasons",
            RATIO,
            (Query(f"pulsed_gpu_clock_event_ratio{{{BOARD}}}", "{{reason}}"),),
            "Share of the last minute with this reason. hw_slowdown, hw_thermal and power brake are hardware"
            " protection: contact the data center.",
            1.0,
        ),
        chart(
            "Temperature headroom",
            CELSIUS,
            quantities("temperature_margin_celsius", "headroom", BOARD),
            "Degrees below the GPU's own limit.",
        ),
    ),
)

ERRORS = Row(
    "Health and errors",
    (
        Panel(
            "Checks",
            "table",
            "Checks that are raised, worst first, and all of them together. unknown: inputs are missing. The check"
            " links to its runbook; /gpus has evidence and remedy.",
            (
                Query(
                    f"sort_desc(max by (check) (pulsed_gpu_health_check{{{BOARD}}}) > 0)\n"
                    f'or label_replace(max(pulsed_gpu_health_severity{{{BOARD}}}), "check", "all", "", "")',
                    "State",
                    states=SEVERITIES,
                ),
            ),
            width=8,
            height=12,
        ),
        Panel(
            "Health over time",
            "state-timeline",
            "Worst state of all checks. Also check short, repeated warnings.",
            (Query(f"max(pulsed_gpu_health_severity{{{BOARD}}})", "health"),),
            width=16,
            height=4,
            states=SEVERITIES,
        ),
        chart(
            "Memory errors",
            COUNT,
            grown("ecc_sbe_volatile ecc_dbe_volatile", "corrected,uncorrected"),
            "ECC errors. An uncorrected error ends the job; frequent corrected ones often precede it.",
        ),
        chart(
            "Memory repairs",
            COUNT,
            (
                *quantities(
                    "remapped_rows_correctable_total remapped_rows_uncorrectable_total row_remap_pending"
                    " row_remap_failure retired_pages_sbe_total retired_pages_dbe_total",
                    "rows after corrected errors,rows after uncorrected errors,remap pending,remap failed,"
                    "pages after corrected errors,pages after uncorrected errors",
                    BOARD,
                ),
            ),
            "Rows and pages replaced over the life of the board. Pending: reset the GPU when it is free; failed:"
            " replace the board.",
        ),
        Panel(
            "XIDs",
            "bargauge",
            "XID errors in the range, by code; docs/health.md lists what to do.",
            (
                Query(
                    "sort_desc(topk(8, "
                    + or_none(f"sum by (xid) (increase(pulsed_gpu_xid_events_total{{{BOARD}}}[{RANGE}]))", "xid")
                    + "))",
                    "XID {{xid}}",
                ),
            ),
            limits=BAD_FROM_ONE,
            runbook="xids",
        ),
        chart(
            "Health events",
            COUNT,
            (
                Query(
                    or_none(f"sum by (check) (increase(pulsed_gpu_health_events_total{{{BOARD}}}[{RATE}]))", "check"),
                    "{{check}}",
                ),
            ),
            "Errors by check.",
        ),
        chart(
            "Link errors",
            COUNT,
            grown(
                "pcie_replays nvlink_crc_errors nvlink_replay_errors nvlink_recovery_errors",
                "PCIe replays,NVLink CRC,NVLink replays,NVLink recoveries",
            ),
            "Repeated packets. A few PCIe replays are normal; for many, reseat the board or riser.",
        ),
        codes(
            "PCIe link",
            "pcie_link_generation pcie_link_generation_max pcie_link_width pcie_link_width_max",
            "generation,maximum generation,lanes,maximum lanes",
            "An idle link saves power; fewer lanes or a lower generation under load is a fault.",
        ),
        codes(
            "Last XID",
            "xid_last_code",
            "code",
            "Code of the last XID, kept until the source restarts; 0 is none.",
        ),
        codes(
            "Recovery action",
            "recovery_action",
            "driver",
            "What the driver requests.",
            RECOVERY,
        ),
    ),
)


def account(title: str, unit: str, metric: str, label: str, divide: str, meaning: str) -> Panel:
    """What a counter with states grew by in the range."""
    expr = f"sort_desc(sum by ({label}) (increase(pulsed_gpu_{metric}_total{{{IT}}}[{RANGE}])) / {divide} > 0)"
    if label == "kind":  # a GPU may never be idle
        none = f"0 * sum(increase(pulsed_gpu_observed_seconds_total{{{IT}}}[{RANGE}]))"
        expr = f'{expr} or label_replace({none} unless on () ({expr}), "kind", "none", "", "")'
    states = CLASSES if label == "class" else ()
    return Panel(title, "bargauge", meaning, (Query(expr, f"{{{{{label}}}}}"),), unit, 6, 9, states=states)


ACCOUNT = Row(
    "Accounting of the range",
    (
        account("Time by class", HOURS, "workload_class_seconds", "class", HOUR, "Time by workload class."),
        account("Energy by class", KWH, "class_energy_joules", "class", KILOWATT_HOUR, "Energy by workload class."),
        account(
            "Idle time",
            HOURS,
            "idle_seconds",
            "kind",
            HOUR,
            "held: idle with an owner. free: idle without an owner.",
        ),
        Panel(
            "Integrals of activity",
            "bargauge",
            "Integrals over observed time, in hours of full use, and time without a value.",
            tuple(
                Query(f"increase(pulsed_gpu_{name}_seconds_total{{{IT}}}[{RANGE}]) / {HOUR}", text)
                for name, text in (
                    ("observed", "observed"),
                    ("real_utilization", "real utilization"),
                    ("real_utilization_unknown", "of which unknown"),
                    ("sm_active", "SM"),
                    ("tensor_active", "tensor"),
                    ("dram_active", "DRAM"),
                )
            ),
            HOURS,
            6,
            9,
        ),
    ),
)

_UP = f"pulsed_source_up{{{SCOPE}}}"
_ONLY_SOURCE = f"{_UP} and on (cluster, job, instance) (count by (cluster, job, instance) ({_UP}) == 1)"
_SOURCE_OF_NODE = f'pulsed_source_up{{{SCOPE},source=~".*$node.*"}}'

TRUST = Row(
    "Data quality",
    (
        Panel(
            "Source",
            "state-timeline",
            "Whether the source of this GPU delivered a fresh sample. down: the log of that pulsed has the remedy.",
            (
                Query(
                    f"max by (source) (({_ONLY_SOURCE} or {_SOURCE_OF_NODE})"
                    f" and on (cluster, job, instance) last_over_time(pulsed_gpu_info{{{IT}}}[{RANGE}]))",
                    "{{source}}",
                ),
            ),
            states=UP,
        ),
        chart(
            "Implausible inputs",
            COUNT,
            (
                Query(
                    or_none(f"sum by (reason) (pulsed_gpu_inputs_inconsistent{{{IT}}})", "reason"),
                    "{{reason}}",
                ),
            ),
            "1 while inputs are left out for this reason: a stuck profiler, frozen values, ratios above 1. Restart"
            " the host engine or the exporter.",
        ),
        chart(
            "Age of the sample",
            SECONDS,
            (
                Query(
                    f"timestamp(pulsed_gpu_last_sample_timestamp_seconds{{{IT}}})"
                    f" - pulsed_gpu_last_sample_timestamp_seconds{{{IT}}}",
                    "age",
                ),
            ),
            "Age of the values at the scrape. Older than source.stale_after, they leave the page.",
        ),
    ),
)

GPU = Dashboard(
    "pulsed-gpu",
    "pulsed / GPU",
    "One GPU or MIG instance in detail.",
    (
        *chained_variables(several=False),
        Variable(
            "mig_id",
            "MIG instance",
            f'pulsed_gpu_info{{{_HERE},mig_id!=""}}',
            "mig_id",
            False,
            "Instance of a MIG board; empty on a whole GPU.",
        ),
    ),
    (NOW, UTILIZATION, SATURATION, ACTIVITY, TRAFFIC, POWER, ERRORS, ACCOUNT, TRUST),
    (
        Annotation(
            "XIDs",
            f"sum by (xid) (increase(pulsed_gpu_xid_events_total{{{BOARD}}}[{RATE}])) > 0",
            "XID {{xid}}",
            "orange",
        ),
        Annotation(
            "Health",
            f"max by (check) (pulsed_gpu_health_check{{{BOARD}}}) >= {SEVERITY['warn']}",
            "{{check}}",
            "red",
        ),
        Annotation(
            "Owners",
            f"max by (job_id, user, namespace, pod) (pulsed_gpu_owner_info{{{IT}}})",
            "{{job_id}}{{pod}} {{user}}{{namespace}}",
            "blue",
        ),
    ),
)
