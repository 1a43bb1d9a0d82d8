"""What a dashboard is made of, as data: rows of panels, each a title, a meaning and its queries.

Knows no Grafana JSON (`tools.dashboards.grafana` writes that) and no metric (`fleet` and `gpu` name those).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pulsed.compute.health.model import SEVERITY
from pulsed.compute.saturation import LIMITING_RESOURCES
from pulsed.compute.workload.class_table import WORKLOAD_CLASSES
from pulsed.compute.workload.result import BOTTLENECK_STATES as BOTTLENECKS

Kind = Literal["timeseries", "stat", "table", "state-timeline", "heatmap", "bargauge"]

COUNT, RATIO, BYTES, BYTE_RATE = "short", "percentunit", "bytes", "Bps"
WATT, CELSIUS, HERTZ, SECONDS = "watt", "celsius", "hertz", "s"
"""Grafana's ids of units; pulsed's values are in them as they come."""

KWH, HOURS = "kwatth", "suffix: h"
"""Of joules and seconds that a query has converted."""

Limits = tuple[tuple[float | None, str], ...]
"""From which values on which colours hold, the first one from below."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question to Prometheus.

    Attributes:
        expr: PromQL, with Grafana's variables.
        legend: what a series of the answer is called; in a table the title of the column, empty to leave it out.
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
        description: what it means and what to do about it, for the one who looks at it.
        queries: what it asks; the answers are drawn together.
        unit: of the values.
        width: in Grafana's grid of 24 columns.
        height: in the rows of that grid.
        stacked: whether the series add up to something.
        top: the largest value of the axis; None for what comes.
        limits: colours by value.
        states: how numbers read, where they stand for words.
        band: whether the first two queries are the upper and the lower edge of a band.
        runbook: heading of HEALTH.md that its values link to.
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


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a headline."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """What the one who looks chooses.

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
class Dashboard:
    """A dashboard; `uid` is its address in Grafana and the name of its file.

    Attributes:
        points: most points of a line; 0 for as many as there are pixels.
    """

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    points: int = 0

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels, from the top."""
        return tuple(panel for row in self.rows for panel in row.panels)


def _states(words: Sequence[str], colors: Sequence[str]) -> tuple[State, ...]:
    return tuple(State(value, word, color) for value, (word, color) in enumerate(zip(words, colors, strict=True)))


_SEVERITY_COLORS = ("#8e8e8e", "green", "blue", "yellow", "orange", "red")
SEVERITIES = tuple(
    State(value, state, color) for (state, value), color in zip(SEVERITY.items(), _SEVERITY_COLORS, strict=True)
)
"""How `pulsed_gpu_health_severity` and `pulsed_gpu_health_check` read."""

CLASSES = _states(
    WORKLOAD_CLASSES,
    (
        *("#6e7681", "#7c2bd9", "#a352f0", "#e02f9b", "#f2cc0c", "#3274d9", "#1a7f37"),
        *("#56a64b", "#6ca4f0", "#ff9830", "#c7b28a", "#8ab8a8", "#d0d0d0"),
    ),
)
"""How `state_number` of the workload class reads."""

RESOURCES = _states(
    LIMITING_RESOURCES,
    (
        *("#a352f0", "#e02f9b", "#56a64b", "#1a7f37", "#8ab8a8", "#3274d9", "#f2cc0c", "#ff9830"),
        *("#6e7681", "#d0d0d0"),
    ),
)
BOTTLENECK = _states(BOTTLENECKS, ("#6e7681", "#a352f0", "#f2cc0c", "#3274d9", "#8ab8a8", "#d0d0d0"))
IDLE = (State(0, "free", "green"), State(1, "held", "orange"), State(2, "unknown", "#d0d0d0"))
UP = (State(0, "down", "red"), State(1, "up", "green"))


def chained_variables(*, several: bool) -> tuple[Variable, ...]:
    """Return the variables of a dashboard, each with the values that those before it leave.

    Args:
        several: whether any number of nodes and GPUs can be chosen, else one.
    """
    chain = 'cluster=~"$cluster"'
    node = f'{chain},job=~"$job",node=~"$node"'
    return (
        Variable("cluster", "Cluster", "pulsed_build_info", "cluster", True, "A label that Prometheus adds, if any."),
        Variable("job", "Job", f"pulsed_build_info{{{chain}}}", "job", True, "Job of the scrape configuration."),
        Variable("node", "Node", f'pulsed_gpu_info{{{chain},job=~"$job"}}', "node", several, "Host of the GPUs."),
        Variable("model", "Model", f"pulsed_gpu_info{{{node}}}", "model", True, "Product name."),
        Variable("gpu", "GPU", f'pulsed_gpu_info{{{node},model=~"$model"}}', "gpu", several, "Index on its node."),
    )
