"""`pulsed serve`: sources, layers and HTTP put together, from the first signal to the last.

Knows every part and none of their insides.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import uvloop

from pulsed import __version__
from pulsed.collector.pool import CollectorPool
from pulsed.collector.source_factory import node_name
from pulsed.collector.state_file import SavedHealth, StateFile
from pulsed.collector.target_store import TargetStore
from pulsed.compute.health.judge import HealthEvaluator
from pulsed.compute.health.model import SEVERITY, HealthChange
from pulsed.compute.tick import ComputedTick
from pulsed.config import Config
from pulsed.errors import PulsedError
from pulsed.log import setup
from pulsed.present.api.events import EventBroadcaster
from pulsed.present.api.history import History
from pulsed.present.asgi import HEALTH, HEALTHY, READY, App
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.server.app import DaemonApp
from pulsed.server.auth import AuthMiddleware
from pulsed.server.connection_limits import ConnectionLimits
from pulsed.server.http_server import Server
from pulsed.server.listeners import Listener, take, take_over
from pulsed.server.reloader import WebConfigReloader
from pulsed.server.systemd_notify import Notifier

log = logging.getLogger(__name__)

WATCH_SECONDS = 1.0
"""How often the configuration file is looked at. One that has changed is read when it has stood still for as long."""


KEEP_SECONDS = 2.0
"""How often latched health is written, if it has changed."""

LATCHES = "latches.json"
"""The file in the folder of the state."""


def serve(config: Config, load: Callable[[], Config], file: Path | None = None) -> int:
    """Run the daemon until SIGTERM or SIGINT; returns the exit code.

    Args:
        config: to start with.
        load: makes the configuration anew, for a reload.
        file: reload when it changes.

    Raises:
        ListenError: a listen address cannot be taken.
        ConfigError: a source cannot be made from the configuration, or the web configuration cannot be used.
    """
    _raise_descriptor_limit()
    daemon = _Daemon(config, load, file)
    listeners = take_over(os.environ) if config.web.systemd_socket else take(config.listen)
    try:
        return uvloop.run(daemon.run(listeners))
    finally:
        for listener in listeners:
            listener.close()


def _raise_descriptor_limit() -> None:
    """Allow as many open files as the system permits: every target keeps a connection, every child a few pipes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # some systems say that there is no limit and mean one
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def spare_collector() -> None:
    """Set the garbage collector up for ticks, once everything that stays is there.

    What start-up made lives as long as the process: keep the collector from walking it at every full collection. Ticks
    make many objects that live for one interval and no cycles, so that there is little to look for.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


class _Daemon:
    """All parts, and the configuration that they follow."""

    def __init__(self, config: Config, load: Callable[[], Config], file: Path | None) -> None:
        self._config, self._load, self._file = config, load, file
        self._board = TargetStore(node_name(config))
        self._telemetry = Telemetry(self._board)
        kept = config.history
        self._history = History(kept.seconds, kept.max_bytes, kept.fields)
        self._events = EventBroadcaster(
            lambda: self._board.node, config.events.max_subscribers, config.events.heartbeat
        )
        folder = config.state_dir
        self._latches = SavedHealth(StateFile(Path(folder) / LATCHES)) if folder else None
        self._feeds = CollectorPool(self._board, self._telemetry.observe, self._pass_on, self._latches)
        self._pages = Pages(self._board, self._telemetry, passthrough=config.publish.passthrough)
        self._front = DaemonApp(
            self._board,
            self._pages,
            self._make_api,
            self._telemetry,
            config.telemetry_path,
            config.max_requests,
            self.reload if config.enable_lifecycle else None,
        )
        self._web = WebConfigReloader(Path(config.web.config_file)) if config.web.config_file else None
        self._notifier = Notifier(os.environ)
        self._reloaded = True
        self._telemetry.config_in_force = self._in_force

    async def run(self, listeners: Sequence[Listener]) -> int:
        """Serve until told to stop."""
        server = self._server()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, server, number)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        for listener in listeners:
            url = f"{listener.url(tls=server.tls)}{self._config.telemetry_path}"
            log.info("serving", extra={"version": __version__, "metrics": url})
        self._feeds.follow(self._config)
        for target in self._board.targets:
            log.info("reading", extra={"source": target.kind, "target": target.name, "interval": target.interval})
        beside = [asyncio.create_task(self._notifier.keep_alive()), asyncio.create_task(self._keep())]
        if self._file is not None:
            beside.append(asyncio.create_task(self._watch(self._file)))
        spare_collector()
        try:
            await server.serve(sockets=[listener.socket for listener in listeners])
        finally:
            self._notifier.stopping()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            judges = self._feeds.judges
            await self._feeds.stop()
            self._write(judges)
        log.info("stopped")
        return 0

    def reload(self) -> str:
        """Read the configuration again and follow it; one that is wrong changes nothing.

        Returns:
            What is wrong with it; empty if it is in force.
        """
        self._notifier.reloading()
        problem = ""
        try:
            config = self._load()
            self._feeds.follow(config)
        except PulsedError as error:
            problem = str(error)
            log.error("the configuration was refused, the old one stays", extra={"error": problem})
        else:
            self._take(config)
            log.info("the configuration was read again")
        self._reloaded = not problem
        self._notifier.ready("the last configuration was refused" if problem else "")
        return problem

    def _in_force(self) -> bool:
        """Whether what the files say is what the daemon follows."""
        return self._reloaded and (self._web is None or self._web.last_reload_successful)

    def _take(self, config: Config) -> None:
        """Have all other parts follow a configuration that the feeds follow."""
        for key in FIXED_KEYS:
            if getattr(config, key) != getattr(self._config, key):
                log.warning("this takes a restart", extra={"key": key})
        setup(config.log.level, config.log.format)
        self._pages.passthrough = config.publish.passthrough
        self._front.max_requests = config.max_requests
        self._config = config
        self._front.renew_api()

    def _server(self) -> Server:
        web = self._config.web
        app: App = self._front
        if self._web is not None:
            app = AuthMiddleware(
                app,
                self._web,
                self._telemetry.count_request,
                named=frozenset((self._config.telemetry_path, HEALTHY, HEALTH, READY)),
                open_paths=frozenset((HEALTHY, HEALTH, READY)) if web.open_probes else frozenset(),
            )
        limits = ConnectionLimits(web.max_connections, web.request_timeout, web.keep_alive)
        return Server(app, limits, self._web, lambda: self._notifier.ready(""))

    def _pass_on(self, tick: ComputedTick) -> None:
        """Have a tick remembered and told; neither may cost the next tick."""
        for change in tick.health_changes:
            _log_change(change, self._board.node)
        try:
            self._history.add(tick)
            self._events.publish(tick)
        except Exception:
            log.exception("a tick could not be remembered or told; please report this")

    def _stop(self, server: Server, number: signal.Signals) -> None:
        """End soon: streams would go on for ever."""
        self._events.close()
        server.stop(number)

    def _make_api(self) -> App:
        from pulsed.present.api.application import api

        config = self._config
        return api(
            self._board,
            config.masked(),
            config.telemetry_path,
            config.compute_settings().preset_name,
            history=self._history,
            events=self._events,
        )

    async def _keep(self) -> None:
        """Write latched health to its file when it has changed."""
        while self._latches is not None:
            await asyncio.sleep(KEEP_SECONDS)
            document = self._latches.document(self._feeds.judges)
            if document is not None:
                await asyncio.to_thread(self._latches.save, document)

    def _write(self, judges: Mapping[str, HealthEvaluator]) -> None:
        if self._latches is not None and (document := self._latches.document(judges)) is not None:
            self._latches.save(document)

    async def _watch(self, file: Path) -> None:
        """Reload when the file has changed, and has stood still since the last look."""
        known = seen = _signature(file)
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now = _signature(file)
            if now != known and now == seen:
                known = now
                self.reload()
            seen = now


FIXED_KEYS = ("state_dir", "listen", "telemetry_path", "enable_lifecycle", "web", "history", "events")
"""Keys of which a reload takes no notice."""


def _log_change(change: HealthChange, node: str) -> None:
    """Say that a GPU has become better or worse; single checks are in it when they became worse."""
    worse = SEVERITY[change.after] > max(SEVERITY[change.before], 0)
    if change.check and not worse:
        return
    entity = change.device.entity
    log.log(
        logging.WARNING if worse and SEVERITY[change.after] >= SEVERITY["warn"] else logging.INFO,
        f"health check: {change.message}" if change.check else "health of a GPU changed",
        extra={
            "node": entity.node or node,
            "gpu": entity.gpu,
            "uuid": entity.uuid,
            **({"check": change.check} if change.check else {}),
            "before": change.before,
            "after": change.after,
            **({"remedy": change.remedy} if worse else {}),
        },
    )


def _signature(file: Path) -> tuple[int, int, int] | None:
    """What changes with a file; links are followed, as Kubernetes changes a ConfigMap by a link."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
