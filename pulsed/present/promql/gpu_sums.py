"""Recording rules by cluster, node and model: the sums of daemons by node, with the metrics of the sums over owners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pulsed.present.promql.owners import RATE
from pulsed.present.promql.rule_types import Recording

LEVELS: Mapping[str, tuple[str, ...]] = {
    "cluster": ("cluster",),
    "node": ("cluster", "node"),
    "model": ("cluster", "model"),
}
"""By level, the labels of its series."""

COUNTERS: Mapping[str, tuple[str, str]] = {
    "gpu_seconds": ("observed_seconds", ""),
    "real_utilization_seconds": ("real_utilization_seconds", ""),
    "real_utilization_unknown_seconds": ("real_utilization_unknown_seconds", ""),
    "idle_seconds": ("idle_seconds", "kind"),
    "energy_joules": ("class_energy_joules", ""),
    "idle_energy_joules": ("idle_energy_joules", "kind"),
}
"""By recorded metric, the counter of nodes without `pulsed_node_` and `_total`, and a label of it that is kept."""


def gpu_rules() -> Iterator[Recording]:
    """Yield the rules for clusters, nodes and models."""
    for level, labels in LEVELS.items():
        by = ", ".join(labels)
        yield Recording(f"{level}:pulsed_gpus:count", f"sum by ({by}) (pulsed_node_gpus)")
        for name, (counter, kept) in COUNTERS.items():
            yield Recording(
                f"{level}:pulsed_{name}:rate{RATE}",
                f"sum by ({by}{f', {kept}' if kept else ''}) (rate(pulsed_node_{counter}_total[{RATE}]))",
            )
        yield Recording(f"{level}:pulsed_health_severity:max", f"max by ({by}) (pulsed_node_health_severity)")


GPU_RECORDING = "\n".join(
    (
        "GPUs, real utilization, idle time, power and worst health by node, model, and cluster if Prometheus adds that",
        "label. The formulas of pulsed-recording-owners apply; idle time has the label kind: held or free.",
    )
)
