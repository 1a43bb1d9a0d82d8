"""Draws a dashboard's file as an SVG from what a Prometheus answers: a likeness for the documentation, not Grafana.

Reads the JSON alone, so that a picture shows the content of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise
from typing import Any

Json = dict[str, Any]
Ask = Callable[[str, bool], list[Json]]
"""Answers a query: at the end of the range (True) or over it (False)."""

CELL, LINE, MARGIN, HEAD, FOOT = 60, 32, 4, 26, 24
COLORS = {"green": "#73bf69", "red": "#f2495c", "orange": "#ff9830", "blue": "#5794f2", "yellow": "#fade2a"}
COLORS["text"] = "#d8d9da"
PALETTE = ("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#37872d", "#8ab8ff", "#e02f44", "#96d98d")
SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "percentunit": ((0.01, "%"),),
    "watt": ((1e3, "kW"), (1, "W")),
    "kwatth": ((1e3, "MWh"), (1, "kWh"), (1e-3, "Wh")),
    "joule": ((1e3, "kJ"), (1, "J"), (1e-3, "mJ")),
    "suffix: h": ((1, "h"),),
    "bytes": ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (1, "B")),
    "Bps": ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s")),
    "hertz": ((1e9, "GHz"), (1e6, "MHz"), (1, "Hz")),
    "celsius": ((1, "°C"),),
    "s": ((3600, "h"), (60, "min"), (1, "s")),
    "short": ((1, ""),),
}


def picture(board: Json, ask: Ask, start: float, end: float) -> str:
    """The SVG of a dashboard between two Unix times."""
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"]) * LINE
    body = "".join(_panel(panel, ask, start, end) for panel in board["panels"])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {24 * CELL} {height}" font-family="sans-serif"'
        f' font-size="11" fill="#ccccdc"><rect width="100%" height="100%" fill="#111217"/>{body}</svg>\n'
    )


def shown(value: float, unit: str) -> str:
    """A value with its unit, as a person reads it."""
    scale, word = next(
        (pair for pair in SCALES[unit] if abs(value) >= pair[0]), min(SCALES[unit], key=lambda pair: pair[0])
    )
    number = f"{value / scale:.3g}" if abs(value / scale) < 1000 else f"{value / scale:.0f}"
    return f"{number} {word}".strip()


@dataclass(frozen=True, slots=True)
class Box:
    """Where something is drawn."""

    x: float
    y: float
    w: float
    h: float


@dataclass(frozen=True, slots=True)
class Scale:
    """Where in a box a time and a value between 0 and `top` are."""

    box: Box
    start: float
    end: float
    top: float

    def x(self, at: float) -> float:
        return self.box.x + (at - self.start) / (self.end - self.start) * self.box.w

    def y(self, value: float) -> float:
        return self.box.y + self.box.h * (1 - min(max(value / self.top, 0), 1))


@dataclass(frozen=True, slots=True)
class Series:
    """What one series of an answer is called, and its points in time."""

    name: str
    labels: dict[str, str]
    points: tuple[tuple[float, float], ...]


def _panel(panel: Json, ask: Ask, start: float, end: float) -> str:
    place = panel["gridPos"]
    outer = Box(place["x"] * CELL, place["y"] * LINE, place["w"] * CELL, place["h"] * LINE)
    if panel["type"] == "row":
        return _text(outer.x + 8, outer.y + 21, panel["title"], size=14)
    inner = Box(outer.x + 8, outer.y + HEAD, outer.w - 16, outer.h - HEAD - 8)
    frame = (
        f'<rect x="{outer.x + MARGIN}" y="{outer.y + MARGIN}" width="{outer.w - 2 * MARGIN}"'
        f' height="{outer.h - 2 * MARGIN}" fill="#181b1f" stroke="#2b2e34"/>'
    )
    answers = [_series(target, ask(target["expr"], target["instant"])) for target in panel["targets"]]
    drawn = DRAWN_BY[panel["type"]](panel, inner, answers, start, end)
    return frame + _text(outer.x + 12, outer.y + 19, panel["title"], size=12) + "".join(drawn)


def _series(target: Json, answer: list[Json]) -> list[Series]:
    def name(labels: dict[str, str]) -> str:
        text = re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), target["legendFormat"])
        return " ".join(text.split())

    return [
        Series(
            name(series["metric"]),
            series["metric"],
            tuple((at, float(value)) for at, value in series.get("values", [series.get("value")])),
        )
        for series in answer
    ]


def _text(x: float, y: float, text: str, size: int = 11, anchor: str = "start", fill: str = "#ccccdc") -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'
    )


def _rect(box: Box, fill: str, opacity: float = 1.0) -> str:
    return (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{max(box.w, 0):.1f}" height="{box.h:.1f}" fill="{fill}"'
        f' fill-opacity="{opacity}"/>'
    )


def _reading(config: Json, value: float) -> tuple[str, str]:
    """How a value reads, and its colour, by mappings, thresholds and unit."""
    for mapping in config.get("mappings", []):
        if state := mapping["options"].get(f"{value:.0f}"):
            return state["text"], COLORS.get(state["color"], state["color"])
    steps = config.get("thresholds", {}).get("steps", [])
    color = next((step["color"] for step in reversed(steps) if (step["value"] or -1e99) <= value), "text")
    return shown(value, config.get("unit", "short")), COLORS.get(color, color)


def _override(panel: Json, name: str) -> Json:
    """What holds for one series or column only, by property."""
    return {
        each["id"]: each["value"]
        for override in panel["fieldConfig"]["overrides"]
        if override["matcher"]["options"] == name
        for each in override["properties"]
    }


def _color(panel: Json, name: str, number: int) -> str:
    own = _override(panel, name).get("color", {}).get("fixedColor")
    return COLORS.get(own, own) if own else PALETTE[number % len(PALETTE)]


def _timeseries(panel: Json, box: Box, answers: Sequence[list[Series]], start: float, end: float) -> Iterator[str]:
    every = [series for answer in answers for series in answer]
    plot = Box(box.x + 52, box.y + 4, box.w - 56, box.h - FOOT - 18)
    custom = panel["fieldConfig"]["defaults"]["custom"]
    stacked = custom["stacking"]["mode"] == "normal"
    times = sorted({at for series in every for at, _ in series.points})
    floor = dict.fromkeys(times, 0.0)
    edges: list[tuple[Series, list[tuple[float, float, float]]]] = []
    for series in every:
        edge = []
        for at, value in series.points:
            low = floor[at] if stacked else 0.0
            edge.append((at, low, low + value))
            if stacked:
                floor[at] = low + value
        edges.append((series, edge))
    top = panel["fieldConfig"]["defaults"].get("max") or max((high for _, e in edges for *_, high in e), default=1) or 1
    top *= 1.0 if panel["fieldConfig"]["defaults"].get("max") else 1.08
    scale = Scale(plot, start, end, top)
    for part in (0, 0.5, 1):
        y = scale.y(part * top)
        yield f'<path d="M{plot.x} {y:.0f}h{plot.w}" stroke="#2b2e34"/>'
        yield _text(plot.x - 5, y + 4, shown(part * top, panel["fieldConfig"]["defaults"]["unit"]), 10, "end")
    for number, (series, edge) in enumerate(edges):
        color = _color(panel, series.name, number)
        if stacked and not any(high > low for _, low, high in edge):
            continue
        line = _line([(scale.x(at), scale.y(high)) for at, _, high in edge])
        if stacked:
            back = _line([(scale.x(at), scale.y(low)) for at, low, _ in reversed(edge)])
            yield f'<path d="M{line}L{back}z" fill="{color}" fill-opacity="0.75"/>'
        else:
            yield f'<path d="M{line}" fill="none" stroke="{color}"/>'
    yield from _legend([(series.name, _color(panel, series.name, n)) for n, series in enumerate(every)], box)


def _line(points: Sequence[tuple[float, float]]) -> str:
    """The points of a path, without those in the middle of a level stretch."""
    rounded = [(f"{x:.0f}", f"{y:.1f}") for x, y in points]
    ends = {0, len(rounded) - 1}
    turns = (n for n, (_, y) in enumerate(rounded) if n in ends or not rounded[n - 1][1] == y == rounded[n + 1][1])
    return "L".join(" ".join(rounded[n]) for n in turns)


def _legend(names: Sequence[tuple[str, str]], box: Box) -> Iterator[str]:
    x, y = box.x + 4, box.y + box.h - 14
    for name, color in dict.fromkeys(names):
        width = 16 + 5.6 * len(name)
        if x + width > box.x + box.w:
            x, y = box.x + 4, y + 13
            if y > box.y + box.h:
                return
        yield _rect(Box(x, y - 6, 8, 4), color) + _text(x + 11, y, name, 10)
        x += width + 6


def _stat(panel: Json, box: Box, answers: Sequence[list[Series]], start: float, end: float) -> Iterator[str]:
    defaults = panel["fieldConfig"]["defaults"]
    values = [series.points[-1][1] for answer in answers for series in answer]
    text, color = _reading(defaults, values[0]) if values else (defaults["noValue"], "#8e8e8e")
    size = min(34, int(1.6 * box.w / max(len(text), 1)))
    yield _text(box.x + box.w / 2, box.y + box.h / 2 + size / 3, text, size, "middle", color)


def _bargauge(panel: Json, box: Box, answers: Sequence[list[Series]], start: float, end: float) -> Iterator[str]:
    defaults = panel["fieldConfig"]["defaults"]
    every = [series for answer in answers for series in answer][: int(box.h // 15)]
    top = defaults.get("max") or max((series.points[-1][1] for series in every), default=1) or 1
    step = min(box.h / max(len(every), 1), 30)
    for number, series in enumerate(every):
        value = series.points[-1][1]
        text, color = _reading(defaults, value)
        own = _override(panel, series.name).get("color", {}).get("fixedColor")
        y = box.y + number * step
        yield _text(box.x, y + step / 2 + 4, series.name, 10)
        room = box.w - 200
        yield _rect(Box(box.x + 130, y + 2, room, step - 4), "#22252b")
        yield _rect(Box(box.x + 130, y + 2, room * value / top, step - 4), own or color)
        yield _text(box.x + box.w, y + step / 2 + 4, text, 11, "end")


def _table(panel: Json, box: Box, answers: Sequence[list[Series]], start: float, end: float) -> Iterator[str]:
    (columns,) = (step["options"] for step in panel["transformations"] if step["id"] == "organize")
    titles = list(columns["renameByName"].values())
    rows: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for title, answer in zip(titles or ("",), answers, strict=True):
        for series in answer:
            rows.setdefault(tuple(series.labels.items()), {})[title] = series.points[-1][1]
    labels = dict.fromkeys(label for row in rows for label, _ in row if label not in columns["excludeByName"])
    shown_columns = [*labels, *titles]
    lengths = [max([len(column)] + [len(dict(row).get(column, "")) for row in rows]) for column in shown_columns]
    edges = [box.x + box.w * sum(lengths[:n]) / sum(lengths) for n in range(len(shown_columns))]
    for x, column in zip(edges, shown_columns, strict=True):
        yield _text(x, box.y + 10, column, 10, fill="#6ea0f5")
    for number, (row, cells) in enumerate(list(rows.items())[: int((box.h - 14) // 17)]):
        y = box.y + 28 + 17 * number
        for x, column in zip(edges, shown_columns, strict=True):
            if column in cells:
                text, color = _reading(panel["fieldConfig"]["defaults"] | _override(panel, column), cells[column])
                yield _text(x, y, text, 10, fill=color if _override(panel, column).get("mappings") else "#ccccdc")
            else:
                yield _text(x, y, dict(row).get(column, ""), 10)


def _timeline(panel: Json, box: Box, answers: Sequence[list[Series]], start: float, end: float) -> Iterator[str]:
    every = [series for answer in answers for series in answer]
    step = box.h / max(len(every), 1)
    for number, series in enumerate(every):
        y = box.y + number * step
        runs = [(value, next(points)[0]) for value, points in groupby(series.points, lambda point: point[1])]
        yield _text(box.x, y + step / 2 + 4, series.name, 10)
        left, width = box.x + 100, box.w - 100
        for (value, since), (_, until) in pairwise([*runs, (0.0, end)]):
            text, color = _reading(panel["fieldConfig"]["defaults"], value)
            x = left + (since - start) / (end - start) * width
            w = (until - since) / (end - start) * width
            yield _rect(Box(x, y + 4, w, step - 8), color, 0.85)
            if w > 6 * len(text):
                yield _text(x + w / 2, y + step / 2 + 4, text, 10, "middle", "#ffffff")


def _heatmap(panel: Json, box: Box, answers: Sequence[list[Series]], start: float, end: float) -> Iterator[str]:
    every = sorted((series for answer in answers for series in answer), key=lambda series: float(series.labels["le"]))
    below: dict[float, float] = {}
    rows: list[tuple[str, dict[float, float]]] = []
    for series in every:
        rows.append((series.labels["le"], {at: value - below.get(at, 0.0) for at, value in series.points}))
        below = dict(series.points)
    top = max((value for _, row in rows for value in row.values()), default=1) or 1
    step = box.h / max(len(rows), 1)
    for number, (le, row) in enumerate(rows):
        y = box.y + box.h - (number + 1) * step
        yield _text(box.x + 34, y + step / 2 + 4, f"≤ {le}", 10, "end")
        width = (box.w - 40) / max(len(row), 1)
        for at, value in row.items():
            x = box.x + 40 + (at - start) / (end - start) * (box.w - 40 - width)
            if value > 0:
                yield _rect(Box(x, y + 1, width, step - 2), "#ff780a", round((value / top) ** 0.5, 2))


DRAWN_BY = {
    "timeseries": _timeseries,
    "stat": _stat,
    "bargauge": _bargauge,
    "table": _table,
    "state-timeline": _timeline,
    "heatmap": _heatmap,
}
