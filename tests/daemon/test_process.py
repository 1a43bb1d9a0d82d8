"""systemd's side of the notification socket, played with a real one."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pulsed.daemon.process import Notifier


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(5)
        yield listening


def told(manager: socket.socket) -> str:
    return manager.recv(4096).decode()


def test_ready_reloading_and_stopping_are_told(manager: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.getsockname()})
    notifier.ready("8 GPUs")
    assert told(manager) == "READY=1\nSTATUS=8 GPUs"
    notifier.reloading()
    assert told(manager).startswith("RELOADING=1\nMONOTONIC_USEC=")
    notifier.stopping()
    assert told(manager) == "STOPPING=1"


def test_an_abstract_socket_is_found() -> None:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listening:
        listening.bind(f"\0pulsed-{os.getpid()}")
        listening.settimeout(5)
        Notifier({"NOTIFY_SOCKET": f"@pulsed-{os.getpid()}"}).stopping()
        assert told(listening) == "STOPPING=1"


async def test_the_watchdog_is_fed_at_half_its_time(manager: socket.socket) -> None:
    notifier = Notifier(
        {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "100000", "WATCHDOG_PID": str(os.getpid())}
    )
    assert notifier.watchdog_seconds == 0.1
    task = asyncio.create_task(notifier.keep_alive())
    await asyncio.sleep(0.2)
    task.cancel()
    manager.setblocking(False)
    fed = 0
    while True:
        try:
            assert told(manager) == "WATCHDOG=1"
        except BlockingIOError:
            break
        fed += 1
    assert fed >= 2


async def test_without_systemd_nothing_happens() -> None:
    notifier = Notifier({"WATCHDOG_USEC": "100000"})
    notifier.ready("")
    await asyncio.wait_for(notifier.keep_alive(), 5)


@pytest.mark.parametrize("environment", [{"WATCHDOG_PID": "1", "WATCHDOG_USEC": "100000"}, {"WATCHDOG_USEC": "often"}])
async def test_a_watchdog_that_is_not_ours_is_not_fed(environment: dict[str, str]) -> None:
    await asyncio.wait_for(Notifier({"NOTIFY_SOCKET": "/nowhere", **environment}).keep_alive(), 5)


def test_a_manager_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("fine")
