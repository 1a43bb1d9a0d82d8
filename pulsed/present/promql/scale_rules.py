"""Recording rules for autoscalers: a workload's replicas, bounds of its mean, and the number to scale on.

Pods without a value count as idle in the lower bound and as fully used in the upper one, so that silence alone changes
no replicas. Replicas come from kube-state-metrics. The rules count pods, not GPUs, so that names of resources do not
matter.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsed.present.promql.rule_types import GPU_KEY, Recording, number, recorded

SCALE_TARGET = 0.6
"""Target of autoscalers: mean real utilization or saturation of a workload's pods."""

SCALED = ("real_utilization_ratio", "saturation_ratio")
"""Quantities of GPUs on which workloads can be scaled."""

PERIOD = "15s"

SCALE_RECORDING = "\n".join(
    (
        "What autoscalers read: needs attribution.workloads, and kube-state-metrics with the same label cluster.",
        "lower and upper are bounds of the mean over the pods of a workload: pods without a value are idle, or full.",
        "scale is replicas times the mean, or times the target itself unless both bounds are beyond it. With the same",
        "target as AverageValue, replicas change only where that is right whatever the silent pods do.",
    )
)

_WORKLOAD = "cluster, namespace, workload, workload_kind"
_POD = f"{_WORKLOAD}, pod"
_KINDS = {"Deployment": "deployment", "StatefulSet": "statefulset"}
"""Kinds of workloads that kube-state-metrics has the replicas of, with the label of their name."""

PODS = recorded("workload", "pods", "sum")
_REPLICAS = recorded("workload", "replicas", "max")


def scale_rules(target: float) -> Iterator[Recording]:
    """Yield the rules, in the order of their evaluation; `target` is the mean that autoscalers aim at, 0..1."""
    replicas = "\n  or ".join(
        f'label_replace(label_replace(kube_{label}_status_replicas, "workload", "$1", "{label}", "(.+)"),'
        f' "workload_kind", "{kind}", "", "")'
        for kind, label in _KINDS.items()
    )
    yield Recording(
        _REPLICAS,
        f"max by ({_WORKLOAD}) (\n  {replicas}\n)\nand on ({_WORKLOAD}) present_over_time({PODS}[1d])",
        comment="Of workloads that had GPUs within a day.",
    )
    for quantity in SCALED:
        yield from _of_quantity(quantity, number(target))


def _of_quantity(quantity: str, target: str) -> Iterator[Recording]:
    """Yield the rules for the mean of a quantity."""
    mean = recorded("pod", quantity, "mean")
    lower, upper, scale = (recorded("workload", quantity, operation) for operation in ("lower", "upper", "scale"))
    owners = 'pulsed_gpu_owner_info{kind="pod"}'
    values = f"{owners} * on ({GPU_KEY}) group_left () pulsed_gpu_{quantity}"
    yield Recording(
        mean,
        f"avg by ({_POD}) ({values})\nand count by ({_POD}) ({values}) == count by ({_POD}) ({owners})",
        comment="Of pods whose GPUs all have values.",
    )
    pods, running = f'{mean}{{workload!=""}}', f"({_REPLICAS} > 0)"
    known = f"clamp_max(count by ({_WORKLOAD}) ({pods}) / {running}, 1)"
    yield Recording(lower, f"avg by ({_WORKLOAD}) ({pods}) * {known}\nor 0 * {running}")
    yield Recording(upper, f"{lower} + 1 - {known}\nor 1 + 0 * {running}")
    yield Recording(
        scale, f"{_REPLICAS} * ({lower} > {target}\n  or {upper} < {target}\n  or 0 * {_REPLICAS} + {target})"
    )
