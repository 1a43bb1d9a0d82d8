"""Threads for calls that may hang, as those to a driver or to a file system of another host do.

No other thread waits for such a call, and the process can still end. Must not import any layer.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import threading
from collections.abc import Callable, Hashable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class ThreadCall(Generic[_T]):
    """A call in a thread, made with `DaemonThread.submit`.

    Attributes:
        result: future of the event loop in which it was submitted.
    """

    def __init__(self, work: Callable[[], _T]) -> None:
        self._loop = asyncio.get_running_loop()
        self._work = [work]
        self.result: asyncio.Future[_T] = self._loop.create_future()
        self.result.add_done_callback(_retrieve)

    def cancel(self) -> None:
        """Do not begin, unless it has begun."""
        self._work.clear()

    def run(self) -> None:
        """Run in this thread."""
        try:
            work = self._work.pop()
        except IndexError:  # cancelled
            return
        try:
            value = work()
        except Exception as error:  # noqa: BLE001 - the caller gets it
            self._answer(self.result.set_exception, error)
        else:
            self._answer(self.result.set_result, value)

    def _answer(self, setter: Callable[..., None], value: object) -> None:
        def answer() -> None:
            if not self.result.done():
                setter(value)

        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(answer)


class DaemonThread:
    """Runs one call after the other; the thread starts with the first one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[ThreadCall[object] | None] = SimpleQueue()
        self._is_running = False

    def submit(self, work: Callable[[], _T]) -> ThreadCall[_T]:
        """Run a call after those before it."""
        call = ThreadCall(work)
        self._calls.put(call)  # type: ignore[arg-type]  # the queue holds calls of every type
        if not self._is_running:
            self._is_running = True
            threading.Thread(target=_run, args=(self._calls,), name=self._name, daemon=True).start()
        return call

    def close(self) -> None:
        """End the thread after the call that runs; the next call starts another one. Safe to call twice."""
        if self._is_running:
            self._is_running = False
            self._calls.put(None)
            self._calls = SimpleQueue()  # a thread that hangs must not take what follows


class SharedCall(Generic[_T]):
    """A thread with one call at a time. A call that hangs costs one thread however often its result is awaited."""

    def __init__(self, name: str) -> None:
        self._thread = DaemonThread(name)
        self._call: ThreadCall[_T] | None = None

    async def call(self, work: Callable[[], _T]) -> _T:
        """Return what `work` returns, or what the call before returns if that has not ended.

        A cancellation does not end the call.
        """
        if self._call is None or self._call.result.done():
            self._call = self._thread.submit(work)
        return await asyncio.shield(self._call.result)

    def close(self) -> None:
        """End the thread after the call that runs; the next call starts another one. Safe to call twice."""
        self._thread.close()


FILE_SECONDS = 5.0
"""Time limit of a read of small files."""


class FileSystemHangs(OSError):
    """A file system has not answered in time."""

    def __init__(self) -> None:
        super().__init__(errno.ETIMEDOUT, "its file system does not answer")


class FileReads:
    """Reads of files whose file system may hang, each in a thread of its own, with a deadline.

    A read that hangs costs one thread however often it is requested, and is awaited for its deadline once.
    """

    def __init__(self, seconds: float = FILE_SECONDS) -> None:
        self._seconds = seconds
        self._running: dict[Hashable, tuple[float, ThreadCall[Any]]] = {}

    async def read(self, key: Hashable, work: Callable[[], _T]) -> _T:
        """Return what `work` returns, or what the read before with this key returns if that has not ended.

        Raises:
            FileSystemHangs: it has not ended in time.
        """
        loop = asyncio.get_running_loop()
        begun, call = self._running.get(key, (0.0, None))
        if call is None or call.result.done():
            thread = DaemonThread("files")
            begun, call = self._running[key] = loop.time(), thread.submit(work)
            thread.close()
        await asyncio.wait((call.result,), timeout=max(0.0, begun + self._seconds - loop.time()))
        if not call.result.done():
            raise FileSystemHangs
        self._running.pop(key, None)
        result: _T = call.result.result()
        return result


def _run(calls: SimpleQueue[ThreadCall[object] | None]) -> None:
    while (call := calls.get()) is not None:
        call.run()
        del call  # and its result, while this thread waits


def _retrieve(result: asyncio.Future[_T]) -> None:
    """Mark an error as retrieved: its caller may have been cancelled."""
    if not result.cancelled():
        result.exception()
