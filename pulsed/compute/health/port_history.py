"""What the InfiniBand ports of a node did before, and how a port compares with others of its kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pulsed.compute.health.rule import HOUR, MINUTE
from pulsed.model.host import HostFacts, InfinibandPort

LEAST_NEIGHBOURS = 2
"""Other ports of the same kind that must have a rate before it is the usual one."""


class PortLimit(NamedTuple):
    """How often a counter may increase within a window of so many seconds."""

    counter: str
    most: int
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

_LONGEST = max(limit.window for limit in PORT_LIMITS)
_LIMITED = frozenset(limit.counter for limit in PORT_LIMITS)


class PortStep(NamedTuple):
    """An increase of a counter, at a time in Unix seconds."""

    time: float
    counter: str
    increase: int


class PortPast(NamedTuple):
    """What is remembered of a port.

    Attributes:
        was_up: whether it was active at any look.
        best: the best rate at any look.
        counters: at the last look.
        steps: of the longest window.
    """

    was_up: bool
    best: float | None
    counters: Mapping[str, int]
    steps: tuple[PortStep, ...]

    def increase_of(self, limit: PortLimit, now: float) -> int:
        """Return how often the counter of a limit has increased in its window, which ends now."""
        return sum(
            [each.increase for each in self.steps if each.counter == limit.counter and now - each.time < limit.window]
        )


PortPasts = Mapping[str, PortPast]
"""By the name of the port."""

_NEW = PortPast(False, None, {}, ())


def pasts_of(before: PortPasts, facts: HostFacts) -> PortPasts:
    """Return what is remembered of the ports after another look; a look that failed changes nothing."""
    if facts.ports is None:
        return before
    return dict(before) | {port.name: _after(before.get(port.name, _NEW), port, facts.time) for port in facts.ports}


def _after(past: PortPast, port: InfinibandPort, time: float) -> PortPast:
    steps = [step for step in past.steps if time - step.time < _LONGEST]
    for name, value in port.counters.items():
        earlier = past.counters.get(name, value)
        increase = value - earlier if value >= earlier else value  # the counter was cleared
        if increase and name in _LIMITED:
            steps.append(PortStep(time, name, increase))
    is_up = port.is_active
    rates = [rate for rate in (past.best, port.bytes_per_second if is_up else None) if rate is not None]
    return PortPast(past.was_up or is_up, max(rates, default=None), port.counters, tuple(steps))


def is_down(port: InfinibandPort) -> bool:
    """Return whether a port is not active and not disabled."""
    return bool(port.state) and not port.is_active and port.physical_state != "Disabled"


def most_neighbours_are_up(port: InfinibandPort, ports: Sequence[InfinibandPort]) -> bool:
    """Return whether more than half of the ports of its kind, itself included, are active."""
    kin = [each for each in ports if each.board == port.board]
    return 2 * sum(each.is_active for each in kin) > len(kin)


def usual_rate(port: InfinibandPort, ports: Sequence[InfinibandPort]) -> float | None:
    """Return the most frequent rate of other active ports of its kind; None if too few have it."""
    rates = Counter(
        each.bytes_per_second
        for each in ports
        if each is not port and each.board == port.board and each.is_active and each.bytes_per_second
    )
    rate, count = max(rates.items(), key=lambda found: (found[1], found[0]), default=(None, 0))
    return rate if count >= LEAST_NEIGHBOURS else None
