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
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import uvicorn
import uvloop

from pulsed import __version__
from pulsed.config import Config
from pulsed.errors import ConfigError, ListenError
from pulsed.feeds import Feeds
from pulsed.log import setup
from pulsed.notify import Notifier
from pulsed.present.board import Board
from pulsed.present.front import App, Front
from pulsed.present.page import Pages
from pulsed.present.telemetry import Telemetry
from pulsed.sources import node_name

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 1.0
"""How long requests may take to finish once the daemon has been told to stop."""

WATCH_SECONDS = 1.0
"""How often the configuration file is looked at. One that has changed is read when it has stood still for as long."""


def serve(config: Config, load: Callable[[], Config], file: Path | None = None) -> int:
    """Run the daemon until SIGTERM or SIGINT; returns the exit code.

    Args:
        config: to start with.
        load: makes the configuration anew, for a reload.
        file: reload when it changes.

    Raises:
        ListenError: a listen address cannot be taken.
        ConfigError: a source cannot be made from the configuration.
    """
    _raise_descriptor_limit()
    sockets = [bind(address) for address in config.listen]
    try:
        return uvloop.run(_Daemon(config, load, file).run(sockets))
    finally:
        for listening in sockets:
            listening.close()


def _raise_descriptor_limit() -> None:
    """Allow as many open files as the system permits: every target keeps a connection, every child a few pipes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # some systems say that there is no limit and mean one
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class _Daemon:
    """All parts, and the configuration that they follow."""

    def __init__(self, config: Config, load: Callable[[], Config], file: Path | None) -> None:
        self._config, self._load, self._file = config, load, file
        self._board = Board(node_name(config))
        self._telemetry = Telemetry(self._board)
        self._feeds = Feeds(self._board, self._telemetry.observe, lambda tick: None)
        self._pages = Pages(self._board, self._telemetry, passthrough=config.publish.passthrough)
        self._front = Front(
            self._board,
            self._pages,
            self._make_api,
            self._telemetry,
            config.telemetry_path,
            config.max_requests,
            self.reload if config.enable_lifecycle else None,
        )
        self._notifier = Notifier(os.environ)

    async def run(self, sockets: Sequence[socket.socket]) -> int:
        """Serve until told to stop."""
        server = _Server(
            self._notifier,
            uvicorn.Config(
                self._front,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=int(SHUTDOWN_SECONDS),
            ),
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop, number)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        for listening in sockets:
            url = f"http://{_shown(listening)}{self._config.telemetry_path}"
            log.info("serving", extra={"version": __version__, "metrics": url})
        self._feeds.follow(self._config)
        for target in self._board.targets:
            log.info("reading", extra={"source": target.kind, "target": target.name, "interval": target.interval})
        beside = [asyncio.create_task(self._notifier.keep_alive())]
        if self._file is not None:
            beside.append(asyncio.create_task(self._watch(self._file)))
        # What start-up made lives as long as the process: keep the collector from walking it at every full collection.
        # Ticks make many objects that live for one interval and no cycles, so that there is little to look for.
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
        try:
            await server.serve(sockets=list(sockets))
        finally:
            self._notifier.stopping()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await self._feeds.stop()
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
        except ConfigError as error:
            problem = str(error)
            log.error("the configuration was refused, the old one stays", extra={"error": problem})
        else:
            self._take(config)
            log.info("the configuration was read again")
        self._telemetry.config_reload_successful = not problem
        self._notifier.ready("the last configuration was refused" if problem else "")
        return problem

    def _take(self, config: Config) -> None:
        """Have all other parts follow a configuration that the feeds follow."""
        for key in _FIXED:
            if getattr(config, key) != getattr(self._config, key):
                log.warning("this takes a restart", extra={"key": key})
        setup(config.log.level, config.log.format)
        self._pages.passthrough = config.publish.passthrough
        self._front.max_requests = config.max_requests
        self._config = config
        self._front.renew_api()

    def _make_api(self) -> App:
        from pulsed.present.api import api

        config = self._config
        return api(self._board, config.masked(), config.telemetry_path, config.compute_settings().preset_name)

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


_FIXED = ("listen", "telemetry_path", "enable_lifecycle")
"""Keys of which a reload takes no notice."""


def _signature(file: Path) -> tuple[int, int, int] | None:
    """What changes with a file; links are followed, as Kubernetes changes a ConfigMap by a link."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class _Server(uvicorn.Server):
    """uvicorn without its own signal handling: it would end the process by the signal, not with an exit code."""

    def __init__(self, notifier: Notifier, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._notifier = notifier

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve, and say so."""
        await super().startup(sockets)
        self._notifier.ready("")

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def stop(self, number: signal.Signals) -> None:
        log.info("stopping", extra={"signal": number.name})
        self.should_exit = True


def bind(address: str) -> socket.socket:
    """Take a listen address such as `:9401`, `127.0.0.1:9401` or `[::1]:9401`.

    Raises:
        ListenError: it cannot be taken.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        if host:
            found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            return socket.create_server(found[4][:2], family=found[0], backlog=512)
        if socket.has_dualstack_ipv6():
            with contextlib.suppress(OSError):
                return socket.create_server(("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512)
        return socket.create_server(("", int(port)), backlog=512)
    except OSError as error:
        raise ListenError(
            f"cannot listen on {address}: {error.strerror or error}",
            "Is another pulsed running? Choose another address with --web.listen-address",
        ) from error


def _shown(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    if host in ("::", "0.0.0.0"):
        host = "localhost"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
