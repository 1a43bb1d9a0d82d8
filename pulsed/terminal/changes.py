"""The last changes: classes, health, XIDs, owners, findings, and GPUs that are not expected any more."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence

from pulsed.terminal.line import Line, Segment, left, line, styled, wrapped
from pulsed.terminal.model import Document, GpuState, Model, gpu_name, seconds_of
from pulsed.terminal.numbers import duration
from pulsed.terminal.view_state import ViewState
from pulsed.terminal.words import HEALTH_MARKS, words

RECENT_SECONDS = 600.0
"""The time of the first line."""

UNLISTED = ("workload_class", "owner")
"""Kinds that are counted; a start of many owners would bury an XID."""


def changes(model: Model, view: ViewState, gpus: Sequence[GpuState], width: int, height: int) -> list[Line]:
    """Return changes, the newest first; `view.filter` is looked for in their text. `UNLISTED` needs one."""
    wanted = view.filter.lower()
    events = [event for daemon in model.daemons for event in daemon.events]
    if len(model.daemons) > 1:
        events.sort(key=lambda event: -seconds_of(event["time"]))
    checks = {_moment(event) for event in events if event["event"] == "health" and event["check"]}
    events = [event for event in events if _is_news(event, checks)]
    listed = [event for event in events if wanted or event["event"] not in UNLISTED]
    rows = [(_row(event, with_node=model.has_several_nodes), event) for event in listed]
    rows = [(row, event) for row, event in rows if wanted in row.text.lower()]
    if not rows:
        nothing = "no change has this text" if wanted else "no changes so far"
        return [_last_minutes(events, model.time), styled(nothing, "dim")]
    (selected, event), *below = rows[max(min(view.scroll, len(rows) - 1), 0) :]
    details = wrapped(f"What to do: {event['remedy']}", width, "    ") if event.get("remedy") else ()
    first = selected.fitted(width).styled("select")
    return [_last_minutes(events, model.time), first, *details, *(row for row, _ in below)][:height]


def _moment(event: Document) -> tuple[object, ...]:
    return tuple(event[name] for name in ("node", "gpu", "mig_id", "time"))


def _is_news(event: Document, checks: Collection[tuple[object, ...]]) -> bool:
    """Return whether a change is more than that health became known, or than the change of a check at that moment."""
    if event["event"] != "health":
        return True
    if {event["before"], event["after"]} <= {"ok", "unknown"}:
        return False
    return bool(event["check"]) or _moment(event) not in checks


def _last_minutes(events: Sequence[Document], now: float) -> Line:
    """Return the numbers of recent changes by kind."""
    recent = Counter(_kind(event) for event in events if now - seconds_of(event["time"]) <= RECENT_SECONDS)
    text = ", ".join(f"{count} {kind}" for kind, count in sorted(recent.items())) or "no change"
    hints = [f"/{kind}" for kind in ("class", "owner") if recent[kind]]
    text += f" ({' and '.join(hints)} list{'s' * (len(hints) == 1)} those)" if hints else ""
    return styled(f"last {duration(RECENT_SECONDS)}: {text}", "title")


def _kind(event: Document) -> str:
    return str(event["event"]).replace("workload_class", "class")


def _row(event: Document, *, with_node: bool) -> Line:
    clock = time.strftime("%m-%d %H:%M:%S", time.localtime(seconds_of(event["time"])))
    name = gpu_name(str(event["gpu"]), event["mig_id"])
    where = left(f"{event['node']}/{name}", 14) if with_node else left(name, 4)
    style, text = _described(event)
    return line(Segment(f"{clock} ", "dim"), f"GPU {where} {left(_kind(event), 8)} ", Segment(text, style))


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
