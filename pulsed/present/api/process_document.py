"""The processes of jobs and pods, and those that use a GPU, in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulsed.attribution.processes import ListedProcess, are_visible, listed_processes
from pulsed.model.raw_tick import GpuProcess
from pulsed.present.time_text import rfc3339


def processes_document(on_gpus: Sequence[GpuProcess] | None) -> dict[str, Any]:
    """Return the processes that belong to jobs and pods or use a GPU. Reads /proc, which may take long.

    Where processes of the host are hidden, the driver's process ids are not looked up: they may be other processes'
    here.

    Args:
        on_gpus: as the driver lists them; None where the source does not.
    """
    is_visible = are_visible()
    uses: dict[int, list[dict[str, Any]]] = {}
    for use in on_gpus or ():
        uses.setdefault(use.pid, []).append(_use(use))
    known = {process.pid: process for process in listed_processes(uses.keys() if is_visible else ())}
    is_joined = is_visible and on_gpus is not None
    rows = [
        {"pid": pid, **_properties(process), "gpus": uses.get(pid, []) if is_joined else None}
        for pid, process in known.items()
    ]
    rows += [
        {"pid": pid, **_properties(None), "gpus": gpus}
        for pid, gpus in uses.items()
        if not (is_visible and pid in known)
    ]
    return {"published": True, "visible": is_visible, "processes": rows}


def _use(use: GpuProcess) -> dict[str, Any]:
    fields = use._asdict()
    del fields["pid"]
    return {**fields, "mig_id": use.mig_id or None}


def _properties(process: ListedProcess | None) -> Mapping[str, Any]:
    """Return what is known of a process besides its GPUs; None: it is hidden, or has just ended."""
    owner = process.owner if process else None
    return {
        "slurm_job": owner.id if owner and owner.kind == "slurm_job" else None,
        "pod_uid": owner.id if owner and owner.kind == "pod" else None,
        "user": process.user if process else None,
        "memory_bytes": process.memory_bytes if process else None,
        "start": rfc3339(process.start) if process else None,
        "command": process.command if process else None,
    }
