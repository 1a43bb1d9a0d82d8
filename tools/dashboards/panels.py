"""Writes one panel in Grafana's JSON: its queries, how values read, and how they are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.dashboards.model import Kind, Panel, Query, State
from tools.dashboards.units import CELSIUS, COUNT, RATIO
from tools.references import RUNBOOK

Json = dict[str, Any]

SOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
"""Whatever the one who looks chooses."""

TO_GPU = "/d/pulsed-gpu?${datasource:queryparam}&${cluster:queryparam}&${job:queryparam}&${__url_time_range}"
"""The dashboard of one GPU, without the GPU."""

TO_FLEET = TO_GPU.replace("pulsed-gpu", "pulsed-fleet")
"""The dashboard of the fleet, without a node."""

TO_OWNERS = TO_GPU.replace("pulsed-gpu", "pulsed-owners")
"""The dashboard of owners, without an owner."""

TO_DAEMON = "${page:raw}${__data.fields.instance}/#/%s"
"""A view of the page of the daemon of a row."""

OF_ROW, OF_SERIES = "${__data.fields.%s}", "${__field.labels.%s}"
"""A label of a row of a table, and of a series."""

_OWNER_VIEWS = {"job_id": f"job/{OF_ROW % 'job_id'}", "pod": f"pod/{OF_ROW % 'namespace'}/{OF_ROW % 'pod'}"}
"""Views of the page for an owner, by the column of its name."""

INSTANT: frozenset[Kind] = frozenset({"stat", "table", "bargauge"})
"""Panels that show the last value only."""


def panel_json(panel: Panel) -> Json:
    """A panel without its number and place."""
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "targets": [_target(query, panel.kind, chr(ord("A") + n)) for n, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": list(_overrides(panel))},
        "options": _options(panel),
        **({"transformations": _transformations(panel)} if panel.kind == "table" else {}),
    }


def _target(query: Query, kind: Kind, letter: str) -> Json:
    instant = kind in INSTANT
    return {
        "refId": letter,
        "datasource": SOURCE,
        "expr": query.expr,
        "editorMode": "code",
        "format": {"table": "table", "heatmap": "heatmap"}.get(kind, "time_series"),
        "instant": instant,
        "range": not instant,
        "legendFormat": query.legend if kind != "table" else "",
    }


def _mappings(states: tuple[State, ...]) -> list[Json]:
    options = {
        str(state.value): {"text": state.text, "color": state.color, "index": n} for n, state in enumerate(states)
    }
    return [{"type": "value", "options": options}] if options else []


def _thresholds(panel: Panel) -> Json:
    steps = panel.limits or ((None, "text" if panel.kind == "stat" else "blue"),)
    return {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]}


def _is_named_by_state(panel: Panel) -> bool:
    """Whether each series is a state, rather than its value being one."""
    return panel.kind in ("timeseries", "bargauge")


def _defaults(panel: Panel) -> Json:
    limited = panel.limits or panel.states
    defaults: Json = {
        "unit": panel.unit,
        "color": {
            "mode": "thresholds" if limited or panel.kind in ("stat", "table", "bargauge") else "palette-classic"
        },
        "thresholds": _thresholds(panel),
        "mappings": [] if _is_named_by_state(panel) else _mappings(panel.states),
        "custom": _custom(panel),
        "noValue": "no data",
        "links": list(_links(panel)),
    }
    if panel.unit == COUNT and panel.kind == "stat":
        defaults["decimals"] = 1 if any("rate(" in query.expr for query in panel.queries) else 0
    if panel.kind == "timeseries" and not panel.limits:
        defaults["color"] = {"mode": "palette-classic"}
    if panel.kind == "bargauge":
        defaults["min"] = 0
    if panel.top is not None:
        defaults["max"] = panel.top
    return defaults


def _link(title: str, url: str, *, is_external: bool = False) -> Json:
    return {"title": title, "url": url, "targetBlank": is_external}


def _to_gpu(of: str) -> Json:
    chosen = "".join(f"&var-{name}={of % name}" for name in ("node", "gpu", "mig_id"))
    return _link("This GPU in depth", TO_GPU + chosen)


def _links(panel: Panel) -> Iterator[Json]:
    """Links of the values that are drawn: to their GPU, if each series is one, and to the runbook."""
    if panel.kind != "table" and any("{{gpu}}" in query.legend for query in panel.queries):
        yield _to_gpu(OF_SERIES)
    if panel.runbook:
        yield _link("Runbook", f"{RUNBOOK}#{panel.runbook}", is_external=True)


def _custom(panel: Panel) -> Json:
    if panel.kind == "timeseries":
        return {
            "drawStyle": "line",
            "lineInterpolation": "linear",
            "lineWidth": 1,
            "fillOpacity": 70 if panel.stacked else 0 if panel.band else 8,
            "gradientMode": "none",
            "showPoints": "auto",
            "pointSize": 4,
            "spanNulls": False,
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
            "axisPlacement": "auto",
            "axisLabel": "",
            "axisSoftMin": 0,
            "scaleDistribution": {"type": "linear"},
            "hideFrom": {"legend": False, "tooltip": False, "viz": False},
            "thresholdsStyle": {"mode": "off"},
        }
    if panel.kind == "state-timeline":
        hide = {"legend": False, "tooltip": False, "viz": False}
        return {"lineWidth": 0, "fillOpacity": 85, "hideFrom": hide}
    if panel.kind == "table":
        return {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False}
    return {}


def _override(name: str, **properties: Any) -> Json:
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()],
    }


def _overrides(panel: Panel) -> Iterator[Json]:
    if panel.kind == "table":
        for query in panel.queries:
            if not query.legend:
                continue
            if query.states:
                text = {"type": "color-text"}
                yield _override(query.legend, mappings=_mappings(query.states), custom__cellOptions=text)
            elif query.unit == RATIO:
                bar = {"type": "gauge", "mode": "lcd", "valueDisplayMode": "text"}
                yield _override(query.legend, unit=RATIO, min=0, max=1, custom__cellOptions=bar)
            else:
                yield _override(query.legend, unit=query.unit)
        to_node = [_link("The GPUs of this node", f"{TO_FLEET}&var-node={OF_ROW % 'node'}")]
        for column in ("node", "gpu"):
            is_node = column == "node" and panel.links_to_nodes
            yield _override(column, links=to_node if is_node else [_to_gpu(OF_ROW)])
        for column, view in _OWNER_VIEWS.items():
            links = [_link("This owner in depth", f"{TO_OWNERS}&var-{column}={OF_ROW % column}")]
            if panel.links_to_daemon:
                links.append(_link("Its report on the page of pulsed", TO_DAEMON % view, is_external=True))
            yield _override(column, links=links)
        yield _override("check", links=[_link("Runbook", f"{RUNBOOK}#{OF_ROW % 'check'}", is_external=True)])
    if panel.band:
        upper, lower = (query.legend for query in panel.queries[:2])
        faint = {"mode": "fixed", "fixedColor": "#8e8e8e"}
        yield _override(upper, color=faint, custom__fillBelowTo=lower, custom__fillOpacity=15, custom__lineWidth=0)
        yield _override(lower, color=faint, custom__lineWidth=0)
    if _is_named_by_state(panel):
        for state in panel.states:
            yield _override(state.text, color={"mode": "fixed", "fixedColor": state.color})


def _options(panel: Panel) -> Json:
    last: Json = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    list_legend: Json = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
    match panel.kind:
        case "timeseries":
            return {"legend": list_legend, "tooltip": {"mode": "multi", "sort": "desc"}}
        case "stat":
            return {
                "reduceOptions": last,
                "colorMode": "value",
                "graphMode": "none",
                "justifyMode": "auto",
                "orientation": "auto",
                "textMode": "value",
            }
        case "bargauge":
            return {
                "reduceOptions": last,
                "displayMode": "basic",
                "orientation": "horizontal",
                "showUnfilled": True,
                "valueMode": "color",
                "minVizWidth": 0,
                "minVizHeight": 10,
            }
        case "table":
            first = panel.queries[0]
            order = [{"displayName": first.legend, "desc": first.unit != CELSIUS}] if first.legend else []
            footer: Json = {"show": False, "reducer": ["sum"], "fields": "", "countRows": False}
            return {"showHeader": True, "cellHeight": "sm", "footer": footer, "sortBy": order}
        case "state-timeline":
            return {
                "alignValue": "center",
                "legend": list_legend | {"showLegend": False},
                "mergeValues": True,
                "rowHeight": 0.9,
                "showValue": "auto",
                "tooltip": {"mode": "single", "sort": "none"},
            }
        case "heatmap":
            return {
                "calculate": False,
                "cellGap": 1,
                "color": {"mode": "scheme", "scheme": "Oranges", "fill": "dark-orange", "steps": 64, "exponent": 0.5},
                "filterValues": {"le": 1e-9},
                "legend": {"show": True},
                "rowsFrame": {"layout": "auto"},
                "showValue": "never",
                "tooltip": {"mode": "single", "show": True, "yHistogram": False},
                "yAxis": {"axisPlacement": "left", "reverse": False, "unit": panel.unit},
            }


def _transformations(panel: Panel) -> list[Json]:
    """One line per GPU: the answers side by side, named."""
    many = len(panel.queries) > 1
    names = {f"Value #{chr(ord('A') + n)}" if many else "Value": query.legend for n, query in enumerate(panel.queries)}
    organize: Json = {
        "excludeByName": dict.fromkeys((*_HIDDEN, *(name for name, title in names.items() if not title)), True),
        "indexByName": {},
        "renameByName": {name: title for name, title in names.items() if title},
    }
    return [{"id": "merge", "options": {}}, {"id": "organize", "options": organize}]


_HIDDEN = ("Time", "uuid", "__name__", "cluster")
"""Columns that no one reads."""
