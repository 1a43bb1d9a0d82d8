"""A process under supervision: its own group, its output handed on in chunks, an end that leaves nothing behind.

Independent of the content of the output.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from pulsed.die_with_parent import dying_with_parent
from pulsed.errors import CommandMissing

_STDOUT, _STDERR = 1, 2
_STDERR_BYTES = 8192
_TRAILING_SECONDS = 0.5
"""How long the other pipes and the exit status may come after the first sign of an end."""

_TERMINATE_SECONDS, _KILL_SECONDS = 1.0, 5.0
"""How long SIGTERM and SIGKILL have to work."""

_NOT_HANDED_ON = frozenset({"CUDA_VISIBLE_DEVICES"})
"""DCGM 4.4.2 and newer print a banner about it."""


def find(command: str) -> str:
    """Return the path of a command, looked up on PATH if it is a plain name. Raises `CommandMissing`."""
    path = shutil.which(command)
    if path is None:
        place = "is not there or cannot be run" if "/" in command else "is not on PATH"
        raise CommandMissing(
            f"{command} {place}", "Install DCGM (package datacenter-gpu-manager), or set source.dcgmi.path"
        )
    return os.path.abspath(path)


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the child: messages in English, and all GPUs."""
    return {key: value for key, value in own.items() if key not in _NOT_HANDED_ON} | {"LC_ALL": "C"}


class Child(asyncio.SubprocessProtocol):
    """One process, made with `start`; `on_end` is called once when it exited or closed its stdout."""

    def __init__(self, on_output: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_output, self._on_end = on_output, on_end
        self._stderr = b""
        self._open = {_STDOUT, _STDERR}
        self._over = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._exited = self._loop.create_future()
        self._transport: asyncio.SubprocessTransport | None = None

    @classmethod
    async def start(
        cls, command: Sequence[str], on_output: Callable[[bytes], None], on_end: Callable[[], None]
    ) -> Child:
        """Start a command, the first word a path. Raises `CommandMissing` if no process can be started."""
        child = cls(on_output, on_end)
        try:
            await child._loop.subprocess_exec(
                lambda: child,
                *dying_with_parent(command),
                stdin=asyncio.subprocess.DEVNULL,
                env=environment(os.environ),
                start_new_session=True,
            )
        except OSError as error:
            raise CommandMissing(
                f"cannot start {command[0]}: {error.strerror or error}", "See the limits of pulsed's service"
            ) from error
        except asyncio.CancelledError:
            child.kill()
            raise
        return child

    @property
    def pid(self) -> int:
        """Its process id, which is also the id of its group and session."""
        assert self._transport is not None
        return self._transport.get_pid()

    @property
    def status(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._transport.get_returncode() if self._transport else None

    @property
    def stderr(self) -> list[str]:
        """The last lines of its stderr."""
        return self._stderr.decode("utf-8", "replace").splitlines()

    def kill(self) -> None:
        """Kill its group at once."""
        self._signal(signal.SIGKILL)
        self._close()

    async def end(self, orderly: float) -> None:
        """End it with SIGINT, then SIGTERM, then SIGKILL; it has `orderly` seconds to leave after SIGINT."""
        try:
            for number, seconds in ((signal.SIGINT, orderly), (signal.SIGTERM, _TERMINATE_SECONDS)):
                self._signal(number)
                await asyncio.wait({self._exited}, timeout=seconds)
        finally:
            await self.end_now()

    async def end_now(self) -> None:
        """Kill it and wait until it is gone, even if the waiting is cancelled: it takes only an instant."""
        self._signal(signal.SIGKILL)
        try:
            await asyncio.wait({self._exited}, timeout=_KILL_SECONDS)
        except asyncio.CancelledError:
            await asyncio.wait({self._exited}, timeout=_KILL_SECONDS)
            raise
        finally:
            self._close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport of the started process (asyncio)."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Receive output (asyncio)."""
        if fd == _STDERR:
            self._stderr = (self._stderr + data)[-_STDERR_BYTES:]
        elif not self._over:
            self._on_output(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Note that the process closed a pipe (asyncio)."""
        self._open.discard(fd)
        if fd == _STDOUT or self._exited.done():
            self._ends()

    def process_exited(self) -> None:
        """Note that the process is gone, and kill what it may have started (asyncio)."""
        self._signal(signal.SIGKILL)
        self._exited.set_result(None)
        self._ends()

    def _ends(self) -> None:
        if not self._open and self._exited.done():
            self._conclude()
        elif self._timer is None and not self._over:
            self._timer = self._loop.call_later(_TRAILING_SECONDS, self._conclude)

    def _conclude(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._over:
            self._over = True
            self._on_end()

    def _signal(self, number: signal.Signals) -> None:
        if self._transport is not None and not self._exited.done():  # later its pid may belong to another process
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._transport.get_pid(), number)

    def _close(self) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.close()
