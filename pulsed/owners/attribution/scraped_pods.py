"""The pods of exporters on pages of Prometheus: it writes the scraped pod into rows that name no pod of their own.

Such a pod owns no GPU, whatever its name. Rows of one `instance` and `job` are of one exporter. Without a row that
only the exporter can have, the scraped pod is the one that several GPUs, or all of the instance, have as their only
pod, or any that a DaemonSet may have made; if each GPU has another pod, any of them may be it. Such a pod may also be
a job's, so that the owner is unknown, until a GPU without a pod shows that Prometheus adds none.
This module must not depend on readings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from pulsed.model.gpu import NOT_A_GPU

PodName = tuple[str, str]
"""Namespace and name."""

_Instance = tuple[str, str]
_Gpu = tuple[str, str]

EXPORTERS_OWN = "dcgm-exporter"
"""A pod or container with this in its name belongs to an exporter."""


_GENERATED = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")
"""End of the names of pods of DaemonSets, as of Jobs and Deployments: any of them may be an exporter's."""


class ScrapedPods:
    """The scraped pods of a target.

    Args:
        patterns: of `namespace/pod`, instead of the detected pods; empty for none.
    """

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        self._patterns = tuple(patterns)
        self._known: frozenset[PodName] = frozenset()
        self._without_pods: set[_Instance] = set()

    def find(self, rows: Iterable[Mapping[str, str]]) -> frozenset[PodName]:
        """Return the scraped pods among the rows of a page. One that was found stays so while it is on the page."""
        instances: dict[_Instance, list[Mapping[str, str]]] = {}
        for row in rows:
            if row.get("instance") and row.get("job"):
                instances.setdefault((row["instance"], row["job"]), []).append(row)
        self._known = frozenset(pod for name, of_it in instances.items() for pod in self._scraped(name, of_it))
        return self._known

    def _scraped(self, instance: _Instance, rows: Sequence[Mapping[str, str]]) -> Iterable[PodName]:
        split = {gpu[0] for row in rows if (gpu := _gpu_of(row)) and gpu[1]}
        by_gpu: dict[_Gpu, set[PodName]] = {}
        of_exporter: set[PodName] = set()
        is_named = True
        for row in rows:
            pod, gpu = pod_of(row), _gpu_of(row)
            if gpu is None or (gpu[0] in split and not gpu[1]):  # pods are on the rows of the instances
                of_exporter.add(pod)
            else:
                by_gpu.setdefault(gpu, set()).add(pod)
            is_named = is_named and (gpu is None or bool(pod[1]))
        pods = {pod for pods in by_gpu.values() for pod in pods if pod[1]}
        if self._patterns:
            return [pod for pod in pods if any(fnmatchcase("/".join(pod), pattern) for pattern in self._patterns)]
        if not is_named:  # a GPU without a pod shows that Prometheus adds none
            self._without_pods.add(instance)
        if instance in self._without_pods:
            return ()
        if found := {pod for pod in of_exporter if pod[1]} or {pod for pod in pods if EXPORTERS_OWN in pod[1]}:
            return found
        if len(pods) == 1:
            return pods
        only = Counter(next(iter(each)) for each in by_gpu.values() if len(each) == 1)
        several = {pod for pod in pods if only[pod] > 1 or pod in self._known}
        return several | {pod for pod in pods if _GENERATED.search(pod[1])} if several else pods


def pod_of(row: Mapping[str, str]) -> PodName:
    """Return the pod of a row by its plain labels; empty texts without one."""
    return row.get("namespace") or row.get("pod_namespace", ""), row.get("pod") or row.get("pod_name", "")


def _gpu_of(row: Mapping[str, str]) -> _Gpu | None:
    """Return the GPU or MIG instance of a row; None of a row that is about something else."""
    uuid, gpu = row.get("UUID") or row.get("uuid", ""), row.get("gpu", "")
    if not uuid and (not gpu or not NOT_A_GPU.isdisjoint(row)):
        return None
    return uuid or gpu, row.get("GPU_I_ID", "")
