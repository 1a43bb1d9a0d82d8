"""The shapes of the JSON API, for `/openapi.json` and `/docs`.

Answers are built by `documents` and sent as they are; a test compares them with these shapes. Descriptions are fields'
`description`; docstrings are not published.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import GenericAlias
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, create_model
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from pulsed.present.api.container_fields import IDENTITY_KEYS, OPTIONAL_KEYS, OWNER_KEYS, ROW_FIELDS
from pulsed.present.api.derived_fields import SECTIONS, JsonField
from pulsed.present.autoscale import POD_GPU_FIELDS
from pulsed.present.owner_groups import GROUPS
from pulsed.present.owner_totals import FAMILIES


class Shape(BaseModel):
    """Base of all shapes: answers have no undocumented keys."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON schema without the docstring, which `python -OO` does not have."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        schema.pop("description", None)
        return schema


def _list_of(shape: type[Shape]) -> Any:
    """Return the type of a list of a shape that is made at run time."""
    return GenericAlias(list, (shape,))


class NodeAnswer(Shape):
    """Of which daemon an answer is, and when it was given."""

    node: str
    time: str


class NamedGpu(Shape):
    """A GPU or MIG instance."""

    gpu: str
    uuid: str | None
    mig_id: str | None
    node: str


class Failure(Shape):
    """An error."""

    error: str = Field(description="what is wrong and what to do")


class Version(Shape):
    """The version of pulsed and Python."""

    version: str
    python: str


class Host(Shape):
    """CPU and memory of the host, also from inside a container, and of pulsed."""

    cpu_count: int | None
    cpu_busy_ratio: float | None = Field(description="since the request before, or at least 1 s; null at the first")
    load_average: float = Field(description="over one minute")
    memory_bytes: int
    memory_used_bytes: int = Field(description="without what programs can get: caches and free memory")
    pulsed_cpu_seconds: float = Field(description="CPU time of pulsed since its start")
    pulsed_memory_bytes: int = Field(description="resident memory of pulsed")


class ClassRuleShape(Shape):
    """A row of the class table: the first whose conditions all hold gives the class."""

    class_: str = Field(alias="class")
    bottleneck: str
    reason: str | None
    conditions: list[tuple[str, Literal["<", ">="], float]] = Field(description="variable, comparison, threshold")


class DcgmFieldShape(Shape):
    """A DCGM field that fills a quantity."""

    id: int
    name: str


class QuantityShape(Shape):
    """A quantity of `metrics`."""

    meaning: str
    group: str
    fields: list[DcgmFieldShape] = Field(description="the preferred one first; empty if it is computed")
    counters_line: str | None = Field(description="its line in a counters file of dcgm-exporter")


class CheckShape(Shape):
    """A health check: what is wrong when it is raised, when that is, and its inputs."""

    title: str
    rule: str
    inputs: list[str]


class CatalogShape(Shape):
    """The tables behind class and health of a GPU."""

    classes: list[str]
    rules: list[ClassRuleShape]
    variables: dict[str, list[str]] = Field(description="the quantities that determine each variable of the rules")
    weights: dict[str, float] = Field(description="of real utilization")
    quantities: dict[str, QuantityShape]
    checks: dict[str, CheckShape]


class TriedConditionShape(Shape):
    """A condition of a rule, with the bounds of its variable."""

    variable: str
    inputs: list[str] = Field(description="the quantities that determine it; empty for real utilization")
    comparison: Literal["<", ">="]
    threshold: float
    low: float | None
    high: float | None = Field(description="null: unlimited")
    holds: bool | None = Field(description="null: open, by missing inputs")


class TriedRuleShape(Shape):
    """A row of the class table for a GPU."""

    class_: str = Field(alias="class")
    reason: str | None
    holds: bool | None = Field(description="null: the inputs allow this rule and others")
    conditions: list[TriedConditionShape]


class ClassReasonShape(NamedGpu):
    """Why a GPU has the class of its newest sample."""

    time: str
    class_: str = Field(alias="class")
    raw_class: str = Field(description="the class of the newest sample alone")
    candidates: list[str] = Field(description="classes that raw_class may be while it is unknown; else empty")
    rules: list[TriedRuleShape] = Field(description="up to the last one that the inputs allow")
    deciding_inputs: dict[str, QuantityShape] = Field(description="missing inputs that would decide an unknown class")


class ProcessGpu(Shape):
    """A GPU or MIG instance that a process uses."""

    gpu: str
    uuid: str
    mig_id: str | None
    memory_bytes: int | None
    sm_utilization_ratio: float | None = Field(description="share of time with kernels, in the last sampling period")
    mean_utilization_ratio: float | None = Field(description="the same since its start, in accounting mode")
    peak_memory_bytes: int | None = Field(description="since its start, in accounting mode")


class ProcessRow(Shape):
    """A process whose control group belongs to a job or pod, or that uses a GPU."""

    pid: int
    slurm_job: str | None
    pod_uid: str | None
    user: str | None = Field(description="null, like the rest, of a process that uses a GPU and cannot be seen")
    memory_bytes: int | None = Field(description="resident")
    start: str | None
    command: str | None = Field(description="without what looks like a secret; at most 256 characters")
    gpus: list[ProcessGpu] | None = Field(description="the GPUs that it uses; null where the source does not list them")


class Processes(Shape):
    """Processes of jobs and pods, and with the source nvml those that use a GPU."""

    published: bool = Field(description="the key attribution.processes")
    visible: bool | None = Field(description="whether all processes of the host can be seen, not with hidepid; or null")
    processes: list[ProcessRow]


class MigInstance(Shape):
    """A MIG instance on its board."""

    id: str
    profile: str | None
    uuid: str | None


class HealthCheck(Shape):
    """One check of the GPU's health."""

    id: str
    state: str = Field(description="unknown (inputs are absent), ok, info, warn, hot or crit")
    since: str | None
    last_event: str | None = Field(description="time of the last event that raised it")
    covered: bool = Field(description="whether its inputs are present; a latched state outlives them")
    message: str
    evidence: dict[str, float | None] = Field(description="the values that decided")
    remedy: str


class LastXid(Shape):
    """The last XID of a GPU."""

    code: int
    description: str
    time: str | None = Field(description="null if it is older than pulsed's first sample")


class HealthChecks(Shape):
    """The checks of a GPU, beside its derived health."""

    checks: list[HealthCheck]
    last_xid: LastXid | None


class GpuHealthShape(Shape):
    """Health of one GPU, or of a target without any, for scripts."""

    node: str
    gpu: str | None = Field(description="index; null for a target from which no GPU was read")
    uuid: str | None
    mig: MigInstance | None
    model: str | None
    target: str = Field(description="the source that it was read from")
    stale: bool
    state: str
    severity: int
    coverage: float
    last_reset: str | None = Field(description="last reset of the GPU, its driver or its node; null if none was seen")
    problems: list[HealthCheck] = Field(description="checks that are worse than ok")


class PodShape(Shape):
    """A pod that uses the GPU or a part of it."""

    namespace: str
    pod: str
    container: str
    uid: str


class OwnerShape(Shape):
    """A job, pod or process that has GPUs."""

    kind: str = Field(description="slurm_job, pod, process, or nobody")
    id: str
    user: str | None
    user_id: str | None
    account: str | None
    partition: str | None
    cluster: str | None
    name: str | None
    namespace: str | None
    container: str | None
    uid: str | None
    workload: str | None
    workload_kind: str | None
    labels: dict[str, str]


class AttributionShape(Shape):
    """The owners of the GPU."""

    known: bool = Field(description="whether its owners are known; without any it is then free")
    owners: list[OwnerShape] = Field(description="several share it")
    pods: list[PodShape]
    slurm_job: str | None
    processes: list[int] = Field(description="leaders of process groups, with attribution.process_owners")


_Counters = dict[str, float | dict[str, float] | None]


class CountedShape(Shape):
    """Counters over the time in which an owner had GPUs."""

    gpu_seconds: float = Field(description="observed time, of a shared GPU an equal share")
    observed_seconds: float = Field(description="observed time, also of shared GPUs")
    bridged_joules: float = Field(description="energy while pulsed did not run, by the GPU's own counter")
    counters: _Counters = Field(description="counters of METRICS.md, with equal shares of shared GPUs")
    lower: _Counters = Field(description="at least: without shared time")
    upper: _Counters = Field(description="at most: all of shared time, and of samples in which it began or ended")


class AccountingShape(Shape):
    """Counters over all observed time of a GPU, with and without an owner."""

    since: str | None = Field(description="time of the first sample; null before it")
    counters: _Counters = Field(description="counters of METRICS.md without prefix; states that are 0 are absent")


class PeaksShape(Shape):
    """The largest values of the samples."""

    memory_used_bytes: float | None
    power_watts: float | None
    temperature_celsius: float | None


class IdleRunsShape(Shape):
    """Runs of idle samples."""

    longest_seconds: float
    last_seconds: float = Field(description="the run at the end; 0 if the last sample was not idle")


class OwnerEventShape(Shape):
    """A change of a GPU's health while the owner had it, or of a finding."""

    time: str
    check: str | None = Field(description="a health check, `hang` or `straggler`; null for the GPU as a whole")
    before: str
    after: str
    message: str
    remedy: str = Field(description="what to do; empty for findings and where a check is no longer raised")


class GpuAccountShape(CountedShape, NamedGpu):
    """What an owner got out of one GPU."""

    model: str | None
    memory_bytes: float | None = Field(description="size of its device memory")
    shared_by: int = Field(description="most owners at a time; 1: not shared")
    held_seconds: float
    coverage: float | None
    boundary_seconds: float
    samples: int
    peaks: PeaksShape
    idle_runs: IdleRunsShape
    violations: dict[str, float | None]
    events: list[OwnerEventShape]


class AdviceShape(Shape):
    """What to do about a job, and the numbers that it follows from."""

    id: str
    evidence: str
    text: str


class CostShape(Shape):
    """Cost by the prices of the configuration, in `currency`."""

    currency: str
    per_gpu_hour: float | None
    per_kwh: float | None
    gpu_time: float = Field(description="of `total.gpu_seconds`")
    energy: float | None = Field(description="null if the energy is unknown")
    total: float | None


class AccountShape(Shape):
    """What an owner got out of its GPUs."""

    owner: OwnerShape
    state: str = Field(description="running or ended")
    begin: str
    end: str | None
    last_sample_time: str
    elapsed_seconds: float
    gpu_count: int
    coverage: float | None = Field(description="share of the time with its GPUs in which they were observed")
    boundary_seconds: float = Field(description="samples in which it began or ended; not in counters, but in upper")
    total: CountedShape
    gpus: list[GpuAccountShape]
    cost: CostShape | None = Field(description="null without prices")
    advice: list[AdviceShape] = Field(description="empty without enough observed time")


class AccountsShape(NodeAnswer):
    """Accounts of owners."""

    jobs: list[AccountShape]


_WORKLOAD: dict[str, Any] = {
    **dict.fromkeys((label for group in GROUPS.values() for label in group.labels), (str | None, None)),
    "classes": (dict[str, float], Field(description="GPUs by workload class, shared ones in part")),
    **{each.key: (float | None, Field(None if each.groups else ..., description=each.help)) for each in FAMILIES},
    "gpus": (float, Field(description="of workloads and users, shared ones in part")),
    "pods": (int, 0),
    "scale_hint": (int | None, Field(None, description="1: more replicas are needed, -1: fewer, 0: neither")),
}

WorkloadShape = create_model("WorkloadShape", __base__=Shape, **_WORKLOAD)
"""What a pod, workload, job or user does with its GPUs on this node; keys are those of its group only."""

WorkloadsShape = create_model(
    "WorkloadsShape", __base__=NodeAnswer, by=(str, ...), workloads=(_list_of(WorkloadShape), ...)
)
"""What pods, workloads, jobs or users do now."""


class GpuIdentity(Shape):
    """The identity and the age of one GPU or MIG instance."""

    gpu: str
    uuid: str | None
    node: str
    model: str | None
    mig: MigInstance | None
    time: str
    age_seconds: float
    stale: bool


def _section(name: str, fields: Sequence[JsonField]) -> type[Shape]:
    """Create the shape of a section of derived values."""
    types: dict[str, Any] = {field.key: (field.type, Field(description=field.help)) for field in fields}
    title = "".join(word.capitalize() for word in name.split("_"))
    return create_model(f"{title}Shape", __base__=HealthChecks if name == "health" else Shape, **types)


_BEHIND: dict[str, Any] = {
    "metrics": (dict[str, float | None], Field(description="every quantity; null without a reading")),
    "accounting": (AccountingShape, Field(description="time and energy by class, since pulsed was started")),
    "attribution": (AttributionShape, Field(description="owners of the GPU")),
}

_SECTIONS: dict[str, Any] = {name: (_section(name, fields), ...) for name, fields in SECTIONS.items()}

Gpu = create_model("Gpu", __base__=GpuIdentity, **_SECTIONS, **_BEHIND)
"""One GPU or MIG instance."""


_ROW: dict[str, Any] = {
    **dict.fromkeys((*IDENTITY_KEYS, *OWNER_KEYS), (str, ...)),
    **{key: (str, Field(default="", description="absent if unknown")) for key in OPTIONAL_KEYS},
    **{each.key: (float | None, Field(description=each.quantity)) for each in ROW_FIELDS},
    "timestamp": (str, ...),
    **{name: (dict[str, Any], Field(default={}, description="with `derived`, as in /gpus")) for name in SECTIONS},
}

ContainerRow = create_model("ContainerRow", __base__=Shape, **_ROW)
"""A GPU or MIG instance, and a container that has it."""

ContainerRows = _list_of(ContainerRow)


PodGpuShape = create_model("PodGpuShape", __base__=Shape, **POD_GPU_FIELDS)
"""A GPU or MIG instance, and a container that has it."""

PodGpus = create_model("PodGpus", __base__=NodeAnswer, gpus=(_list_of(PodGpuShape), ...))
"""The GPUs of pods."""


class ScaleNumber(Shape):
    """A number of a workload."""

    value: float
    gpus: int
    pods: int
    timestamp: str = Field(description="time of the oldest sample")
    stale: bool = Field(description="GPUs without a current value were left out; never in a sum")


class SourceShape(Shape):
    """One source of data."""

    kind: str
    target: str
    up: bool
    error: str | None
    interval_seconds: float
    last_sample_time: str | None
    demo: bool
    kernel_log_error: str | None = Field(
        description="why XIDs are not read from the kernel log; null: they are, or off"
    )


class SourcesShape(NodeAnswer):
    """The state of all sources."""

    source: SourceShape
    sources: list[SourceShape]


Gpus = create_model("Gpus", __base__=SourcesShape, gpus=(_list_of(Gpu), ...))
"""The current state of all GPUs."""


class RecentChangesShape(NodeAnswer):
    """The last changes, the newest first."""

    changes: list[dict[str, Any]] = Field(description="`id` and `event` as in /events, and its data")


class RosterShape(Shape):
    """The identities of all GPUs, as columns."""

    node: list[str]
    gpu: list[str]
    uuid: list[str | None]
    mig_id: list[str | None]
    mig_profile: list[str | None]
    model: list[str | None]


class GpuColumnsShape(SourcesShape):
    """The state of all GPUs as columns, in the order of the roster."""

    roster: str = Field(description="identifies the list of GPUs; another one if GPUs come or go")
    gpus: RosterShape
    owners: list[list[str] | None] = Field(description="`kind:id` of each owner; null if they are not known")
    class_since: list[float | None] = Field(description="Unix seconds of the first sample of the class")
    candidates: list[list[str]] = Field(description="classes that raw_class may be while it is unknown; else empty")
    problem: list[str | None] = Field(description="message of the worst raised health check")
    sample_time: list[float] = Field(description="Unix seconds of each GPU's sample")
    stale: list[bool]
    fields: dict[str, list[float | str | None]] = Field(description="one list per field; ratios have four decimals")


class HistoryShape(NamedGpu):
    """Recent samples of a GPU as columns, oldest first."""

    interval_seconds: float = Field(description="nominal time between two samples; 0 without samples")
    seconds: float = Field(description="length of the window")
    time: list[float] = Field(description="Unix seconds of each sample, oldest first")
    fields: dict[str, list[float | str | None]] = Field(
        description="one list per field, as long as time; null without a reading"
    )


class NumberPointsShape(Shape):
    """Minimum, mean and maximum of a number per point."""

    min: list[float | None]
    mean: list[float | None] = Field(description="of the samples")
    max: list[float | None]


class GpuPointsShape(NamedGpu):
    """The points of one GPU."""

    interval_seconds: float = Field(description="nominal time between two samples; 0 without samples")
    fields: dict[str, NumberPointsShape | list[str | None]] = Field(
        description="by field: numbers, or the most frequent state, of health the worst; null is a gap or no reading"
    )


class HistoryPointsShape(Shape):
    """Recent samples of several GPUs on one axis of time."""

    seconds: float = Field(description="length of the window, which ends with the newest sample")
    step_seconds: float = Field(description="length of a point")
    time: list[float] = Field(description="Unix seconds at which each point begins, oldest first")
    gpus: list[GpuPointsShape]
