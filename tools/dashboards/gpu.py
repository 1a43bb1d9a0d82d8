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
            "How much of the GPU does real work now: the weighted mean of SM, tensor, DRAM and graphics engine"
            " activity. Empty while too few of them are known.",
            USE,
        ),
        stat(
            "Average of the range",
            RATIO,
            average_use("$__range"),
            "The same over the whole range: exact, from counters, over the time in which it is known.",
            USE,
        ),
        Panel(
            "Class",
            "stat",
            "What kind of work it does, flickers left out. unknown: the inputs that are there allow several classes;"
            " /gpus lists which.",
            (Query(state_number("pulsed_gpu_workload_class", "class", CLASSES, IT, KEY)),),
            width=4,
            height=4,
            states=CLASSES,
        ),
        Panel(
            "Health",
            "stat",
            "Worst state of all checks that could be judged. crit: drain and act; hot: cooling; warn: plan a repair."
            " unknown is not ok.",
            (Query(f"max(pulsed_gpu_health_severity{{{BOARD}}})"),),
            width=2,
            height=4,
            states=SEVERITIES,
        ),
        Panel(
            "Nearest limit",
            "stat",
            "The resource that is nearest to what it reaches in practice: where more speed would have to come from.",
            (Query(state_number("pulsed_gpu_limiting_resource", "resource", RESOURCES, IT, KEY)),),
            width=2,
            height=4,
            states=RESOURCES,
        ),
        Panel(
            "Memory used",
            "stat",
            "Device memory in use over its size. Near 100 % the next allocation fails.",
            (Query(f"pulsed_gpu_memory_used_ratio{{{IT}}}"),),
            RATIO,
            2,
            4,
        ),
        Panel(
            "What it is",
            "table",
            "Model, place and driver of the board.",
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
            "The value of each sample, and between which bounds it lies whatever the missing inputs are: no band, no"
            " doubt. The average is exact, also between two scrapes.",
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
            "Inputs known",
            "timeseries",
            "Share of the weights of the real utilization, and of the health checks, whose inputs are there. Below 1:"
            " `pulsed doctor` says which are missing and how to get them.",
            (
                *quantities("real_utilization_coverage_ratio", "of the real utilization"),
                Query(f"max(pulsed_gpu_health_coverage_ratio{{{BOARD}}})", "of the health checks"),
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
                    "What kind of work it did when. Regular stripes of io_or_data_loading between compute: the loader"
                    " cannot keep up.",
                ),
                (
                    "Bottleneck",
                    "bottleneck",
                    "bottleneck",
                    BOTTLENECK,
                    "What limits the work, as the class says it.",
                ),
                (
                    "Limiting resource",
                    "limiting_resource",
                    "resource",
                    RESOURCES,
                    "The resource nearest to its practical limit; none while all are far from it.",
                ),
            )
        ),
    ),
)

SATURATION = Row(
    "How near to the limits",
    (
        chart(
            "Saturation per resource",
            RATIO,
            (Query(f"pulsed_gpu_resource_saturation_ratio{{{IT}}}", "{{resource}}"),),
            "Activity over what the resource reaches in practice on this architecture. One line at the top: that one"
            " limits. All low under a busy GPU: latency, small kernels or waiting.",
            1.0,
        ),
        Panel(
            "Saturation",
            "timeseries",
            "The largest of them, and its bounds while inputs are missing.",
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
            "Tensor activity times SM clock over its maximum: the nearest to model FLOP utilization that counters give."
            " Well below tensor active: the clocks are held down.",
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
            "Shares of time or cycles from the profiler. SM far below graphics engine: few blocks at a time. DRAM tops"
            " out near 0.8.",
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
            "Which arithmetic it is. FP32 where tensor was expected: the job does not use its tensor cores.",
            1.0,
        ),
        chart(
            "What the driver says",
            RATIO,
            quantities(
                "gpu_utilization_ratio memory_utilization_ratio encoder_utilization_ratio decoder_utilization_ratio",
                of=BOARD,
            ),
            "NVML's shares of time, of the whole board: at least one kernel ran, memory was touched, video engines were"
            " busy. 100 % says little about how much of the GPU is used.",
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
            "Data over PCIe, headers included. Much received under a low SM: the GPU waits for its data.",
        ),
        chart(
            "NVLink",
            BYTE_RATE,
            quantities(
                "nvlink_transmit_bytes_per_second nvlink_receive_bytes_per_second nvlink_bandwidth_bytes_per_second",
                "sent,received,both as the driver says",
                BOARD,
            ),
            "Data over all NVLinks. Nothing in a job on several GPUs of a node: it talks over PCIe.",
        ),
        Panel(
            "Device memory",
            "timeseries",
            "Where the memory is. What stays used without work is held for nothing.",
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
                Query(f"rate(pulsed_gpu_energy_joules_total{{{BOARD}}}[{RATE}])", "average by the energy counter"),
            ),
            "Board power, its limit, and what the energy counter grows by. At the limit the clocks follow it.",
        ),
        chart(
            "Temperatures",
            CELSIUS,
            quantities(
                "temperature_celsius memory_temperature_celsius max_operating_temperature_celsius"
                " slowdown_temperature_celsius shutdown_temperature_celsius",
                "die,memory,highest for normal operation,slows down at,turns off at",
                BOARD,
            ),
            "At the slowdown temperature the hardware cuts the clocks; drain the GPU before and look at its cooling.",
        ),
        chart(
            "Clocks",
            HERTZ,
            quantities(
                "sm_clock_hertz sm_clock_max_hertz memory_clock_hertz memory_clock_max_hertz",
                "SM,SM highest,memory,memory highest",
                BOARD,
            ),
            "SM far below its highest while busy: power, heat or a setting holds it down; the next panel says which.",
        ),
        chart(
            "Clocks held down",
            RATIO,
            tuple(
                Query(f"rate(pulsed_gpu_{name}_violation_seconds_total{{{BOARD}}}[{RATE}])", f"by {text}")
                for name, text in (("power", "the power limit"), ("thermal", "heat"))
            ),
            "Share of time in which the limit cost speed. Power is normal under heavy work; heat never is.",
            1.0,
        ),
        chart(
            "Reasons for the clocks",
            RATIO,
            (Query(f"pulsed_gpu_clock_event_ratio{{{BOARD}}}", "{{reason}}"),),
            "Share of the last minute in which the driver named this reason. hw_slowdown, hw_thermal or power brake:"
            " hardware protects itself, call the data center.",
            1.0,
        ),
        chart(
            "Room left",
            CELSIUS,
            quantities("temperature_margin_celsius", "degrees left", BOARD),
            "Degrees left before the GPU reaches its own limit.",
        ),
    ),
)

ERRORS = Row(
    "Health and errors",
    (
        Panel(
            "Checks",
            "table",
            "All checks, the worst first. /gpus has the evidence and the remedy of each; unknown means that its inputs"
            " are missing.",
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
            "The worst state of all checks. Short warnings that come back are worth a look, too.",
            (Query(f"max(pulsed_gpu_health_severity{{{BOARD}}})", "health"),),
            width=16,
            height=4,
            states=SEVERITIES,
        ),
        chart(
            "Memory errors",
            COUNT,
            grown("ecc_sbe_volatile ecc_dbe_volatile", "corrected,uncorrected"),
            "ECC errors as they come. One uncorrected error costs the job; corrected ones that go on announce it.",
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
            "Rows and pages that were replaced over the life of the board. Pending: reset the GPU when it is free;"
            " failed: have the board replaced.",
        ),
        Panel(
            "XIDs",
            "bargauge",
            "Errors that the driver reported of this GPU in the range, by code. NVIDIA's XID catalogue explains them.",
            (
                Query(
                    f"sort_desc(topk(8, sum by (xid) (increase(pulsed_gpu_xid_events_total{{{BOARD}}}[$__range]))))",
                    "XID {{xid}}",
                ),
            ),
            limits=FAULTS,
        ),
        chart(
            "Events of checks",
            COUNT,
            (
                Query(
                    f"sum by (check) (increase(pulsed_gpu_health_events_total{{{BOARD}}}[{RATE}]))",
                    "{{check}}",
                ),
            ),
            "What counted for a check, when.",
        ),
        chart(
            "Link errors",
            COUNT,
            grown(
                "pcie_replays nvlink_crc_errors nvlink_replay_errors nvlink_recovery_errors",
                "PCIe replays,NVLink CRC,NVLink replays,NVLink recoveries",
            ),
            "Packets sent again, as they come. A few PCIe replays are normal; a flood: reseat the board or its riser.",
        ),
        chart(
            "PCIe link",
            COUNT,
            quantities(
                "pcie_link_generation pcie_link_generation_max pcie_link_width pcie_link_width_max",
                "generation,highest generation,lanes,most lanes",
                BOARD,
            ),
            "An idle link goes down to save power; fewer lanes or a lower generation under load is a fault.",
        ),
        chart(
            "Last XID",
            COUNT,
            quantities("xid_last_code recovery_action", "last XID,recovery action", BOARD),
            "Code of the last XID, which stays until the source restarts, and what the driver asks for: 0 nothing,"
            " 1 reset the GPU, 2 reboot the node, 3 drain the GPU, 4 drain and reset.",
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
        account("Time by class", SECONDS, "workload_class_seconds", "class", "How long it did what."),
        account("Energy by class", JOULE, "class_energy_joules", "class", "What that took."),
        account(
            "Idle time",
            SECONDS,
            "idle_seconds",
            "kind",
            "held: idle while somebody had it, to be won back. free: nobody had it.",
        ),
        Panel(
            "Full use",
            "bargauge",
            "Integrals over the observed time: seconds of full use. What is observed and not used is lost; what is"
            " unknown was not measured.",
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
    "Can this be trusted",
    (
        Panel(
            "Source",
            "state-timeline",
            "Whether the last attempt of the pulsed that shows this GPU delivered a fresh sample. down: its log names"
            " the remedy.",
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
            "Inputs that cannot be true",
            COUNT,
            (
                Query(
                    f"sum by (reason) (pulsed_gpu_inputs_inconsistent{{{IT}}})"
                    ' or label_replace(vector(0), "reason", "none", "", "")',
                    "{{reason}}",
                ),
            ),
            "1 while inputs are left out for this reason: a stuck profiler, frozen values, shares far above 1. Restart"
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
            "How old the values were when Prometheus took them. Past source.stale_after they leave the page.",
        ),
    ),
)

SAMPLES = "pulsed_gpu_last_sample_timestamp_seconds"

GPU = Dashboard(
    "pulsed-gpu",
    "pulsed / GPU",
    "One GPU, or one instance of MIG, in depth.",
    (
        Variable("node", "Node", SAMPLES, "node", True, "Narrows the choice of GPUs."),
        Variable("gpu", "GPU", f'{SAMPLES}{{node=~"$node"}}', "gpu", False, "Index on its node."),
        Variable("uuid", "UUID", f'{SAMPLES}{{node=~"$node",gpu="$gpu"}}', "uuid", False, "The board."),
        Variable(
            "mig_id",
            "MIG instance",
            f'{SAMPLES}{{uuid="$uuid",mig_id!=""}}',
            "mig_id",
            False,
            "Instance of a board that is split; there is none on a whole GPU.",
        ),
    ),
    (NOW, UTILIZATION, SATURATION, ACTIVITY, TRAFFIC, POWER, ERRORS, ACCOUNT, TRUST),
)
