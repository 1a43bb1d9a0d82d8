"""The alerts, as tables: on series recorded from dcgm-exporter's, and on pulsed's own.

An alert is one entry. Those on pulsed's own metrics use its counters, which miss nothing between scrapes; the others
use averages of what was recorded. `for` comes on top of the time that an expression looks back: a GPU that has
only just appeared does not fire.
"""

from __future__ import annotations

from pulsed.compute.derive import ComputeSettings
from pulsed.present.promql.inputs import input_of
from pulsed.present.promql.rule_types import SEEN, Alert, number
from pulsed.present.promql.utilization import COVERAGE, POINT
from pulsed.present.promql.waste import HELD, IDLE, IDLE_POWER

NEARLY_ALWAYS = 0.95
"""Share of time that counts as all of it: a health check or a forgotten monitor may wake a GPU now and then."""

LOW_RATIO = 0.15
"""A GPU in use whose real utilization stays below this does little; the class table's low_utilization starts there."""

KILOWATT_HOUR = 3.6e6

WASTED_KILOWATT_HOURS = 1.0
"""A day. An idle data centre GPU with a CUDA context draws 50 to 120 W: one is reached in 8 to 20 hours."""

_OF_DCGM = (
    "GPU {{ $labels.gpu }}{{ with $labels.GPU_I_ID }} instance {{ . }}{{ end }}"
    " of {{ $labels.Hostname }}{{ $labels.hostname }}"
)
_OF_PULSED = "GPU {{ $labels.gpu }}{{ with $labels.mig_id }} instance {{ . }}{{ end }} of {{ $labels.node }}"

_HELD_WHY = (
    "A pod or job has it, or its memory is in use, and it was idle for an hour. Ask the owner to release it;"
    " notebooks and crashed jobs are the usual cause."
)
_LOW_WHY = (
    "It is in use, but its SMs, tensor cores and memory do little. Check the workload class and bottleneck: io means"
    " slow data loading, low_utilization small batches or a slow host."
)
_MISSING_WHY = (
    "Too few of SM, tensor, DRAM and graphics engine activity are present for a real utilization. Collect"
    " DCGM_FI_PROF_SM_ACTIVE, _PIPE_TENSOR_ACTIVE, _DRAM_ACTIVE and _GR_ENGINE_ACTIVE; another tool may hold"
    " profiling, or the board may not support it."
)
_ENERGY_WHY = (
    "This energy was used by a GPU that was idle while held. Have it released, or limit how long idle GPUs may be held."
)
_GONE_WHY = (
    "It was reported an hour ago. Check that the node is up, that nvidia-smi lists it (XID 79: fallen off the bus)"
    " and that the exporter runs. After planned removal the alert ends within an hour."
)
_STUCK_WHY = (
    "The driver reports kernels nearly all the time, but profiling reports no activity. `dcgmi dmon -e 1001`, or a"
    " restart of the host engine, has helped (dcgm-exporter issue 662). Until then the GPU's activity is unknown, not"
    " idle."
)


def dcgm_alerts(settings: ComputeSettings) -> tuple[Alert, ...]:
    """Give the alerts on series that the recording rules make."""
    busy, engine = input_of("gpu_utilization_ratio"), input_of("graphics_engine_active_ratio")
    energy = input_of("energy_joules_total")
    return (
        Alert(
            "DcgmGpuIdleHeld",
            f'avg_over_time({IDLE}{{kind="held"}}[30m]) >= {NEARLY_ALWAYS}',
            "30m",
            "warning",
            f"{_OF_DCGM} is held and idle",
            _HELD_WHY,
        ),
        Alert(
            "DcgmGpuLowRealUtilization",
            f"avg_over_time({POINT}[1h]) < {LOW_RATIO}\n"
            f"and {HELD}\n"
            f'and ignoring (kind) avg_over_time({IDLE}{{kind="held"}}[1h]) < 0.5',
            "3h",
            "info",
            f"{_OF_DCGM} has a real utilization of {{{{ $value | humanizePercentage }}}}",
            _LOW_WHY,
        ),
        Alert(
            "DcgmGpuInputsMissing",
            f"{COVERAGE} < {number(settings.min_coverage)}",
            "1h",
            "info",
            f"{_OF_DCGM} lacks inputs: coverage {{{{ $value | humanizePercentage }}}}",
            _MISSING_WHY,
        ),
        Alert(
            "DcgmGpuGone",
            f"{SEEN} offset 1h unless {SEEN}",
            "10m",
            "warning",
            f"{_OF_DCGM} is no longer reported",
            _GONE_WHY,
        ),
        Alert(
            "DcgmGpuReadingsFrozen",
            f"changes({energy}[30m]) == 0 and {energy} offset 30m",
            "15m",
            "warning",
            f"{_OF_DCGM} reports a constant energy counter",
            "The energy counter of a GPU always increases. dcgm-exporter keeps serving the last values if its host"
            " engine hangs: restart both, and ignore this GPU's readings since then.",
        ),
        Alert(
            "DcgmGpuProfilingStuck",
            f"{busy} >= {number(settings.plausible.busy_utilization_ratio)} and {engine} == 0",
            "10m",
            "warning",
            f"{_OF_DCGM} is busy, but its profiling counters stay at 0",
            _STUCK_WHY,
        ),
        Alert(
            "DcgmGpuIdleEnergy",
            f'avg_over_time({IDLE_POWER}{{kind="held"}}[1d]) * 86400 / {number(KILOWATT_HOUR)}'
            f" > {number(WASTED_KILOWATT_HOURS)}\n"
            f"and ignoring (kind) {SEEN} offset 1d",
            "1h",
            "info",
            f'{_OF_DCGM} used {{{{ $value | printf "%.1f" }}}} kWh while held idle, in a day',
            _ENERGY_WHY,
        ),
    )


def pulsed_alerts(settings: ComputeSettings) -> tuple[Alert, ...]:
    """Give the alerts on pulsed's own metrics."""
    observed = "increase(pulsed_gpu_observed_seconds_total[{0}])"
    idle = 'increase(pulsed_gpu_idle_seconds_total{{kind="held"}}[{0}])'
    counted = "increase(pulsed_gpu_real_utilization_seconds_total[6h])"
    known = f"({observed.format('6h')} - increase(pulsed_gpu_real_utilization_unknown_seconds_total[6h]) > 3600)"
    sample = "pulsed_gpu_last_sample_timestamp_seconds"
    gpu = "group by (cluster, node, gpu, uuid, mig_id)"
    return (
        Alert(
            "PulsedGpuIdleHeld",
            f"{idle.format('1h')} / ignoring (kind) ({observed.format('1h')} > 1800) >= {NEARLY_ALWAYS}",
            "10m",
            "warning",
            f"{_OF_PULSED} is held and idle",
            _HELD_WHY,
        ),
        Alert(
            "PulsedGpuLowRealUtilization",
            f"{counted} / {known} < {LOW_RATIO}\n"
            "and sum without (kind) (increase(pulsed_gpu_idle_seconds_total[6h]))"
            f" / {observed.format('6h')} < 0.5",
            "1h",
            "info",
            f"{_OF_PULSED} has a real utilization of {{{{ $value | humanizePercentage }}}}",
            _LOW_WHY,
        ),
        Alert(
            "PulsedGpuInputsMissing",
            f"pulsed_gpu_real_utilization_coverage_ratio < {number(settings.min_coverage)}",
            "1h",
            "info",
            f"{_OF_PULSED} lacks inputs: coverage {{{{ $value | humanizePercentage }}}}",
            _MISSING_WHY + " `pulsed doctor` on the node lists them.",
        ),
        Alert(
            "PulsedGpuGone",
            f"{gpu} ({sample} offset 1h)\nunless {gpu} ({sample})\nand on (cluster, node) {sample}",
            "10m",
            "warning",
            f"{_OF_PULSED} is no longer reported",
            _GONE_WHY,
        ),
        Alert(
            "PulsedSourceDown",
            "pulsed_source_up == 0",
            "5m",
            "warning",
            "pulsed on {{ $labels.instance }} cannot read {{ $labels.source }}",
            "Its GPUs are not monitored. The log has the reason, and `pulsed doctor` on the node the remedy: usually"
            " the host engine or the exporter is down, or another tool holds the profiling module.",
        ),
        Alert(
            "PulsedNoData",
            f"pulsed_build_info unless on (job, instance) {sample}",
            "15m",
            "warning",
            "pulsed on {{ $labels.instance }} reports no GPU",
            "It runs without fresh data. Check pulsed_source_up and the log; do not run it on nodes without GPUs.",
        ),
        Alert(
            "PulsedSourceRestarting",
            "increase(pulsed_source_restarts_total[30m]) > 3",
            "10m",
            "warning",
            "pulsed on {{ $labels.instance }} keeps restarting {{ $labels.source }}",
            "Its child process, `dcgmi dmon`, ends repeatedly. Check the host engine; the log has the last output.",
        ),
        Alert(
            "PulsedGpuInputsInconsistent",
            "pulsed_gpu_inputs_inconsistent == 1",
            "15m",
            "warning",
            f"{_OF_PULSED} has implausible readings: {{{{ $labels.reason }}}}",
            "These inputs count as missing or were clipped to their range. To clear stuck or frozen counters, restart"
            " the host engine; ratios above 1 on MIG instances are a known and harmless DCGM fault.",
        ),
        Alert(
            "PulsedGpuIdleEnergy",
            f'increase(pulsed_gpu_idle_energy_joules_total{{kind="held"}}[1d]) / {number(KILOWATT_HOUR)}'
            f" > {number(WASTED_KILOWATT_HOURS)}",
            "1h",
            "info",
            f'{_OF_PULSED} used {{{{ $value | printf "%.1f" }}}} kWh while held idle, in a day',
            _ENERGY_WHY,
        ),
        Alert(
            "PulsedConfigReloadFailed",
            "pulsed_config_last_reload_successful == 0",
            "5m",
            "warning",
            "pulsed on {{ $labels.instance }} refused its new configuration",
            "The old one stays in force. `pulsed check-config FILE` names the key and what is allowed.",
        ),
    )
