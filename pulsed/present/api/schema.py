"""The shapes of the JSON API, for `/openapi.json` and `/docs`.

Answers are built by `documents` and sent as they are; a test compares them with these shapes. Descriptions are fields'
`description`; docstrings are not published.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import GenericAlias
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, create_model
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from pulsed.present.api.derived_fields import SECTIONS, JsonField


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


class AttributionShape(Shape):
    """The users of the GPU."""

    pods: list[PodShape]
    slurm_job: str | None
    processes: list[int]


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
    "attribution": (AttributionShape, Field(description="known users of the GPU")),
}

_SECTIONS: dict[str, Any] = {name: (_section(name, fields), ...) for name, fields in SECTIONS.items()}

Gpu = create_model("Gpu", __base__=GpuIdentity, **_SECTIONS, **_BEHIND)
"""One GPU or MIG instance."""


class SourceShape(Shape):
    """One source of data."""

    kind: str
    target: str
    up: bool
    error: str | None
    interval_seconds: float
    last_sample_time: str | None
    demo: bool


class SourcesShape(Shape):
    """The state of all sources."""

    node: str
    time: str
    source: SourceShape
    sources: list[SourceShape]


_GPU_LIST: Any = GenericAlias(list, (Gpu,))

Gpus = create_model("Gpus", __base__=SourcesShape, gpus=(_GPU_LIST, ...))
"""The current state of all GPUs."""


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
