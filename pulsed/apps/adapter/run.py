"""`pulsed adapter`: answers the metrics APIs of Kubernetes from the daemons of a cluster."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from pulsed import __version__
from pulsed.apps.adapter.app import ALIVE, NAMED, READY, AdapterApp, AdapterTelemetry
from pulsed.apps.adapter.cluster_gpus import MAX_PAGE_BYTES, ClusterGpus, PodNames, daemon_page, pod_reader
from pulsed.apps.adapter.documents import scale_metrics
from pulsed.apps.adapter.metrics_api import MetricsApi
from pulsed.apps.adapter.serving_certificate import ServingCertificate
from pulsed.background_tasks import BackgroundTasks
from pulsed.cli.arguments import configuration
from pulsed.collector.attribution_sources import pod_settings
from pulsed.collector.this_host import cluster_access
from pulsed.config.configuration import Config
from pulsed.errors import ConfigError
from pulsed.heap import return_large_blocks
from pulsed.kubernetes.api_client import ApiClient, ClusterAccess, RateLimit, own_namespace
from pulsed.kubernetes.resource_watch import ResourceWatch
from pulsed.kubernetes.settings import ALL_NAMESPACES
from pulsed.kubernetes.workload_resolver import WorkloadResolver
from pulsed.present.asgi import App
from pulsed.present.autoscale import ROUTES
from pulsed.reader.exporter.source import Scraper
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
    return_large_blocks()
    return serve_apis(configuration(options))


def serve_apis(config: Config) -> int:
    """Run the adapter until SIGTERM or SIGINT; return the exit code.

    Raises:
        ListenError: a listen address cannot be bound.
        ConfigError: the API server or the daemons' namespaces are not known, or the web configuration is not valid.
    """
    access = cluster_access(config)
    if config.adapter.serving.folder is None:
        web_configuration(config)
    namespaces = daemon_namespaces(config)
    with ExitStack() as closing:
        listeners, plain = [_listen(addresses, closing) for addresses in (config.listen, config.adapter.plain_listen)]
        return asyncio.run(_run(config, access, namespaces, listeners, plain))


def _listen(addresses: Sequence[str] | None, closing: ExitStack) -> list[Listener]:
    listeners = listen(addresses) if addresses else []
    for listener in listeners:
        closing.callback(listener.close)
    return listeners


def web_configuration(config: Config) -> WebConfigReloader | None:
    """Return the web configuration; None without one. Raises `ConfigError` if it is not valid."""
    settings = config.adapter
    web = WebConfigReloader(Path(config.web.config_file)) if config.web.config_file else None
    needs_clients = settings.client_names or settings.serving.folder is not None
    if needs_clients and (web is None or not web.now.settings.tls_server_config.verifies_clients):
        key = "client_names" if settings.client_names else "serving.folder"
        raise ConfigError(
            f"adapter.{key}: the web configuration does not verify client certificates; every request would be refused",
            "There, set client_ca_file and client_auth_type to VerifyClientCertIfGiven",
        )
    return web


def serving_certificate(config: Config, client: ApiClient) -> ServingCertificate | None:
    """Return what keeps the files of `adapter.serving`; None if nothing does."""
    serving = config.adapter.serving
    if serving.folder is None:
        return None
    return ServingCertificate(client, serving, serving.folder, own_namespace(config.kubernetes.namespace_file))


def client_names(config: Config, serving: ServingCertificate | None) -> Callable[[], Collection[str]] | None:
    """Return the function of the names of the API server's certificate; None if requests need none."""
    names = config.adapter.client_names
    if not names and serving is None:
        return None
    return lambda: names if names or serving is None else serving.client_names


def daemon_namespaces(config: Config) -> Collection[str] | None:
    """Return the namespaces of daemons; None for all.

    Raises:
        ConfigError: none is configured, and this is not a pod; or all are, together with credentials.
    """
    namespaces = config.adapter.namespaces
    if namespaces is None:
        own = own_namespace(config.kubernetes.namespace_file)
        if not own:
            raise ConfigError(
                f"adapter.namespaces is not set, and {config.kubernetes.namespace_file} does not name a namespace",
                "Set adapter.namespaces to that of the daemons",
            )
        return (own,)
    if namespaces != ALL_NAMESPACES:
        return namespaces
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
    listeners: list[Listener],
    plain: list[Listener],
) -> int:
    adapter_settings = config.adapter
    client = ApiClient(access, config.kubernetes.timeout, limits=[REQUEST_LIMIT])
    serving = serving_certificate(config, client)
    if serving is not None:
        await serving.wait()
    web = web_configuration(config)
    settings_of_pages = replace(
        config.source.scrapes(), interval=adapter_settings.interval, max_page_bytes=MAX_PAGE_BYTES
    )
    scraper = Scraper(settings_of_pages)
    scraper.retain()
    listed = asyncio.Event()

    def changed() -> None:
        if pods.is_listed:
            listed.set()

    reader = pod_reader(adapter_settings.selectors, namespaces)
    pods = ResourceWatch(client, PODS, {}, reader, changed, is_paged=True)
    page = daemon_page(
        adapter_settings.container_port,
        adapter_settings.scheme,
        adapter_settings.route_prefix or "",
        adapter_settings.fields,
    )
    settings = pod_settings(config)
    names = PodNames(WorkloadResolver(client, settings.kinds), settings)
    gpus = ClusterGpus(
        scraper.fetch, pods, names, page, adapter_settings.stale_after or STALE_INTERVALS * adapter_settings.interval
    )
    telemetry = AdapterTelemetry(gpus, pods)
    api = MetricsApi(gpus, scale_metrics(adapter_settings.fields), adapter_settings.min_coverage)
    answers = AdapterApp(api, telemetry, client_names(config, serving))
    app: App = answers
    if web is not None:
        open_paths = frozenset((*ALIVE, *READY)) if config.web.open_probes else frozenset[str]()
        app = AuthMiddleware(answers, web, telemetry.count_request, named=NAMED, open_paths=open_paths)
    server, plain_server = Server(app, config.web, web), Server(answers, config.web)

    def stop(number: signal.Signals) -> None:
        server.stop(number)
        plain_server.stop(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    for listener in listeners:
        log.info("serving", extra={"version": __version__, "apis": f"{listener.url(tls=server.tls)}/apis"})
    for listener in plain:
        log.info("serving numbers", extra={"url": f"{listener.url(tls=False)}{ROUTES}"})

    async def read_daemons() -> None:
        await listed.wait()
        await gpus.run(adapter_settings.interval)

    tasks = BackgroundTasks()
    tasks.start("pods", pods.run)
    tasks.start("daemons", read_daemons)
    if serving is not None:
        tasks.start("serving_certificate", serving.run)
    try:
        await asyncio.gather(_serve(server, listeners), *([_serve(plain_server, plain)] if plain else []))
    finally:
        await tasks.stop()
        await scraper.release()
        await client.close()
    log.info("stopped")
    return 0


async def _serve(server: Server, listeners: Sequence[Listener]) -> None:
    await server.serve(sockets=[listener.socket for listener in listeners])
