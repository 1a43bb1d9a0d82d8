"""What memory and links of an owner's GPUs and the network of their host did, and how much of it while SMs waited.

There is no threshold: of an interval, the mean SM activity of the owner's GPUs is the share that counts as working, and
the rest counts as waiting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from operator import add
from typing import Any, NamedTuple

from pulsed.model.counters import COUNTER_POSITION, INTEGRALS
from pulsed.model.vocabulary import Value
from pulsed.owners.accounting.counter_vector import CounterVector, observed

NETWORK = ("network_receive_bytes_per_second", "network_transmit_bytes_per_second", "network_rate_bytes_per_second")
"""Quantities of the ports of a host; the last one is the rate of those that are active, in one direction."""

CPU_POWER = "cpu_power_watts"
"""Power of the processors of a host, where the source has it (Grace)."""

_UNBALANCED = (None, "sm_active_ratio", "tensor_active_ratio")
_INTEGRALS = {each.quantity: each for each in INTEGRALS if each.quantity not in _UNBALANCED}
BALANCED = (*map(str, _INTEGRALS), *NETWORK, CPU_POWER)
"""Quantities of a balance; quantities of GPUs come first."""

_COUNTERS = [
    (COUNTER_POSITION[each.counter, ""], COUNTER_POSITION[f"{each.word}_unknown_seconds", ""])
    for each in (*(one for one in INTEGRALS if one.quantity == "sm_active_ratio"), *_INTEGRALS.values())
]
"""Positions of integral and time without the quantity: of SM activity, and of `BALANCED`."""

ROUNDING = 1e-6
"""Seconds that differences of sums may be off."""


class BalanceSums(NamedTuple):
    """Sums over the intervals in which a quantity was known: of seconds, and of its integral over them.

    Of GPUs they are seconds of a GPU, of network and processors seconds of the host. `working` and `waiting` only
    include intervals in which SM activity was also known.
    """

    seconds: float = 0.0
    integral: float = 0.0
    working_seconds: float = 0.0
    working_integral: float = 0.0
    waiting_seconds: float = 0.0
    waiting_integral: float = 0.0


@dataclass(slots=True)
class Balance:
    """Sums of each known quantity of `BALANCED`; `shared_seconds` count the time with a known network in which another
    owner also had GPUs of the host.
    """

    sums: dict[str, BalanceSums] = field(default_factory=dict)
    shared_seconds: float = 0.0

    def add_interval(self, increases: Sequence[float], *, is_shared: bool) -> None:
        """Add the increases of `gpu_totals` and of the totals of network and processors over an interval; it is shared
        if another owner also had GPUs of the host.
        """
        pairs = list(zip(increases[::2], increases[1::2], strict=True))
        activity = _ratio(*pairs[0])
        for name, (seconds, integral) in zip(BALANCED, pairs[1:], strict=True):
            if not (seconds > ROUNDING and integral < inf):
                continue
            integral = max(integral, 0.0)  # it may be below by rounding
            parts = [0.0] * 4
            if activity is not None:
                parts = [share * each for share in (activity, 1.0 - activity) for each in (seconds, integral)]
            before = self.sums.get(name, BalanceSums())
            self.sums[name] = BalanceSums(*map(add, before, (seconds, integral, *parts)))
            if is_shared and name == NETWORK[0]:
                self.shared_seconds += seconds

    def dump(self) -> dict[str, Any]:
        """Return it for a file, in milliseconds, as most of its bytes would be digits."""
        sums = {name: [round(number, 3) for number in each] for name, each in self.sums.items()}
        return {"sums": sums, "shared_seconds": round(self.shared_seconds, 3)}

    @classmethod
    def load(cls, sums: Mapping[str, Iterable[float]], shared_seconds: float) -> Balance:
        """Return it from a file; names that are not in `BALANCED` are ignored."""
        return cls({name: BalanceSums(*sums[name]) for name in BALANCED if name in sums}, shared_seconds)


def gpu_totals(accounts: Iterable[CounterVector]) -> list[float]:
    """Return seconds and integral of SM activity and of each quantity of GPUs in `BALANCED`, over the accounts of GPUs.

    They never decrease.
    """
    totals = [0.0] * (2 * len(_COUNTERS))
    for vector in accounts:
        seen = observed(vector)
        for at, (integral, unknown) in enumerate(_COUNTERS):
            totals[2 * at] += seen - (vector[unknown] or 0.0)
            totals[2 * at + 1] += vector[integral] or 0.0
    return totals


def _ratio(seconds: float, integral: float) -> Value:
    """Return the mean of a ratio; None if it was not known."""
    return min(max(integral / seconds, 0.0), 1.0) if seconds > ROUNDING else None
