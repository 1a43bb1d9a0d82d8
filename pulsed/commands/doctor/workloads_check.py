"""One look at the Kubernetes API: whether the workloads of pods can be resolved, and what is not granted."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from pulsed.attribution.pod_workloads import NAME
from pulsed.collector.attribution_sources import resolves_workloads
from pulsed.collector.connections import api_client
from pulsed.collector.this_host import node_name
from pulsed.commands.doctor.attribution_check import AttributionCheck
from pulsed.configuration import Config
from pulsed.errors import ConfigError
from pulsed.kubernetes.api_client import ApiClient, JsonObject, KubernetesError, ResourceNotFound
from pulsed.kubernetes.objects import Controller, ObjectKind
from pulsed.kubernetes.workload_resolver import object_path

_REQUESTED = (ObjectKind("apps", "ReplicaSet"), ObjectKind("batch", "Job"))
_ABSENT = "pulsed-doctor"
"""Name of objects that do not exist; who may not read them gets another answer."""


async def check_workloads(config: Config) -> Sequence[AttributionCheck]:
    """Request the pods of this node and what may control them; nothing where workloads are not resolved."""
    if not resolves_workloads(config):
        return ()
    try:
        client = api_client(config)
    except ConfigError as error:
        return (AttributionCheck(NAME, False, note=str(error)),)
    try:
        pods = await _look(client, node_name(config))
    except KubernetesError as error:
        return (AttributionCheck(NAME, False, note=str(error)),)
    finally:
        await client.close()
    if not pods:
        note = f"there is no pod on node {node_name(config)}; see whether that is the node's name in Kubernetes"
        return (AttributionCheck(NAME, False, note=note),)
    return (AttributionCheck(NAME, True, note=f"pods on {node_name(config)}: {pods}"),)


async def _look(client: ApiClient, node: str) -> int:
    """Return the number of pods on a node.

    Raises:
        KubernetesError: something cannot be read.
    """
    pods: list[JsonObject] = []
    await client.list("/api/v1/pods", {"fieldSelector": f"spec.nodeName={node}"}, pods.append)
    for kind in _REQUESTED:
        with contextlib.suppress(ResourceNotFound):
            await client.get(object_path("default", Controller(kind, "v1", _ABSENT, "")))
    return len(pods)
