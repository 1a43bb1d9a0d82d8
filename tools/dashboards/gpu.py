"""The dashboard of one GPU, or one instance of MIG, in depth."""

from __future__ import annotations

from tools.dashboards.model import (
    BOTTLENECK,
    BYTE_RATE,
    BYTES,
    CELSIUS,
    CLASSES,
    COUNT,
    HERTZ,
    JOULE,
    RATIO,
    RESOURCES,
    SECONDS,
    SEVERITIES,
    UP,
    WATT,
    Dashboard,
    Kind,
    Panel,
    Query,
    Row,
    Variable,
    state_number,
)

IT = 'uuid="$uuid",mig_id="$mig_id"'
"""What was chosen. On a GPU without MIG `mig_id` is empty, and matches series without that label."""

BOARD = 'uuid="$uuid",mig_id=""'
"""The board under it: what DCGM measures of the whole board only."""

KEY = "uuid, mig_id"
RATE = "$__rate_interval"
USE = ((None, "red"), (0.2, "orange"), (0.5, "green"))
FAULTS = ((None, "green"), (1.0, "red"))


def average_use(over: str) -> str:
    """Exact average of the real utilization over the time in which it is known."""
    rate = f"rate(pulsed_gpu_%s_total{{{IT}}}[{over}])"
    known = f"({rate % 'observed_seconds'} - {rate % 'real_utilization_unknown_seconds'})"
    return f"{rate % 'real_utilization_seconds'} / ({known} > 0.001)"


def quantities(names: str, legend: str = "", of: str = IT) -> tuple[Query, ...]:
    """A query per metric, without prefix; its legend is its name without the last word, or the words given by comma."""
    legends = legend.split(",") if legend else [name.rsplit("_", 1)[0].replace("_", " ") for name in names.split()]
    return tuple(Query(f"pulsed_gpu_{name}{{{of}}}", text) for name, text in zip(names.split(), legends, strict=True))


def grown(names: str, legend: str, over: str = RATE) -> tuple[Query, ...]:
    """A query per counter of the board: what it grew by."""
    return tuple(
        Query(f"increase(pulsed_gpu_{name}_total{{{BOARD}}}[{over}])", text)
        for name, text in zip(names.split(), legend.split(","), strict=True)
    )


def chart(title: str, unit: str, queries: tuple[Query, ...], meaning: str, top: float | None = None) -> Panel:
    """Lines over time."""
    return Panel(title, "timeseries", meaning, queries, unit, top=top)


def stat(title: str, unit: str, expr: str, meaning: str, limits: tuple[tuple[float | None, str], ...] = ()) -> Panel:
    """One number."""
    return Panel(title, "stat", meaning, (Query(expr),), unit, 3, 4, limits=limits)


NOW = Row(
    "Now",
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
            average_use("$__range"),
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
        ),
        Panel(
            "Limiting resource",
            "stat",
            "The resource closest to its practical limit.",
            (Query(state_number("pulsed_gpu_limiting_resource", "resource", RESOURCES, IT, KEY)),),
            width=2,
            height=4,
            states=RESOURCES,
        ),
        Panel(
            "Memory used",
            "stat",
            "Device memory in use over its size. Near 100 % the next allocation can fail.",
            (Query(f"pulsed_gpu_memory_used_ratio{{{IT}}}"),),
            RATIO,
            2,
            4,
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
                Query(f'pulsed_gpu_real_utilization_bound_ratio{{bound="upper",{IT}}}', "upper bound"),
                Query(f'pulsed_gpu_real_utilization_bound_ratio{{bound="lower",{IT}}}', "lower bound"),
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

SATURATION = Row(
    "Saturation",
    (
        chart(
            "Saturation by resource",
            RATIO,
            (Query(f"pulsed_gpu_resource_saturation_ratio{{{IT}}}", "{{resource}}"),),
            "Activity over the practical peak of the architecture. The highest line limits the work. All low on a"
            " busy GPU: latency, small kernels or waiting.",
            1.0,
        ),
        Panel(
            "Saturation",
            "timeseries",
            "The largest of them, with bounds while inputs are missing.",
            (
                Query(f'pulsed_gpu_saturation_bound_ratio{{bound="upper",{IT}}}', "upper bound"),
                Query(f'pulsed_gpu_saturation_bound_ratio{{bound="lower",{IT}}}', "lower bound"),
                *quantities("saturation_ratio", "saturation"),
            ),
            RATIO,
            top=1.0,
            band=True,
        ),
        chart(
            "Tensor throughput",
            RATIO,
            quantities("tensor_throughput_ratio tensor_active_ratio", "throughput,tensor active"),
            "Tensor activity times SM clock over its maximum, an approximation of model FLOP utilization. Below"
            " tensor activity, the clocks are reduced.",
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
            quantities("pcie_transmit_bytes_per_second pcie_receive_bytes_per_second", "sent,received", BOARD),
            "Data over PCIe, with headers. Much received with low SM activity: the GPU waits for data.",
        ),
        chart(
            "NVLink",
            BYTE_RATE,
            quantities(
                "nvlink_transmit_bytes_per_second nvlink_receive_bytes_per_second nvlink_bandwidth_bytes_per_second",
                "sent,received,both (driver)",
                BOARD,
            ),
            "Data over all NVLinks. 0 in a job on several GPUs of a node: it communicates over PCIe.",
        ),
        Panel(
            "Device memory",
            "timeseries",
            "Device memory. Memory in use without work is held unnecessarily.",
            quantities("memory_used_bytes memory_reserved_bytes memory_free_bytes", "used,reserved,free"),
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
            "All checks, worst first. /gpus has evidence and remedy; unknown: inputs are missing.",
            (
                Query(
                    f"sort_desc(max by (check) (pulsed_gpu_health_check{{{BOARD}}}))",
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
            "XID errors in the range, by code; HEALTH.md lists what to do.",
            (
                Query(
                    f"sort_desc(topk(8, sum by (xid) (increase(pulsed_gpu_xid_events_total{{{BOARD}}}[$__range]))))",
                    "XID {{xid}}",
                ),
            ),
            limits=FAULTS,
        ),
        chart(
            "Health events",
            COUNT,
            (
                Query(
                    f"sum by (check) (increase(pulsed_gpu_health_events_total{{{BOARD}}}[{RATE}]))",
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
        chart(
            "PCIe link",
            COUNT,
            quantities(
                "pcie_link_generation pcie_link_generation_max pcie_link_width pcie_link_width_max",
                "generation,maximum generation,lanes,maximum lanes",
                BOARD,
            ),
            "An idle link saves power; fewer lanes or a lower generation under load is a fault.",
        ),
        chart(
            "Last XID",
            COUNT,
            quantities("xid_last_code recovery_action", "last XID,recovery action", BOARD),
            "Code of the last XID, kept until the source restarts, and the recovery action of the driver: 0 none, 1"
            " reset the GPU, 2 reboot the node, 3 drain the GPU, 4 drain and reset.",
        ),
    ),
)


def account(title: str, unit: str, metric: str, label: str, meaning: str) -> Panel:
    """What a counter with states grew by in the range."""
    kind: Kind = "bargauge"
    expr = f"sort_desc(sum by ({label}) (increase(pulsed_gpu_{metric}_total{{{IT}}}[$__range])))"
    states = CLASSES if label == "class" else ()
    return Panel(title, kind, meaning, (Query(expr, f"{{{{{label}}}}}"),), unit, 6, 9, states=states)


ACCOUNT = Row(
    "Accounting of the range",
    (
        account("Time by class", SECONDS, "workload_class_seconds", "class", "Time by workload class."),
        account("Energy by class", JOULE, "class_energy_joules", "class", "Energy by workload class."),
        account(
            "Idle time",
            SECONDS,
            "idle_seconds",
            "kind",
            "held: idle with an owner. free: idle without an owner.",
        ),
        Panel(
            "Integrals of activity",
            "bargauge",
            "Integrals over observed time, in seconds of full use, and time without a value.",
            tuple(
                Query(f"increase(pulsed_gpu_{name}_seconds_total{{{IT}}}[$__range])", text)
                for name, text in (
                    ("observed", "observed"),
                    ("real_utilization", "real utilization"),
                    ("real_utilization_unknown", "of which unknown"),
                    ("sm_active", "SM"),
                    ("tensor_active", "tensor"),
                    ("dram_active", "DRAM"),
                )
            ),
            SECONDS,
            6,
            9,
        ),
    ),
)

TRUST = Row(
    "Data quality",
    (
        Panel(
            "Source",
            "state-timeline",
            "Whether the source of this GPU delivered a fresh sample. down: the log of that pulsed has the remedy.",
            (
                Query(
                    "max by (source) (pulsed_source_up and on (instance, job)"
                    f" pulsed_gpu_last_sample_timestamp_seconds{{{IT}}})",
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
                    f"sum by (reason) (pulsed_gpu_inputs_inconsistent{{{IT}}})"
                    ' or label_replace(vector(0), "reason", "none", "", "")',
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

SAMPLES = "pulsed_gpu_last_sample_timestamp_seconds"

GPU = Dashboard(
    "pulsed-gpu",
    "pulsed / GPU",
    "One GPU or MIG instance in detail.",
    (
        Variable("node", "Node", SAMPLES, "node", True, "Selects the GPUs of a node."),
        Variable("gpu", "GPU", f'{SAMPLES}{{node=~"$node"}}', "gpu", False, "Index on the node."),
        Variable("uuid", "UUID", f'{SAMPLES}{{node=~"$node",gpu="$gpu"}}', "uuid", False, "The board."),
        Variable(
            "mig_id",
            "MIG instance",
            f'{SAMPLES}{{uuid="$uuid",mig_id!=""}}',
            "mig_id",
            False,
            "Instance of a MIG board; empty on a whole GPU.",
        ),
    ),
    (NOW, UTILIZATION, SATURATION, ACTIVITY, TRAFFIC, POWER, ERRORS, ACCOUNT, TRUST),
)
