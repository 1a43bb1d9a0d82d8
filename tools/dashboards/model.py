"""The parts of a dashboard as data: rows of panels, each with title, meaning and queries.

Independent of Grafana's JSON, which `tools.dashboards.grafana` writes, and of metrics, which `fleet`, `gpu` and
`owners` name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tools.dashboards.units import COUNT

Kind = Literal["timeseries", "stat", "table", "state-timeline", "heatmap", "bargauge"]

Limits = tuple[tuple[float | None, str], ...]
"""From which values on which colours hold, the first one from below."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query to Prometheus.

    Attributes:
        expr: PromQL, with Grafana's variables.
        legend: the name of a series of the result; in a table the title of the column, empty to leave it out.
        unit: of a table's column; elsewhere the panel has one.
        states: how the numbers of a table's column read.
    """

    expr: str
    legend: str = ""
    unit: str = COUNT
    states: tuple[State, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """How a number reads: as a word, in a colour."""

    value: int
    text: str
    color: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel.

    Attributes:
        title: a few words.
        kind: how it is drawn.
        description: what it means and what to do about it.
        queries: drawn together.
        unit: of the values.
        width: in Grafana's grid of 24 columns.
        height: in the rows of that grid.
        stacked: whether the series add up to something.
        top: the largest value of the axis; None for what comes.
        limits: colours by value.
        states: how numbers read, where they stand for words.
        band: whether the first two queries are the upper and the lower edge of a band.
        runbook: heading of docs/health.md that its values link to.
        links_to_daemon: whether owners in a table link to the page of their daemon, which the label `instance` names.
        links_to_nodes: whether nodes in a table link to the dashboard of the fleet, with the node chosen.
        opens: title of the panel of the same dashboard that a stat links to; empty for none.
    """

    title: str
    kind: Kind
    description: str
    queries: tuple[Query, ...]
    unit: str = COUNT
    width: int = 8
    height: int = 8
    stacked: bool = False
    top: float | None = None
    limits: Limits = ()
    states: tuple[State, ...] = ()
    band: bool = False
    runbook: str = ""
    links_to_daemon: bool = False
    links_to_nodes: bool = False
    opens: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a headline."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice of the viewer.

    Attributes:
        name: as in `$name`.
        label: as on the page.
        metric: whose label it is, with a selector; it may name the variables before it.
        of: the label.
        several: whether any number of values can be chosen; all of them at first, and also series without the label.
        description: what it chooses.
    """

    name: str
    label: str
    metric: str
    of: str
    several: bool
    description: str


@dataclass(frozen=True, slots=True)
class Found:
    """A hidden variable: the values of a label in the result of a query, evaluated when the dashboard is loaded.

    Attributes:
        name: as in `$name`.
        expr: PromQL; it may name the variables before it.
        of: the label.
        several: whether it has all values, of which any matches; else the first, empty if there is none.
        description: what it is for.
    """

    name: str
    expr: str
    of: str
    several: bool
    description: str


@dataclass(frozen=True, slots=True)
class TextBox:
    """A text that the viewer can edit."""

    name: str
    label: str
    text: str
    description: str


@dataclass(frozen=True, slots=True)
class Annotation:
    """Marks over all charts, where a query has values above 0; adjacent ones are one region.

    Attributes:
        name: of the switch at the top.
        expr: PromQL, with Grafana's variables.
        text: as a legend: `{{label}}` is the value of a label.
        color: of the marks.
    """

    name: str
    expr: str
    text: str
    color: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard; `uid` is its address in Grafana and the name of its file.

    Attributes:
        annotations: marks over the charts.
        points: most points of a line; 0 for as many as there are pixels.
        found: variables that are not shown, after the others.
        texts: variables with a text, after the others.
    """

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    annotations: tuple[Annotation, ...]
    points: int = 0
    found: tuple[Found, ...] = ()
    texts: tuple[TextBox, ...] = ()

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels, from the top."""
        return tuple(panel for row in self.rows for panel in row.panels)
