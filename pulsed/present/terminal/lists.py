"""The views that are lists: owners of GPUs with their processes, the last changes, daemons with their sources, help."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.text import Text

from pulsed.number_text import ELLIPSIS, MISSING, duration, gibibytes, metric, percent
from pulsed.present.terminal.model import Answers, Document, FleetRow, Model, gpu_name, seconds_of
from pulsed.present.terminal.text import Drawn, TableColumn, distinguished, fixed, line, row_text, table, wrapped
from pulsed.present.terminal.view_state import NUMBERS, SORTS, TEXTS, ViewState
from pulsed.present.terminal.words import ABBREVIATIONS, HEALTH_MARKS, bottleneck_style, real_words, words

NODE_CELLS = 6
"""Cells for the name of a node, if there are several, before the name of its GPU."""


class JobGpu(NamedTuple):
    """A GPU of an owner, with its label and the part of the owner's account; without values if it is gone."""

    owner: Document
    part: Document
    gpu: FleetRow
    label: str


class JobRows(NamedTuple):
    """An owner, its GPUs that pass the filter, and styled texts below them.

    Processes without a known owner have no document.
    """

    job: Document | None
    gpus: list[JobGpu]
    notes: list[tuple[str, str]]


def _idle(row: JobGpu) -> str:
    share = row.part["summary"]["idle_ratio"]
    return MISSING if share is None else f"{percent(share)} %"


def _energy(row: JobGpu) -> str:
    energy = row.part["summary"]["joules"]
    return MISSING if energy is None else metric(energy / 3600, "Wh")


JOB_COLUMNS: tuple[TableColumn[JobGpu], ...] = (
    TableColumn("OWNER", 16, 12, lambda row: _owner_name(row.owner), "left", 40, is_name=True),
    TableColumn("USER", 7, 7, lambda row: row.owner["user"] or MISSING, "left"),
    TableColumn("GPU", 7, 13, lambda row: row.label, most=14, is_name=True),
    TableColumn("MIG", 3, 1, lambda row: row.part["mig_id"] or "-"),
    TableColumn(
        "*STATUS", 22, 8, lambda row: "stale" if row.gpu.stale else words(row.gpu.state("workload_class")), "left"
    ),
    TableColumn("*MEM GiB", 10, 9, lambda row: row.gpu.text("memory_used_bytes")),
    TableColumn("*UTIL", 5, 4, lambda row: row.gpu.text("gpu_utilization_ratio")),
    TableColumn("*RU %", 9, 10, lambda row: real_words(row.gpu).replace(" %", "")),
    TableColumn("*TENSOR", 7, 3, lambda row: row.gpu.text("tensor_active_ratio")),
    TableColumn("TIME", 6, 5, lambda row: duration(row.part["held_seconds"])),
    TableColumn("IDLE", 6, 6, _idle),
    TableColumn("ENERGY", 9, 2, _energy),
)


def _owner_name(owner: Document) -> str:
    return f"{owner['kind'].removeprefix('slurm_')} {owner['id']}"


def jobs(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, height: int) -> Drawn:
    """Return owners that have a GPU, those with the most idle GPU time first."""
    groups = [*job_rows(model, view)]
    count = sum(len(daemon.get("jobs", "jobs", ())) for daemon in model.daemons)
    owners = "1 owner" if count == 1 else f"{count} owners"
    note = f"{owners}, most idle time first. * of the GPU, for all its owners. TIME: with the GPU; IDLE, ENERGY: in it."
    if not count:
        note = "no owner has a GPU: owners come from pod labels, or from attribution.jobs.directories"
    elif not any(daemon.get("processes", "processes") for daemon in model.daemons):
        note += " Processes: attribution.processes.enabled of the daemon."
    parts = [part for group in groups for part in group.gpus]
    titles, *rows = table(JOB_COLUMNS, parts, width)
    styles = ["warn" if part.gpu.use == "held" else bottleneck_style(part.gpu) for part in parts]
    shown = iter([line((row.plain, style)) for row, style in zip(rows, styles, strict=True)])
    lines, begins = [titles], []
    for group in groups:
        begins.append(len(lines))
        lines += [next(shown) for _ in group.gpus]
        lines += [row for text, style in group.notes for row in wrapped(text, width, "  ", style)]
    selected = begins[min(view.event, len(groups) - 1)] if groups else 0
    if view.event and groups:
        lines[selected] = fixed((lines[selected].plain, "select"), width)
    return Drawn([*lines, line((note, "dim"))], 1, range(selected, selected + 1))


def job_rows(model: Model, view: ViewState) -> Iterator[JobRows]:
    """Yield owners with what has the text of the filter, the most idle GPU time first."""
    gpus = {(gpu.source, gpu.node, gpu.uuid, gpu.mig_id): gpu for gpu in model.gpus}
    nodes = distinguished((gpu.node for gpu in model.gpus), NODE_CELLS) if model.has_several_nodes else {}
    found: list[tuple[float, JobRows]] = []
    for source, daemon in enumerate(model.daemons):
        processes = [each for each in daemon.get("processes", "processes", ()) if each["gpus"]]
        owned: set[int] = set()
        for job in daemon.get("jobs", "jobs", ()):
            parts = []
            for part in job["gpus"]:
                at, node = (part["node"], part["uuid"] or "", part["mig_id"] or ""), nodes.get(part["node"])
                gone = FleetRow(source, at[0], part["gpu"], *at[1:], "", "", {}, stale=True, age=0.0)
                gpu = gpus.get((source, *at), gone)
                label = f"{node.lstrip(ELLIPSIS)}/{gpu.name}" if node else gpu.name
                parts.append(JobGpu(job["owner"], part, gpu, label))
            own = [each for each in processes if _is_of(each, job["owner"])]
            owned.update(each["pid"] for each in own)
            notes = [(f"{each['evidence']}: {each['text']}", "warn") for each in job.get("advice", ())[:1]]
            missing = job.get("not_judged", ())  # absent in answers of older daemons
            notes += [(f"{each['finding']} not evaluated: {each['missing']}", "dim") for each in missing]
            idle = sum(float(part["summary"]["idle_seconds"] or 0.0) for part in job["gpus"])
            found.append((-idle, JobRows(job, parts, [*notes, *((_process(each), "dim") for each in own)])))
        if others := [(_process(each), "dim") for each in processes if each["pid"] not in owned]:
            found.append((1.0, JobRows(None, [], [("processes without a known owner", "title"), *others])))
    text = view.filter.lower()
    for _, rows in sorted(found, key=lambda each: each[0]):
        parts = [each for each in rows.gpus if text in row_text(JOB_COLUMNS, each)]
        notes = [each for each in rows.notes if text in each[0].lower()]
        if parts or notes:
            yield JobRows(rows.job, parts, notes)


def _is_of(process: Document, owner: Document) -> bool:
    """Return whether a process is of an owner."""
    if owner["kind"] == "slurm_job":
        return bool(process["slurm_job"] == owner["id"])
    if owner["kind"] == "pod":
        return bool(owner["uid"]) and bool(process["pod_uid"] == owner["uid"])
    return bool(owner["id"] == str(process["pid"]))


def _process(process: Document) -> str:
    gpus = [
        f"GPU {gpu_name(use['gpu'], use['mig_id'])} {gibibytes(use['memory_bytes'])} GiB"
        f" SM {percent(use['sm_utilization_ratio'])} %"
        for use in process["gpus"]
    ]
    host = f"host {gibibytes(process['memory_bytes'])} GiB"
    return "  ".join([f"pid {process['pid']}", process["user"] or "--", *gpus, host, process["command"] or "--"])


RECENT_SECONDS = 600.0
"""The time of the first line."""


class EventRow(NamedTuple):
    """An incident, or a change of a class or an owner."""

    time: float
    document: Document
    kind: str
    text: str
    style: str
    remedy: str = ""


def event_rows(model: Model, view: ViewState, *, is_all: bool = False) -> list[EventRow]:
    """Return incidents, the newest first; with a filter, those and changes of classes and owners that have its text.

    Without one the changes are only counted (`is_all`): a start of many owners would bury an XID.
    """
    rows: list[EventRow] = []
    for daemon in model.daemons:
        for each in daemon.get("incidents", "incidents", ()):
            name, more = f"XID {each['cause']}" if each["kind"] == "xid" else each["cause"], len(each["consequences"])
            times = f" {each['times']} times" if each["times"] > 1 else ""
            text = f"{name}{times} {each['state']}: {each['message']}"
            text += f" (and {more} more)" if more else ""
            text += "" if each["until"] is None else f" until {_clock(seconds_of(each['until']))}"
            style = each["state"] if each["state"] in HEALTH_MARKS and each["until"] is None else ""
            since = model.time if each["since"] is None else seconds_of(each["since"])
            rows.append(EventRow(since, each, each["kind"], text, style, each["remedy"]))
        for each in daemon.get("events", "changes", ()) if view.filter or is_all else ():
            begun = seconds_of(each["time"])
            if each["event"] == "workload_class":
                text = words(f"{each['before']} -> {each['after']}")
                rows.append(EventRow(begun, each, "class", text, each["bottleneck"]))
            elif each["event"] == "owner":
                user = f" ({each['owner']['user']})" if each["owner"]["user"] else ""
                text = f"{each['change']} of {each['owner']['kind']} {each['owner']['id']}{user}"
                rows.append(EventRow(begun, each, "owner", text, ""))
    found = [row for row in rows if is_all or view.filter.lower() in row_text(EVENT_COLUMNS, row)]
    return sorted(found, key=lambda row: -row.time)


def _clock(seconds: float) -> str:
    return time.strftime("%m-%d %H:%M:%S", time.localtime(seconds))


EVENT_COLUMNS: tuple[TableColumn[EventRow], ...] = (
    TableColumn("TIME", 14, 3, lambda row: (_clock(row.time), "dim"), "left"),
    TableColumn("NODE", 8, 1, lambda row: row.document["node"], "left", 20, is_name=True),
    TableColumn("GPU", 5, 4, lambda row: gpu_name(str(row.document["gpu"]), row.document["mig_id"])),
    TableColumn("KIND", 8, 2, lambda row: row.kind, "left"),
    TableColumn("CHANGE", 20, 5, lambda row: (row.text, row.style), "left", 1000),
)


def events(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, height: int) -> Drawn:
    """Return incidents, with what to do about the selected one."""
    rows = event_rows(model, view)
    columns = [each for each in EVENT_COLUMNS if model.has_several_nodes or each.title != "NODE"]
    recent = Counter(
        row.kind for row in event_rows(model, view, is_all=True) if model.time - row.time <= RECENT_SECONDS
    )
    text = ", ".join(f"{count} {kind}" for kind, count in sorted(recent.items())) or "no change"
    hints = [f"/{kind}" for kind in ("class", "owner") if recent[kind]]
    text += f" ({' and '.join(hints)} list{'s' * (len(hints) == 1)} those)" if hints else ""
    head = line((f"last {duration(RECENT_SECONDS)}: {text}", "title"))
    if not rows:
        return Drawn([head, line(("no change has this text" if view.filter else "no changes so far", "dim"))])
    lines, at = [head, *table(columns, rows, width)], min(view.event, len(rows) - 1)
    details = wrapped(rows[at].remedy and f"What to do: {rows[at].remedy}", width, "    ")
    lines[at + 2 : at + 3] = [fixed((lines[at + 2].plain, "select"), width), *details]
    return Drawn(lines, 2, range(at + 2, at + 3 + len(details)))


def source_list(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, height: int) -> Drawn:
    """Return daemons and their sources."""
    return Drawn([*(row for daemon in model.daemons for row in _daemon(daemon, model, width)), *_own_cost(model)])


def _own_cost(model: Model) -> Iterator[Text]:
    """Yield what this program costs, if it was measured."""
    if model.cost is not None:
        share, memory = model.cost
        yield line((f"pulsed top: {100 * share:.1f} % of a core, {memory / 2**20:.0f} MiB", "dim"))


def _daemon(daemon: Answers, model: Model, width: int) -> Iterator[Text]:
    state = ("no answer", "crit") if model.is_lost(daemon) else ("answers", "ok")
    version = daemon.get("version", "version")
    yield line((daemon.label, "title"), f"  {daemon.node}{f'  pulsed {version}' if version else ''}  ", state)
    yield from wrapped(daemon.error, width, "  ", "crit")
    if (age := model.age(daemon)) is not None:
        yield line((f"  last answer {duration(age)} ago, request {1000 * daemon.seconds:.0f} ms", "dim"))
    if host := daemon.documents.get("host"):
        yield line(
            f"  host: CPU {percent(host['cpu_busy_ratio'])} % of {host['cpu_count'] or '--'} threads, load"
            f" {host['load_average']:.1f}, memory {gibibytes(host['memory_used_bytes'])} of"
            f" {gibibytes(host['memory_bytes'])} GiB"
        )
    for source in daemon.get("summary", "sources", ()):
        mark = ("up  ", "ok") if source["up"] else ("ended", "dim") if source.get("ended") else ("DOWN", "crit")
        sample = source["last_sample_time"]
        old = "no sample yet" if sample is None else f"sample {duration(max(model.time - seconds_of(sample), 0.0))} old"
        demo = (" DEMO" if source["demo"] else "", "warn")
        interval = (f"  every {duration(source['interval_seconds'])}, {old}", "dim")
        yield line("  ", mark, f" {source['kind']} {source['target']}", demo, interval)
        yield from wrapped(source["error"], width, "      ")


_HELP = f"""\
Views
  1 Fleet, 2 GPU, 3 Plot, 4 Events, 5 Work, 6 Sources, 7 or ? this help; Esc and :q go back, then quit; ^C quits
  Enter opens the selected GPU, or owner's report; j k and arrows select; PgUp PgDn scroll; click selects and opens
Keys
  / filter   s sort ({", ".join(SORTS)})   r reverse   v full rows   p space pause   + - window of history   q quit
Commands
  :gpu GPU or :focus GPU (index, UUID, node:index)  :plot  :events  :work or :job  :sources  :fleet
  :sort NAME  :filter TEXT  :q  :exit
Filter
  comparisons < <= > >= = != ~ (contains), & | ! ( ); ratios as .1 or 10%; a single word is searched for in all texts
  numbers: {" ".join(NUMBERS)}
  texts: {" ".join(TEXTS)}
  ru<.1 & class!=idle     use=held     health>=warn | stale=yes    tensor=-- (no reading)
Columns
  {ABBREVIATIONS}
  C: temperatures GPU|memory, MHz: clocks SM|memory, PCIe received/sent
Marks
  [████··|··]  a known value; | is what the driver calls GPU utilization
  [██▒▒▒····]  bounds: solid is the least, hatched the most, because inputs are missing
  [/ / / / /]  no reading: --, never 0; a measured 0 is [▏········]
  C compute  M memory  I io  X mixed  - idle  ? unknown, with the possible classes
  i info  ! warn  ^ hot  x crit; STALE 42 s: no newer sample, left out of sums; 7/8: sum of 7 of 8 GPUs
"""


def help_text(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, height: int) -> Drawn:
    """Return keys, commands, filters and marks."""
    lines = [line((row, "" if row.startswith(" ") else "title")) for row in _HELP.splitlines()]
    return Drawn([*lines, *_own_cost(model)])
