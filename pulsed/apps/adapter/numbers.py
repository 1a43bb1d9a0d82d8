"""Numbers to scale on: GPU values of the pods of a workload, as sum, mean, maximum or minimum.

A number that is not certain is refused and never guessed: the autoscaler then keeps the replicas that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from pulsed.errors import NumberUnknown
from pulsed.present.autoscale import PodGpu

_MAX_PODS = 3
"""Pods that a message names."""

How = Literal["sum", "avg", "max", "min"]

POD_KIND = "Pod"
"""The kind of a workload that is one pod, by its name; any pod is found so, whatever controls it."""


class WorkloadKey(NamedTuple):
    """A workload, or a pod as the kind `POD_KIND`.

    >>> str(WorkloadKey("ml", "Deployment", "infer"))
    'Deployment ml/infer'
    """

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def is_of(row: PodGpu, workload: WorkloadKey) -> bool:
    """Return whether a GPU belongs to a workload."""
    own = (POD_KIND, row.pod) if workload.kind == POD_KIND else (row.workload_kind, row.workload)
    return workload == (row.namespace, *own)


class Aggregate(NamedTuple):
    """A number of a workload.

    Attributes:
        gpus: devices that it is made of.
        pods: pods that have them.
        shares: of the devices.
        time: of the oldest sample, in Unix seconds.
        stale: whether GPUs without a current value were left out.
    """

    value: float
    gpus: int
    pods: int
    shares: float
    time: float
    stale: bool


def workload_number(
    rows: Sequence[PodGpu], workload: WorkloadKey, how: How, field: str, missing: Callable[[], str]
) -> Aggregate | None:
    """Return a number of a workload; None if it certainly has no GPU.

    Args:
        rows: of all pods of its namespace, and maybe of others.
        missing: returns why there may be further rows; empty if there are certainly none.

    Raises:
        NumberUnknown: as `aggregate`; or the workload may have further GPUs, and a sum or its absence depends on them.
    """
    own = [row for row in rows if is_of(row, workload)]
    if not own or how == "sum":
        unresolved = "" if workload.kind == POD_KIND else unresolved_pod(rows, workload.namespace)
        if reason := missing() or unresolved:
            raise NumberUnknown(reason)
    return aggregate(own, how, field) if own else None


def unresolved_pod(rows: Iterable[PodGpu], namespace: str) -> str:
    """Return why a pod of a namespace may belong to any workload; empty if there is no such pod."""
    pod = next((row.pod for row in rows if row.namespace == namespace and not row.workload), "")
    if not pod:
        return ""
    return f"the workload of pod {namespace}/{pod} is not known; daemons resolve it with attribution.workloads.enabled"


def aggregate(rows: Sequence[PodGpu], how: How, field: str) -> Aggregate:
    """Return a number of some GPUs; shared GPUs count in a sum and a mean by their shares.

    A sum needs a current value of every GPU; the other aggregates use the values that are available.

    Raises:
        NumberUnknown: no value is available, or a value is missing in a sum.
    """
    current = [(row, value) for row in rows if not row.stale and (value := row.values.get(field)) is not None]
    missing = len(rows) - len(current)
    if not current or (missing and how == "sum"):
        raise NumberUnknown(left_out(rows, field))
    shown = [row for row, _ in current]
    gpus, pods = len({row.gpu for row in shown}), len({(row.namespace, row.pod) for row in shown})
    shares = sum(row.share for row in shown)
    return Aggregate(_NUMBERS[how](current), gpus, pods, shares, min(row.time for row in shown), missing > 0)


def left_out(rows: Sequence[PodGpu], field: str) -> str:
    """Return of how many GPUs a value is not known, and of which pods; of many, the first by name."""
    unknown = [row for row in rows if row.stale or row.values.get(field) is None]
    stale = sum(row.stale for row in unknown)
    pods = sorted({row.pod for row in unknown})
    shown = ", ".join(pods[:_MAX_PODS]) + (f" and {len(pods) - _MAX_PODS} more" if len(pods) > _MAX_PODS else "")
    counted = f"{field}: {stale} of {len(rows)} GPUs are stale, {len(unknown) - stale} have no value"
    return f"{counted}; pods: {shown}" if pods else counted


def _sum(rows: Sequence[tuple[PodGpu, float]]) -> float:
    return sum(row.share * value for row, value in rows)


def _mean(rows: Sequence[tuple[PodGpu, float]]) -> float:
    return _sum(rows) / sum(row.share for row, _ in rows)


_NUMBERS: Mapping[How, Callable[[Sequence[tuple[PodGpu, float]]], float]] = {
    "sum": _sum,
    "avg": _mean,
    "max": lambda rows: max(value for _, value in rows),
    "min": lambda rows: min(value for _, value in rows),
}
