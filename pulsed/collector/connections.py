"""How exporters and the API server of Kubernetes are reached, by the configuration."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pulsed.collector.this_host import discovers_exporters, discovery_node
from pulsed.configuration import Config
from pulsed.reader.exporter.settings import ExporterSettings

if TYPE_CHECKING:
    from pulsed.kubernetes.api_client import ApiClient, ClusterAccess


def api_client(config: Config) -> ApiClient:
    """Return a client of the configured API server of Kubernetes, else of the cluster that pulsed runs in.

    Raises:
        ConfigError: there is neither, or exporters of an unknown node are to be found.
    """
    from pulsed.kubernetes.api_client import ApiClient

    if discovers_exporters(config):
        discovery_node(config)
    return ApiClient(cluster_access(config), config.kubernetes.timeout)


def cluster_access(config: Config) -> ClusterAccess:
    """Return where the API server is and how to log in. Raises `ConfigError` if there is none."""
    from pulsed.kubernetes.api_client import ClusterAccess, server_of_pod

    given = config.kubernetes
    return ClusterAccess(given.server or server_of_pod(os.environ), given.token_file, given.ca_file)


def exporter_settings(config: Config) -> ExporterSettings:
    """Return how exporters are scraped. Raises `ConfigError` if the file with the password cannot be read."""
    settings = config.source.exporter.completed(config.source.interval, config.source.max_gpus)
    settings.check_password_file()
    return settings
