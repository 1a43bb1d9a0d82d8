"""History of the InfiniBand ports of a node, with the limits of their counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pulsed.durations import HOUR, MINUTE
from pulsed.model.clocks import Unix
from pulsed.model.host import InfinibandPort


class PortLimit(NamedTuple):
    """How often a counter may increase within a window in seconds."""

    counter: str
    maximum: int
    window: float
    text: str


PORT_LIMITS = (
    PortLimit("symbol_errors", 120, HOUR, "symbol errors"),
    PortLimit("link_downed", 0, HOUR, "times that the link went down"),
    PortLimit("link_recoveries", 50, 10 * MINUTE, "recoveries of the link"),
    PortLimit("rnr_nak_retry_errors", 0, HOUR, "sends given up because the receiver was not ready"),
    PortLimit("local_ack_timeout_errors", 600, 10 * MINUTE, "acknowledgements that timed out"),
)
"""NVSentinel's limits; rates hold for ten minutes, as one look may be late."""

_COUNTERS = {limit.counter for limit in PORT_LIMITS}
_MAX_WINDOW = max(limit.window for limit in PORT_LIMITS)


@dataclass(slots=True)
class PortHistory:
    """History of a port.

    Attributes:
        was_up: whether it was active at any look.
        best: the best rate at any look at which it was active; 0 for none.
        counters: at the last look.
        steps: time, counter and amount of each increase within the longest window.
    """

    was_up: bool = False
    best: float = 0.0
    counters: Mapping[str, int] = field(default_factory=dict)
    steps: list[tuple[Unix, str, int]] = field(default_factory=list)

    def update(self, port: InfinibandPort, now: Unix) -> None:
        """Add a look at the port."""
        self.steps = [step for step in self.steps if now - step[0] < _MAX_WINDOW]
        for name in _COUNTERS & port.counters.keys():
            value = port.counters[name]
            earlier = self.counters.get(name, value)
            increase = value - earlier if value >= earlier else value  # the counter was cleared
            if increase:
                self.steps.append((now, name, increase))
        self.counters = port.counters
        if port.is_active:
            self.was_up, self.best = True, max(self.best, port.bytes_per_second or 0.0)

    def increase_of(self, limit: PortLimit, now: Unix) -> int:
        """Return how often the counter of a limit has increased in its window, which ends now."""
        return sum([amount for at, name, amount in self.steps if name == limit.counter and now - at < limit.window])
