"""The one thread that calls NVML.

A call into a hung driver never returns: no other thread waits for it, and the daemon can still end.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from typing import Generic, TypeVar

from pulsed.errors import DriverHung

T = TypeVar("T")


class _Job(Generic[T]):
    """A function to run, and the future on another thread's event loop that takes its result."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._loop = asyncio.get_running_loop()
        self._functions = [function]
        self.future: asyncio.Future[T] = self._loop.create_future()

    def cancel(self) -> None:
        """Do not run, unless it runs already."""
        self._functions.clear()

    def run(self) -> None:
        try:
            function = self._functions.pop()
        except IndexError:  # cancelled
            return
        try:
            result = function()
        except Exception as error:  # noqa: BLE001 - passed on to the caller
            self._answer(self.future.set_exception, error)
        else:
            self._answer(self.future.set_result, result)

    def expire(self, seconds: float) -> None:
        """Fail, unless there is a result."""
        if not self.future.done():
            self.future.set_exception(
                DriverHung(
                    f"NVIDIA's driver has not answered for {seconds:g} s",
                    "See dmesg for XIDs; pulsed reads again when the call returns. A process in state D ends only with "
                    "a reboot",
                )
            )

    def _answer(self, setter: Callable[..., None], value: object) -> None:
        def answer() -> None:
            if not self.future.done():
                setter(value)

        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(answer)


class DriverThread:
    """Runs functions one after the other in a daemon thread, which starts with the first one."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job[object]] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(self, function: Callable[[], T], patience: float, *, is_final: bool = False) -> T:
        """Run a function and return its result.

        A function that has not begun after `patience` seconds never begins, unless it `is_final`; the result of one
        that is running is dropped.

        Raises:
            DriverHung: there is no result after `patience` seconds.
        """
        job = _Job(function)
        self._jobs.put(job)  # type: ignore[arg-type]  # the queue holds jobs of every type
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="nvml", daemon=True)
            self._thread.start()
        timer = asyncio.get_running_loop().call_later(patience, job.expire, patience)
        try:
            return await job.future
        finally:
            timer.cancel()
            if not is_final:
                job.cancel()

    def _work(self) -> None:
        while True:
            self._jobs.get().run()


@cache
def driver_thread() -> DriverThread:
    """Return the thread of this process: all sources share it, so that a hung driver blocks no second thread."""
    return DriverThread()
