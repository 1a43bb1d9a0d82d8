"""What a rule is: recording rules, alerts, groups of them; and how a recorded series is named.

The naming is Prometheus' `level:metric:operations`. The level is `gpu`: one series per GPU or MIG instance, as the
identity labels tell them apart. The metric is `pulsed_` and the word that pulsed uses everywhere else. The operation is
what was done last: `max` (of the rows that say the same), `low` and `high` (the least and the most that it can be),
`mean`, `sum`, `count`, `raw` (of this moment alone, nothing held).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pulsed.errors import UsageError

Severity = Literal["critical", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording rule.

    Attributes:
        record: name of the series that it makes.
        expr: PromQL, may have several lines.
        comment: what it is for; empty when the name says it.
        labels: put on its series.
    """

    record: str
    expr: str
    comment: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule.

    Attributes:
        name: of the alert, in CamelCase.
        expr: PromQL; fires for every series that it gives.
        hold: how long it must hold, such as `10m`.
        severity: `critical` (somebody must look now), `warning` (today), `info` (worth knowing).
        summary: one line; may use Prometheus' templates.
        description: what it means and what to do.
    """

    name: str
    expr: str
    hold: str
    severity: Severity
    summary: str
    description: str


Rule = Recording | Alert


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after the other at the same instant, so that each sees what those before it made.

    Attributes:
        name: of the group.
        rules: in this order.
        comment: what they are about.
    """

    name: str
    rules: Sequence[Rule]
    comment: str


def recorded(metric: str, operation: str) -> str:
    """Name a recorded series.

    >>> recorded("sm_active_ratio", "max")
    'gpu:pulsed_sm_active_ratio:max'
    """
    return f"gpu:pulsed_{metric}:{operation}"


SEEN = recorded("seen", "group")
"""1 for every GPU that any series tells of: what "a GPU of which nothing is known" starts from."""

NOTHING = f"0 * {SEEN}"
"""0 for every GPU."""

INSTANCE, MODEL = "GPU_I_ID", "modelName"
"""Labels the rules look at, besides telling GPUs apart: MIG instances have the first, the second is the product."""

DEFAULT_LABELS = ("cluster", "Hostname", "hostname", "UUID", "gpu", INSTANCE, "GPU_I_PROFILE", MODEL)
"""dcgm-exporter's names for what a GPU is and where; `Hostname` became `hostname` in 4.8.3. The labels of pods, jobs
and processes are left out: several rows of one GPU that differ in them say the same."""

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OWN_LABELS = frozenset({"class", "bottleneck", "resource", "lesser", "greater", "kind"})


@dataclass(frozen=True, slots=True)
class IdentityLabels:
    """Which labels tell one GPU or MIG instance from another, and stay on recorded series.

    Attributes:
        labels: their names. `GPU_I_ID` and `modelName` are added, for the rules look at them.

    Raises:
        UsageError: a name cannot be a label's, or the rules use it for something else.
    """

    labels: tuple[str, ...] = DEFAULT_LABELS

    def __post_init__(self) -> None:
        for label in self.labels:
            if not _LABEL.fullmatch(label) or label.startswith("__"):
                raise UsageError(f"{label!r} is no name of a label", "Give names with commas, such as UUID,gpu.")
            if label in _OWN_LABELS:
                raise UsageError(f"label {label} is one that the rules set themselves", "Leave it out.")
        object.__setattr__(self, "labels", tuple(dict.fromkeys((*self.labels, INSTANCE, MODEL))))

    @property
    def by(self) -> str:
        """The clause of an aggregation that keeps them.

        >>> Identity(("UUID",)).by
        'by (UUID, GPU_I_ID, modelName)'
        """
        return f"by ({', '.join(self.labels)})"


def number(value: float) -> str:
    """Write a number as PromQL reads it back exactly.

    >>> number(1e9), number(0.05), number(0.0)
    ('1e9', '0.05', '0')
    """
    text = repr(value).removesuffix(".0")
    short = f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    return short if float(short) == value and len(short) < len(text) and value >= 1e5 else text


def indented(text: str, columns: int = 2) -> str:
    """Move all lines of an expression to the right."""
    return "\n".join(" " * columns + line if line else line for line in text.splitlines())
