"""The one thread that calls NVML: a call into a hung driver never returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from pulsed.daemon_thread import DaemonThread, ThreadCall
from pulsed.errors import DriverHung

T = TypeVar("T")


class DriverThread:
    """Runs functions one after the other in a daemon thread, which starts with the first one."""

    def __init__(self) -> None:
        self._thread = DaemonThread("nvml")

    async def run(self, function: Callable[[], T], patience: float, *, is_final: bool = False) -> T:
        """Run a function and return its result.

        A function that has not begun after `patience` seconds never begins, unless it `is_final`; the result of one
        that is running is dropped.

        Raises:
            DriverHung: there is no result after `patience` seconds.
        """
        call = self._thread.submit(function)
        timer = asyncio.get_running_loop().call_later(patience, _expire, call, patience)
        try:
            return await call.result
        finally:
            timer.cancel()
            if not is_final:
                call.cancel()


def _expire(call: ThreadCall[T], seconds: float) -> None:
    """Fail, unless there is a result."""
    if not call.result.done():
        call.result.set_exception(
            DriverHung(
                f"NVIDIA's driver has not answered for {seconds:g} s",
                "See dmesg for XIDs; pulsed reads again when the call returns. A process in state D ends only with "
                "a reboot",
            )
        )


@cache
def driver_thread() -> DriverThread:
    """Return the thread of this process: all sources share it, so that a hung driver blocks no second thread."""
    return DriverThread()
