"""What a benchmark delivers, and how it is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

RATES = frozenset({"requests/s"})
"""The units of which more is better; of all others less is."""


class Skipped(Exception):
    """A benchmark cannot run here; says what to install."""


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure promises: its value to stay below a limit, or its ratio to reach one."""

    of: Literal["value", "ratio"]
    limit: float

    def __str__(self) -> str:
        return f"< {self.limit:g}" if self.of == "value" else f">= {self.limit:g} x"


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
        """How many times as good as the baseline; below 1 it is worse."""
        if self.baseline is None or not self.value or not self.baseline.value:
            return None
        ratio = self.baseline.value / self.value
        return 1 / ratio if self.unit in RATES else ratio

    @property
    def met(self) -> bool:
        """Whether the bar is met; a figure without one promises nothing."""
        if self.bar is None:
            return True
        if self.bar.of == "value":
            return self.value < self.bar.limit
        return self.ratio is not None and self.ratio >= self.bar.limit


Bench = Callable[[], Iterator[Figure]]
"""A benchmark yields each figure as soon as it is measured. Raises Skipped where it cannot run."""

HEADER = f"  {'':51} {'':>10} {'':12} {'ratio':>9}  {'to':48} bar"


def line(figure: Figure) -> str:
    """Write one figure: name, value, unit, ratio and its baseline, bar, note."""
    ratio, baseline = figure.ratio, figure.baseline
    times = "" if ratio is None else f"{_number(ratio)} x" if ratio >= 1 else f"1/{_number(1 / ratio)} x"
    against = "" if baseline is None else baseline.name
    bar = "" if figure.bar is None else f"{figure.bar}: {'ok' if figure.met else 'MISSED'} "
    note = f"({figure.note})" if figure.note else ""
    return (
        f"  {figure.name:51} {_number(figure.value):>10} {figure.unit:12} {times:>9}  {against:48} {bar}{note}".rstrip()
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value < 100 else f"{value:.0f}"
