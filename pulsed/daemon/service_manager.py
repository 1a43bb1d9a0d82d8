"""The daemon's state for systemd: ready, reloading, stopping, alive."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Mapping

SOCKET_VARIABLE = "NOTIFY_SOCKET"


class Notifier:
    """Sends datagrams to the service manager, if the environment of the process names one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get(SOCKET_VARIABLE, "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_seconds = _watchdog_seconds(environment) if address else 0.0

    def ready(self, status: str) -> None:
        """Notify that the daemon serves; `status` is a line for `systemctl status`."""
        self._send(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """Notify that the configuration is read again, until `ready`."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Notify that the daemon ends."""
        self._send("STOPPING=1")

    async def keep_alive(self) -> None:
        """Notify the watchdog at half of its interval, as long as the event loop runs."""
        while self.watchdog_seconds:
            self._send("WATCHDOG=1")
            await asyncio.sleep(self.watchdog_seconds / 2)

    def _send(self, message: str) -> None:
        if self._address:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)  # a service manager that is busy must not stop the daemon
                sender.connect(self._address)
                sender.send(message.encode())


def _watchdog_seconds(environment: Mapping[str, str]) -> float:
    microseconds, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not microseconds.isdecimal() or (process and process != str(os.getpid())):
        return 0.0
    return int(microseconds) / 1e6
