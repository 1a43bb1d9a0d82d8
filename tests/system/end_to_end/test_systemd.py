"""A running daemon talks to the service manager, whose socket the test has."""

from __future__ import annotations

import contextlib
import signal
import socket
from pathlib import Path

import pytest

from tests.support.daemon import serving
from tests.support.waiting import SECONDS


def test_the_manager_hears_of_every_turn(tmp_path: Path) -> None:
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)

        def hear(word: str) -> None:
            while word not in manager.recv(4096).decode().splitlines():
                pass

        def silence() -> None:
            manager.settimeout(1.0)
            with contextlib.suppress(TimeoutError):
                while True:
                    manager.recv(4096)

        environment = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "400000"}
        with serving(tmp_path, "--source", "demo", **environment) as daemon:
            hear("READY=1")
            hear("WATCHDOG=1")
            hear("WATCHDOG=1")
            daemon.process.send_signal(signal.SIGHUP)
            hear("RELOADING=1")
            hear("READY=1")
            daemon.process.send_signal(signal.SIGSTOP)  # stuck: the manager would restart it
            silence()
            daemon.process.send_signal(signal.SIGCONT)
            manager.settimeout(20)
            hear("WATCHDOG=1")
            daemon.process.send_signal(signal.SIGTERM)
            hear("STOPPING=1")
            assert daemon.process.wait(SECONDS) == 0


def test_ready_waits_for_no_source(tmp_path: Path) -> None:
    """A GPU node whose host engine is away must not fail its unit."""
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        words = ("--source", "exporter", "--set", "source.exporter.targets=[http://127.0.0.1:9/metrics]")
        with serving(tmp_path, *words, ready=False, NOTIFY_SOCKET=manager.getsockname()) as daemon:
            assert manager.recv(4096).decode().startswith("READY=1")
            assert daemon.get("/-/ready").status == 503
            manager.settimeout(0.5)
            with pytest.raises(TimeoutError):
                manager.recv(4096)
