"""Background tasks of the daemon: one that dies is logged with its traceback, counted, and started again."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from pulsed.pauses import Backoff

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0
"""Pauses before a task is started again."""

STEADY_SECONDS = 600.0
"""A task that has run for this time before it fails is started again after the first pause."""


class BackgroundTasks:
    """Tasks that run until they end or are stopped.

    Attributes:
        failures: how often each task failed, by name.
    """

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self.failures: Counter[str] = Counter()

    def start(self, name: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Start a task; `work` is called again after an error, with a pause that grows."""
        self._tasks.append(asyncio.create_task(self._repeat(name, work), name=name))

    async def stop(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def metrics(self) -> Iterator[Metric]:
        """Yield the family of failures, if there were any."""
        if self.failures:
            yield failure_family(
                "pulsed_task_failures",
                "Background tasks that ended by an error in pulsed, and were started again; absent before the first",
                "task",
                self.failures,
            )

    async def _repeat(self, name: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        backoff, clock = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, random.random), asyncio.get_running_loop()
        while True:
            begun = clock.time()
            try:
                await work()
            except Exception:
                if clock.time() - begun >= STEADY_SECONDS:
                    backoff.reset()
                pause = backoff.next()
                self.failures[name] += 1
                log.exception(
                    "internal error in a background task, which is started again; please report it",
                    extra={"task": name, "pause_seconds": round(pause, 1)},
                )
                await asyncio.sleep(pause)
            else:
                return


def failure_family(name: str, help: str, label: str, failures: Mapping[str, int]) -> Metric:
    """Return a family of failures by the values of a label."""
    family = CounterMetricFamily(name, help, labels=[label])
    for value, count in failures.items():
        family.add_metric([value], count)
    return family
