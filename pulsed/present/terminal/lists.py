"""The views that are lists: owners of GPUs with their processes, the last changes, daemons with their sources, help."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from textwrap import fill
from typing import NamedTuple

from rich.text import Text

from pulsed.number_text import ELLIPSIS, MISSING, duration, gibibytes, left, metric, percent
from pulsed.present.terminal.model import Answers, Document, FleetRow, Model, gpu_name, seconds_of
from pulsed.present.terminal.text import TableColumn, distinguished, fixed, line, table, wrapped
from pulsed.present.terminal.view_state import NUMBERS, SORTS, TEXTS, ViewState
from pulsed.present.terminal.words import ABBREVIATIONS, HEALTH_MARKS, bottleneck_style, real_words, words

NODE_CELLS = 6
"""Cells for the name of a node, if there are several, before the name of its GPU."""

MAX_COLUMNS = 400
"""Width at which no row is cut, so that a filter finds what a narrow terminal does not show."""


class JobGpu(NamedTuple):
    """A GPU of an owner: the part of its account, and the GPU if it is there, with its label."""

    owner: Document
    part: Document
    gpu: FleetRow | None
    label: str

    def text(self, name: str) -> str:
        """Return a number of the GPU as text."""
        return MISSING if self.gpu is None else self.gpu.text(name)

    @property
    def idle_seconds(self) -> float:
        """Time that the owner had the GPU without using it."""
        return float(self.part["summary"]["idle_seconds"] or 0.0)


def _status(row: JobGpu) -> str:
    if row.gpu is None:
        return MISSING
    return "stale" if row.gpu.stale else words(row.gpu.state("workload_class"))


def _idle(row: JobGpu) -> str:
    share = row.part["summary"]["idle_ratio"]
    return MISSING if share is None else f"{percent(share)} %"


def _energy(row: JobGpu) -> str:
    energy = row.part["summary"]["joules"]
    return MISSING if energy is None else metric(energy / 3600, "Wh")


def _owner_name(row: JobGpu) -> str:
    return f"{row.owner['kind'].removeprefix('slurm_')} {row.owner['id']}"


COLUMNS: tuple[TableColumn[JobGpu], ...] = (
    TableColumn("OWNER", 16, 12, _owner_name, "left", 40, is_name=True),
    TableColumn("USER", 7, 7, lambda row: row.owner["user"] or MISSING, "left"),
    TableColumn("GPU", 7, 13, lambda row: row.label, most=14, is_name=True),
    TableColumn("MIG", 3, 1, lambda row: row.part["mig_id"] or "-"),
    TableColumn("*STATUS", 22, 8, _status, "left"),
    TableColumn("*MEM GiB", 10, 9, lambda row: row.text("memory_used_bytes")),
    TableColumn("*UTIL", 5, 4, lambda row: row.text("gpu_utilization_ratio")),
    TableColumn("*RU %", 9, 10, lambda row: MISSING if row.gpu is None else real_words(row.gpu).replace(" %", "")),
    TableColumn("*TENSOR", 7, 3, lambda row: row.text("tensor_active_ratio")),
    TableColumn("TIME", 6, 5, lambda row: duration(row.part["held_seconds"])),
    TableColumn("IDLE", 6, 6, _idle),
    TableColumn("ENERGY", 9, 2, _energy),
)


def jobs(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, height: int) -> list[Text]:
    """Return owners that have a GPU from the selected one on, those with the most idle GPU time first."""
    titles, groups = _groups(model, view, width)
    count = sum(len(daemon.jobs) for daemon in model.daemons)
    owners = "1 owner" if count == 1 else f"{count} owners"
    note = f"{owners}, most idle time first. * of the GPU, for all its owners. TIME: with the GPU; IDLE, ENERGY: in it."
    if not count:
        note = "no owner has a GPU: owners come from pod labels, or from attribution.jobs.directories"
    elif not any(daemon.processes for daemon in model.daemons):
        note += " Processes: attribution.processes.enabled of the daemon."
    rows = [row for _, group in groups[max(min(view.event, len(groups) - 1), 0) :] for row in group]
    if rows and view.event:
        rows[0] = fixed((rows[0].plain, "select"), width)
    return [titles, *rows, line((note, "dim"))]


def selected_job(model: Model, view: ViewState) -> Document | None:
    """Return the document of the first owner that `jobs` shows; None without owners."""
    _, groups = _groups(model, view, MAX_COLUMNS)
    return groups[min(view.event, len(groups) - 1)][0] if groups else None


def _groups(model: Model, view: ViewState, width: int) -> tuple[Text, list[tuple[Document | None, list[Text]]]]:
    """Return the titles, and each owner with its rows that have the text of the filter; the last have no owner."""
    held = _held(model)
    parts = [part for _, _, parts in held for part in parts]
    titles, *rows = table(COLUMNS, parts, width)
    in_full = iter(table(COLUMNS, parts, MAX_COLUMNS)[1:])
    groups: list[tuple[Document | None, list[tuple[Text, Text]]]] = []
    for daemon, job, parts in held:
        lines = [(line((rows.pop(0).plain, _style(part.gpu))), next(in_full)) for part in parts]
        notes = [note for each in job.get("advice", ())[:1]
                 for note in wrapped(f"{each['evidence']}: {each['text']}", width, "  ", "warn")]  # fmt: skip
        missing = job.get("not_judged", ())  # absent in answers of older daemons
        notes += [line((f"  {each['finding']} not evaluated: {each['missing']}", "dim")) for each in missing]
        notes += [_process(each) for each in daemon.processes or () if _is_of(each, job["owner"])]
        groups.append((job, [*lines, *zip(notes, notes, strict=True)]))
    for daemon in model.daemons:
        processes = [each for each in daemon.processes or () if each["gpus"]]
        others = [each for each in processes if not any(_is_of(each, job["owner"]) for job in daemon.jobs)]
        notes = [line(("processes without a known owner", "title")), *map(_process, others)] if others else []
        groups.append((None, [*zip(notes, notes, strict=True)]))
    text = view.filter.lower()
    matching = [(job, [row for row, full in lines if text in full.plain.lower()]) for job, lines in groups]
    return titles, [(job, lines) for job, lines in matching if lines]


def _held(model: Model) -> list[tuple[Answers, Document, list[JobGpu]]]:
    """Return each owner with its daemon and its GPUs, the most idle GPU time first."""
    gpus = {(gpu.source, gpu.node, gpu.uuid, gpu.mig_id): gpu for gpu in model.gpus}
    nodes = distinguished((gpu.node for gpu in model.gpus), NODE_CELLS) if model.has_several_nodes else {}
    held = []
    for source, daemon in enumerate(model.daemons):
        for job in daemon.jobs:
            parts = []
            for part in job["gpus"]:
                gpu = gpus.get((source, part["node"], part["uuid"] or "", part["mig_id"] or ""))
                name = part["gpu"] if gpu is None else gpu.name
                node = nodes.get(part["node"])
                parts.append(JobGpu(job["owner"], part, gpu, f"{node.lstrip(ELLIPSIS)}/{name}" if node else name))
            held.append((daemon, job, parts))
    return sorted(held, key=lambda group: -sum(part.idle_seconds for part in group[2]))


def _style(gpu: FleetRow | None) -> str:
    return "" if gpu is None else "warn" if gpu.use == "held" else bottleneck_style(gpu)


def _is_of(process: Document, owner: Document) -> bool:
    """Return whether a process is of an owner."""
    if owner["kind"] == "slurm_job":
        return bool(process["slurm_job"] == owner["id"])
    if owner["kind"] == "pod":
        return bool(owner["uid"]) and bool(process["pod_uid"] == owner["uid"])
    return bool(owner["id"] == str(process["pid"]))


def _process(process: Document) -> Text:
    gpus = [
        f"GPU {gpu_name(use['gpu'], use['mig_id'])} {gibibytes(use['memory_bytes'])} GiB"
        f" SM {percent(use['sm_utilization_ratio'])} %"
        for use in process["gpus"] or ()
    ]
    host = f"host {gibibytes(process['memory_bytes'])} GiB"
    parts = [f"pid {process['pid']}", process["user"] or "--", *gpus, host, process["command"] or "--"]
    return line(("  " + "  ".join(parts), "dim"))


_MEANINGS = ", ".join(f"{name} {meaning}" for name, meaning in ABBREVIATIONS)

_HELP = f"""\
Views
  1 Fleet, 2 GPU, 3 Plot, 4 Events, 5 Work, 6 Sources, 7 or ? this help; Esc and :q go back, then quit; ^C quits
  Enter opens the selected GPU, or owner's report; j k and arrows select; PgUp PgDn scroll; click selects and opens
Keys
  / filter   s sort ({", ".join(SORTS)})   r reverse   v cards or rows   p space pause   + - window of history   q quit
Commands
  :gpu GPU or :focus GPU (index, UUID, node:index)  :plot  :events  :work or :job  :sources  :fleet
  :sort NAME  :filter TEXT  :q  :exit
Filter
  comparisons < <= > >= = != ~ (contains), & | ! ( ); ratios as .1 or 10%; a single word is searched for in all texts
  numbers: {" ".join(NUMBERS)}
  texts: {" ".join(TEXTS)}
  ru<.1 & class!=idle     use=held     health>=warn | stale=yes    tensor=-- (no reading)
Cards and columns
{fill(_MEANINGS, 116, initial_indent="  ", subsequent_indent="  ")}
  percentages of SM are active/occupancy, temperatures GPU|memory, clocks SM|memory, PCIe received/sent
Marks
  [████··|··]  a known value; | is what the driver calls GPU utilization
  [██▒▒▒····]  bounds: solid is the least, hatched the most, because inputs are missing
  [/ / / / /]  no reading: --, never 0; a measured 0 is [▏········]
  C compute  M memory  I io  X mixed  - idle  ? unknown, with the possible classes
  i info  ! warn  ^ hot  x crit; STALE 42 s: no newer sample, left out of sums; 7/8: sum of 7 of 8 GPUs
"""


def help_text(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, height: int) -> list[Text]:
    """Return keys, commands, filters and marks."""
    lines = [line((row, "" if row.startswith(" ") else "title")) for row in _HELP.splitlines()]
    return [*lines, *_own_cost(model)]


def source_list(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, height: int) -> list[Text]:
    """Return daemons and their sources."""
    lines = [row for daemon in model.daemons for row in _daemon(daemon, model, width)]
    return [*lines, *_own_cost(model)]


def _own_cost(model: Model) -> Iterator[Text]:
    """Yield what this program costs, if it was measured."""
    if model.cost is not None:
        share, memory = model.cost
        yield line((f"pulsed top: {100 * share:.1f} % of a core, {memory / 2**20:.0f} MiB", "dim"))


def _daemon(daemon: Answers, model: Model, width: int) -> Iterator[Text]:
    state = ("no answer", "crit") if model.is_lost(daemon) else ("answers", "ok")
    version = f"  pulsed {daemon.version}" if daemon.version else ""
    yield line((daemon.label, "title"), f"  {daemon.node}{version}  ", state)
    yield from wrapped(daemon.error, width, "  ", "crit")
    age = model.age(daemon)
    if age is not None:
        request = "" if daemon.seconds is None else f", request {1000 * daemon.seconds:.0f} ms"
        yield line((f"  last answer {duration(age)} ago{request}", "dim"))
    if (host := daemon.host) is not None:
        yield line(
            f"  host: CPU {percent(host['cpu_busy_ratio'])} % of {host['cpu_count'] or '--'} threads, load"
            f" {host['load_average']:.1f}, memory {gibibytes(host['memory_used_bytes'])} of"
            f" {gibibytes(host['memory_bytes'])} GiB"
        )
    for source in daemon.sources:
        yield from _source(source, model.time, width)


def _source(source: Document, now: float, width: int) -> Iterator[Text]:
    mark = ("up  ", "ok") if source["up"] else ("ended", "dim") if source.get("ended") else ("DOWN", "crit")
    sample = source["last_sample_time"]
    age = "no sample yet" if sample is None else f"sample {duration(max(now - seconds_of(sample), 0.0))} old"
    demo = (" DEMO" if source["demo"] else "", "warn")
    interval = (f"  every {duration(source['interval_seconds'])}, {age}", "dim")
    yield line("  ", mark, f" {source['kind']} {source['target']}", demo, interval)
    yield from wrapped(source["error"] or "", width, "      ")


RECENT_SECONDS = 600.0
"""The time of the first line."""

UNLISTED = ("workload_class", "owner")
"""Kinds that are counted; a start of many owners would bury an XID."""


def changes(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, height: int) -> list[Text]:
    """Return changes, the newest first; `view.filter` is looked for in their text. `UNLISTED` needs one."""
    substring = view.filter.lower()
    events = [event for daemon in model.daemons for event in daemon.events]
    if len(model.daemons) > 1:
        events.sort(key=lambda event: -seconds_of(event["time"]))
    checks = {_moment(event) for event in events if event["event"] == "health" and event["check"]}
    events = [event for event in events if _is_news(event, checks)]
    listed = [event for event in events if substring or event["event"] not in UNLISTED]
    rows = [(_row(event, with_node=model.has_several_nodes), event) for event in listed]
    rows = [(row, event) for row, event in rows if substring in row.plain.lower()]
    if not rows:
        nothing = "no change has this text" if substring else "no changes so far"
        return [_last_minutes(events, model.time), line((nothing, "dim"))]
    (selected, event), *below = rows[min(view.event, len(rows) - 1) :]
    details = wrapped(f"What to do: {event['remedy']}", width, "    ") if event.get("remedy") else ()
    first = fixed((selected.plain, "select"), width)
    return [_last_minutes(events, model.time), first, *details, *(row for row, _ in below)]


def _moment(event: Document) -> tuple[object, ...]:
    return tuple(event[name] for name in ("node", "gpu", "mig_id", "time"))


def _is_news(event: Document, checks: Collection[tuple[object, ...]]) -> bool:
    """Return whether a change is more than that health became known, or than the change of a check at that moment."""
    if event["event"] != "health":
        return True
    if {event["before"], event["after"]} <= {"ok", "unknown"}:
        return False
    return bool(event["check"]) or _moment(event) not in checks


def _last_minutes(events: Sequence[Document], now: float) -> Text:
    """Return the numbers of recent changes by kind."""
    recent = Counter(_kind(event) for event in events if now - seconds_of(event["time"]) <= RECENT_SECONDS)
    text = ", ".join(f"{count} {kind}" for kind, count in sorted(recent.items())) or "no change"
    hints = [f"/{kind}" for kind in ("class", "owner") if recent[kind]]
    text += f" ({' and '.join(hints)} list{'s' * (len(hints) == 1)} those)" if hints else ""
    return line((f"last {duration(RECENT_SECONDS)}: {text}", "title"))


def _kind(event: Document) -> str:
    return str(event["event"]).replace("workload_class", "class")


def _row(event: Document, *, with_node: bool) -> Text:
    clock = time.strftime("%m-%d %H:%M:%S", time.localtime(seconds_of(event["time"])))
    name = gpu_name(str(event["gpu"]), event["mig_id"])
    where = left(f"{event['node']}/{name}", 14) if with_node else left(name, 4)
    style, text = _described(event)
    return line((f"{clock} ", "dim"), f"GPU {where} {left(_kind(event), 8)} ", (text, style))


def _described(event: Document) -> tuple[str, str]:
    """Return the style and the text of a change."""
    message = f": {event['message']}" if event.get("message") else ""
    match event["event"]:
        case "workload_class":
            return event["bottleneck"], words(f"{event['before']} -> {event['after']}")
        case "health":
            style = event["after"] if event["after"] in (*HEALTH_MARKS, "unknown") else ""
            return style, f"{event['check'] or 'the GPU'} {event['before']} -> {event['after']}{message}"
        case "xid":
            style = event["severity"] if event["severity"] in HEALTH_MARKS and event["severity"] != "ok" else ""
            times = f" {event['count']} times" if event["count"] > 1 else ""
            return style, f"XID {event['code']}{times}: {event['description']}"
        case "removal":
            return "warn", f"{event['reason']}: {event['message']}"
        case "owner":
            owner = event["owner"]
            user = f" ({owner['user']})" if owner["user"] else ""
            return "", f"{event['change']} of {owner['kind']} {owner['id']}{user}"
        case "finding":
            return "warn" if event["state"] == "suspected" else "ok", f"{event['finding']} {event['state']}{message}"
    return "", ""
