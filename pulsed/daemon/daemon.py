"""The daemon: makes collectors, features and HTTP server from the configuration, runs them, and reloads it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from prometheus_client.metrics_core import Metric

from pulsed import __version__
from pulsed.background_tasks import BackgroundTasks, aligned_sleep
from pulsed.collector.this_host import node_name
from pulsed.config.configuration import ActiveConfig, Config
from pulsed.daemon.collection import Collection
from pulsed.daemon.feature import FeatureParts
from pulsed.daemon.features import FEATURES, FeatureSet
from pulsed.daemon.http_app import DaemonApp, FrontRoutes
from pulsed.daemon.process import Notifier, StopDeadline
from pulsed.daemon_thread import FileReads, FileSystemHangs
from pulsed.errors import PulsedError
from pulsed.log import setup
from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import TargetStore
from pulsed.present.api.application import api
from pulsed.present.api.routing import ApiParts
from pulsed.present.asgi import EVENTS, App
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import Telemetry, task_families
from pulsed.regular_file import WATCH_SECONDS, FileWatcher
from pulsed.server.auth import protected
from pulsed.server.http_server import Server
from pulsed.server.listeners import Listener
from pulsed.server.reloader import WebConfigReloader

log = logging.getLogger(__name__)

GC_THRESHOLDS = (50_000, 20, 100)
"""Ticks have no cycles. A full collection holds the event loop for 0.1 s with 1,000 GPUs (`make bench ARGS=fleet`)."""

RELOAD_SECONDS = 10.0
"""Time limit of reading the configuration and the files that it names."""

RESTART_KEYS = ("state_dir", "listen", "telemetry_path", "enable_lifecycle", "web", "history", "events")
"""Keys that need a restart: a reload does not change them."""


class Daemon:
    """All parts of the daemon, and the configuration in force.

    Args:
        load: loads the configuration again, for a reload.
        file: the configuration file; the daemon reloads when it changes.

    Raises `ConfigError` if a part cannot be made from the configuration.
    """

    def __init__(self, config: Config, load: Callable[[], Config], file: Path | None) -> None:
        self._active, self._load, self._file = ActiveConfig(config), load, file
        self._web = WebConfigReloader(Path(config.web.config_file)) if config.web.config_file else None
        self._notifier = Notifier(os.environ)
        self._last_reload_successful, self._deadline, self._files = True, StopDeadline(), FileReads(RELOAD_SECONDS)
        self._reloading = asyncio.Lock()
        self._features, self._tasks = FeatureSet(), BackgroundTasks()
        self._store = TargetStore(node_name(config))
        self._telemetry = Telemetry(self._store, self._families, self._is_in_force)
        self._pages = Pages(self._store, self._telemetry, config.page_settings())
        self._collection = Collection(config, self._store, self._telemetry.observe, self._features.take_tick)
        self._features.add(self._collection)
        attribution = self._collection.pool.attribution
        parts = FeatureParts(self._active, self._store, attribution, self._pages, self._features.by_class)
        for feature in FEATURES:
            self._features.add(feature(parts))
        self._features.check(config)
        self._front = FrontRoutes(
            self._store,
            self._pages,
            config.telemetry_path,
            config.max_requests,
            self.reload if config.enable_lifecycle else None,
            self.forget if config.enable_lifecycle else None,
        )
        self._shown = ApiParts(
            self._store,
            attribution.gpu_processes,
            config.masked(),
            config.compute_settings(),
            config.telemetry_path,
            config.web.external_path if config.web.external_url else None,
        )
        routes = (route for feature in self._features for route in feature.routes())
        application, without_turn = api(self._shown, routes, self._front.routes()), (*self._front.paths, EVENTS)
        self._app = DaemonApp(application, self._telemetry.count_request, config.web.prefix, without_turn)

    async def run(self, listeners: Sequence[Listener]) -> int:
        """Serve until a signal; return the exit code."""
        server = self._server()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._tasks.start, "reload", self._reload)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, server, number)
        for listener in listeners:
            config = self._active.config
            url = f"{listener.url(tls=server.tls)}{config.web.prefix}{config.telemetry_path}"
            log.info("serving", extra={"version": __version__, "metrics": url})
        self._features.restore()
        self._use(self._active.config)
        for target in self._store.targets:
            log.info("reading", extra={"source": target.kind, "target": target.name, "interval": target.interval})
        self._tasks.start("watchdog", self._notifier.keep_alive)
        if self._file is not None:
            self._tasks.start("config_file", self._watch)
        gc.freeze()  # what the start-up made lives as long as the process
        gc.set_threshold(*GC_THRESHOLDS)
        try:
            await server.serve(sockets=[listener.socket for listener in listeners])
        finally:
            self._notifier.stopping()
            await self._tasks.stop()
            await self._collection.pool.stop()
            self._features.save()
        self._deadline.saved()
        log.info("stopped")
        return 0

    async def _reload(self) -> None:
        await self.reload()

    async def reload(self) -> str:
        """Load the configuration again, in a thread, and apply it; one that is not valid changes nothing.

        Returns:
            The error; empty if the configuration is in force.
        """
        async with self._reloading:
            return await self._load_and_apply()

    async def _load_and_apply(self) -> str:
        self._notifier.reloading()
        problem = ""
        try:
            config = await self._files.read("configuration", self._load)
            config = self._without_restart(config)
            self._features.check(config)
            self._use(config)
        except (PulsedError, FileSystemHangs) as error:
            problem = str(error)
            if isinstance(error, FileSystemHangs):
                problem = f"the configuration, or a file that it names: {error.strerror}"
            log.error("the configuration is not valid; the previous one remains active", extra={"error": problem})
        else:
            self._pages.configure(config.page_settings())
            self._front.max_requests = config.max_requests
            self._shown.config, self._shown.settings = config.masked(), config.compute_settings()
            setup(config.log.level, config.log.format)
            config.log_unused()
            log.info("configuration reloaded")
        self._last_reload_successful = not problem
        summary = problem.partition("\n")[0]
        self._notifier.ready(f"the last configuration is not valid: {summary}" if problem else "")
        return problem

    async def forget(self, gpu: str, node: str | None = None) -> str:
        """Forget an absent GPU everywhere; return a line about it. Raises as `CollectorPool.forget`."""
        removals = await self._collection.pool.forget(gpu, node)
        for removal in removals:
            for feature in self._features:
                feature.forget(removal)
        entity = removals[0].device.entity
        return f"forgotten: GPU {entity.gpu} of {entity.node or self._store.node} {entity.uuid}".rstrip()

    def _without_restart(self, config: Config) -> Config:
        """Return a configuration with the values in force of keys that need a restart."""
        kept = {key: getattr(self._active.config, key) for key in RESTART_KEYS}
        if changed := [key for key, value in kept.items() if getattr(config, key) != value]:
            log.warning("a change of these keys needs a restart", extra={"keys": ",".join(changed)})
        return replace(config, **kept)

    def _use(self, config: Config) -> None:
        """Put a checked configuration in force, at start and at each reload.

        Raises `ConfigError` if a source cannot be made; then nothing has changed.
        """
        self._collection.pool.apply(config)
        self._active.config = config
        for feature in self._features:
            self._tasks.start_ended(feature.name, feature.run)

    def _is_in_force(self) -> bool:
        """Return whether the configuration of the files is in force."""
        return self._last_reload_successful and (self._web is None or self._web.last_reload_successful)

    def _families(self, now: Monotonic) -> Iterator[Metric]:
        """Yield the families of features and tasks at monotonic seconds."""
        yield from self._features.metrics(now)
        yield from task_families()

    def _server(self) -> Server:
        config = self._active.config
        app: App = self._app
        if self._web is not None:
            app = protected(app, self._web, config.web, self._telemetry.count_request, config.telemetry_path)
        return Server(app, config.web, self._web, lambda: self._notifier.ready(""))

    def _stop(self, server: Server, number: signal.Signals) -> None:
        self._deadline.start()
        for feature in self._features:
            feature.stop()
        server.stop(number)

    async def _watch(self) -> None:
        """Reload when the configuration file has changed."""
        watcher = FileWatcher(())
        with contextlib.suppress(FileSystemHangs):
            await self._files.read("watch", lambda: watcher.watch([self._file] if self._file is not None else []))
        while True:
            await aligned_sleep(WATCH_SECONDS)
            with contextlib.suppress(FileSystemHangs):
                if await self._files.read("watch", watcher.has_changed):
                    await self.reload()
