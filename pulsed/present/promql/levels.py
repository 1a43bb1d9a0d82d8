"""Recording rules of sums by cluster, node and model, from the sums by node and model on the page.

The Fleet dashboard reads those by model instead of the series of all nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pulsed.present.promql.rule_types import Recording

INTERVAL, RATE = "1m", "5m"

LEVELS: Mapping[str, tuple[str, ...]] = {
    "node": ("cluster", "node"),
    "model": ("cluster", "model"),
    "cluster": ("cluster",),
}
"""By level, the labels of its series, of which Prometheus may add `cluster`. A cluster's are sums of its models'."""


class LevelRate(NamedTuple):
    """A recorded rate: its metric, the counter without `pulsed_node_` and `_total`, and a label that is kept."""

    metric: str
    counter: str
    label: str = ""


RATES = (
    LevelRate("gpu_seconds", "observed_seconds"),
    LevelRate("real_utilization_seconds", "real_utilization_seconds"),
    LevelRate("real_utilization_unknown_seconds", "real_utilization_unknown_seconds"),
    LevelRate("idle_seconds", "idle_seconds", "kind"),
    LevelRate("energy_joules", "energy_joules"),
    LevelRate("idle_energy_joules", "idle_energy_joules", "kind"),
)
"""Of all levels."""

MODEL_RATES = (
    LevelRate("workload_class_seconds", "workload_class_seconds", "class"),
    LevelRate("class_energy_joules", "class_energy_joules", "class"),
)

STATES: Mapping[str, str] = {
    "health_gpus": "state",
    "bottleneck_gpus": "bottleneck",
    "limiting_resource_gpus": "resource",
}
"""Gauges by a label, with it."""

UTILIZATION = "gpu_utilization_ratio"
COVERAGES = ("health_coverage", "real_utilization_coverage")
"""Every GPU has them."""

MEMORY = ("memory_used_bytes", "memory_bytes")

DISTRIBUTION = "pulsed_real_utilization_distribution_ratio"
SAMPLE = "pulsed_node_last_sample_timestamp_seconds"
AGE = f"timestamp({SAMPLE}) - {SAMPLE}"


def of_model(metric: str, operation: str = f"rate{RATE}") -> str:
    """Return the name of a series by model.

    >>> of_model("gpus", "count"), of_model("gpu_seconds")
    ('model:pulsed_gpus:count', 'model:pulsed_gpu_seconds:rate5m')
    """
    return f"model:pulsed_{metric}:{operation}"


def level_rules(*, flat: bool) -> Iterator[Recording]:
    """Yield the rules for clusters, nodes and models; if `flat`, no rule uses the result of another one."""
    for level, labels in LEVELS.items():
        for metric, operation, by, expr in _of_level(level, labels):
            source = of_model(metric, operation) if level == "cluster" and not flat else expr
            yield Recording(f"{level}:pulsed_{metric}:{operation}", f"{by} ({source})")
    yield from _of_models()
    yield Recording("cluster:pulsed_health_checks:sum", "sum by (cluster, check, state) (pulsed_health_checks)")


def _of_level(level: str, labels: tuple[str, ...]) -> Iterator[tuple[str, str, str, str]]:
    """Yield metric, operation, aggregation and expression of each rule of a level."""
    yield "gpus", "count", _by("sum", labels), "pulsed_node_gpus"
    for rate in (*RATES, *(MODEL_RATES if level == "model" else ())):
        expr = f"rate(pulsed_node_{rate.counter}_total[{RATE}])"
        yield rate.metric, f"rate{RATE}", _by("sum", labels, rate.label), expr
    yield "health_severity", "max", _by("max", labels), "pulsed_node_health_severity"


def _by(function: str, labels: tuple[str, ...], label: str = "") -> str:
    return f"{function} by ({', '.join((*labels, label) if label else labels)})"


def _of_models() -> Iterator[Recording]:
    """Yield the rules by model alone; of a mean the sum over GPUs, and their number if nodes can lack it."""
    labels = LEVELS["model"]
    total = _by("sum", labels)
    buckets = f"rate({DISTRIBUTION}_bucket[{RATE}])"
    yield Recording(of_model("real_utilization_distribution_ratio"), f"{_by('sum', labels, 'le')} ({buckets})")
    for metric, label in STATES.items():
        yield Recording(of_model(metric, "sum"), f"{_by('sum', labels, label)} (pulsed_node_{metric})")
    for metric, other in (MEMORY, MEMORY[::-1]):
        yield Recording(of_model(metric, "sum"), f"{total} (pulsed_node_{metric} and pulsed_node_{other})")
    for metric in (UTILIZATION, *(f"{coverage}_ratio" for coverage in COVERAGES)):
        yield Recording(of_model(metric, "sum"), f"{total} (pulsed_node_{metric} * pulsed_node_gpus)")
    yield Recording(of_model(UTILIZATION, "count"), f"{total} (pulsed_node_gpus and pulsed_node_{UTILIZATION})")
    for metric in COVERAGES:
        yield Recording(of_model(f"{metric}_ratio", "min"), f"{_by('min', labels)} (pulsed_node_{metric}_min_ratio)")
    for function in ("max", "min"):
        yield Recording(of_model("sample_age_seconds", function), f"{_by(function, labels)} ({AGE})")
    yield Recording(of_model("sample_age_seconds", "sum"), f"{total} (({AGE}) * pulsed_node_gpus)")


LEVEL_RECORDING = "\n".join(
    (
        "GPUs, real utilization, idle time, power and worst health by node, model, and cluster if Prometheus adds that",
        "label. The formulas of pulsed-recording-owners apply; idle time has the label kind: held or free. What is by",
        "model only is for the Fleet dashboard.",
    )
)
