"""The documented algorithm of the HorizontalPodAutoscaler: tolerance, missing metrics, stabilization.

https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

TOLERANCE = 0.1
SYNC_SECONDS = 15.0
DOWN_SECONDS = 300.0


class NoMetrics(Exception):
    """The metrics API has no value: the autoscaler does nothing."""


def replicas_for_pods(values: Mapping[str, float], pods: Collection[str], target: float) -> int:
    """Return the replicas for a metric of type Pods; pods without a value count as at the target, or as idle."""
    known = {pod: value for pod, value in values.items() if pod in pods}
    if not known:
        raise NoMetrics
    current = len(pods)
    ratio = sum(known.values()) / len(known) / target
    missing = current - len(known)
    if not missing or ratio == 1.0:
        return current if abs(1.0 - ratio) <= TOLERANCE else math.ceil(ratio * current)
    assumed = target if ratio < 1.0 else 0.0
    assumed_ratio = (sum(known.values()) + missing * assumed) / current / target
    is_reversed = (ratio < 1.0 < assumed_ratio) or (assumed_ratio < 1.0 < ratio)
    if abs(1.0 - assumed_ratio) <= TOLERANCE or is_reversed:
        return current
    return math.ceil(assumed_ratio * current)


def replicas_for_value(value: float, current: int, target: float) -> int:
    """Return the replicas for a metric of type Object or External with a target of type Value."""
    ratio = value / target
    return current if abs(1.0 - ratio) <= TOLERANCE else math.ceil(ratio * current)


def replicas_for_average_value(total: float, current: int, target: float) -> int:
    """Return the replicas for a metric of type Object or External with a target of type AverageValue."""
    ratio = total / (target * current)
    return current if abs(1.0 - ratio) <= TOLERANCE else math.ceil(total / target)


@dataclass
class Autoscaler:
    """Its limits and memory; time is simulated, one sync is 15 s."""

    least: int
    most: int
    replicas: int
    _now: float = 0.0
    _recommended: list[tuple[float, int]] = field(default_factory=list)

    def sync(self, wanted: int | None) -> int:
        """Return the replicas after one sync, given those that the metrics ask for; None without metrics."""
        self._now += SYNC_SECONDS
        if wanted is None:
            return self.replicas
        self._recommended = [each for each in self._recommended if each[0] > self._now - DOWN_SECONDS]
        self._recommended.append((self._now, wanted))
        highest = max(replicas for _, replicas in self._recommended)
        if wanted < self.replicas:  # down to the highest recommendation of the window
            wanted = min(self.replicas, highest)
        self.replicas = min(max(wanted, self.least), self.most)
        return self.replicas
