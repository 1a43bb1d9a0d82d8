"""Background tasks: their pauses, and what happens when one dies. Must not import any layer.

A task that dies is logged with its traceback, counted, and restarted. Waking up costs more than most of the work done
then: the processor has left a state of rest, and its caches are cold. So an idle process wakes for all its parts.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import Counter
from collections.abc import Callable, Coroutine

log = logging.getLogger(__name__)


class Backoff:
    """Pauses that double from `first` to `longest` seconds, shortened at random so that nodes do not retry together."""

    def __init__(self, first: float, longest: float, random: Callable[[], float]) -> None:
        self._first, self._longest, self._random = first, longest, random
        self._next = first

    def next(self) -> float:
        """Return the seconds to wait after one more failure: between half of the delay and all of it."""
        due, self._next = self._next, min(self._longest, 2 * self._next)
        return due * (1 - self._random() / 2)

    def reset(self) -> None:
        """Start over with the first pause, after a success."""
        self._next = self._first


def next_multiple(seconds: float, now: float) -> float:
    """Return the multiple of `seconds` that is one interval after the one nearest to `now`.

    It is half an interval to one and a half after `now`, so that no short pause follows one that ends early.
    """
    return (math.floor(now / seconds + 0.5) + 1) * seconds


async def aligned_sleep(seconds: float) -> None:
    """Sleep until the event loop's clock is at the next multiple of `seconds`."""
    now = asyncio.get_running_loop().time()
    await asyncio.sleep(next_multiple(seconds, now) - now)


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
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, name: str, work: Work, failed: Callable[[], None] = lambda: None) -> None:
        """Start a task, as `keep_running` describes."""
        task = asyncio.create_task(keep_running(name, work, failed), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def start_ended(self, name: str, work: Work) -> None:
        """Start a task unless one of that name runs."""
        if not any(task.get_name() == name and not task.done() for task in self._tasks):
            self.start(name, work)

    async def stop(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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
