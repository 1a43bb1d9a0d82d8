"""Alerts on the monitoring itself: daemons, sources, clocks, GPUs and nodes that are no longer reported, and inputs.

Absence raises an alert: a GPU that nothing reports has no other alert.
"""

from __future__ import annotations

from pulsed.compute.plausibility_rules import RULES as PLAUSIBILITY
from pulsed.compute.settings import ComputeSettings
from pulsed.present.promql.rule_types import DAEMON, GPU, UNMONITORED, Alert, last_seen, lookup, number
from pulsed.translate.units import ANOMALIES

JOBS = "pulsed.*"
"""Regular expression of the jobs of the documented scrape configurations and of the chart's monitors."""

AHEAD_SECONDS, BEHIND_SECONDS = 15, 120
"""A sample from the future, or an old one of a source that delivers: the clocks of the daemon and Prometheus differ."""

_MISSING_WHY = (
    "Too few of SM, tensor, DRAM and graphics engine activity are present for a real utilization. Collect"
    " DCGM_FI_PROF_SM_ACTIVE, _PIPE_TENSOR_ACTIVE, _DRAM_ACTIVE and _GR_ENGINE_ACTIVE; another tool may hold"
    " profiling, or the board may not support it."
)
_GONE_WHY = (
    "Run nvidia-smi on the node: if it does not list the GPU, drain the node and restart it; if it does, restart the"
    " exporter. After planned removal, silence the alert; it ends within a day."
)
_INCONSISTENT_WHY = (
    "".join(
        f"{{{{ if eq $labels.reason `{reason}` }}}}{meaning}. {{{{ end }}}}"
        for reason, meaning in (*((rule.reason, rule.meaning) for rule in PLAUSIBILITY), *ANOMALIES.items())
    )
    + "Implausible values count as missing, not as idle. If counters are stuck or frozen, restart the host engine and"
    " the exporter; a share that was cut to 1 is harmless."
)


def monitoring_alerts(settings: ComputeSettings) -> tuple[Alert, ...]:
    """Return the alerts on pulsed's own metrics, without `gone_alerts`."""
    return (*_of_daemons(), *_of_owners(), *_of_inputs(settings))


def _of_daemons() -> tuple[Alert, ...]:
    daemon = "on (cluster, job, instance)"
    sampled = "pulsed_source_last_sample_timestamp_seconds"
    earlier = f"group by (cluster, job, instance, node, gpu, uuid) ({_within_a_day(BOARDS)})"
    skew = f"{sampled} - timestamp({sampled})"
    return (
        Alert(
            "PulsedDaemonDown",
            f'(\n  up{{job=~"{JOBS}"}} == 0\n  or up == 0 and {daemon} ({_within_a_day("pulsed_build_info")})\n'
            f"  or ({_within_a_day('pulsed_push_up')}) unless {daemon} pulsed_push_up\n)\n"
            f"unless {daemon} (\n  {_within_a_day(BOARDS)} and on (cluster, node) (\n  {REMOVED}\n  )\n"
            f"  unless {daemon} (\n  {_within_a_day(BOARDS)} unless on (cluster, node) (\n  {REMOVED}\n  )\n  )\n)",
            "5m",
            "warning",
            f"{DAEMON} {{{{ if eq $value 0.0 }}}}does not answer Prometheus{{{{ else }}}}no longer sends its series"
            "{{ end }}",
            f"{UNMONITORED}{last_seen('up{job=%q,instance=%q} == 1', 'job', 'instance')}Check that the node is up, that"
            " the service or pod runs (`systemctl status pulsed`, `kubectl get pods`), and that Prometheus reaches"
            " {{ $labels.instance }}.",
        ),
        Alert(
            "PulsedNodeWithoutGpus",
            f"count by (cluster, job, instance, node) ({earlier})\n"
            f"unless on (cluster, node) {BOARDS}\nunless on (cluster, node) (\n  {REMOVED}\n)",
            "10m",
            "warning",
            "{{ $labels.node }} reports no GPU ({{ $value }} before)",
            f"{last_seen('pulsed_gpu_info{node=%q}', 'node')}Check that the node is up, that pulsed at"
            " {{ $labels.instance }} and its source run, and that nvidia-smi lists GPUs. After planned removal, silence"
            " the alert; it ends within a day.",
        ),
        Alert(
            "PulsedSourceDown",
            "pulsed_source_up == 0",
            "5m",
            "warning",
            f"{DAEMON} cannot read {{{{ $labels.source }}}}",
            "Its GPUs are not monitored{{ with "
            + lookup(f"time() - {sampled}{{instance=%q,source=%q}}", "instance", "source")
            + " }}; the last sample is {{ . | first | value | humanizeDuration }} old{{ end }}. The log has the reason,"
            " and `pulsed doctor` on the node the remedy: usually the host engine or the exporter is down, or another"
            " tool holds the profiling module.",
        ),
        Alert(
            "PulsedNoData",
            f"pulsed_build_info\nunless {daemon} pulsed_gpu_info\nunless {daemon} pulsed_source_up == 0",
            "15m",
            "warning",
            "pulsed at {{ $labels.instance }} reports no GPU",
            "Its sources work but list no GPU, or `gpus` in the configuration selects none. Check with `pulsed "
            "doctor`; do not run pulsed on nodes without GPUs.",
        ),
        Alert(
            "PulsedSourceRestarting",
            "increase(pulsed_source_restarts_total[30m]) > 3",
            "10m",
            "warning",
            f'{DAEMON} restarted {{{{ $labels.source }}}} {{{{ $value | printf "%.0f" }}}} times in 30 minutes',
            "Its child process, `dcgmi dmon`, ends repeatedly, and readings are missing in between. Check the host"
            " engine (`systemctl status nvidia-dcgm`); the log of pulsed has the last output.",
        ),
        Alert(
            "PulsedClockSkew",
            f"({skew} > {AHEAD_SECONDS}\n"
            f"or {skew} < -{BEHIND_SECONDS} and on (cluster, job, instance, source) pulsed_source_up == 1)\n"
            f'unless {daemon} pulsed_source_info{{kind="replay"}}',
            "10m",
            "warning",
            f'{DAEMON} has a different time than Prometheus: {{{{ $value | printf "%.0f" | reReplaceAll "^-" "" }}}} s'
            "{{ if gt $value 0.0 }} ahead{{ else }} behind{{ end }}",
            "Rates, ages and the times of events are wrong. Check time synchronization (chrony,"
            " systemd-timesyncd) on both hosts, and the clock of a remote exporter.",
        ),
        Alert(
            "PulsedOwnersWithoutSeries",
            "max by (cluster, job, instance) (pulsed_owners_without_series) > 0",
            "15m",
            "warning",
            f"{DAEMON}: {{{{ $value }}}} owners or workloads have no series",
            "There are more than publish.max_owners. The newest have no alerts, and are missing from the sums by "
            "namespace and user. Raise publish.max_owners (about 10 series each); /jobs and /workloads have all. "
            "With group=accounts a GPU has more than 8 owners, and reports show the rest as other owners.",
        ),
        Alert(
            "PulsedConfigReloadFailed",
            "pulsed_config_last_reload_successful == 0",
            "5m",
            "warning",
            f"{DAEMON} rejected its new configuration",
            "The old one remains active. `pulsed check-config FILE` names the key and what is allowed; correct it "
            "and reload the service.",
        ),
    )


def _of_owners() -> tuple[Alert, ...]:
    source = "on (cluster, job, instance, source)"
    denied = 'increase(pulsed_attribution_errors_total{reason="forbidden"}[10m]) > 0'
    return (
        Alert(
            "PulsedOwnersDenied",
            f"sum without (reason) ({denied})",
            "5m",
            "warning",
            f"{DAEMON} may not read owners from {{{{ $labels.source }}}}",
            "New pods have no workload, and autoscaling keeps the replicas. The log names the missing "
            "right; the chart grants it with `rbac.create`.",
        ),
        Alert(
            "PulsedOwnersUnknown",
            f'pulsed_attribution_up{{source!="labels"}} == 0\nunless {source} {denied}',
            "5m",
            "warning",
            f"{DAEMON} cannot read owners from {{{{ $labels.source }}}}",
            "Known owners are kept; new jobs and pods have no owner or no workload. The log has the reason: the API "
            "server, the kubelet or the directory of jobs cannot be read.",
        ),
    )


def gone_alerts() -> tuple[Alert, ...]:
    """Return the alert on GPUs that were there within a day."""
    # A node can move to another daemon.
    gpus = f"max by (cluster, node) (count by (cluster, job, instance, node) ({BOARDS}))"
    gone = f"max_over_time(({gpus})[{EARLIER}:15m])\n- {gpus} > 0"
    missing = f'last_over_time(pulsed_gpu_info{{mig_id="",node=%q}}[{EARLIER}])'
    lines = lookup(f"group by (gpu, uuid) ({missing}) unless on (uuid) pulsed_gpu_info{{node=%q}}", *["node"] * 2)
    return (
        Alert(
            "PulsedGpuGone",
            gone,
            "10m",
            "warning",
            "{{ $labels.node }} no longer reports {{ $value }} of its GPUs",
            f'{{{{ range {lines} | sortByLabel "gpu" }}}}'
            "GPU {{ .Labels.gpu }}: {{ .Labels.uuid }}. {{ end }}"
            f"The node reports other GPUs. {_GONE_WHY}",
        ),
    )


def _of_inputs(settings: ComputeSettings) -> tuple[Alert, ...]:
    return (
        Alert(
            "PulsedGpuInputsMissing",
            f"pulsed_gpu_real_utilization_coverage_ratio < {number(settings.real_utilization.min_coverage)}",
            "1h",
            "info",
            f"{GPU} lacks inputs: coverage {{{{ $value | humanizePercentage }}}}",
            _MISSING_WHY + " `pulsed doctor` on the node lists them.",
        ),
        Alert(
            "PulsedGpuInputsInconsistent",
            "pulsed_gpu_inputs_inconsistent == 1",
            "15m",
            "warning",
            f"{GPU} has implausible readings: {{{{ $labels.reason }}}}",
            _INCONSISTENT_WHY,
        ),
    )


EARLIER = "1d"
"""Time for which what is gone is looked for: without a gap, so that an alert does not come back."""


BOARDS = 'pulsed_gpu_info{mig_id=""}'
"""Every GPU, a board with MIG instances once."""

_LEFT = "25h"
"""Longer than `EARLIER`: a node may leave its cluster before its daemon ends."""

_NODES = "group by (cluster, node) (kube_node_info)"
REMOVED = (
    f"group by (cluster, node) (last_over_time(kube_node_info[{_LEFT}]))\n"
    f"  unless on (cluster, node) {_NODES} and on (cluster) group by (cluster) (kube_node_info)"
)
"""Nodes that their cluster has no more, where kube-state-metrics is scraped: an autoscaler has removed them."""


def _within_a_day(series: str) -> str:
    """Return what there was within a day."""
    return f"last_over_time({series}[{EARLIER}])"
