"""The GPUs of pods, as daemons give them to the adapter, which makes numbers to scale on of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, get_type_hints

from pydantic import Field

from pulsed.model.vocabulary import Value

ROUTES = "/autoscale/v1"
GPUS_ROUTE = "/gpus"
"""Below `ROUTES`: the rows of a daemon."""


class PodGpu(NamedTuple):
    """A GPU or MIG instance, and a container that has it."""

    namespace: str
    pod: str
    container: str
    workload: Annotated[str, Field(description="what controls the pod; empty while it is not known, like its kind")]
    workload_kind: str
    gpu: Annotated[str, Field(description="identifies the device in the cluster")]
    # A mean divides by it.
    share: Annotated[float, Field(gt=0, le=1, description="of the device: an equal one if several containers have it")]
    time: Annotated[float, Field(description="Unix seconds of the sample")]
    stale: Annotated[bool, Field(description="whether the values are too old to act on")]
    values: Annotated[Mapping[str, Value], Field(description="by field")]


POD_GPU_FIELDS: Mapping[str, Any] = {
    name: (hint, ...) for name, hint in get_type_hints(PodGpu, include_extras=True).items()
}
"""The fields of a `PodGpu` in JSON, for models of pydantic."""
