"""The workloads of pods whose GPUs no daemon has reported, or has reported without a workload."""

from __future__ import annotations

import logging
from collections.abc import Collection

from pulsed.attribution.pod_workloads import PodSettings
from pulsed.kubernetes.api_client import KubernetesError
from pulsed.kubernetes.objects import PodMetadata
from pulsed.kubernetes.workload_resolver import WorkloadReference, WorkloadResolver

log = logging.getLogger(__name__)

UNKNOWN = WorkloadReference("", "")
"""Of a pod whose workload could not be resolved."""


class PodNames:
    """Names the workloads of pods as daemons do."""

    def __init__(self, resolver: WorkloadResolver, settings: PodSettings) -> None:
        self._resolver, self._settings = resolver, settings
        self._error = ""

    def workload(self, pod: PodMetadata) -> WorkloadReference:
        """Return the workload of a pod that was resolved, or needs no request; else `UNKNOWN`."""
        found = self._resolver.walk(pod)
        return self._settings.workload(pod, found) if isinstance(found, WorkloadReference) else UNKNOWN

    async def resolve(self, pods: Collection[PodMetadata]) -> None:
        """Resolve these pods until a request fails."""
        error = ""
        try:
            for pod in pods:
                await self._resolver.resolve(pod)
        except KubernetesError as failed:
            error = str(failed)
        if error and error != self._error:
            log.warning("workloads of pods cannot be resolved", extra={"error": error})
        self._error = error
