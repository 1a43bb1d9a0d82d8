"""The processes of jobs and pods, in JSON."""

from __future__ import annotations

from typing import Any

from pulsed.attribution.processes import are_visible, owned_processes
from pulsed.present.rfc3339 import rfc3339


def processes_document() -> dict[str, Any]:
    """Return the processes that belong to jobs and pods by their control groups. Reads /proc, which may take long."""
    return {
        "published": True,
        "visible": are_visible(),
        "processes": [
            {
                "pid": process.pid,
                "slurm_job": process.owner.id if process.owner.kind == "slurm_job" else None,
                "pod_uid": process.owner.id if process.owner.kind == "pod" else None,
                "user": process.user,
                "memory_bytes": process.memory_bytes,
                "start": rfc3339(process.start),
                "command": process.command,
            }
            for process in owned_processes()
        ],
    }
