"""How exporters and the API server of Kubernetes are reached, by the configuration."""

from __future__ import annotations

import os
from collections.abc import Container
from typing import TYPE_CHECKING, Any

from pulsed.collector.this_host import discovers_exporters, discovery_node
from pulsed.config import Config
from pulsed.config.load import password_of
from pulsed.config.source import CADENCES
from pulsed.settings import Settings, keys_of

if TYPE_CHECKING:
    from pulsed.kubernetes.api_client import ApiClient
    from pulsed.kubernetes.cluster_access import ClusterAccess
    from pulsed.reader.exporter.settings import ExporterSettings


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
    from pulsed.kubernetes.cluster_access import ClusterAccess, server_of_pod

    given = config.kubernetes
    return ClusterAccess(given.server or server_of_pod(os.environ), given.token_file, given.ca_file)


def exporter_settings(config: Config) -> ExporterSettings:
    """Return how exporters are scraped. Raises `ConfigError` if a secret's file cannot be read."""
    from pulsed.reader.exporter.settings import ExporterSettings

    given = config.source.exporter
    other = {"targets", "own_node", "discovery", "kubernetes", "password"}
    return ExporterSettings(
        interval=_exporter_interval(config),
        max_gpus=config.source.max_gpus,
        password=password_of(given),
        **given_values(given, other),
    )


def _exporter_interval(config: Config) -> float:
    """Return the set interval, unless `auto` was given an interval that only dcgmi can keep."""
    given, cadence = config.source.interval, CADENCES["exporter"]
    return given if given is not None and given >= cadence.least else cadence.default or 15.0


def given_values(settings: Settings, without: Container[str] = ()) -> dict[str, Any]:
    """Return the values of a section that are given, by attribute, but for some of them."""
    values = {key.attribute: getattr(settings, key.attribute) for key in keys_of(type(settings)).values()}
    return {name: value for name, value in values.items() if value is not None and name not in without}
