"""The last changes: classes, health, XIDs, owners, findings, and GPUs that are not expected any more."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from pulsed.terminal.line import Line, Segment, left, line, wrapped
from pulsed.terminal.model import Model, seconds_of
from pulsed.terminal.numbers import duration
from pulsed.terminal.view_state import ViewState

RECENT_SECONDS = 600.0
"""The time of the first line."""

_STATES = frozenset(("info", "warn", "hot", "crit"))


def changes(model: Model, view: ViewState, width: int, height: int) -> list[Line]:
    """Return changes, the newest first; `view.filter` is looked for in their text. Those of classes need a filter."""
    rows = []
    wanted = view.filter.lower()
    checks = {_moment(event) for event in model.events if event["event"] == "health" and event["check"]}
    events = [event for event in model.events if _is_news(event, checks)]
    for event in events:
        if event["event"] == "workload_class" and not wanted:
            continue
        row = change_line(event, with_node=model.has_several_nodes)
        if wanted in row.text.lower():
            rows.append((row, event))
    if not rows:
        return [
            _last_minutes(events, model.time),
            line(Segment("no change has this text" if wanted else "no changes so far", "dim")),
        ]
    first = max(min(view.scroll, len(rows) - 1), 0)
    lines = [_last_minutes(events, model.time)]
    for number, (row, event) in enumerate(rows[first:]):
        if len(lines) >= height:
            break
        lines.append(row.fitted(width).selected() if number == 0 else row)
        if number == 0:
            lines += _details(event, width)
    return lines[:height]


def _moment(event: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple(event[name] for name in ("node", "gpu", "mig_id", "time"))


def _is_news(event: Mapping[str, Any], checks: Collection[tuple[object, ...]]) -> bool:
    """Return whether a change is more than that health became known, or than the change of a check at that moment."""
    if event["event"] != "health":
        return True
    if {event["before"], event["after"]} <= {"ok", "unknown"}:
        return False
    return bool(event["check"]) or _moment(event) not in checks


def _last_minutes(events: Sequence[Mapping[str, Any]], now: float) -> Line:
    """Return the numbers of recent changes by kind."""
    recent = Counter(_kind(event) for event in events if now - seconds_of(event["time"]) <= RECENT_SECONDS)
    text = ", ".join(f"{count} {kind}" for kind, count in sorted(recent.items())) or "no change"
    text += " (/class lists the classes)" if recent["class"] else ""
    return line(Segment(f"last {duration(RECENT_SECONDS)}: {text}", "title"))


def _kind(event: Mapping[str, Any]) -> str:
    return str(event["event"]).replace("workload_class", "class")


def change_line(event: Mapping[str, Any], *, with_node: bool) -> Line:
    """Return a change as one line."""
    clock = time.strftime("%m-%d %H:%M:%S", time.localtime(seconds_of(event["time"])))
    place = f"{event['node']}/" if with_node else ""
    place += f"{event['gpu']}:{event['mig_id']}" if event["mig_id"] else str(event["gpu"])
    style, text = _TEXTS.get(event["event"], _other)(event)
    where = f"GPU {left(place, 4 if not with_node else 14)} "
    return line(Segment(f"{clock} ", "dim"), where, left(_kind(event), 8), " ", Segment(text, style))


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
