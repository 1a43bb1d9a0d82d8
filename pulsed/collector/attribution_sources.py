"""Makes attribution sources from the configuration, and reads workloads of pods from the Kubernetes API.

One client serves a process. It is imported when it is needed: most hosts have no cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pulsed.background_tasks import keep_running
from pulsed.collector.this_host import api_client, discovers_exporters, node_name, node_of_pods
from pulsed.config.configuration import Config
from pulsed.owners.attribution import Attribution
from pulsed.owners.attribution.gpu_processes import GpuProcessTable, ProcessOwners
from pulsed.owners.attribution.kubelet import DRA_DRIVER, Kubelet
from pulsed.owners.attribution.mapping_directory import MappingDirectory, boot_time
from pulsed.owners.attribution.slurm_queue import SlurmQueue
from pulsed.owners.attribution.source import AttributionSource, Claims

if TYPE_CHECKING:
    from pulsed.kubernetes.api_client import ApiClient
    from pulsed.kubernetes.device_claims import DeviceClaims
    from pulsed.owners.attribution.pod_workloads import KnownPods, PodSettings, PodWorkloads


def attribution_sources(
    config: Config, processes: GpuProcessTable, claims: DeviceClaims | None = None
) -> Sequence[AttributionSource]:
    """Return the attribution sources of this host; without real GPUs, at most the sources of the demo's cluster.

    Nothing is read yet.

    Args:
        processes: has those that ticks list.
        claims: what the Kubernetes API has of claimed devices.
    """
    if config.source.is_synthetic:
        is_cluster = config.source.kind == "demo" and config.source.demo.scene == "cluster"
        return [DemoOwners()] if is_cluster else ()
    jobs, socket = config.attribution.jobs, config.attribution.kubelet.socket
    kubelet = [Kubelet(socket, claims=claims)] if socket != "off" else []
    directories = [
        MappingDirectory(
            path,
            jobs.interval,
            boot_time,
            SlurmQueue(jobs.squeue) if jobs.squeue != "off" else None,
            config.attribution.files.numbers,
        )
        for path in dict.fromkeys(jobs.directories)
    ]
    own = [ProcessOwners(processes)] if config.attribution.process_owners else []
    return [*kubelet, *directories, *own]


@dataclass(frozen=True, slots=True)
class DemoOwners:
    """The owners of the demo's cluster, as the API server and Slurm report them."""

    name: str = "demo"
    interval: float = 60.0
    absence: str = ""

    async def read(self) -> Claims:
        """Return the owners, which never change."""
        from pulsed.reader.demo.cluster import cluster_owners

        return Claims(dict(cluster_owners()))

    async def close(self) -> None:
        """Release nothing."""


def resolves_workloads(config: Config) -> bool:
    """Return whether pods get the names of their workloads."""
    return config.attribution.workloads.enabled and not config.source.is_synthetic


def pod_settings(config: Config) -> PodSettings:
    """Return what is read of pods."""
    from pulsed.kubernetes.objects import parse_kind
    from pulsed.owners.attribution.pod_workloads import PodSettings

    settings = config.attribution.workloads
    return PodSettings(
        node_of_pods(config), settings.name_labels, tuple(map(parse_kind, settings.kinds)), settings.pod_labels
    )


class Cluster:
    """The client, and the workloads of the pods of an attribution, while the configuration requires them."""

    def __init__(self, attribution: Attribution) -> None:
        self._attribution = attribution
        self._known: KnownPods | None = None
        self._config: Config | None = None
        self._client: ApiClient | None = None
        self._pods: PodWorkloads | None = None
        self._task: asyncio.Task[None] | None = None
        self._claims: DeviceClaims | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def known_pods(self) -> KnownPods | None:
        """The known pods now."""
        return self._known if self._pods is None else self._pods.known_pods

    def restore(self, pods: KnownPods) -> None:
        """Use the pods of an earlier run, until the API server answers; before the first `apply`."""
        self._known = pods

    def client_for(self, config: Config) -> ApiClient | None:
        """Return the client for `apply`, the same as before while its section is; None without need.

        Raises:
            ConfigError: the API server is unknown.
        """
        if not (discovers_exporters(config) or resolves_workloads(config)):
            return None
        is_same = self._config is not None and self._config.kubernetes == config.kubernetes
        return self._client if is_same and self._client is not None else api_client(config)

    def claims(self, config: Config, client: ApiClient | None) -> DeviceClaims | None:
        """Return the claimed devices of this node, the same object as before while client and node are."""
        if client is None:
            return None
        from pulsed.kubernetes.device_claims import DeviceClaims

        node = node_name(config)
        if self._claims is None or client is not self._client or self._claims.node != node:
            self._claims = DeviceClaims(client, node, DRA_DRIVER)
        return self._claims

    def apply(self, config: Config, client: ApiClient | None) -> None:
        """Apply this configuration from now on; unchanged sources are not interrupted."""
        settings = pod_settings(config) if client is not None and resolves_workloads(config) else None
        before = self._pods.settings if self._pods is not None else None
        if settings != before or client is not self._client:
            self._end()
            if self._client not in (None, client):
                self._known = None  # of another cluster
            if client is not None and settings is not None:
                self._begin(client, settings)
        if self._client is not None and self._client is not client:
            self._close(self._client)
        self._client, self._config = client, config

    async def stop(self) -> None:
        """End reading."""
        self._end()
        if self._client is not None:
            self._close(self._client)
            self._client = None
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _begin(self, client: ApiClient, settings: PodSettings) -> None:
        from pulsed.owners.attribution.pod_workloads import PodWorkloads

        pods = PodWorkloads(client, settings, lambda: self._attribution.complete_with(pods))
        if self._known is not None:
            pods.restore(self._known)
        self._pods, self._task = pods, asyncio.create_task(keep_running("workloads", pods.run))
        self._attribution.complete_with(pods)

    def _end(self) -> None:
        if self._task is not None:
            self._known = self.known_pods
            self._task.cancel()
            self._pods = self._task = None
            self._attribution.complete_with(None)

    def _close(self, client: ApiClient) -> None:
        closing = asyncio.create_task(client.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
