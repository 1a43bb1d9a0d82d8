"""`pulsed serve`: composes collectors, pages, API and HTTP server, runs them, and reloads the configuration."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from pulsed import __version__
from pulsed.accounting.account import OwnerAccount
from pulsed.accounting.accounting import OwnerAccounting
from pulsed.accounting.findings import FindingDetector
from pulsed.accounting.owner_roster import OwnerChange
from pulsed.accounting.saved_accounts import EndedAccounts
from pulsed.collector.account_files import AccountFiles
from pulsed.collector.attribution_sources import resolves_workloads
from pulsed.collector.health_log import log_finding, log_health_change, log_removal
from pulsed.collector.host_watch import HostWatch
from pulsed.collector.job_host_usage import JobHostReader
from pulsed.collector.pool import CollectorPool
from pulsed.collector.state_file import SavedHealth, StateFile, locked
from pulsed.collector.this_host import discovers_exporters, node_name
from pulsed.collector.tick_consumers import TickConsumers
from pulsed.commands.arguments import config_file, configuration, load_config
from pulsed.commands.node_reports import NodeReports
from pulsed.configuration import Config, file_of
from pulsed.errors import PulsedError
from pulsed.log import setup
from pulsed.model.computed_tick import ComputedTick
from pulsed.model.target_store import TargetStore
from pulsed.pauses import aligned_sleep
from pulsed.present.api.account_documents import Accounts
from pulsed.present.api.event_documents import finding_change, owner_change, removal_change
from pulsed.present.api.events import EventBroadcaster
from pulsed.present.api.history import History
from pulsed.present.asgi import PROBES, App
from pulsed.present.exposition.owner_families import OwnerFamilies
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import StateWrites, Telemetry
from pulsed.present.hardware_metrics import hardware_points
from pulsed.present.owner_totals import WorkloadTotals
from pulsed.push.otlp import OtlpEncoder, OtlpPlan
from pulsed.push.pusher import PUSHED, Pusher
from pulsed.regular_file import WATCH_SECONDS, FileWatcher
from pulsed.server.app import DaemonApp
from pulsed.server.auth import AuthMiddleware, ConfiguredHeaders
from pulsed.server.http_server import Server
from pulsed.server.listeners import Listener, Notifier, from_systemd, listen
from pulsed.server.reloader import WebConfigReloader

if TYPE_CHECKING:
    from pulsed.collector.known_cluster import KnownClusterFile

log = logging.getLogger(__name__)

STATE_FILE = "latches.json"
"""The file in `state_dir` that keeps latched health."""

KNOWN_CLUSTER_FILE = "cluster.json"
"""The file in `state_dir` that keeps exporters and workloads of pods."""

GC_THRESHOLDS = (50_000, 20, 100)
"""Ticks have no cycles, so that reference counts free them. A full collection looks at the state of all GPUs, and holds
the event loop for 0.1 s with 1,000 of them (`make bench ARGS=fleet`): it should be rare."""

RESTART_KEYS = ("state_dir", "listen", "telemetry_path", "enable_lifecycle", "web", "history", "events")
"""Keys that need a restart: a reload does not change them."""


def run(options: argparse.Namespace) -> int:
    """Run the daemon until SIGTERM or SIGINT; return the exit code."""
    return serve(configuration(options), lambda: load_config(options), file_of(config_file(options), os.environ))


def serve(config: Config, load: Callable[[], Config], file: Path | None = None) -> int:
    """Run the daemon until SIGTERM or SIGINT; return the exit code.

    Args:
        load: loads the configuration again, for a reload.
        file: the configuration file; the daemon reloads when it changes.

    Raises:
        StateFolderInUse: another daemon has the same `state_dir`.
        ListenError: a listen address cannot be bound.
        ConfigError: a source cannot be made from the configuration, or the web configuration is not valid.
    """
    _raise_descriptor_limit()
    with contextlib.ExitStack() as stack:
        if config.state_dir:
            stack.enter_context(locked(Path(config.state_dir)))
        daemon = Daemon(config, load, file)
        listeners = from_systemd(os.environ) if config.web.systemd_socket else listen(config.listen)
        for listener in listeners:
            stack.callback(listener.close)
        return uvloop.run(daemon.run(listeners))


def _raise_descriptor_limit() -> None:
    """Allow as many open files as the system permits: every target has a connection, every child a few pipes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # some systems report no limit and have one
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _known_cluster(config: Config) -> KnownClusterFile | None:
    """Return the file of what is known of the cluster; None without a cluster, or without `state_dir`."""
    if not config.state_dir or not (discovers_exporters(config) or resolves_workloads(config)):
        return None
    from pulsed.collector.known_cluster import KnownClusterFile

    return KnownClusterFile(StateFile(Path(config.state_dir) / KNOWN_CLUSTER_FILE, "what is known of the cluster"))


class Daemon:
    """All parts of the daemon, and the configuration in force."""

    def __init__(self, config: Config, load: Callable[[], Config], file: Path | None) -> None:
        self._config, self._load, self._file = config, load, file
        self._store = TargetStore(node_name(config))
        self._telemetry = Telemetry(self._store)
        self._history = History(config.history.seconds, config.history.max_bytes, config.history.fields)
        self._events = EventBroadcaster(
            lambda: self._store.node, config.events.max_subscribers, config.events.heartbeat
        )
        self._saved = SavedHealth(StateFile(Path(config.state_dir) / STATE_FILE)) if config.state_dir else None
        self._known = _known_cluster(config)
        consumers = TickConsumers(
            {
                "log": self._log_health,
                "history": self._history.add,
                "events": self._events.publish,
                "accounts": self._account,
                "findings": self._find,
            }
        )
        self._collectors = CollectorPool(
            self._store,
            self._telemetry.observe,
            consumers.take,
            self._saved,
            self._known.loaded if self._known else None,
        )
        self._host_watch = HostWatch(self._store, config)
        self._ended = EndedAccounts()
        self._accounting = OwnerAccounting(
            self._collectors.attribution.ended_at, self._end_account, self._resume_account
        )
        self._job_host = JobHostReader(self._store, self._accounting, config)
        self._workloads = WorkloadTotals()
        self._findings = FindingDetector(self._accounting)
        folder = Path(config.state_dir) if config.state_dir else None
        self._account_files = AccountFiles(folder, self._accounting, self._ended)
        self._pages = Pages(self._store, self._telemetry)
        self._app = DaemonApp(
            self._store,
            self._pages,
            self._make_api,
            self._telemetry,
            config.telemetry_path,
            config.max_requests,
            self.reload if config.enable_lifecycle else None,
            self.forget if config.enable_lifecycle else None,
            config.web.prefix,
        )
        self._web = WebConfigReloader(Path(config.web.config_file)) if config.web.config_file else None
        self._notifier = Notifier(os.environ)
        self._last_reload_successful = True
        self._telemetry.config_in_force = self._in_force
        self._pusher = Pusher(self._otlp_encoder)
        self._telemetry.pusher = self._pusher
        self._reports = NodeReports(self._store)
        self._telemetry.conditions_up = lambda: self._reports.is_up
        self._reports.prepare(config)()
        self._owner_families = OwnerFamilies(self._store, self._accounting, self._findings, workloads=self._workloads)
        self._publish(config)
        self._telemetry.owners = self._owner_families.collect
        self._telemetry.attribution = lambda: self._collectors.attribution.states
        self._telemetry.state = self._state_writes
        self._telemetry.lists = lambda: self._collectors.lists

    async def run(self, listeners: Sequence[Listener]) -> int:
        """Serve until a signal; return the exit code."""
        server = self._server()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, server, number)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        for listener in listeners:
            url = f"{listener.url(tls=server.tls)}{self._config.web.prefix}{self._config.telemetry_path}"
            log.info("serving", extra={"version": __version__, "metrics": url})
        self._account_files.restore()
        self._workloads.skip(self._accounting.unfinished)
        self._collectors.apply(self._config)
        self._host_watch.apply(self._config)
        for target in self._store.targets:
            log.info("reading", extra={"source": target.kind, "target": target.name, "interval": target.interval})
        background = [
            asyncio.create_task(self._notifier.keep_alive()),
            asyncio.create_task(self._account_files.write_regularly(self._announce)),
            asyncio.create_task(self._job_host.run()),
            asyncio.create_task(self._pusher.run()),
            asyncio.create_task(self._reports.run()),
            asyncio.create_task(self._host_watch.run()),
        ]
        if self._saved is not None:
            background.append(
                asyncio.create_task(self._saved.write_regularly(lambda: self._collectors.health_evaluators))
            )
        if self._known is not None:
            background.append(asyncio.create_task(self._known.write_regularly(self._collectors.known_cluster)))
        if self._file is not None:
            background.append(asyncio.create_task(self._watch(self._file)))
        gc.freeze()  # what the start-up made lives as long as the process
        gc.set_threshold(*GC_THRESHOLDS)
        try:
            await server.serve(sockets=[listener.socket for listener in listeners])
        finally:
            self._notifier.stopping()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            evaluators = self._collectors.health_evaluators
            if self._known is not None:
                self._known.write(self._collectors.known_cluster())
            await self._collectors.stop()
            if self._saved is not None:
                self._saved.write(evaluators)
            self._account_files.write()
        log.info("stopped")
        return 0

    def reload(self) -> str:
        """Load the configuration again and apply it; one that is not valid changes nothing.

        Returns:
            The error; empty if the configuration is in force.
        """
        self._notifier.reloading()
        problem = ""
        try:
            config = self._load()
            apply_reports = self._reports.prepare(config)
            self._collectors.apply(config)
        except PulsedError as error:
            problem = str(error)
            log.error("the configuration is not valid; the previous one stays in force", extra={"error": problem})
        else:
            self._apply(config)
            apply_reports()
            log.info("configuration reloaded")
        self._last_reload_successful = not problem
        self._notifier.ready("the last configuration is not valid" if problem else "")
        return problem

    async def forget(self, gpu: str, node: str | None = None) -> str:
        """Forget an absent GPU everywhere; return a line about it. Raises as `CollectorPool.forget`."""
        removals = await self._collectors.forget(gpu, node)
        for removal in removals:
            log_removal(removal, self._store.node)
            self._history.forget(removal.device)
            self._events.announce(removal_change(removal))
        entity = removals[0].device.entity
        return f"forgotten: GPU {entity.gpu} of {entity.node or self._store.node} {entity.uuid}".rstrip()

    def _in_force(self) -> bool:
        """Return whether the configuration of the files is in force."""
        return self._last_reload_successful and (self._web is None or self._web.last_reload_successful)

    def _state_writes(self) -> StateWrites:
        files = [file for file in (self._saved, self._known) if file is not None]
        statuses = [*(file.status for file in files), *self._account_files.statuses]
        return StateWrites({each.name: not each.is_failing for each in statuses}, self._account_files.dropped)

    def _apply(self, config: Config) -> None:
        """Apply a configuration that the collectors have accepted to all other parts."""
        for key in RESTART_KEYS:
            if getattr(config, key) != getattr(self._config, key):
                log.warning("a change of this key needs a restart", extra={"key": key})
        setup(config.log.level, config.log.format)
        self._publish(config)
        self._app.max_requests = config.max_requests
        self._host_watch.apply(config)
        self._job_host.apply(config)
        self._config = config
        self._app.reset_api()

    def _publish(self, config: Config) -> None:
        """Set what is on the metrics page."""
        page_settings, families = config.page_settings(), self._owner_families
        self._pages.configure(page_settings)
        families.max_owners, families.published = config.publish.max_owners, page_settings.catalog.owners
        families.scale_target = config.publish.scale_target
        self._pusher.configure(config.publish.otlp.plan(os.environ))

    def _otlp_encoder(self, plan: OtlpPlan) -> OtlpEncoder:
        return OtlpEncoder(
            plan,
            self._read_pages,
            lambda: hardware_points(self._store, time.monotonic()),
            lambda: self._store.node,
        )

    async def _read_pages(self) -> AsyncIterator[bytes]:
        """Render the page, and the series of daemons that push."""
        yield await self._pages.serve(time.monotonic(), openmetrics=False, gzip=False)
        yield PUSHED

    def _server(self) -> Server:
        web = self._config.web
        app: App = self._app
        if self._web is not None:
            app = AuthMiddleware(
                ConfiguredHeaders(app, self._web),
                self._web,
                self._telemetry.count_request,
                named=PROBES | {self._config.telemetry_path},
                open_paths=PROBES if web.open_probes else frozenset(),
                route_prefix=web.prefix,
            )
        return Server(app, web, self._web, lambda: self._notifier.ready(""))

    def _log_health(self, tick: ComputedTick) -> None:
        for change in tick.health_changes:
            log_health_change(change, self._store.node)
        for removal in tick.removed:
            log_removal(removal, self._store.node)

    def _account(self, tick: ComputedTick) -> None:
        self._announce(self._accounting.add(tick))

    def _find(self, tick: ComputedTick) -> None:
        for finding in self._findings.add(tick):
            log_finding(finding, self._store.node)
            self._events.announce(finding_change(finding))

    def _end_account(self, account: OwnerAccount) -> None:
        """Keep the account of an owner that has ended, and add it to its workload."""
        self._account_files.end(account)
        self._workloads.end(account)

    def _resume_account(self, account: OwnerAccount) -> None:
        """Go on with the account of an owner that had ended and has returned."""
        self._ended.drop(account)
        self._workloads.skip([account])

    def _announce(self, changes: Sequence[OwnerChange]) -> None:
        """Send the begins and ends of owners to subscribers."""
        for change in changes:
            self._events.announce(owner_change(change))

    def _stop(self, server: Server, number: signal.Signals) -> None:
        """End event streams, which would keep the server open, and stop the server."""
        self._events.close()
        server.stop(number)

    def _make_api(self) -> App:
        from pulsed.present.api.application import api
        from pulsed.present.api.routing import ApiParts

        config = self._config
        return api(
            ApiParts(
                self._store,
                self._history,
                self._events,
                Accounts(self._accounting, self._ended, config.prices, self._workloads),
                self._collectors.attribution.gpu_processes,
                config.masked(),
                config.compute_settings(),
                config.telemetry_path,
                config.web.external_path if config.web.external_url else None,
            )
        )

    async def _watch(self, file: Path) -> None:
        """Reload when the configuration file has changed."""
        watcher = FileWatcher([file])
        while True:
            await aligned_sleep(WATCH_SECONDS)
            if watcher.has_changed():
                self.reload()
