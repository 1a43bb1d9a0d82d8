"""Words and marks of classes, health and owners: no meaning is by colour alone."""

from __future__ import annotations

import re

from rich.text import Text

from pulsed.number_text import duration, percent, span
from pulsed.present.terminal.model import FleetRow
from pulsed.present.terminal.text import line

BOTTLENECK_MARKS = {"compute": "C", "memory": "M", "io": "I", "mixed": "X", "idle": "-"}
HEALTH_MARKS = {"ok": " ", "info": "i", "warn": "!", "hot": "^", "crit": "x"}

ABBREVIATIONS = (
    "RU real utilization  TC tensor  UTIL GPU utilization of the driver  OCC SM occupancy  GR graphics engine"
    "  COPY memory utilization  LIMIT resource nearest to its limit"
)
"""Abbreviations of columns with their meanings, the most important first."""


def words(name: str) -> str:
    """Return a name of the API in words."""
    return name.replace("_", " ")


_UPPER = frozenset(["sm", "gpu", "dram", "c2c", "fp64", "fp32", "fp16", "hmma", "imma", "dfma"])
_MIXED = {"pcie": "PCIe", "nvlink": "NVLink"}
_UNIT = re.compile("(_bytes_per_second|_bytes|_hertz|_watts|_celsius|_joules_total|_ratio)$")


def title_of(field: str) -> str:
    """Return the name of a field in words, without its unit."""
    names = [_MIXED.get(name, name.upper() if name in _UPPER else name) for name in _UNIT.sub("", field).split("_")]
    return f"{names[0][0].upper()}{' '.join(names)[1:]}"


def bottleneck_style(gpu: FleetRow) -> str:
    """Return the style of a GPU's bottleneck."""
    bottleneck = gpu.state("bottleneck")
    return "stale" if gpu.stale else bottleneck if bottleneck in BOTTLENECK_MARKS else "unknown"


def class_words(gpu: FleetRow) -> Text:
    """Return mark and class of a GPU with its time; the candidates of an unknown one; the last class of a stale one."""
    workload = gpu.state("workload_class")
    if gpu.stale:
        return line(("  " if workload == "unknown" else f"  was: {words(workload)}", "stale"))
    if workload == "unknown":
        names = " or ".join(map(words, gpu.candidates[:3])) or "unknown"
        more = f" or {len(gpu.candidates) - 3} more" if len(gpu.candidates) > 3 else ""
        return line((f"? {names}{more}", "unknown"))
    since = "" if gpu.class_age is None else f"  {duration(gpu.class_age)}"
    mark = BOTTLENECK_MARKS.get(gpu.state("bottleneck"), "?")
    return line((f"{mark} {words(workload)}", bottleneck_style(gpu)), (since, "dim"))


def health_words(gpu: FleetRow) -> tuple[str, str]:
    """Return the health of a GPU in at most 10 cells, with its style.

    A stale one without a raised check has its age; one that is ok, how many of its checks are known: `ok 4/23`.
    """
    if gpu.stale and gpu.health in ("unknown", "ok"):
        return f"STALE {duration(gpu.age)}", "stale"
    if gpu.health not in HEALTH_MARKS:
        return "? unknown", "unknown"
    if gpu.health == "ok":
        known, applicable = (gpu.values.get(name) or 0 for name in ("known_checks", "applicable_checks"))
        return f"ok {known}/{applicable}" if known < applicable else "ok", "ok"
    return f"{HEALTH_MARKS[gpu.health]} {gpu.health.upper()}", gpu.health


def real_words(gpu: FleetRow) -> str:
    """Return the real utilization in percent: a number, with bounds unless they are the same, or bounds alone."""
    lower, upper = gpu.bounds
    if gpu.real is not None:
        bounds = span(lower, upper)
        return f"{percent(gpu.real)} %" if ".." not in bounds else f"{percent(gpu.real)} % {bounds}"
    return "--" if lower is None else f"{span(lower, upper)} %"


def owner_words(gpu: FleetRow) -> str:
    """Return the owners of a GPU: `free` or `no owner` for none, empty if they are unknown."""
    if gpu.owners is None:
        return ""
    names = ", ".join(owner.partition(":")[2] or owner for owner in gpu.owners)
    return names or ("free" if gpu.use == "free" else "no owner")
