"""Writes dashboards in Grafana's JSON, schema version 38 (Grafana 10.0), with nothing that later versions dropped.

How a panel is written is in `tools.dashboards.panels`; this is the page around them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from tools.dashboards.model import Annotation, Dashboard, Found, Row, TextBox, Variable
from tools.dashboards.panels import SOURCE, Json, panel_json

COLUMNS = 24
OPEN_ROWS = 3
"""The first rows of a dashboard, which are not collapsed: Grafana does not query the panels of the others."""


def document(dashboard: Dashboard) -> str:
    """The file of a dashboard."""
    return json.dumps(_dashboard(dashboard), indent=2, ensure_ascii=False) + "\n"


def _dashboard(dashboard: Dashboard) -> Json:
    panels = list(_panels(dashboard.rows))
    drawn = [each for panel in panels for each in (panel, *panel.get("panels", ()))]
    for panel in drawn:
        if dashboard.points and panel["type"] in ("timeseries", "heatmap"):
            panel["maxDataPoints"] = dashboard.points
    _link_stats(dashboard, drawn)
    types = sorted({panel["type"] for panel in drawn} - {"row"})
    queried = (*map(_variable, dashboard.variables), *map(_found, dashboard.found))
    return {
        "__requires": [
            {"type": "grafana", "id": "grafana", "name": "Grafana", "version": "10.0.0"},
            {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"},
            *({"type": "panel", "id": each, "name": each, "version": ""} for each in types),
        ],
        "annotations": {"list": [_annotation(each) for each in dashboard.annotations]},
        "description": dashboard.description,
        "editable": True,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,
        "id": None,
        "links": [
            {
                "type": "dashboards",
                "title": "pulsed",
                "tags": ["pulsed"],
                "asDropdown": False,
                "includeVars": True,
                "keepTime": True,
                "targetBlank": False,
                "icon": "external link",
                "tooltip": "",
                "url": "",
            }
        ],
        "liveNow": False,
        "panels": panels,
        "refresh": "30s",
        "schemaVersion": 38,
        "tags": ["pulsed", "gpu"],
        "templating": {"list": [_DATASOURCE, *queried, *map(_text_box, dashboard.texts)]},
        "time": {"from": "now-1h", "to": "now"},
        "timepicker": {},
        "timezone": "browser",
        "title": dashboard.title,
        "uid": dashboard.uid,
        "version": 1,
        "weekStart": "",
    }


def _link_stats(dashboard: Dashboard, drawn: Sequence[Json]) -> None:
    """Link the stats to the panels that they open."""
    numbers = {panel["title"]: panel["id"] for panel in drawn if panel["type"] not in ("row", "stat")}
    opened = {panel.title: panel.opens for panel in dashboard.panels if panel.opens}
    for panel in drawn:
        if panel["type"] == "stat" and (title := opened.get(panel["title"])):
            url = f"/d/{dashboard.uid}?${{__all_variables}}&${{__url_time_range}}&viewPanel={numbers[title]}"
            panel["fieldConfig"]["defaults"]["links"].append({"title": title, "url": url, "targetBlank": False})


_DATASOURCE: Json = {
    "name": "datasource",
    "label": "Prometheus",
    "description": "The Prometheus that scrapes pulsed.",
    "type": "datasource",
    "query": "prometheus",
    "current": {},
    "hide": 0,
    "includeAll": False,
    "multi": False,
    "options": [],
    "refresh": 1,
    "regex": "",
    "skipUrlSync": False,
}


def _annotation(annotation: Annotation) -> Json:
    """Return an annotation; `target` and the fields next to it are for newer and older versions of Grafana."""
    return {
        "name": annotation.name,
        "datasource": SOURCE,
        "enable": True,
        "hide": False,
        "iconColor": annotation.color,
        "expr": annotation.expr,
        "target": {"refId": "Anno", "datasource": SOURCE, "expr": annotation.expr, "interval": ""},
        "titleFormat": annotation.name,
        "textFormat": annotation.text,
        "tagKeys": "",
        "useValueForTime": False,
    }


def _text_box(variable: TextBox) -> Json:
    return {
        "name": variable.name,
        "label": variable.label,
        "description": variable.description,
        "type": "textbox",
        "query": variable.text,
        "current": {"text": variable.text, "value": variable.text},
        "hide": 0,
        "options": [],
        "skipUrlSync": False,
    }


def _variable(variable: Variable) -> Json:
    query = f"label_values({variable.metric}, {variable.of})"
    return _queried(variable, variable.label, query, {"hide": 0, "regex": "", "skipUrlSync": False}, ".*")


def _found(variable: Found) -> Json:
    regex = "/^([^{]+)/" if variable.of == "__name__" else f'/[{{,]{variable.of}="([^"]+)"/'
    query = f"query_result({variable.expr})"
    return _queried(variable, variable.name, query, {"hide": 2, "regex": regex, "skipUrlSync": True}, None)


def _queried(variable: Variable | Found, label: str, query: str, own: Json, every: str | None) -> Json:
    """Return a variable with the result of a query; `every` is the value of All, None for all results."""
    chosen: Json = {"current": {"selected": True, "text": ["All"], "value": ["$__all"]}, "allValue": every}
    return {
        "name": variable.name,
        "label": label,
        "description": variable.description,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "hide": own["hide"],
        "includeAll": variable.several,
        "multi": variable.several,
        "options": [],
        "refresh": 2,
        "regex": own["regex"],
        "skipUrlSync": own["skipUrlSync"],
        "sort": 3,
        **(chosen if variable.several else {"current": {}}),
    }


def _panels(rows: tuple[Row, ...]) -> Iterator[Json]:
    """Place the panels from left to right, as many as fit beside each other, under the headline of their row.

    A collapsed row contains its panels, and takes one line.
    """
    number, top = 1, 0
    for at, row in enumerate(rows):
        is_collapsed = at >= OPEN_ROWS
        place = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
        inside: list[Json] = []
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": is_collapsed,
            "gridPos": place,
            "panels": inside,
        }
        number, floor = number + 1, [top + 1] * COLUMNS
        for panel in row.panels:
            x, y = _free(floor, panel.width)
            floor[x : x + panel.width] = [y + panel.height] * panel.width
            place = {"x": x, "y": y, "w": panel.width, "h": panel.height}
            placed = {"id": number, **panel_json(panel), "gridPos": place}
            number += 1
            if is_collapsed:
                inside.append(placed)
            else:
                yield placed
        top = top + 1 if is_collapsed else max(floor)


def _free(floor: list[int], width: int) -> tuple[int, int]:
    """The highest place for a panel, of several the leftmost; `floor` is the first free line of each column."""
    y, x = min((max(floor[x : x + width]), x) for x in range(COLUMNS - width + 1))
    return x, y
