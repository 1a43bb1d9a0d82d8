"""Settings of this host: data to read, and the expected state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pulsed.config.settings import NOT_ALLOWED, Kind, Settings, setting
from pulsed.config.values import Duration, FileName
from pulsed.host.node_checks import ExpectedGpus


def _expected_gpus(value: object) -> ExpectedGpus:
    """Return a number of GPUs, `auto`, or the number of each model, as in `8 NVIDIA H100 80GB HBM3, 2 NVIDIA L40S`."""
    if value == "auto":
        return "auto"
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    parts = [part.split(maxsplit=1) for part in value.split(",")] if isinstance(value, str) else []
    if not parts or not all(len(part) == 2 and part[0].isdecimal() and int(part[0]) for part in parts):
        raise ValueError(NOT_ALLOWED)
    return {model.strip(): int(count) for count, model in parts}


ExpectedGpusKey = Annotated[
    ExpectedGpus,
    Kind(
        "gpu count", "a number above 0, auto, or numbers of models, such as 8 NVIDIA L40S, 2 NVIDIA L4", _expected_gpus
    ),
]


@dataclass(frozen=True, slots=True)
class HostSettings(Settings):
    """This host, apart from the samples of its GPUs, where its own GPUs are read.

    For the checks of the node (docs/health.md) and for its jobs.
    """

    root: FileName = setting("/", "Folder with the host's `sys`, `proc` and `dev`; in a container, its mount.")
    interval: Duration = setting(60.0, "Time between two evaluations of the checks of the node.")
    job_interval: Duration = setting(
        15.0,
        "Time between two readings of the use of the host by jobs: CPU time, memory, and InfiniBand traffic.",
    )
