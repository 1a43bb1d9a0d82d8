"""A kernel log that is read in a thread if its file system may hang."""

from __future__ import annotations

import asyncio

from pulsed.daemon_thread import DaemonThread, ThreadCall
from pulsed.model.raw_tick import KernelEvent
from pulsed.reader.kernel_log import KernelLog

WAIT_SECONDS = 0.1
"""How long a tick waits for the log; what comes later is for the next one."""

HANGING_SECONDS = 5.0

_DEVICES = "/dev/"


class KernelLogReader:
    """The kernel log of this machine, for an event loop.

    Args:
        path: `/dev/kmsg`, or a file that is followed as it grows.
    """

    def __init__(self, path: str) -> None:
        self._path, self._log = path, KernelLog(path)
        self._thread = None if path.startswith(_DEVICES) else DaemonThread("kernel log")
        self._call: ThreadCall[tuple[KernelEvent, ...] | None] | None = None
        self._begun = 0.0

    @property
    def error(self) -> str:
        """Why the log cannot be read, or why its lines cannot be used, with the remedy; empty otherwise."""
        return f"{self._path}: its file system does not answer" if self._hangs() else self._log.error

    async def read(self) -> None:
        """Read a file in the thread, for the next `poll`."""
        if self._thread is None:
            return
        if self._call is None:
            self._begun = asyncio.get_running_loop().time()
            self._call = self._thread.submit(self._log.poll)
        if not self._hangs():
            await asyncio.wait((self._call.result,), timeout=WAIT_SECONDS)

    def poll(self) -> tuple[KernelEvent, ...] | None:
        """Return the events since the last call, oldest first; None while the log cannot be read.

        Without `read`, which commands do not need, a file is read here.
        """
        if self._call is None:
            return self._log.poll()
        if not self._call.result.done():
            return None if self._hangs() else ()
        call, self._call = self._call, None
        return call.result.result()

    def close(self) -> None:
        """Close the log; not one that hangs. Safe to call twice."""
        if self._call is None or self._call.result.done():
            self._log.close()
        if self._thread is not None:
            self._thread.close()

    def _hangs(self) -> bool:
        """Return whether a read has not ended in time."""
        if self._call is None or self._call.result.done():
            return False
        return asyncio.get_running_loop().time() - self._begun > HANGING_SECONDS
