"""What takes computed ticks beside the store: history, events, accounts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from pulsed.collector.read_loop import REMIND_SECONDS
from pulsed.compute.tick import ComputedTick

log = logging.getLogger(__name__)


class TickConsumers:
    """Passes ticks on to functions, in their order; one that fails costs neither the others nor the source a tick.

    Args:
        consumers: by the name that the log has for them.
    """

    def __init__(self, consumers: Mapping[str, Callable[[ComputedTick], None]]) -> None:
        self._consumers = consumers
        self._logged: dict[str, tuple[str, float]] = {}

    def take(self, tick: ComputedTick) -> None:
        """Pass a tick on. A new error is logged at once, the same one again once a minute."""
        for name, consume in self._consumers.items():
            try:
                consume(tick)
            except Exception as error:  # noqa: PERF203 - each fails by itself
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
