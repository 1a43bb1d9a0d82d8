"""How exporters and the API server of Kubernetes are reached, by the configuration."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pulsed.collector.this_host import discovers_exporters, discovery_node, node_of_pods
from pulsed.config.configuration import Config
from pulsed.errors import ConfigError
from pulsed.reader.exporter.settings import ExporterSettings

if TYPE_CHECKING:
    from pulsed.kubernetes.api_client import ApiClient, ClusterAccess
    from pulsed.kubernetes.node_conditions import ConditionTarget


def api_client(config: Config) -> ApiClient:
    """Return a client of the configured Kubernetes API server, by default that of the cluster that pulsed runs in.

    Raises:
        ConfigError: there is neither, or exporters of an unknown node are to be found.
    """
    from pulsed.kubernetes.api_client import ApiClient

    if discovers_exporters(config):
        discovery_node(config)
    return ApiClient(cluster_access(config), config.kubernetes.timeout)


def condition_target(config: Config) -> ConditionTarget | None:
    """Return where conditions of the node are written; None if they are not to be.

    Raises:
        ConfigError: the node or the API server is unknown, or the GPUs may be those of other nodes.
    """
    settings = config.kubernetes.conditions
    if not settings.enabled:
        return None
    from pulsed.kubernetes.node_conditions import ConditionTarget

    if config.node is None or not node_of_pods(config) or config.source.is_synthetic:
        raise ConfigError(
            "kubernetes.conditions needs the name of the node, and readings of its own, real GPUs only",
            "Set `node`, in a pod PULSED_NODE from the field spec.nodeName; for targets that may be of other hosts set "
            "source.exporter.own_node, too",
        )
    return ConditionTarget(config.node, api_client(config), settings.interval, settings.heartbeat, settings.events)


def cluster_access(config: Config) -> ClusterAccess:
    """Return where the API server is and how to log in. Raises `ConfigError` if no API server is configured."""
    from pulsed.kubernetes.api_client import ClusterAccess, server_of_pod

    settings = config.kubernetes
    return ClusterAccess(settings.server or server_of_pod(os.environ), settings.token_file, settings.ca_file)


def exporter_settings(config: Config) -> ExporterSettings:
    """Return how exporters are scraped. Raises `ConfigError` if the file with the password cannot be read."""
    settings = config.source.exporter.completed(config.source.interval, config.source.max_gpus)
    settings.check_password_file()
    return settings
