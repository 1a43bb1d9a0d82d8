"""The last changes: classes, health, XIDs, owners, findings, and GPUs that are not expected any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pulsed.present.terminal.line import Line, Segment, line, wrapped
from pulsed.present.terminal.model import Model
from pulsed.present.terminal.summary import seconds_of
from pulsed.present.terminal.text import left
from pulsed.present.terminal.view_state import ViewState

_STATES = frozenset(("info", "warn", "hot", "crit"))


def changes(model: Model, view: ViewState, width: int, height: int) -> list[Line]:
    """Return changes, the newest first; `view.filter` is looked for in their text."""
    rows = []
    wanted = view.filter.lower()
    for event in model.events:
        row = change_line(event, with_node=model.has_several_nodes)
        if wanted in row.text.lower():
            rows.append((row, event))
    if not rows:
        return [line(Segment("no changes so far" if not model.events else "no change has this text", "dim"))]
    first = max(min(view.scroll, len(rows) - 1), 0)
    lines: list[Line] = []
    for number, (row, event) in enumerate(rows[first:]):
        if len(lines) >= height:
            break
        lines.append(row.fitted(width).selected() if number == 0 else row)
        if number == 0:
            lines += _details(event, width)
    return lines[:height]


def change_line(event: Mapping[str, Any], *, with_node: bool) -> Line:
    """Return a change as one line."""
    clock = time.strftime("%m-%d %H:%M:%S", time.localtime(seconds_of(event["time"])))
    place = f"{event['node']}/" if with_node else ""
    place += f"{event['gpu']}:{event['mig_id']}" if event["mig_id"] else str(event["gpu"])
    style, text = _TEXTS.get(event["event"], _other)(event)
    kind = str(event["event"]).replace("workload_class", "class")
    return line(Segment(f"{clock} ", "dim"), f"GPU {left(place, 4 if not with_node else 14)} ", left(kind, 8), " ",
                Segment(text, style))  # fmt: skip


def _details(event: Mapping[str, Any], width: int) -> Iterator[Line]:
    if event.get("remedy"):
        yield from wrapped(f"What to do: {event['remedy']}", width, "    ")


def _class(event: Mapping[str, Any]) -> tuple[str, str]:
    style = event["bottleneck"] if event["bottleneck"] != "unknown" else "unknown"
    return style, f"{event['before']} -> {event['after']}".replace("_", " ")


def _health(event: Mapping[str, Any]) -> tuple[str, str]:
    check = event["check"] or "the GPU"
    message = f": {event['message']}" if event["message"] else ""
    style = event["after"] if event["after"] in (*_STATES, "ok", "unknown") else ""
    return style, f"{check} {event['before']} -> {event['after']}{message}"


def _xid(event: Mapping[str, Any]) -> tuple[str, str]:
    times = f" {event['count']} times" if event["count"] > 1 else ""
    style = event["severity"] if event["severity"] in _STATES else ""
    return style, f"XID {event['code']}{times}: {event['description']}"


def _removal(event: Mapping[str, Any]) -> tuple[str, str]:
    return "warn", f"{event['reason']}: {event['message']}"


def _owner(event: Mapping[str, Any]) -> tuple[str, str]:
    owner = event["owner"]
    user = f" ({owner['user']})" if owner["user"] else ""
    return "", f"{event['change']} of {owner['kind']} {owner['id']}{user}"


def _finding(event: Mapping[str, Any]) -> tuple[str, str]:
    message = f": {event['message']}" if event["message"] else ""
    return "warn" if event["state"] == "suspected" else "ok", f"{event['finding']} {event['state']}{message}"


def _other(event: Mapping[str, Any]) -> tuple[str, str]:
    return "", ""


_TEXTS: Mapping[str, Callable[[Mapping[str, Any]], tuple[str, str]]] = {
    "workload_class": _class,
    "health": _health,
    "xid": _xid,
    "removal": _removal,
    "owner": _owner,
    "finding": _finding,
}
