"""One look at each attribution source: whether the owners of GPUs are known here, and what to do if not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pulsed.apps.doctor.source_check import SourceCheck
from pulsed.collector.attribution_sources import resolves_workloads
from pulsed.collector.connections import api_client
from pulsed.collector.this_host import node_name
from pulsed.config.configuration import Config
from pulsed.errors import AttributionError, ConfigError
from pulsed.kubernetes.api_client import ApiClient, JsonObject, KubernetesError, ResourceNotFound
from pulsed.kubernetes.objects import Controller, ObjectKind
from pulsed.kubernetes.workload_resolver import object_path
from pulsed.owners.attribution.attribution import LABELS, READ_SECONDS
from pulsed.owners.attribution.pod_workloads import NAME
from pulsed.owners.attribution.source import AttributionSource


@dataclass(frozen=True, slots=True)
class AttributionCheck:
    """What a look at a source found.

    Attributes:
        source: its name.
        works: whether it can be read; False too where this host does not have it.
        devices: number of GPUs and MIG instances that have an owner.
        note: the error, or how to have the source; if it works, what else was found.
    """

    source: str
    works: bool
    devices: int = 0
    note: str = ""


async def check_attribution(
    sources: Iterable[AttributionSource], probes: Iterable[SourceCheck]
) -> Sequence[AttributionCheck]:
    """Look at the sources of this host once, and at the labels of the pages that were read."""
    owned = sum(bool(device.owners) for probe in probes if probe.tick for device in probe.tick.devices)
    note = (
        "" if owned else "no pod or job is on the pages; dcgm-exporter writes them with DCGM_EXPORTER_KUBERNETES=true"
    )
    return [*await asyncio.gather(*map(_check, sources)), AttributionCheck(LABELS, owned > 0, owned, note)]


async def _check(source: AttributionSource) -> AttributionCheck:
    try:
        async with asyncio.timeout(READ_SECONDS):
            claims = await source.read()
    except AttributionError as error:
        return AttributionCheck(source.name, False, note=str(error))
    except TimeoutError:
        return AttributionCheck(source.name, False, note=f"it did not answer within {READ_SECONDS:.0f} s")
    finally:
        await source.close()
    if claims is None:
        return AttributionCheck(source.name, False, note=source.absence)
    return AttributionCheck(source.name, True, len(claims.owners))


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
        pods = await _count_pods(client, node_name(config))
    except KubernetesError as error:
        return (AttributionCheck(NAME, False, note=str(error)),)
    finally:
        await client.close()
    if not pods:
        note = f"there is no pod on node {node_name(config)}; see whether that is the node's name in Kubernetes"
        return (AttributionCheck(NAME, False, note=note),)
    return (AttributionCheck(NAME, True, note=f"pods on {node_name(config)}: {pods}"),)


async def _count_pods(client: ApiClient, node: str) -> int:
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
