"""The owners of GPUs, a row for each of their GPUs, with processes where they are published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pulsed.terminal.line import (
    ELLIPSIS,
    Line,
    TableColumn,
    distinguished,
    fitting_columns,
    left,
    named_columns,
    row_line,
    styled,
    title_line,
)
from pulsed.terminal.model import Answers, Document, GpuState, Model, gpu_name, ratio
from pulsed.terminal.numbers import duration, gibibytes, metric, percent
from pulsed.terminal.view_state import ViewState
from pulsed.terminal.words import bottleneck_style, real_words, words

NODE_CELLS = 6
"""Cells of the name of a node, of several, before that of its GPU."""


class JobGpu(NamedTuple):
    """A GPU of an owner: the part of its account, and the GPU if it is there, with its label."""

    owner: Document
    part: Document
    gpu: GpuState | None
    label: str

    def text(self, name: str) -> str:
        """Return a number of the GPU as text."""
        return "--" if self.gpu is None else self.gpu.text(name)


def _owner(row: JobGpu) -> str:
    return f"{row.owner['kind'].removeprefix('slurm_')} {row.owner['id']}"


def _status(row: JobGpu) -> str:
    if row.gpu is None:
        return "--"
    return "stale" if row.gpu.stale else words(row.gpu.state("workload_class"))


def _idle(row: JobGpu) -> str:
    counters = row.part["counters"]
    share = ratio(sum((counters["idle_seconds"] or {}).values()), counters["observed_seconds"])
    return "--" if share is None else f"{percent(share)} %"


def _energy(row: JobGpu) -> str:
    energy = row.part["counters"]["class_energy_joules"]
    return metric(sum(energy.values()) / 3600, "Wh") if energy else "--"


COLUMNS: tuple[TableColumn[JobGpu], ...] = (
    TableColumn("OWNER", 16, 12, _owner, left, 40, is_name=True),
    TableColumn("USER", 7, 7, lambda row: row.owner["user"] or "--", left),
    TableColumn("GPU", 7, 13, lambda row: row.label, most=14, is_name=True),
    TableColumn("MIG", 3, 1, lambda row: row.part["mig_id"] or "-"),
    TableColumn("*STATUS", 22, 8, _status, left),
    TableColumn("*MEM GiB", 10, 9, lambda row: row.text("memory_used_bytes")),
    TableColumn("*UTIL", 5, 4, lambda row: row.text("gpu_utilization_ratio")),
    TableColumn("*RU %", 9, 10, lambda row: "--" if row.gpu is None else real_words(row.gpu).replace(" %", "")),
    TableColumn("*TENSOR", 7, 3, lambda row: row.text("tensor_active_ratio")),
    TableColumn("TIME", 6, 5, lambda row: duration(row.part["held_seconds"])),
    TableColumn("IDLE", 6, 6, _idle),
    TableColumn("ENERGY", 9, 2, _energy),
)


def jobs(model: Model, view: ViewState, gpus: Sequence[GpuState], width: int, height: int) -> list[Line]:
    """Return owners that have a GPU, from `view.scroll` on; `view.filter` is looked for in their rows."""
    held = _held(model)
    columns = named_columns(fitting_columns(COLUMNS, width), [row for rows in held.values() for row in rows])
    rows = [row for row in _rows(model, held, columns) if view.filter.lower() in row.text.lower()]
    count = sum(len(daemon.jobs) for daemon in model.daemons)
    owners = "1 owner" if count == 1 else f"{count} owners"
    note = f"{owners}. * of the GPU, for all of its owners. TIME: with the GPU; IDLE, ENERGY: in it."
    if not count:
        note = "no owner has a GPU: owners come from pod labels, or from attribution.jobs.directories"
    elif not any(daemon.processes for daemon in model.daemons):
        note += " Processes: attribution.processes of the daemon."
    return [title_line(columns), *view.scrolled(rows, max(height - 2, 0)), styled(note, "dim")][:height]


def _held(model: Model) -> dict[tuple[int, int], list[JobGpu]]:
    """Return the GPUs of owners, by the positions of daemon and owner."""
    known = {(gpu.source, gpu.node, gpu.uuid, gpu.mig_id): gpu for gpu in model.gpus}
    nodes = distinguished((gpu.node for gpu in model.gpus), NODE_CELLS) if model.has_several_nodes else {}
    held: dict[tuple[int, int], list[JobGpu]] = {}
    for source, daemon in enumerate(model.daemons):
        for number, job in enumerate(daemon.jobs):
            rows = held[source, number] = []
            for part in job["gpus"]:
                gpu = known.get((source, part["node"], part["uuid"] or "", part["mig_id"] or ""))
                name = part["gpu"] if gpu is None else gpu.name
                node = nodes.get(part["node"])
                rows.append(JobGpu(job["owner"], part, gpu, f"{node.lstrip(ELLIPSIS)}/{name}" if node else name))
    return held


def _rows(
    model: Model, held: Mapping[tuple[int, int], Sequence[JobGpu]], columns: Sequence[TableColumn[JobGpu]]
) -> Iterator[Line]:
    for (source, number), rows in held.items():
        yield from (row_line(columns, row).styled(_style(row.gpu)) for row in rows)
        daemon = model.daemons[source]
        owner = daemon.jobs[number]["owner"]
        yield from (_process(each) for each in daemon.processes or () if _is_of(each, owner))
    for daemon in model.daemons:
        others = [each for each in daemon.processes or () if each["gpus"] and not _has_owner(each, daemon)]
        if others:
            yield styled("processes without a known owner", "title")
        yield from map(_process, others)


def _style(gpu: GpuState | None) -> str:
    return "" if gpu is None else "warn" if gpu.use == "held" else bottleneck_style(gpu)


def _is_of(process: Document, owner: Document) -> bool:
    """Return whether a process is of an owner."""
    if owner["kind"] == "slurm_job":
        return bool(process["slurm_job"] == owner["id"])
    if owner["kind"] == "pod":
        return bool(owner["uid"]) and bool(process["pod_uid"] == owner["uid"])
    return bool(owner["id"] == str(process["pid"]))


def _has_owner(process: Document, daemon: Answers) -> bool:
    return any(_is_of(process, job["owner"]) for job in daemon.jobs)


def _process(process: Document) -> Line:
    gpus = [
        f"GPU {gpu_name(use['gpu'], use['mig_id'])} {gibibytes(use['memory_bytes'])} GiB"
        f" SM {percent(use['sm_utilization_ratio'])} %"
        for use in process["gpus"] or ()
    ]
    host = f"host {gibibytes(process['memory_bytes'])} GiB"
    parts = [f"pid {process['pid']}", process["user"] or "--", *gpus, host, process["command"] or "--"]
    return styled("  " + "  ".join(parts), "dim")
