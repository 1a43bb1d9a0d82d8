"""Background tasks: one that dies is logged with its traceback, counted, and started again. Imports no layer."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Coroutine

from pulsed.pauses import Backoff

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 60.0
"""Pauses before a task is started again."""

STEADY_SECONDS = 600.0
"""A task that has run for this time before it fails is started again after the first pause."""

FAILURES: Counter[str] = Counter()
"""How often each task of this process failed, by name."""

Work = Callable[[], Coroutine[None, None, None]]


class BackgroundTasks:
    """Tasks that run until they end or are stopped."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, name: str, work: Work) -> None:
        """Start a task, as `keep_running` describes."""
        self._tasks.append(asyncio.create_task(keep_running(name, work), name=name))

    async def stop(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def keep_running(name: str, work: Work, failed: Callable[[], None] = lambda: None) -> None:
    """Run work until it ends; after an error it is called again, with a pause that grows.

    Args:
        name: of the task, for log and metric.
        failed: called after each error.
    """
    backoff, clock = Backoff(FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS, random.random), asyncio.get_running_loop()
    while True:
        begun = clock.time()
        try:
            await work()
        except Exception:  # any error of pulsed's: without this the work would end silently, for good
            if clock.time() - begun >= STEADY_SECONDS:
                backoff.reset()
            pause = backoff.next()
            FAILURES[name] += 1
            log.exception(
                "internal error in a background task, which is restarted; please report it",
                extra={"task": name, "pause_seconds": round(pause, 1)},
            )
            failed()
            await asyncio.sleep(pause)
        else:
            return
