"""What a benchmark delivers, and how it is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal


class Skipped(Exception):
    """A benchmark cannot run here; says what to install."""


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure promises: its value to be at most a limit, or its ratio at least one."""

    of: Literal["value", "ratio"]
    limit: float

    def __str__(self) -> str:
        return f"<= {self.limit:g}" if self.of == "value" else f">= {_times(self.limit)}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number.

    Attributes:
        name: what was measured.
        value: the number.
        unit: its unit.
        baseline: what it is compared with, measured in the same run and in the same unit.
        bar: what it promises, if anything.
        note: what else a reader wants to know.
    """

    name: str
    value: float
    unit: str
    baseline: Figure | None = None
    bar: Bar | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times the baseline takes what this takes; below 1 this takes more."""
        if self.baseline is None or not self.value or not self.baseline.value:
            return None
        return self.baseline.value / self.value

    @property
    def met(self) -> bool:
        """Whether the bar is met; a figure without one promises nothing."""
        if self.bar is None:
            return True
        if self.bar.of == "value":
            return self.value <= self.bar.limit
        return self.ratio is not None and self.ratio >= self.bar.limit


Bench = Callable[[], Iterator[Figure]]
"""A benchmark yields each figure as soon as it is measured. Raises Skipped where it cannot run."""

HEADER = f"  {'':51} {'':>10} {'':12} {'ratio':>9}  {'to':48} bar"


def line(figure: Figure) -> str:
    """Return one row: name, value, unit, ratio and its baseline, bar, note."""
    ratio, baseline = figure.ratio, figure.baseline
    times = "" if ratio is None else _times(ratio)
    against = "" if baseline is None else baseline.name
    bar = "" if figure.bar is None else f"{figure.bar}: {'ok' if figure.met else 'MISSED'} "
    note = f"({figure.note})" if figure.note else ""
    return (
        f"  {figure.name:51} {_number(figure.value):>10} {figure.unit:12} {times:>9}  {against:48} {bar}{note}".rstrip()
    )


def bar_line(figure: Figure) -> str:
    """Return one row of the table of bars: name, value or ratio, bar."""
    measured = f"{_number(figure.value)} {figure.unit}"
    if figure.baseline is not None and figure.ratio is not None:
        measured = f"{measured}, {_times(figure.ratio)} to {_number(figure.baseline.value)} of {figure.baseline.name}"
    return f"{figure.name}: {measured} ({figure.bar})"


def _times(ratio: float) -> str:
    if 0 < ratio < 1:
        return f"1/{_number(1 / ratio)} x"
    return f"{_number(ratio)} x"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value < 100 else f"{value:.0f}"
