"""Words and marks of classes, health and ages: no meaning is by colour alone."""

from __future__ import annotations

from collections.abc import Mapping

from pulsed.terminal.line import Line, Segment, line
from pulsed.terminal.model import GpuState
from pulsed.terminal.numbers import duration, percent, span

BOTTLENECKS: Mapping[str, str] = {
    "idle": "idle",
    "tensor_heavy_compute": "compute",
    "tensor_compute": "compute",
    "fp64_hpc_compute": "compute",
    "io_or_data_loading": "io",
    "memory_bound": "memory",
    "compute_heavy": "compute",
    "compute_active": "compute",
    "memory_active": "memory",
    "busy_low_sm_use": "mixed",
    "low_utilization": "mixed",
    "mixed_or_moderate": "mixed",
}
"""Bottleneck of each workload class."""

BOTTLENECK_MARKS = {"compute": "C", "memory": "M", "io": "I", "mixed": "X", "idle": "-"}
HEALTH_MARKS = {"ok": " ", "info": "i", "warn": "!", "hot": "^", "crit": "x"}


def bottleneck_style(gpu: GpuState) -> str:
    """Return the style of a GPU's bottleneck."""
    if gpu.stale:
        return "stale"
    bottleneck = gpu.state("bottleneck")
    return bottleneck if bottleneck in BOTTLENECK_MARKS else "unknown"


def class_words(gpu: GpuState, time: float) -> Line:
    """Return mark and class of a GPU with its time; the candidates of an unknown one; the last class of a stale one."""
    workload = gpu.state("workload_class")
    words = workload.replace("_", " ")
    if gpu.stale:
        return line(Segment("  " if workload == "unknown" else f"  was: {words}", "stale"))
    style = bottleneck_style(gpu)
    if workload == "unknown":
        names = " or ".join(name.replace("_", " ") for name in gpu.candidates[:3]) or "unknown"
        more = f" or {len(gpu.candidates) - 3} more" if len(gpu.candidates) > 3 else ""
        return line(Segment(f"? {names}{more}", "unknown"))
    since = "" if gpu.class_since is None else f"  {duration(max(time - gpu.class_since, 0.0))}"
    return line(Segment(f"{BOTTLENECK_MARKS.get(gpu.state('bottleneck'), '?')} {words}", style), Segment(since, "dim"))


def health_words(gpu: GpuState) -> Segment:
    """Return the health of a GPU in at most 10 cells."""
    if gpu.stale:
        return Segment(f"STALE {duration(gpu.age)}", "stale")
    mark = HEALTH_MARKS.get(gpu.health)
    if mark is None:
        return Segment("? unknown", "unknown")
    return Segment(f"{mark} {gpu.health.upper() if mark != ' ' else gpu.health}".strip(), gpu.health)


def real_words(gpu: GpuState) -> str:
    """Return the real utilization in percent: a number, or bounds in parentheses' stead."""
    lower, upper = gpu.bounds
    if gpu.real is not None:
        known = span(lower, upper)
        return f"{percent(gpu.real)} %" if ".." not in known else f"{percent(gpu.real)} % {known}"
    return "--" if lower is None else f"{span(lower, upper)} %"


def owner_words(gpu: GpuState) -> str:
    """Return the owners of a GPU: `free`, or empty if they are not known."""
    if gpu.owners is None:
        return ""
    return ", ".join(owner.partition(":")[2] or owner for owner in gpu.owners) or "free"


def gpu_label(gpu: GpuState, *, with_node: bool) -> str:
    """Return the name of a GPU, with its node if there are several."""
    return f"{gpu.node}/{gpu.name}" if with_node else gpu.name


def class_mark(workload: str | None) -> tuple[str, str]:
    """Return the mark of a class, and its style; a space for a gap."""
    if workload is None:
        return " ", ""
    bottleneck = BOTTLENECKS.get(workload, "")
    return BOTTLENECK_MARKS.get(bottleneck, "?"), bottleneck or "unknown"
