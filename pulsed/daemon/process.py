"""The process of the daemon: its state for systemd, and its end within a time.

Also while a call to a disk, a driver or a resolver hangs in a thread, the process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path

log = logging.getLogger(__name__)

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


STOP_SECONDS = 8.0
"""Seconds from the signal until the process ends; Docker kills after 10."""

THREAD_SECONDS = 1.0
"""Seconds that threads have to end once everything is saved."""

_PACKAGE = str(Path(__file__).parents[1])


class StopDeadline:
    """Ends the process when stopping takes too long; the log then names the calls that have not returned.

    Python waits for its threads at exit, and a call to a hung file system returns only with that file system.
    """

    def __init__(self) -> None:
        self._is_saved = threading.Event()
        self._is_started = False

    def start(self) -> None:
        """Start the time; further calls have no effect."""
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._wait, name="stop deadline", daemon=True).start()

    def saved(self) -> None:
        """Note that everything is saved: threads that still run do not matter any more."""
        self._is_saved.set()

    def _wait(self) -> None:
        if self._is_saved.wait(STOP_SECONDS):
            threading.Event().wait(THREAD_SECONDS)
            log.warning("ended while calls had not returned", extra={"calls": running_calls()})
            os._exit(0)
        log.error(
            f"ended {STOP_SECONDS:g} s after the signal, while calls had not returned; what state_dir lacks is lost",
            extra={"calls": running_calls()},
        )
        os._exit(1)


def running_calls() -> str:
    """Return what the other threads do: the innermost line of pulsed of each, and the function that it is in."""
    calls = []
    for thread, frame in sys._current_frames().items():
        if thread == threading.get_ident():
            continue
        own = [each for each in traceback.extract_stack(frame) if each.filename.startswith(_PACKAGE)]
        if own:
            place = Path(own[-1].filename).relative_to(_PACKAGE)
            calls.append(f"{own[-1].name} ({place}:{own[-1].lineno}: {own[-1].line})")
    return ", ".join(calls) or "none of pulsed's own"
