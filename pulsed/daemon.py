"""`pulsed serve`: sources, layers and HTTP put together, from the first signal to the last.

Knows every part and none of their insides.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import socket
from collections.abc import Iterator, Sequence

import uvicorn
import uvloop

from pulsed import __version__
from pulsed.config import Config
from pulsed.errors import ListenError
from pulsed.feed import Feed, Pipeline
from pulsed.present.board import Board
from pulsed.present.front import App, Front
from pulsed.present.page import Pages
from pulsed.present.telemetry import Telemetry
from pulsed.sources import node_name, open_sources, selection_of, target_of

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 1.0
"""How long requests may take to finish once the daemon has been told to stop."""


def serve(config: Config) -> int:
    """Run the daemon until SIGTERM or SIGINT; returns the exit code.

    Raises:
        ListenError: a listen address cannot be taken.
        ConfigError: a source cannot be made from the configuration.
    """
    _raise_descriptor_limit()
    sockets = [bind(address) for address in config.listen]
    try:
        return uvloop.run(_serve(config, sockets))
    finally:
        for listening in sockets:
            listening.close()


def _raise_descriptor_limit() -> None:
    """Allow as many open files as the system permits: every target keeps a connection, every child a few pipes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # some systems say that there is no limit and mean one
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(config: Config, sockets: Sequence[socket.socket]) -> int:
    node = node_name(config)
    settings = config.compute_settings()
    sources = open_sources(config)
    board = Board(node, [target_of(source, config) for source in sources])
    telemetry = Telemetry(board)
    feeds = [
        Feed(source, Pipeline(settings, node, telemetry.observe, selection_of(config, {})), target)
        for source, target in zip(sources, board.targets, strict=True)
    ]
    pages = Pages(board, telemetry, passthrough=config.publish.passthrough)

    def make_api() -> App:
        from pulsed.present.api import api

        return api(board, config.masked(), config.telemetry_path, settings.preset_name)

    front = Front(board, pages, make_api, telemetry, config.telemetry_path, config.max_requests)
    server = _Server(
        uvicorn.Config(
            front,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=int(SHUTDOWN_SECONDS),
        )
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop, number)
    for listening in sockets:
        log.info(
            "serving", extra={"version": __version__, "metrics": f"http://{_shown(listening)}{config.telemetry_path}"}
        )
    for target in board.targets:
        log.info("reading", extra={"source": target.kind, "target": target.name, "interval": target.interval})
    tasks = [
        asyncio.create_task(feed.run(), name=target.name) for feed, target in zip(feeds, board.targets, strict=True)
    ]
    # What start-up made lives as long as the process: keep the collector from walking it at every full collection.
    # Ticks make many objects that live for one interval and no cycles, so that there is little to look for.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    try:
        await server.serve(sockets=list(sockets))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    log.info("stopped")
    return 0


class _Server(uvicorn.Server):
    """uvicorn without its own signal handling: it would end the process by the signal, not with an exit code."""

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
