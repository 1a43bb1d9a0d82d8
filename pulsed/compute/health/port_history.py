"""History of the InfiniBand ports of a node, and how a port compares with others of its kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pulsed.compute.health.rule import HOUR, MINUTE
from pulsed.model.host import InfinibandPort

MIN_NEIGHBOURS = 2
"""Other ports of the same kind that must have a rate before it is the usual one."""


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
    steps: list[tuple[float, str, int]] = field(default_factory=list)

    def update(self, port: InfinibandPort, now: float) -> None:
        """Add a look at the port."""
        self.steps = [step for step in self.steps if now - step[0] < _MAX_WINDOW]
        for name in [limit.counter for limit in PORT_LIMITS if limit.counter in port.counters]:
            value = port.counters[name]
            earlier = self.counters.get(name, value)
            increase = value - earlier if value >= earlier else value  # the counter was cleared
            if increase:
                self.steps.append((now, name, increase))
        self.counters = port.counters
        if port.is_active:
            self.was_up, self.best = True, max(self.best, port.bytes_per_second or 0.0)

    def increase_of(self, limit: PortLimit, now: float) -> int:
        """Return how often the counter of a limit has increased in its window, which ends now."""
        return sum([amount for at, name, amount in self.steps if name == limit.counter and now - at < limit.window])


def is_down(port: InfinibandPort) -> bool:
    """Return whether a port is not active and not disabled."""
    return bool(port.state) and not port.is_active and port.physical_state != "Disabled"


def most_neighbours_are_up(port: InfinibandPort, ports: Sequence[InfinibandPort]) -> bool:
    """Return whether more than half of the ports of its kind, itself included, are active."""
    active = [other.is_active for other in ports if other.board == port.board]
    return 2 * sum(active) > len(active)


def usual_rate(port: InfinibandPort, ports: Sequence[InfinibandPort]) -> float | None:
    """Return the most frequent rate of other active ports of its kind; None if too few have it."""
    rates = Counter(
        other.bytes_per_second
        for other in ports
        if other is not port and other.board == port.board and other.is_active and other.bytes_per_second
    )
    rate, count = max(rates.items(), key=lambda counted: (counted[1], counted[0]), default=(None, 0))
    return rate if count >= MIN_NEIGHBOURS else None
