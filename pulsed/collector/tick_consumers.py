"""What takes computed ticks in addition to the store: history, events, accounts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from types import TracebackType

from pulsed.model.computed_tick import ComputedTick
from pulsed.reader.source import REMIND_SECONDS

log = logging.getLogger(__name__)


Consume = Callable[[ComputedTick], None]


class TickConsumers:
    """Passes ticks on to functions, in their order; one that fails costs neither the others nor the source a tick.

    Args:
        consumers: by the name that the log has for them.
    """

    def __init__(self, consumers: Mapping[str, Consume]) -> None:
        self._consumers = consumers
        self._logged: dict[str, tuple[str, float]] = {}

    def take(self, tick: ComputedTick) -> None:
        """Pass a tick on. A new error is logged at once, the same one again once a minute."""
        for name, consume in self._consumers.items():
            with _LoggedErrors(name, tick.target, self._logged):
                consume(tick)


class _LoggedErrors:
    """A context that logs the errors of one consumer and ends them. A generator would cost several times as much.

    Args:
        logged: by consumer the last error, and when it was logged.
    """

    __slots__ = ("_consumer", "_logged", "_target")

    def __init__(self, consumer: str, target: str, logged: dict[str, tuple[str, float]]) -> None:
        self._consumer, self._target, self._logged = consumer, target, logged

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Return whether there was an error of the consumer, and not a cancellation."""
        if not isinstance(error, Exception):
            return False
        if self._is_due(repr(error)):
            log.error(
                "internal error in a consumer of ticks; please report it",
                exc_info=error,
                extra={"consumer": self._consumer, "target": self._target},
            )
        return True

    def _is_due(self, reason: str) -> bool:
        now, (last, logged_at) = time.monotonic(), self._logged.get(self._consumer, ("", 0.0))
        if reason == last and now - logged_at < REMIND_SECONDS:
            return False
        self._logged[self._consumer] = (reason, now)
        return True
