"""The source `nvml`: NVIDIA's driver library, for machines without DCGM.

Its ticks have DCGM's names and units, so that every later step treats them as an exporter's page.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import TypeVar

from pulsed.background_tasks import next_multiple
from pulsed.daemon_thread import DaemonThread
from pulsed.errors import (
    DriverHung,
    DriverMismatch,
    DriverReleased,
    DriverUnavailable,
    GpuLost,
    NvmlError,
    NvmlMissing,
    NvmlRefused,
    TooManyGpus,
)
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import Epoch, RawTick
from pulsed.reader.nvml import MIN_INTERVAL, NvmlSettings
from pulsed.reader.nvml.session import TARGET, DriverSession
from pulsed.reader.source import Source, SourceRequest

_T = TypeVar("_T")

FIRST_SECONDS = 60.0
"""Patience with the first tick: the driver takes 30 s to initialize eight GPUs without persistence mode."""

CLOSE_SECONDS = 1.0
"""Patience with the shutdown of NVML; a hung one is left to its thread."""


@cache
def driver_thread() -> DaemonThread:
    """Return the one thread of this process that calls NVML: a call into a hung driver never returns.

    All sources share it, so that a hung driver blocks no second thread.
    """
    return DaemonThread("nvml")


class NvmlSource(Source):
    """The GPUs of this machine, read from the driver at a fixed cadence.

    Args:
        thread: runs the calls; None: the one of this process.
    """

    kind = "nvml"
    target = TARGET
    failures = (
        NvmlMissing,
        DriverUnavailable,
        DriverMismatch,
        DriverHung,
        DriverReleased,
        GpuLost,
        NvmlRefused,
        NvmlError,
        TooManyGpus,
    )

    def __init__(
        self,
        settings: NvmlSettings | None = None,
        thread: DaemonThread | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._settings = settings or NvmlSettings()
        self.interval = max(MIN_INTERVAL, self._settings.interval)
        self._thread = thread or driver_thread()
        self._session = DriverSession(self._settings, clock)
        self._clock, self._wall, self._sleep = clock, wall, sleep
        begun = f"{wall():.3f}"  # the last XID and the counts of XIDs are since then
        self._epoch = Epoch(engine=begun, exporter=begun)
        self._next = -math.inf

    @property
    def is_limited(self) -> bool:
        """DCGM always has more fields."""
        return True

    @property
    def profiling_errors(self) -> Mapping[str, str]:
        """Why GPUs have no profiling counters although the driver has them: messages by reason."""
        return self._session.profiling_errors

    async def read(self) -> RawTick:
        """Wait for the next scheduled moment, then read all GPUs. Moments that a slow driver missed are left out.

        Raises:
            NvmlMissing: nvidia-ml-py or the driver's library is not installed.
            DriverHung: the driver does not answer; nothing is read until it does.
            SourceError: NVML cannot be used; the next call initializes it again.
        """
        await self._sleep(self._next_pause())
        patience = self._settings.patience
        return await self._run(self._read, patience if self._session.is_open else max(FIRST_SECONDS, patience))

    def _read(self) -> RawTick:
        wall, clock = Unix(self._wall()), Monotonic(self._clock())
        layout, values, processes, lost = self._session.tick()
        return RawTick(
            TARGET, wall, clock, self.interval, layout, values, processes=processes, lost=lost, epoch=self._epoch
        )

    async def close(self) -> None:
        """Shut NVML down; a hung driver is left alone. Safe to call twice."""
        with contextlib.suppress(DriverHung):
            await self._run(self._session.close, CLOSE_SECONDS, is_final=True)

    def _next_pause(self) -> float:
        """Return the seconds to the next scheduled moment, and schedule the one after it."""
        now = self._clock()
        delay = self._next - now
        is_missed = delay <= -self.interval
        self._next = next_multiple(self.interval, now) if is_missed else self._next + self.interval
        return max(0.0, delay)

    async def _run(self, function: Callable[[], _T], patience: float, *, is_final: bool = False) -> _T:
        """Return what a function returns in the driver's thread.

        A function that has not begun in time never begins, unless it `is_final`; the result of one that is running is
        dropped.

        Args:
            patience: seconds for the driver.

        Raises:
            DriverHung: the function has not returned in time.
        """
        call = self._thread.submit(function)
        try:
            async with asyncio.timeout(patience):
                return await call.result
        except TimeoutError as error:
            raise DriverHung(
                f"NVIDIA's driver has not answered for {patience:g} s",
                "See dmesg for XIDs; pulsed reads again when the call returns. A process in state D ends only with "
                "a reboot",
            ) from error
        finally:
            if not is_final:
                call.cancel()


def open_sources(settings: NvmlSettings, request: SourceRequest) -> Sequence[NvmlSource]:
    """Return the source, as `SourceSection` describes."""
    return [NvmlSource(settings)]
