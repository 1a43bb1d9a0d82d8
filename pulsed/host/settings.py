"""Settings of what is read of this host."""

from __future__ import annotations

from dataclasses import dataclass

from pulsed.config.settings import Duration, FileName, Settings, setting


@dataclass(frozen=True, slots=True)
class HostSettings(Settings):
    """This host beside the samples of its GPUs, where its own GPUs are read.

    For the checks of the node (docs/health.md) and for its jobs.
    """

    root: FileName = setting(
        "/", "Folder with the host's `sys`, `proc` and `dev`; in a container, where the host's root is mounted."
    )
    interval: Duration = setting(60.0, "Time between two looks for the checks of the node.")
    job_interval: Duration = setting(
        15.0,
        "Time between two readings of what jobs use of the host: CPU time and memory of their control groups, and the "
        "traffic of its InfiniBand ports; the resolution of their balance.",
    )
