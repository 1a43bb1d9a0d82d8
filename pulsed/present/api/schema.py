"""The shapes of the JSON API, for `/openapi.json` and `/docs`.

Answers are built by `documents` and sent as they are; a test holds them equal to these shapes.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Shape(BaseModel):
    """Base of all shapes: nothing undocumented is in an answer."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Failure(Shape):
    """An error in words for a person."""

    error: str


class Version(Shape):
    """Which pulsed answers."""

    version: str
    python: str


class MigInstance(Shape):
    """A MIG instance on its board."""

    id: str
    profile: str | None
    uuid: str | None


class RealUtilizationShape(Shape):
    """How much of the GPU does real work, as ratios 0..1."""

    ratio: float | None = Field(description="null when too few inputs are present to name a number")
    lower: float = Field(description="no lower than this, whatever the missing inputs are")
    upper: float = Field(description="no higher than this")
    coverage: float = Field(description="share of the weights whose input is present")
    preset: str
    missing_inputs: list[str]


class SaturationShape(Shape):
    """How close the GPU is to a limit of its hardware, as ratios 0..1."""

    ratio: float | None = Field(description="the largest of resources; null while too few of them are known")
    lower: float = Field(description="no lower than this, whatever the missing resources do")
    upper: float = Field(description="no higher than this")
    limiting_resource: str = Field(description="its name; none when all are 0, unknown while that is open")
    compute: float | None = Field(description="the largest compute pipe")
    memory: float | None
    resources: dict[str, float | None] = Field(description="activity over what this architecture reaches in practice")
    missing: list[str] = Field(description="resources that this GPU has and that are not known")
    tensor_throughput_ratio: float | None = Field(description="tensor activity times SM clock over its maximum")


class WorkloadShape(Shape):
    """What kind of work the GPU does."""

    workload_class: str = Field(alias="class", description="the held class: flickers of raw_class are left out")
    bottleneck: str = Field(description="what limits work of the held class")
    since: str | None = Field(description="when the first sample of the held class was taken")
    raw_class: str = Field(description="the class of the newest sample alone")
    candidates: list[str] = Field(description="what raw_class could be while it is unknown")


class HealthCheck(Shape):
    """One check of the GPU's health."""

    id: str
    state: str = Field(description="unknown (its inputs are absent), ok, info, warn, hot or crit")
    since: str | None
    last_event: str | None = Field(description="when the last event that counts for it happened")
    covered: bool = Field(description="whether its inputs are there now; a latched state outlives them")
    message: str
    evidence: dict[str, float | None] = Field(description="the numbers that decided")
    remedy: str


class LastXid(Shape):
    """The last XID of a GPU."""

    code: int
    description: str
    time: str | None = Field(description="null when it was there before pulsed was")


class HealthShape(Shape):
    """Whether the GPU is in order; `unknown` means that nothing could be judged, not that it is."""

    state: str = Field(description="the worst of the checks that could be judged")
    severity: int = Field(description="-1 unknown, 0 ok, 1 info, 2 warn, 3 hot, 4 crit")
    coverage: float = Field(description="share of the checks that apply which could be judged")
    checks: list[HealthCheck]
    last_xid: LastXid | None


class GpuHealthShape(Shape):
    """Health of one GPU, for scripts."""

    node: str
    gpu: str
    uuid: str | None
    mig: MigInstance | None
    model: str | None
    stale: bool
    state: str
    severity: int
    coverage: float
    problems: list[HealthCheck] = Field(description="the checks that are worse than ok")


class PodShape(Shape):
    """A pod that has the GPU, or a share of it."""

    namespace: str
    pod: str
    container: str
    uid: str


class AttributionShape(Shape):
    """Who uses the GPU, as far as it is known."""

    pods: list[PodShape]
    slurm_job: str | None
    processes: list[int]


class Gpu(Shape):
    """One GPU or MIG instance."""

    gpu: str
    uuid: str | None
    node: str
    model: str | None
    mig: MigInstance | None
    time: str
    age_seconds: float
    stale: bool
    real_utilization: RealUtilizationShape
    saturation: SaturationShape
    workload: WorkloadShape
    health: HealthShape
    metrics: dict[str, float | None] = Field(description="every canonical quantity; null where the source gave nothing")
    attribution: AttributionShape


class SourceShape(Shape):
    """One source of data."""

    kind: str
    target: str
    up: bool
    error: str | None
    interval_seconds: float
    last_sample_time: str | None
    demo: bool


class Gpus(Shape):
    """Everything that is known now."""

    node: str
    time: str
    source: SourceShape
    sources: list[SourceShape]
    gpus: list[Gpu]


class HistoryShape(Shape):
    """What a GPU was doing lately, column by column, oldest sample first."""

    gpu: str
    uuid: str | None
    mig_id: str | None
    node: str
    interval_seconds: float = Field(description="nominal time between two samples; 0 while there is none")
    seconds: float = Field(description="how far back this looks")
    time: list[float] = Field(description="when each sample was taken, in Unix seconds")
    fields: dict[str, list[float | str | None]] = Field(
        description="one list per field, as long as time; null where the source gave nothing"
    )
