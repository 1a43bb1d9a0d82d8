"""`pulsed serve`: runs the daemon, which alone uses its `state_dir` and its addresses."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import resource
from pathlib import Path

from pulsed.cli.arguments import config_file, configuration, load_config
from pulsed.collector.this_host import discovers_exporters
from pulsed.config.configuration import Config, file_of
from pulsed.daemon.daemon import Daemon
from pulsed.daemon.state_file import locked
from pulsed.errors import ListenError
from pulsed.heap import return_large_blocks
from pulsed.server.listeners import Listener, from_systemd, listen


def run(options: argparse.Namespace) -> int:
    """Run the daemon until SIGTERM or SIGINT; return the exit code.

    Raises:
        StateFolderInUse: another daemon has the same `state_dir`.
        ListenError: a listen address cannot be bound.
        ConfigError: a source cannot be made from the configuration, or the web configuration is not valid.
    """
    return_large_blocks()
    config = configuration(options)
    _raise_descriptor_limit()
    with contextlib.ExitStack() as stack:
        if config.state_dir:
            stack.enter_context(locked(Path(config.state_dir)))
        daemon = Daemon(config, lambda: _load(options), file_of(config_file(options), os.environ))
        listeners = _listeners(config)
        for listener in listeners:
            stack.callback(listener.close)
        return asyncio.run(daemon.run(listeners))


def _load(options: argparse.Namespace) -> Config:
    """Return the configuration, with all files read that applying it needs."""
    config = load_config(options)
    if discovers_exporters(config):
        from pulsed.kubernetes.api_client import own_namespace

        own_namespace(config.kubernetes.namespace_file)
    return config


def _listeners(config: Config) -> list[Listener]:
    """Return the sockets that systemd passes, otherwise listeners on the addresses of the configuration."""
    if passed := from_systemd(os.environ):
        return passed
    if config.web.systemd_socket:
        raise ListenError("systemd passed no sockets", "Start pulsed from a .socket unit, or omit --web.systemd-socket")
    return listen(config.listen)


def _raise_descriptor_limit() -> None:
    """Allow as many open files as the system permits: every target has a connection, every child a few pipes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # some systems report no limit and have one
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
