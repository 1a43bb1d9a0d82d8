"""Render the chapter of docs/metrics.md about the workload classes from the class table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pulsed.compute.class_table import DEFAULT_THRESHOLDS, RULES, Condition
from pulsed.compute.peaks import LINKS, RESOURCES
from pulsed.model.vocabulary import CLASSES

PIPES = tuple(resource for resource in RESOURCES if resource != "dram" and resource not in LINKS)


class Difference(NamedTuple):
    """A bottleneck and a limiting resource of another kind that can occur together.

    Attributes:
        classes: of the bottleneck.
        resources: that can be the limit, by a clear margin.
        reason: a sentence without a full stop.
    """

    classes: tuple[str, ...]
    resources: tuple[str, ...]
    reason: str


def _percent(threshold: str) -> str:
    return f"{getattr(DEFAULT_THRESHOLDS, threshold):.0%}"


_SATURATED = _percent("memory_bound_saturated_dram_ratio")
_COMPUTE = tuple(dict.fromkeys(rule.name for rule in RULES if rule.bottleneck == "compute"))

DIFFERENCES = (
    Difference(
        ("tensor_heavy_compute",),
        ("dram",),
        "tensor pipes decide first",
    ),
    Difference(
        tuple(name for name in _COMPUTE if name != "tensor_heavy_compute"),
        ("dram",),
        f"SMs decide below {_SATURATED} of DRAM",
    ),
    Difference(
        ("memory_bound",),
        PIPES,
        f"DRAM decides first from {_SATURATED}",
    ),
    Difference(
        ("io_or_data_loading",),
        (*PIPES, "dram", "nvlink"),
        "a little traffic decides",
    ),
    Difference(
        tuple(name for name in CLASSES if name != "io_or_data_loading"),
        LINKS,
        f"links decide only below {_percent('io_or_data_loading_sm_ratio')} of SM; NVLink has no class",
    ),
)
"""All of them; a test searches for others."""


def classes() -> Iterator[str]:
    """Yield the lines of the chapter."""
    yield "\n## Workload class\n"
    yield "The first rule that matches is the class. Thresholds: `compute.workload.thresholds`. It is `unknown` if"
    yield "missing inputs could change it; `/gpus/0/class` names them.\n"
    low = _percent("io_or_data_loading_sm_ratio")
    yield "|class|bottleneck|rule|\n|-|-|-|"
    for rule in RULES:
        conditions = ", ".join(_condition(condition) for condition in rule.conditions) or "otherwise"
        note = f"; not in profile `{_others(rule.only)}`" if rule.only else ""
        yield f"|`{rule.name}`|{rule.bottleneck}|{conditions}{note}|"
    yield "\n* `io` is the largest direction of PCIe and C2C, the link of a superchip. Missing C2C traffic counts as"
    yield f"  none, except on GH200, GB200 and GB300: `unknown` below {low} of SM activity. `pulsed counters` adds C2C."
    yield "* `media` is the busiest of encoder, decoders, JPEG and optical flow."
    yield "* A GPU is used, and its time not idle, if its class is not `idle`, or if a media engine or NVLink works."
    yield "\n`pulsed_gpu_limiting_resource` follows from activity over practical peaks. They can differ:\n"
    yield "|class|limiting resource|reason|\n|-|-|-|"
    for difference in DIFFERENCES:
        yield f"|{_several(difference.classes)}|{_names(difference.resources)}|{difference.reason}|"


def _condition(condition: Condition) -> str:
    value = getattr(DEFAULT_THRESHOLDS, condition.threshold)
    limit = f"{value / 1e9:g} GB/s" if condition.variable == "io" else _percent(condition.threshold)
    note = f" (not in profile `{_others(condition.only)}`)" if condition.only else ""
    return f"{condition.variable} {condition.comparison} {limit}{note}"


def _others(only: str) -> str:
    return "kempnerpulse" if only == "pulsed" else "pulsed"


def _several(names: tuple[str, ...]) -> str:
    missing = [name for name in CLASSES if name not in names]
    return f"all except {_names(tuple(missing))}" if len(missing) < len(names) else _names(names)


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
