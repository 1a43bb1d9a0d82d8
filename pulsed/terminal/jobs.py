"""The owners of GPUs, a row for each of their GPUs, with processes where they are published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pulsed.terminal.line import Line, Segment, chosen, left, line, right
from pulsed.terminal.model import GpuState, Model, ratio
from pulsed.terminal.numbers import Number, duration, gibibytes, metric, percent
from pulsed.terminal.view_state import ViewState
from pulsed.terminal.words import bottleneck_style, gpu_label, real_words

_WIDTHS = {
    "owner": -16, "user": -8, "gpu": 6, "gid": 3, "status": -22, "memory": 10, "util": 5, "real": 9, "tensor": 7,
    "held": 6, "idle": 6, "energy": 9,
}  # fmt: skip
"""Width of each column; negative: aligned to the left."""

_IMPORTANCE = ("owner", "gpu", "real", "memory", "status", "user", "idle", "held", "util", "tensor", "energy", "gid")
"""Columns, the most important first: the others are left out where it is narrow."""

TITLES = {
    "owner": "OWNER", "user": "USER", "gpu": "GPU", "gid": "MIG", "status": "*STATUS", "memory": "*MEM GiB",
    "util": "*UTIL", "real": "*RU %", "tensor": "*TENSOR", "held": "TIME", "idle": "IDLE", "energy": "ENERGY",
}  # fmt: skip


def jobs(model: Model, view: ViewState, width: int, height: int) -> list[Line]:
    """Return owners that have a GPU, from `view.scroll` on; `view.filter` is looked for in their rows."""
    columns = _columns(width)
    head = line(Segment(_row(TITLES, columns), "title"))
    rows = [row for row in _rows(model, columns) if view.filter.lower() in row.text.lower()]
    note = "* of the GPU, for all of its owners. TIME: with the GPU; IDLE, ENERGY: in it."
    if not model.jobs:
        note = "no owner has a GPU: owners come from pod labels, or from attribution.jobs.directories"
    elif not any(model.processes.values()):
        note += " Processes: attribution.processes of the daemon."
    return [head, *view.scrolled(rows, max(height - 2, 0)), line(Segment(note, "dim"))][:height]


def _columns(width: int) -> list[str]:
    names = list(_WIDTHS)
    importances = [-_IMPORTANCE.index(name) for name in names]
    return [names[at] for at in chosen(importances, [abs(_WIDTHS[name]) for name in names], width, 1)]


def _row(values: Mapping[str, str], columns: Sequence[str]) -> str:
    return " ".join(
        left(values[name], -_WIDTHS[name]) if _WIDTHS[name] < 0 else right(values[name], _WIDTHS[name])
        for name in columns
    )


def _rows(model: Model, columns: Sequence[str]) -> Iterator[Line]:
    known = {(gpu.source, gpu.node, gpu.uuid, gpu.mig_id): gpu for gpu in model.gpus}
    for job in model.jobs:
        owner = job["owner"]
        for part in job["gpus"]:
            gpu = known.get((job["source"], part["node"], part["uuid"] or "", part["mig_id"] or ""))
            yield line(
                Segment(_row(_values(owner, part, gpu, model), columns), "" if gpu is None else _style(gpu, part))
            )
        for process in _processes(model, job):
            yield _process_line(process)
    for source, processes in model.processes.items():
        others = [process for process in processes or () if process["gpus"] and not _has_owner(process, source, model)]
        if others:
            yield line(Segment("processes without a known owner", "title"))
        for process in others:
            yield _process_line(process)


def _style(gpu: GpuState, part: Mapping[str, Any]) -> str:
    return "warn" if gpu.use == "held" else bottleneck_style(gpu)


def _values(owner: Mapping[str, Any], part: Mapping[str, Any], gpu: GpuState | None, model: Model) -> dict[str, str]:
    counters = part["counters"]
    idle = sum((counters["idle_seconds"] or {}).values())
    energy = counters["class_energy_joules"]

    def number(name: str) -> Number:
        return None if gpu is None else gpu.number(name)

    return {
        "owner": f"{owner['kind'].removeprefix('slurm_')} {owner['id']}",
        "user": owner["user"] or "--",
        "gpu": part["gpu"] if gpu is None else gpu_label(gpu, with_node=model.has_several_nodes),
        "gid": part["mig_id"] or "-",
        "status": "--" if gpu is None else _status(gpu),
        "memory": gibibytes(number("memory_used_bytes")),
        "util": percent(number("gpu_utilization_ratio")),
        "real": "--" if gpu is None else real_words(gpu).replace(" %", ""),
        "tensor": percent(number("tensor_active_ratio")),
        "held": duration(part["held_seconds"]),
        "idle": _share(idle, counters["observed_seconds"]),
        "energy": metric(sum(energy.values()) / 3600, "Wh") if energy else "--",
    }


def _status(gpu: GpuState) -> str:
    return "stale" if gpu.stale else gpu.state("workload_class").replace("_", " ")


def _share(part: Number, whole: Number) -> str:
    share = ratio(part, whole)
    return "--" if share is None else f"{percent(share)} %"


def _processes(model: Model, job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [process for process in model.processes.get(job["source"]) or () if _is_of(process, job["owner"])]


def _is_of(process: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """Return whether a process is of an owner."""
    if owner["kind"] == "slurm_job":
        return bool(process["slurm_job"] == owner["id"])
    if owner["kind"] == "pod":
        return bool(owner["uid"]) and bool(process["pod_uid"] == owner["uid"])
    return bool(owner["id"] == str(process["pid"]))


def _has_owner(process: Mapping[str, Any], source: int, model: Model) -> bool:
    return any(_is_of(process, job["owner"]) for job in model.jobs if job["source"] == source)


def _process_line(process: Mapping[str, Any]) -> Line:
    gpus = [
        f"GPU {use['gpu']}{':' + use['mig_id'] if use['mig_id'] else ''} {gibibytes(use['memory_bytes'])} GiB"
        f" SM {percent(use['sm_utilization_ratio'])} %"
        for use in process["gpus"] or ()
    ]
    host = f"host {gibibytes(process['memory_bytes'])} GiB"
    parts = [f"pid {process['pid']}", process["user"] or "--", *gpus, host, process["command"] or "--"]
    return line(Segment("  " + "  ".join(parts), "dim"))
