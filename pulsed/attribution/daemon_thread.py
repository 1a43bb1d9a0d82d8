"""A thread for calls that may hang, as those to a file system of another host do."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class DaemonThread(Generic[_T]):
    """Runs one call at a time, beside the threads that serve HTTP, and without delaying the end of the process.

    A call that hangs costs one thread however often its result is awaited.
    """

    def __init__(self) -> None:
        self._result: asyncio.Future[_T] | None = None

    async def call(self, work: Callable[[], _T]) -> _T:
        """Return what `work` returns, or what the call before returns if that has not ended.

        A cancellation does not end the call.
        """
        if self._result is None or self._result.done():
            self._result = asyncio.get_running_loop().create_future()
            self._result.add_done_callback(_retrieve)
            threading.Thread(target=_run, args=(work, self._result), name="pulsed-attribution", daemon=True).start()
        return await asyncio.shield(self._result)


def _run(work: Callable[[], _T], result: asyncio.Future[_T]) -> None:
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
