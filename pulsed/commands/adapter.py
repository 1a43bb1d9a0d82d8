"""`pulsed adapter`: answers the metrics APIs of Kubernetes from the daemons of a cluster."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import uvloop

from pulsed import __version__
from pulsed.adapter.app import ALIVE, NAMED, READY, AdapterApp, AdapterTelemetry
from pulsed.adapter.cluster_gpus import ClusterGpus, daemon_page, pod_reader
from pulsed.adapter.documents import scale_metrics
from pulsed.adapter.metrics_api import MetricsApi
from pulsed.adapter.pod_names import PodNames
from pulsed.collector.attribution_sources import pod_settings
from pulsed.collector.connections import cluster_access, exporter_settings
from pulsed.commands.arguments import configuration
from pulsed.configuration import Config
from pulsed.errors import ConfigError
from pulsed.kubernetes.api_client import ApiClient, ClusterAccess, RateLimit, own_namespace
from pulsed.kubernetes.resource_watch import ResourceWatch
from pulsed.kubernetes.settings import ALL_NAMESPACES
from pulsed.kubernetes.workload_resolver import WorkloadResolver
from pulsed.memory import configure_memory
from pulsed.present.asgi import App
from pulsed.reader.exporter.scraper import Scraper
from pulsed.reader.settings import STALE_INTERVALS
from pulsed.server.auth import AuthMiddleware
from pulsed.server.http_server import Server
from pulsed.server.listeners import Listener, listen
from pulsed.server.reloader import WebConfigReloader

log = logging.getLogger(__name__)

PODS = "/api/v1/pods"

REQUEST_LIMIT = RateLimit(1, 0.1)
"""Of requests to the API server: one adapter reads the pages of all pods of a cluster."""


def run(options: argparse.Namespace) -> int:
    """Run the adapter until SIGTERM or SIGINT; return the exit code."""
    return serve_apis(configuration(options))


def serve_apis(config: Config) -> int:
    """Run the adapter until SIGTERM or SIGINT; return the exit code.

    Raises:
        ListenError: a listen address cannot be bound.
        ConfigError: the API server or the daemons' namespaces are not known, or the web configuration is not valid.
    """
    access = cluster_access(config)
    web = WebConfigReloader(Path(config.web.config_file)) if config.web.config_file else None
    if config.adapter.client_names and (web is None or not web.now.settings.tls_server_config.verifies_clients):
        raise ConfigError(
            "adapter.client_names: the web configuration does not verify client certificates; every request would be "
            "refused",
            "There, set client_ca_file and client_auth_type to VerifyClientCertIfGiven",
        )
    namespaces = daemon_namespaces(config)
    listeners = listen(config.listen)
    try:
        return uvloop.run(_run(config, access, namespaces, web, listeners))
    finally:
        for listener in listeners:
            listener.close()


def daemon_namespaces(config: Config) -> Collection[str] | None:
    """Return the namespaces of daemons; None for all.

    Raises:
        ConfigError: none is configured, and this is not a pod; or all are, together with credentials.
    """
    given = config.adapter.namespaces
    if given is None:
        own = own_namespace(config.kubernetes.namespace_file)
        if not own:
            raise ConfigError(
                f"adapter.namespaces is not set, and {config.kubernetes.namespace_file} does not name a namespace",
                "Set adapter.namespaces to that of the daemons",
            )
        return (own,)
    if given != ALL_NAMESPACES:
        return given
    if credentials := config.source.exporter.credentials:
        keys = " and ".join(f"source.exporter.{key}" for key in credentials)
        raise ConfigError(
            f"adapter.namespaces: all would send {keys} to any pod with the labels of a daemon",
            "Set adapter.namespaces to that of the daemons",
        )
    return None


async def _run(
    config: Config,
    access: ClusterAccess,
    namespaces: Collection[str] | None,
    web: WebConfigReloader | None,
    listeners: list[Listener],
) -> int:
    given = config.adapter
    client = ApiClient(access, config.kubernetes.timeout, limits=[REQUEST_LIMIT])
    scraper = Scraper(replace(exporter_settings(config), interval=given.interval))
    scraper.retain()
    listed = asyncio.Event()

    def changed() -> None:
        if pods.is_listed:
            listed.set()

    reader = pod_reader(given.selectors, namespaces)
    pods = ResourceWatch(client, PODS, {}, reader, changed, is_paged=True)
    page = daemon_page(given.container_port, given.scheme, given.route_prefix or "", given.fields)
    settings = pod_settings(config)
    names = PodNames(WorkloadResolver(client, settings.kinds), settings)
    gpus = ClusterGpus(scraper, pods, names, page, given.stale_after or STALE_INTERVALS * given.interval)
    telemetry = AdapterTelemetry(gpus, pods)
    app: App = AdapterApp(
        MetricsApi(gpus, scale_metrics(given.fields), given.min_coverage), telemetry, given.client_names
    )
    if web is not None:
        open_paths = frozenset((*ALIVE, *READY)) if config.web.open_probes else frozenset[str]()
        app = AuthMiddleware(app, web, telemetry.count_request, named=NAMED, open_paths=open_paths)
    server = Server(app, config.web, web)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.stop, number)
    for listener in listeners:
        log.info("serving", extra={"version": __version__, "apis": f"{listener.url(tls=server.tls)}/apis"})

    async def read_daemons() -> None:
        await listed.wait()
        await gpus.run(given.interval)

    tasks = [asyncio.create_task(pods.run()), asyncio.create_task(read_daemons())]
    configure_memory()
    try:
        await server.serve(sockets=[listener.socket for listener in listeners])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await scraper.release()
        await client.close()
    log.info("stopped")
    return 0
