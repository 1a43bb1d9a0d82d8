"""Host-dependent parts of a configuration: name, boot and kernel log of the host, GPUs to show, and the API server."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pulsed.config.configuration import Config
from pulsed.errors import ConfigError
from pulsed.model.clocks import EPOCH, Unix
from pulsed.model.gpu_selection import EVERYTHING, GpuSelection, from_environment, parse
from pulsed.model.raw_tick import Epoch
from pulsed.model.target_store import Target
from pulsed.owners.attribution.mapping_directory import boot_time
from pulsed.reader.kernel_log import KMSG
from pulsed.reader.source import Source
from pulsed.translate.identity import is_loopback

if TYPE_CHECKING:
    from pulsed.kubernetes.api_client import ApiClient, ClusterAccess

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
DRIVER = Path("/sys/module/nvidia")


def node_name(config: Config) -> str:
    """Return the name of this host, for GPUs whose source does not name a host."""
    return config.node or gethostname()


def node_of_source(source: Source, config: Config) -> str:
    """Return the host of the GPUs whose series do not name one.

    It is the host in the URL of an exporter of another machine, unless `node` is configured for that one exporter, and
    the node of a pod.
    """
    if discovers_fleet(config):
        return source.target.partition("/")[0]
    host = (urlsplit(source.target).hostname or "") if source.kind == "exporter" and "://" in source.target else ""
    is_named = config.node is not None and len(config.source.exporter.targets) == 1 and not discovers_fleet(config)
    return host if host and not is_named and not is_loopback(host) else node_name(config)


def discovers_exporters(config: Config) -> bool:
    """Return whether the exporters are found through the Kubernetes API."""
    return config.source.kind == "exporter" and config.source.exporter.discovery == "kubernetes"


def discovers_fleet(config: Config) -> bool:
    """Return whether the exporters that are found may be of any host."""
    return discovers_exporters(config) and config.source.exporter.kubernetes.nodes == "all"


def discovery_node(config: Config) -> str:
    """Return the node whose exporters are discovered by the Kubernetes API; empty for all nodes.

    Raises:
        ConfigError: it is not configured.
    """
    if config.source.exporter.kubernetes.nodes == "all":
        return ""
    if config.node is None:
        raise ConfigError(
            "source.exporter.discovery: kubernetes needs the node's name",
            "Set `node`; in a pod, PULSED_NODE from the field spec.nodeName",
        )
    return config.node


def node_of_pods(config: Config) -> str:
    """Return the node whose pods may have the GPUs; empty: any, where exporters of other nodes are read."""
    exporter = config.source.exporter
    if discovers_fleet(config):
        return ""
    if config.source.kind not in ("auto", "exporter") or discovers_exporters(config) or exporter.own_node:
        return node_name(config)
    is_this_one = len(exporter.targets) == 1 and config.node is not None
    return node_name(config) if is_this_one or all(_is_exporter_here(each.url) for each in exporter.targets) else ""


def api_client(config: Config) -> ApiClient:
    """Return a client of the configured Kubernetes API server, by default of the cluster that pulsed runs in.

    Raises:
        ConfigError: there is neither, or exporters of an unknown node are to be found.
    """
    from pulsed.kubernetes.api_client import ApiClient

    if discovers_exporters(config):
        discovery_node(config)
    return ApiClient(cluster_access(config), config.kubernetes.timeout)


def cluster_access(config: Config) -> ClusterAccess:
    """Return where the API server is and how to log in. Raises `ConfigError` if no API server is configured."""
    from pulsed.kubernetes.api_client import ClusterAccess, server_of_pod

    settings = config.kubernetes
    return ClusterAccess(settings.server or server_of_pod(os.environ), settings.token_file, settings.ca_file)


class HostEpoch:
    """The epoch of this host, for the ticks of the sources on it.

    Args:
        boot: opaque id of its start.
        booted: when that was, in Unix seconds.
        driver: folder of the kernel driver's module, another one after each time that it was loaded.
    """

    def __init__(self, boot: str, booted: Unix = EPOCH, driver: Path = DRIVER) -> None:
        self._boot, self._booted, self._driver = boot, booted, str(driver)

    def completed(self, epoch: Epoch) -> Epoch:
        """Return the epoch of a source, completed by the host's epoch."""
        try:
            generation = str(os.stat(self._driver).st_ino)
        except OSError:
            generation = ""
        return epoch._replace(boot=self._boot, booted=self._booted, driver=generation)


def host_epoch_of(config: Config, target: str) -> HostEpoch | None:
    """Return the epoch of this host; None where it is unknown, or the GPUs of a target may be in another host."""
    if not is_of_this_host(config, target):
        return None
    try:
        return HostEpoch(BOOT_ID.read_text(encoding="ascii").strip(), boot_time())
    except OSError:
        return None


def is_of_this_host(config: Config, target: str) -> bool:
    """Return whether the GPUs of a target are in this host, according to the configuration."""
    source = config.source
    reads_exporters = source.kind == "exporter" or (source.kind == "auto" and len(source.exporter.targets) > 1)
    is_here = _is_exporter_here(target) if reads_exporters else source.reads_this_host
    return not discovers_fleet(config) and (is_here or discovers_exporters(config))


def are_of_this_host(config: Config, targets: Sequence[Target]) -> bool:
    """Return whether there are targets, and all have GPUs of this host; then their owners are here as well."""
    return bool(targets) and all(is_of_this_host(config, target.name) for target in targets)


def kernel_log_of(config: Config) -> str:
    """Return the path of the kernel log to read; empty for none."""
    settings = config.health.kernel_log
    if settings == "auto":
        return KMSG if config.source.reads_this_host else ""
    return "" if settings == "off" else settings


def selection_of(config: Config, environment: Mapping[str, str]) -> GpuSelection:
    """Return the GPUs to show: `gpus`, by default the GPUs of the job in the environment, or all.

    Args:
        environment: variables by name; empty for a daemon, which shows all by default.
    """
    if config.gpus is not None:
        return parse(config.gpus, "gpus")
    if config.source.reads_this_host:
        return from_environment(environment)
    return EVERYTHING


def _is_exporter_here(target: str) -> bool:
    """Return whether the address of an exporter is a loopback address or the name of this host."""
    host = (urlsplit(target).hostname or "") if "://" in target else ""
    return is_loopback(host) or host == gethostname().lower()
