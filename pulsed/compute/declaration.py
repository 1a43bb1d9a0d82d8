"""Declarations of derived values, as data: their function, and where each output publishes them.

The page, the JSON documents and their schema, CSV columns, history fields, docs/metrics.md and `pulsed doctor`
are derived from these. This module must not depend on any particular value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pulsed.compute.settings import ComputeSettings
from pulsed.model.result import Result
from pulsed.model.vocabulary import Reading, Value

Alternatives = tuple[str, ...]
"""Alternative quantities, in order of preference; one is sufficient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedNumber:
    """A number per GPU.

    Attributes:
        name: suffix of the metric `pulsed_gpu_<name>` (a counter's ends in `_total`), CSV column and history field.
        help: one line without a full stop, for HELP, schema and docs/metrics.md.
        get: returns the value; None where it is missing.
        json: dotted path in the GPU document; empty if it is not part of it.
        csv: whether it has a column.
        always: whether it is never missing.
        integer: whether it is an integer.
    """

    name: str
    help: str
    get: Callable[[Reading, Result], Value]
    json: str = ""
    csv: bool = True
    always: bool = False
    integer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedVector:
    """Several numbers per GPU: one series per value of a label.

    Attributes:
        name: suffix of the metric.
        help: one line without a full stop.
        label: name of the label.
        keys: its values.
        get: returns one number per key; None where it is missing.
        json: dotted path of each number, with `{}` for the key; empty if they are not part of the document.
        csv: column of each number, with `{}` for the key; empty for none.
        always: whether none of them is ever missing.
    """

    name: str
    help: str
    label: str
    keys: tuple[str, ...]
    get: Callable[[Reading, Result], tuple[Value, ...]]
    json: str = ""
    csv: str = ""
    always: bool = False

    def element(self, position: int) -> Callable[[Reading, Result], Value]:
        """Return the function that gets the number of one key."""
        return lambda reading, result: self.get(reading, result)[position]


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedState:
    """One of several states per GPU: a series per state, 1 for the current one and 0 for all others.

    Attributes:
        name: suffix of the metric, CSV column and history field.
        help: one line without a full stop.
        states: all states, at most 255.
        get: returns the current state.
        label: name of the label; empty if there is no metric.
        json: dotted path in the GPU document.
        csv: whether it has a column.
        ranked: whether the order of the states is their severity. A span of time then has the most severe of its
            states, otherwise the most frequent one.
    """

    name: str
    help: str
    states: tuple[str, ...]
    get: Callable[[Reading, Result], str]
    label: str = ""
    json: str = ""
    csv: bool = True
    ranked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedDetail:
    """A value of the GPU document alone.

    Attributes:
        json: dotted path in the GPU document.
        help: one line without a full stop.
        kind: `ratio` a number or None, `ratios` pairs of a name and such a number, `names` a sequence of strings,
            `time` Unix seconds or None, `flag` a boolean or None, `setting` a string of the configuration, which `get`
            does not return.
        get: returns the value.
    """

    json: str
    help: str
    kind: Literal["ratio", "ratios", "names", "time", "flag", "setting"]
    get: Callable[[Reading, Result], object]


DerivedValue = DerivedNumber | DerivedVector | DerivedState | DerivedDetail


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedResult:
    """Values with the same inputs.

    Attributes:
        name: of the result in the report of `pulsed doctor`.
        inputs: returns the quantities that it needs with the given settings.
        without: returns the effect of a missing input with the given settings.
        values: in the order of the page.
    """

    name: str
    inputs: Callable[[ComputeSettings], tuple[Alternatives, ...]]
    without: Callable[[ComputeSettings], str]
    values: tuple[DerivedValue, ...]
