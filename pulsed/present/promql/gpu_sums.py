"""Recording rules by cluster, node and model: sums over GPUs, with the metrics of the sums over owners.

A board with MIG counts once, as the board: the sums leave out its instances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pulsed.present.promql.owners import RATE
from pulsed.present.promql.rule_types import GPU_KEY, Recording

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
"""By recorded metric, the counter of GPUs without `pulsed_gpu_` and `_total`, and a label of it that is kept."""

BOARD = 'mig_id=""'

_MODEL = f"on ({GPU_KEY}) group_left (model) group by ({GPU_KEY}, model) (pulsed_gpu_info{{{BOARD}}})"


def gpu_rules() -> Iterator[Recording]:
    """Yield the rules for clusters, nodes and models."""
    for level, labels in LEVELS.items():
        by = ", ".join(labels)
        join = f"\n  * {_MODEL}" if "model" in labels else ""
        keys = GPU_KEY + ", model" if "model" in labels else GPU_KEY
        yield Recording(
            f"{level}:pulsed_gpus:count",
            f"count by ({by}) (group by ({keys}) (pulsed_gpu_info{{{BOARD}}}))",
        )
        for name, (counter, kept) in COUNTERS.items():
            growth = f"rate(pulsed_gpu_{counter}_total{{{BOARD}}}[{RATE}])"
            yield Recording(
                f"{level}:pulsed_{name}:rate{RATE}",
                f"sum by ({by}{f', {kept}' if kept else ''}) (\n  {growth}{join}\n)",
            )
        yield Recording(
            f"{level}:pulsed_health_severity:max",
            f"max by ({by}) (\n  pulsed_gpu_health_severity{{{BOARD}}}{join}\n)",
        )


GPU_RECORDING = "\n".join(
    (
        "GPUs, real utilization, idle time, power and worst health by node, model, and cluster if Prometheus adds that",
        "label. The formulas of pulsed-recording-owners apply; idle time has the label kind: held or free.",
    )
)
