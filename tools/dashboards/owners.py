"""The dashboard of owners: GPU hours and waste by user, account and namespace, the worst jobs, and one job in depth."""

from __future__ import annotations

from pulsed.model.health import SEVERITY
from pulsed.present.promql.rule_types import GPU_KEY
from tools.dashboards.model import Annotation, Dashboard, Limits, Panel, Query, Row, State, TextBox, Variable
from tools.dashboards.panel_kinds import chart, number
from tools.dashboards.promql import GPU, HOUR, KILOWATT_HOUR, RANGE, RATE, SCOPE, state_number
from tools.dashboards.units import CELSIUS, COUNT, HOURS, KWH, RATIO, WATT
from tools.dashboards.value_colors import BAD_FROM_ONE, CLASSES, SEVERITIES, USE
from tools.dashboards.variables import SCRAPE_VARIABLES, SCRAPED

_JOB = 'user=~"$user",account=~"$account"'
_POD = 'namespace=~"$namespace"'
CHOSEN = f'{SCOPE},{_JOB},{_POD},job_id=~"$job_id",pod=~"$pod"'
"""The owners that were chosen: series without a label match `All` only, so a chosen job excludes all pods."""

OWNER = "cluster, job_id, user, account, namespace, pod"
LEGEND = "{{job_id}}{{pod}} {{user}}{{namespace}}"
ON_GPU = f"on ({GPU_KEY})"
OWNED = f"pulsed_gpu_owner_info{{{CHOSEN}}}"
KNOWN = f"pulsed_attribution_up{{{SCOPE}}} == 1"
"""Sources of owners that can be read: without owners, there is none."""

WASTE: Limits = ((None, "green"), (0.5, "orange"))
BUSY, IDLE = State(0, "in use", "green"), State(1, "idle", "orange")
"""Names and colours of lines."""


def now(name: str) -> str:
    """Return a gauge of the chosen jobs and pods."""
    return f"(pulsed_job_{name}{{{CHOSEN}}} or pulsed_pod_{name}{{{CHOSEN}}})"


def grown(name: str, over: str = RANGE, function: str = "increase") -> str:
    """Return the growth of a counter of the chosen jobs and pods, of those that have ended, too."""
    job, pod = (f"{function}(pulsed_{group}_{name}_total{{{CHOSEN}}}[{over}])" for group in ("job", "pod"))
    return f"({job} or {pod})"


def total(by: str, name: str, over: str = RANGE, function: str = "increase") -> str:
    """Return the sum of a counter's growth."""
    return f"sum by ({by}) {grown(name, over, function)}"


def hours(by: str, name: str) -> str:
    """Return GPU hours of the range."""
    return f"{total(by, name)} / {HOUR}"


def energy(by: str, name: str) -> str:
    """Return kilowatt hours of the range."""
    return f"{total(by, name)} / {KILOWATT_HOUR}"


def average_utilization(by: str, over: str = RANGE) -> str:
    """Return the exact average of the real utilization over the GPU time in which it is known, if it ever is."""
    used, had, unknown = (
        total(by, name, over, "rate")
        for name in ("real_utilization_seconds", "gpu_seconds", "real_utilization_unknown_seconds")
    )
    return f"{used} / ({had} - {unknown} > 0.001)"


OVERVIEW = Row(
    "Overview",
    (
        number(
            "Jobs",
            f"count(group by (cluster, job_id) (pulsed_job_gpus{{{CHOSEN}}})) or 0 * count({KNOWN})",
            "Slurm jobs that have GPUs now.",
            opens="GPUs",
        ),
        number(
            "Pods",
            f"count(group by (cluster, namespace, pod) (pulsed_pod_gpus{{{CHOSEN}}})) or 0 * count({KNOWN})",
            "Pods that have GPUs now.",
            opens="GPUs",
        ),
        number(
            "GPUs with an owner",
            f"count(group by ({GPU}) ({OWNED})) or 0 * count({KNOWN})",
            "GPUs and MIG instances that the chosen jobs and pods have now.",
            opens="GPUs of the jobs and pods",
        ),
        number(
            "GPU hours",
            hours("", "gpu_seconds"),
            "Observed GPU time of the range. Shared GPUs count once.",
            HOURS,
            opens="Users",
        ),
        number(
            "Idle GPU hours",
            hours("", "idle_seconds"),
            "GPU time of the range in which the GPU was idle while its owner had it.",
            HOURS,
            WASTE,
            opens="Users",
        ),
        number(
            "Idle share",
            f"{total('', 'idle_seconds')} / ({total('', 'gpu_seconds')} > 0)",
            "Idle GPU time over GPU time.",
            RATIO,
            ((None, "green"), (0.2, "orange"), (0.5, "red")),
            opens="Idle",
        ),
        number(
            "Real utilization",
            average_utilization(""),
            "Average real utilization over the range, from counters. Investigate values below 20 %.",
            RATIO,
            USE,
            opens="Least used",
        ),
        number(
            "Energy",
            energy("", "energy_joules"),
            "Energy of the GPUs while they had an owner.",
            KWH,
            opens="Users",
        ),
        number(
            "Energy while idle",
            energy("", "idle_energy_joules"),
            "Energy of the GPUs while they had an owner and were idle.",
            KWH,
            opens="Users",
        ),
        number(
            "Idle GPUs now",
            f"sum {grown('idle_seconds', RATE, 'rate')}",
            "Average number of GPUs that are idle while a job or pod has them.",
            limits=WASTE,
            opens="Idle",
        ),
        number(
            "Power now",
            f"sum {now('power_watts')}",
            "Power of the GPUs that have an owner.",
            WATT,
            opens="Power",
        ),
        number(
            "Owners without series",
            f"sum(increase(pulsed_jobs_dropped_total{{{SCOPE}}}[{RANGE}]))",
            "Jobs and pods of the range that are above publish.max_owners, and missing here. They are in /jobs.",
            limits=BAD_FROM_ONE,
            opens="GPUs of the jobs and pods",
        ),
    ),
)


def _ranked(title: str, by: str, meaning: str) -> Panel:
    """Return the table of GPU hours and waste by a label."""
    ranking = f"topk(20, {hours(by, 'gpu_seconds')})"

    def among(expr: str) -> str:
        return f"{expr} and on ({by}) {ranking}"

    return Panel(
        title,
        "table",
        meaning,
        (
            Query(ranking, "GPU hours", HOURS),
            Query(among(hours(by, "idle_seconds")), "Idle", HOURS),
            Query(among(average_utilization(by)), "Real utilization", RATIO),
            Query(among(energy(by, "energy_joules")), "Energy", KWH),
            Query(among(energy(by, "idle_energy_joules")), "Energy while idle", KWH),
        ),
    )


def _over_time(title: str, by: str, name: str, meaning: str) -> Panel:
    rate = total(by, name, RATE, "rate")
    none = f'label_replace(0 * {total("", "gpu_seconds", RATE, "rate")}, "{by}", "none", "", "")'
    return Panel(
        title, "timeseries", meaning, (Query(f"({rate} > 0) or {none}", f"{{{{{by}}}}}"),), width=6, stacked=True
    )


_EMPTY = "Rows without a name have none, such as pods without a user. "
SUMS = Row(
    "By user, account and namespace",
    (
        _ranked("Users", "user", f"The 20 users with the most GPU hours in the range. {_EMPTY}"),
        _ranked("Accounts", "account", f"The 20 accounts with the most GPU hours in the range. {_EMPTY}"),
        _ranked("Namespaces", "namespace", f"The 20 namespaces with the most GPU hours in the range. {_EMPTY}"),
        _over_time("GPUs by user", "user", "gpu_seconds", "Average number of GPUs that each user had."),
        _over_time("Idle GPUs by user", "user", "idle_seconds", "Average number of idle GPUs that each user had."),
        _over_time("GPUs by namespace", "namespace", "gpu_seconds", "Average number of GPUs of each namespace."),
        _over_time("Idle GPUs by namespace", "namespace", "idle_seconds", "Average number of idle GPUs per namespace."),
    ),
)


def _worst(title: str, meaning: str, ranking: str, first: Query) -> Panel:
    """Return a table of owners, of which `ranking` has those that are shown."""

    def among(expr: str) -> str:
        return f"{expr} and on ({OWNER}) {ranking}"

    return Panel(
        title,
        "table",
        meaning,
        (
            first,
            Query(among(f"sum by ({OWNER}) {now('gpus')}"), "GPUs"),
            Query(among(total(OWNER, "idle_seconds", RATE, "rate")), "Idle GPUs"),
            Query(among(average_utilization(OWNER)), "Real utilization", RATIO),
            Query(among(hours(OWNER, "idle_seconds")), "Idle GPU hours", HOURS),
            Query(among(energy(OWNER, "idle_energy_joules")), "Energy while idle", KWH),
        ),
        width=12,
        height=9,
    )


_IDLE_SHARE = f"{total(OWNER, 'idle_seconds', RATE, 'rate')} / ({total(OWNER, 'gpu_seconds', RATE, 'rate')} > 0.001)"
_MAX_IDLE = f"topk(20, {_IDLE_SHARE})"
_MIN_USED = f"bottomk(20, {average_utilization(OWNER, RATE)})"
WORST = Row(
    "Worst jobs and pods now",
    (
        _worst(
            "Idle",
            "The 20 jobs and pods whose GPUs are idle for the largest share of the time now. Their owners should"
            " release them. The job or pod links to its details below.",
            _MAX_IDLE,
            Query(_MAX_IDLE, "Idle share now", RATIO),
        ),
        _worst(
            "Least used",
            "The 20 jobs and pods with the lowest real utilization now: slow data loading, small batches, or waiting.",
            _MIN_USED,
            Query(_MIN_USED, "Real utilization now", RATIO),
        ),
    ),
)

_LOWEST = (
    f"bottomk(20, pulsed_gpu_owner_info{{{CHOSEN}}} @ end() * {ON_GPU} group_left ()"
    f" avg_over_time(pulsed_gpu_real_utilization_ratio{{{SCOPE}}}[{RANGE}] @ end()))"
)
"""The GPUs that are shown as lines: the same ones at every step."""


def _of_gpus(metric: str) -> str:
    return f"pulsed_gpu_{metric}{{{SCOPE}}} and {ON_GPU} {_LOWEST}"


_GPU_LEGEND = "{{node}} / {{gpu}} {{mig_id}}"
_CHECKS = f"(pulsed_gpu_health_check{{{SCOPE}}} > 0 and on (cluster, node, uuid) {OWNED})"
_XIDS = (
    f"(increase(pulsed_gpu_xid_events_total{{{SCOPE}}}[{RANGE}])"
    f" and on (cluster, node, uuid) last_over_time({OWNED}[{RANGE}]))"
)
_NONE = f"0 * count({OWNED})"
_SHOWN = f"topk(64, {OWNED})"
DEPTH = Row(
    "Chosen jobs and pods",
    (
        Panel(
            "GPUs",
            "timeseries",
            "Average number of GPUs in use and idle. A job that ends with idle GPUs waits for one of its parts.",
            (
                Query(
                    f"sum {grown('gpu_seconds', RATE, 'rate')} - sum {grown('idle_seconds', RATE, 'rate')}", BUSY.text
                ),
                Query(f"sum {grown('idle_seconds', RATE, 'rate')}", IDLE.text),
            ),
            stacked=True,
            states=(BUSY, IDLE),
        ),
        Panel(
            "Real utilization by owner",
            "timeseries",
            "Average real utilization of the 20 least used jobs and pods of the range.",
            (
                Query(
                    f"{average_utilization(OWNER, RATE)} and on ({OWNER})"
                    f" bottomk(20, {average_utilization(OWNER).replace(f'[{RANGE}]', f'[{RANGE}] @ end()')})",
                    LEGEND,
                ),
            ),
            RATIO,
            top=1.0,
        ),
        chart(
            "Real utilization by GPU",
            RATIO,
            (Query(_of_gpus("real_utilization_ratio"), _GPU_LEGEND),),
            "The 20 least used GPUs. One far below the others of its job: a straggler, or a rank without work.",
            1.0,
        ),
        Panel(
            "Time by class",
            "timeseries",
            "Average number of GPUs by workload class, shared GPUs in full. io_or_data_loading: speed up data loading.",
            (
                Query(
                    f"sum by (class) (rate(pulsed_gpu_workload_class_seconds_total{{{SCOPE}}}[{RATE}])"
                    f" and {ON_GPU} {OWNED}) > 0",
                    "{{class}}",
                ),
            ),
            stacked=True,
            states=CLASSES,
        ),
        chart(
            "Device memory by GPU",
            RATIO,
            (Query(_of_gpus("memory_used_ratio"), _GPU_LEGEND),),
            "Device memory in use over its size, of the same GPUs. Programs may reserve more than they need.",
            1.0,
        ),
        Panel(
            "Power",
            "timeseries",
            "Power by job and pod; of a shared GPU its share.",
            (Query(f"sum by ({OWNER}) {now('power_watts')}", LEGEND),),
            WATT,
            stacked=True,
        ),
        Panel(
            "GPUs of the jobs and pods",
            "table",
            "Up to 64 GPUs with their owners. The node and the GPU link to the GPU dashboard, the job and the pod to"
            " their report on the page of pulsed.",
            (
                Query(
                    f"{_SHOWN} * {ON_GPU} group_left () pulsed_gpu_real_utilization_ratio{{{SCOPE}}}",
                    "Real utilization",
                    RATIO,
                ),
                Query(
                    f"{_SHOWN} * {ON_GPU} group_left () pulsed_gpu_memory_used_ratio{{{SCOPE}}}", "Memory used", RATIO
                ),
                Query(f"{_SHOWN} * {ON_GPU} group_left () pulsed_gpu_power_watts{{{SCOPE}}}", "Power", WATT),
                Query(
                    f"{_SHOWN} * {ON_GPU} group_left () pulsed_gpu_temperature_celsius{{{SCOPE}}}",
                    "Temperature",
                    CELSIUS,
                ),
                Query(
                    f"{_SHOWN} * {ON_GPU} group_left ()"
                    f" ({state_number('pulsed_gpu_workload_class', 'class', CLASSES, SCOPE, f'cluster, {GPU}')})",
                    "Class now",
                    states=CLASSES,
                ),
            ),
            width=24,
            links_to_daemon=True,
        ),
        Panel(
            "Raised health checks",
            "table",
            "The 20 worst checks of these GPUs. The check links to its runbook.",
            (
                Query(
                    f'topk(20, {_CHECKS}) or label_replace({_NONE} unless on () {_CHECKS}, "check", "none", "", "")',
                    "State",
                    states=SEVERITIES,
                ),
            ),
            width=16,
        ),
        Panel(
            "XIDs",
            "bargauge",
            "XID errors of these GPUs in the range, by code, also of earlier owners; the runbook lists what to do.",
            (
                Query(
                    f"sort_desc(topk(10, (sum by (xid) {_XIDS} > 0)"
                    f' or label_replace({_NONE} unless on () ({_XIDS} > 0), "xid", "none", "", "")))',
                    "XID {{xid}}",
                ),
            ),
            limits=BAD_FROM_ONE,
            runbook="xids",
        ),
    ),
)


def _variables() -> tuple[Variable, ...]:
    info = f"pulsed_gpu_owner_info{{{SCRAPED}"
    return (
        *SCRAPE_VARIABLES,
        Variable("account", "Account", f"{info}}}", "account", True, "Account of Slurm jobs."),
        Variable("user", "User", f'{info},account=~"$account"}}', "user", True, "User of Slurm jobs."),
        Variable("namespace", "Namespace", f"{info}}}", "namespace", True, "Namespace of pods."),
        Variable("job_id", "Slurm job", f"{info},{_JOB}}}", "job_id", True, "Id of the Slurm job."),
        Variable("pod", "Pod", f"{info},{_POD}}}", "pod", True, "Name of the pod."),
    )


_SERVED = "namespace, pod"
"""Labels of the join with the series of inference servers, which Prometheus' discovery of pods adds."""

_SERVERS = 'namespace=~"$namespace",pod=~"$pod"'
_TOKENS = (
    f"sum by ({_SERVED}) (rate({{__name__=~"
    '"vllm:generation_tokens_total|sglang:generation_tokens_total|tgi_request_generated_tokens_sum'
    f'|nv_llm_output_token_len_sum",{_SERVERS}}}[{RATE}]))'
)
_CACHE = (
    f"max by ({_SERVED}) ({{__name__=~"
    f'"vllm:kv_cache_usage_perc|vllm:gpu_cache_usage_perc|sglang:token_usage",{_SERVERS}}}'
    f' or nv_trt_llm_kv_cache_block_metrics{{kv_cache_block_type="fraction",{_SERVERS}}})'
)
_QUEUE = (
    f"sum by ({_SERVED}) ({{__name__=~"
    f'"vllm:num_requests_waiting|sglang:num_queue_reqs|tgi_queue_size",{_SERVERS}}}'
    f' or nv_trt_llm_request_metrics{{request_type="waiting",{_SERVERS}}})'
)


def _of_servers(title: str, expr: str, meaning: str, unit: str = COUNT) -> Panel:
    """Return a panel with a line per pod of an inference server."""
    return Panel(title, "timeseries", meaning, (Query(expr, "{{namespace}}/{{pod}}"),), unit)


INFERENCE = Row(
    "Inference (where Prometheus scrapes vLLM, SGLang, TGI or Triton)",
    (
        _of_servers(
            "Tokens per second and GPU",
            f"{_TOKENS} / on ({_SERVED}) sum by ({_SERVED}) (pulsed_pod_gpus{{{SCOPE}}})",
            "Generated tokens per second over the GPUs of the pod.",
        ),
        _of_servers(
            "Energy per token",
            f"sum by ({_SERVED}) (rate(pulsed_pod_energy_joules_total{{{SCOPE}}}[{RATE}]))"
            f" / on ({_SERVED}) ({_TOKENS} > 0)",
            "Joules of the GPUs of the pod per generated token.",
            "joule",
        ),
        _of_servers(
            "Real utilization of servers",
            f"max by ({_SERVED}) (pulsed_pod_real_utilization_ratio{{{SCOPE}}}) and on ({_SERVED}) ({_TOKENS})",
            "Real utilization of the GPUs of pods that generate tokens. Little work with a queue: small batches.",
            RATIO,
        ),
        _of_servers("KV cache in use", _CACHE, "Share of the KV cache in use. TGI has no such series.", RATIO),
        _of_servers("Queue", _QUEUE, "Requests that wait. Add replicas while it grows and the KV cache is full."),
    ),
)

_FEW_OWNERS = f"count(group by ({OWNER}) (last_over_time({OWNED}[{RANGE}] @ end()))) <= 8"
"""True where the chosen owners can be told apart as regions of a chart."""

OWNERS = Dashboard(
    "pulsed-owners",
    "pulsed / Owners",
    "GPU hours and waste by user, account and namespace, the worst jobs and pods now, and one of them in depth.",
    _variables(),
    (OVERVIEW, SUMS, WORST, DEPTH, INFERENCE),
    (
        Annotation(
            "XIDs",
            f"topk(20, sum by (node, gpu, xid) (increase(pulsed_gpu_xid_events_total{{{SCOPE}}}[{RATE}])"
            f" and on (cluster, node, uuid) {OWNED}) > 0)",
            "XID {{xid}} of {{node}} / {{gpu}}",
            "orange",
        ),
        Annotation(
            "Health",
            f"topk(20, max by (node, gpu, check) (pulsed_gpu_health_check{{{SCOPE}}} >= {SEVERITY['warn']}"
            f" and on (cluster, node, uuid) {OWNED}))",
            "{{check}} of {{node}} / {{gpu}}",
            "red",
        ),
        Annotation("Owners", f"max by ({OWNER}) ({OWNED}) and on () {_FEW_OWNERS}", LEGEND, "blue"),
    ),
    points=120,  # rates are averages over a point, so that none is missed
    texts=(
        TextBox(
            "page",
            "Pages of pulsed",
            "http://",
            "What precedes the address of a daemon (the label instance) in links to its page: https://, or a proxy.",
        ),
    ),
)
