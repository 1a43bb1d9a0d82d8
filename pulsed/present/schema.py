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


class Saturation(Shape):
    """How close the GPU is to a hardware limit."""

    ratio: float | None
    limiting_resource: str | None


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
    state: str
    since: str | None
    message: str
    remedy: str


class Health(Shape):
    """Whether the GPU is in order; `unknown` means that nothing could be judged, not that it is."""

    state: str
    coverage: float
    checks: list[HealthCheck]


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
    saturation: Saturation
    workload: WorkloadShape
    health: Health
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
