"""What takes computed ticks beside the store: history, events, accounts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pulsed.background import turn
from pulsed.collector.read_loop import REMIND_SECONDS
from pulsed.compute.tick import ComputedTick

log = logging.getLogger(__name__)


Consume = Callable[[ComputedTick], Iterator[None] | None]
"""Takes a tick; may return steps, of which the first one is all that outputs depend on."""


class TickConsumers:
    """Passes ticks on to functions, in their order; one that fails costs neither the others nor the source a tick.

    Args:
        consumers: by the name that the log has for them.
    """

    def __init__(self, consumers: Mapping[str, Consume]) -> None:
        self._consumers = consumers
        self._logged: dict[str, tuple[str, float]] = {}

    async def take(self, tick: ComputedTick) -> None:
        """Pass a tick on. A new error is logged at once, the same one again once a minute.

        The first steps of all consumers are done before anything else runs in the event loop, so that no output has a
        part of them; the others, of which there may be thousands, take turns with it.
        """
        begun: list[tuple[str, Iterator[None]]] = []
        for name, consume in self._consumers.items():
            with self._logged_errors(name, tick):
                if (steps := consume(tick)) is not None:
                    next(steps, None)
                    begun.append((name, steps))
        for name, steps in begun:
            with self._logged_errors(name, tick):
                for _ in steps:
                    await turn()

    @contextmanager
    def _logged_errors(self, name: str, tick: ComputedTick) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self._is_due(name, repr(error)):
                log.exception(
                    "internal error in a consumer of ticks; please report it",
                    extra={"consumer": name, "target": tick.target},
                )

    def _is_due(self, name: str, reason: str) -> bool:
        now, (last, logged_at) = time.monotonic(), self._logged.get(name, ("", 0.0))
        if reason == last and now - logged_at < REMIND_SECONDS:
            return False
        self._logged[name] = (reason, now)
        return True
