"""The shapes of the JSON API, for `/openapi.json` and `/docs`.

Answers are built by `documents` and sent as they are; a test compares them with these shapes. Descriptions are fields'
`description`; docstrings are not published.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class Shape(BaseModel):
    """Base of all shapes: answers have no undocumented keys."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON schema without the docstring, which `python -OO` does not have."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        schema.pop("description", None)
        return schema


class Failure(Shape):
    """An error."""

    error: str = Field(description="what is wrong and what to do")


class Version(Shape):
    """The version of pulsed and Python."""

    version: str
    python: str


class MigInstance(Shape):
    """A MIG instance on its board."""

    id: str
    profile: str | None
    uuid: str | None


class RealUtilizationShape(Shape):
    """The share of the GPU that does work, 0..1."""

    ratio: float | None = Field(description="null when coverage is too low")
    lower: float = Field(description="lower bound, given the missing inputs")
    upper: float = Field(description="upper bound, given the missing inputs")
    coverage: float = Field(description="share of the weights whose input is present")
    preset: str
    missing_inputs: list[str]


class SaturationShape(Shape):
    """The share of a practical hardware limit that the GPU reaches, 0..1."""

    ratio: float | None = Field(description="largest of resources; null with too few of them")
    lower: float = Field(description="lower bound, given the missing resources")
    upper: float = Field(description="upper bound, given the missing resources")
    limiting_resource: str = Field(description="the resource with the largest ratio; none when all are 0; unknown")
    compute: float | None = Field(description="largest of the compute pipes")
    memory: float | None = Field(description="device memory bandwidth")
    resources: dict[str, float | None] = Field(description="activity over the practical peak of the architecture")
    missing: list[str] = Field(description="resources of this GPU without a value")
    tensor_throughput_ratio: float | None = Field(description="tensor activity times SM clock over its maximum")


class WorkloadShape(Shape):
    """The workload class."""

    workload_class: str = Field(alias="class", description="the held class, without the flicker of raw_class")
    bottleneck: str = Field(description="the bottleneck of the held class")
    since: str | None = Field(description="time of the first sample of the held class")
    raw_class: str = Field(description="the class of the newest sample")
    candidates: list[str] = Field(description="possible classes while raw_class is unknown")


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


class HealthShape(Shape):
    """The health of a GPU."""

    state: str = Field(description="the worst state of all checks; unknown if no check has its inputs")
    severity: int = Field(description="-1 unknown, 0 ok, 1 info, 2 warn, 3 hot, 4 crit")
    coverage: float = Field(description="share of the applicable checks whose inputs are present")
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
    problems: list[HealthCheck] = Field(description="checks that are worse than ok")


class PodShape(Shape):
    """A pod that uses the GPU or a part of it."""

    namespace: str
    pod: str
    container: str
    uid: str


class AttributionShape(Shape):
    """The users of the GPU."""

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
    metrics: dict[str, float | None] = Field(description="every quantity; null without a reading")
    attribution: AttributionShape = Field(description="known users of the GPU")


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
    """The current state of all GPUs."""

    node: str
    time: str
    source: SourceShape
    sources: list[SourceShape]
    gpus: list[Gpu]


class HistoryShape(Shape):
    """Recent samples of a GPU as columns, oldest first."""

    gpu: str
    uuid: str | None
    mig_id: str | None
    node: str
    interval_seconds: float = Field(description="nominal time between two samples; 0 without samples")
    seconds: float = Field(description="length of the window")
    time: list[float] = Field(description="Unix seconds of each sample, oldest first")
    fields: dict[str, list[float | str | None]] = Field(
        description="one list per field, as long as time; null without a reading"
    )
