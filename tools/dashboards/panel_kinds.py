"""Panels that several dashboards have, each with its own data."""

from __future__ import annotations

from tools.dashboards.model import Limits, Panel, Query


def number(title: str, expr: str, meaning: str, unit: str = "short", limits: Limits = (), *, opens: str = "") -> Panel:
    """Return a stat of the first row."""
    return Panel(title, "stat", meaning, (Query(expr),), unit, 4, 4, limits=limits, opens=opens)


def chart(title: str, unit: str, queries: tuple[Query, ...], meaning: str, top: float | None = None) -> Panel:
    """Return a panel of lines over time."""
    return Panel(title, "timeseries", meaning, queries, unit, top=top)
