"""A thread for calls that may hang, as those to a file system of another host do."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

_T = TypeVar("_T")


class DaemonThread(Generic[_T]):
    """Runs one call at a time, beside the threads that serve HTTP, and without delaying the end of the process.

    A call that hangs costs one thread however often its result is awaited. The thread starts with the first call.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], _T], asyncio.Future[_T]] | None] = SimpleQueue()
        self._result: asyncio.Future[_T] | None = None
        self._is_running = False

    async def call(self, work: Callable[[], _T]) -> _T:
        """Return what `work` returns, or what the call before returns if that has not ended.

        A cancellation does not end the call.
        """
        if self._result is None or self._result.done():
            self._result = asyncio.get_running_loop().create_future()
            self._result.add_done_callback(_retrieve)
            self._calls.put((work, self._result))
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=_run, args=(self._calls,), name="pulsed-attribution", daemon=True).start()
        return await asyncio.shield(self._result)

    def close(self) -> None:
        """End the thread after the call that runs; the next call starts another one. Safe to call twice."""
        if self._is_running:
            self._is_running = False
            self._calls.put(None)
            self._calls = SimpleQueue()  # a thread that hangs must not take what follows


def _run(calls: SimpleQueue[tuple[Callable[[], _T], asyncio.Future[_T]] | None]) -> None:
    while (call := calls.get()) is not None:
        _work(*call)
        del call


def _work(work: Callable[[], _T], result: asyncio.Future[_T]) -> None:
    loop = result.get_loop()
    with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
        try:
            value = work()
        except Exception as error:  # noqa: BLE001 - the caller gets it
            loop.call_soon_threadsafe(result.set_exception, error)
        else:
            loop.call_soon_threadsafe(result.set_result, value)


def _retrieve(result: asyncio.Future[_T]) -> None:
    """Mark an error as retrieved: its caller may have been cancelled."""
    if not result.cancelled():
        result.exception()
