"""Counters that nothing measures: they are 0 all the time, or count without any work.

The driver and DCGM have them on products that do not count them. A constant 0 is then no measurement, neither a ceiling
nor a proof of idleness or health, until the counter was other than 0 once.
"""

from __future__ import annotations

from itertools import chain
from operator import itemgetter

from pulsed.compute.plausibility_rules import (
    PCIE_DEAD,
    RATES,
    TRAFFIC_OF_IDLE,
    UTILIZATION_DEAD,
    UTILIZATIONS,
    PlausibilityRule,
    PlausibilitySettings,
)
from pulsed.compute.product_parts import unmeasured_by
from pulsed.durations import MINUTE
from pulsed.model.vocabulary import POSITION, Reading, Value

WORKING_RATIO = 0.05
"""A GPU whose engine is as busy as this starts kernels, for which the processor and the GPU exchange data."""

WORKING_DRAM_RATIO = 0.02
"""A kernel that spins in a collective has less, and may exchange nothing for long."""

RISEN_RATIO, RISEN_WATTS = 1.5, 10.0
"""Power that rises by both means work if the SM clock is unchanged: clocks alone also raise power."""

SAME_CLOCK = 0.1
"""SM clocks that differ by this share are the same."""


IDLE_TRAFFIC = 1e9
"""Bytes/s over a link, which no monitoring of an idle GPU takes."""

IDLE_CLOCK, IDLE_CLOCK_SHARE = 6e8, 0.4
"""Highest SM clock of an idle GPU, in hertz, and as a share of its maximum."""

_idle = itemgetter(
    *(
        POSITION[name]
        for name in (*UTILIZATIONS, "graphics_engine_active_ratio", "sm_active_ratio", "dram_active_ratio")
    )
)
_rates = itemgetter(*(POSITION[name] for name in RATES))


def _has_traffic_while_idle(reading: Reading) -> bool:
    """Return whether links have traffic that the idle engines, memory and clocks of the GPU exclude.

    Another device reads and writes the memory of a GPU without its engines, but not without its memory and at its
    lowest clocks.
    """
    utilization, clock = reading.gpu_utilization_ratio, reading.sm_clock_hertz
    if utilization != 0.0 or reading.memory_utilization_ratio != 0.0 or any(_idle(reading)) or clock is None:
        return False
    limit = reading.sm_clock_max_hertz
    if clock > (IDLE_CLOCK if limit is None else min(IDLE_CLOCK, IDLE_CLOCK_SHARE * limit)):
        return False
    return any(rate is not None and rate >= IDLE_TRAFFIC for rate in _rates(reading))


class DeadCounters:
    """The counters of one GPU that have been 0 in all samples so far, or count without any work."""

    __slots__ = (
        *("_has_pcie", "_has_utilization", "_is_utilization_dead", "_lowest", "_zero_seconds", "_zeros"),
        "_idle_seconds",
    )

    def __init__(self) -> None:
        self._has_pcie = self._has_utilization = self._is_utilization_dead = False
        self._lowest: tuple[float, float] | None = None
        self._zeros, self._zero_seconds = 0, 0.0
        self._idle_seconds = 0.0

    def find(self, reading: Reading, seconds: float, settings: PlausibilitySettings) -> list[PlausibilityRule]:
        """Take the next sample, which covers some seconds; return the rules about counters that are dead in it."""
        rules = []
        if not self._has_utilization and self._lacks_utilization(reading):
            rules.append(UTILIZATION_DEAD)
        if not self._has_pcie and self._lacks_pcie(reading):
            self._zeros, self._zero_seconds = self._zeros + 1, self._zero_seconds + seconds
            if self._zeros >= settings.stuck_samples and self._zero_seconds >= settings.stuck_seconds:
                rules.append(PCIE_DEAD)
        if _has_traffic_while_idle(reading):
            self._idle_seconds += seconds
            if self._idle_seconds >= MINUTE:
                rules.append(TRAFFIC_OF_IDLE)
        else:
            self._idle_seconds = 0.0
        return rules

    def _lacks_pcie(self, reading: Reading) -> bool:
        transmit, receive = reading.pcie_transmit_bytes_per_second, reading.pcie_receive_bytes_per_second
        if transmit or receive:
            self._has_pcie = True
        engine, utilization = reading.graphics_engine_active_ratio, reading.gpu_utilization_ratio
        dram, memory = reading.dram_active_ratio, reading.memory_utilization_ratio
        works = ((utilization if engine is None else engine) or 0.0) >= WORKING_RATIO and (
            (memory if dram is None else dram) or 0.0
        ) >= WORKING_DRAM_RATIO
        has_other_link = bool(reading.c2c_transmit_bytes_per_second or reading.c2c_receive_bytes_per_second)
        return works and transmit == receive == 0.0 and not has_other_link

    def _lacks_utilization(self, reading: Reading) -> bool:
        """Return whether the driver's utilization is 0 although the GPU works, where no profiled activity shows it."""
        watts, clock = reading.power_watts, reading.sm_clock_hertz
        if reading.gpu_utilization_ratio:
            self._has_utilization = True
        if reading.gpu_utilization_ratio != 0.0 or _is_profiled(reading):
            return False
        if watts is not None and clock is not None and not self._is_utilization_dead:
            if self._lowest is None or watts < self._lowest[0]:
                self._lowest = watts, clock
            lowest, its_clock = self._lowest
            has_risen = watts >= lowest * RISEN_RATIO and watts >= lowest + RISEN_WATTS
            self._is_utilization_dead = has_risen and abs(clock - its_clock) <= SAME_CLOCK * its_clock
        return self._is_utilization_dead


class UnmeasuredZeros:
    """The zeros of parts that the product of one GPU lacks: they are missing, until the part has had another value.

    Drivers, DCGM and relays write 0 for what a product does not have.
    """

    __slots__ = ("_model", "_parts", "_positions")

    def __init__(self) -> None:
        self._model: str | None = None
        self._parts: list[tuple[int, ...]] = []
        self._positions: tuple[int, ...] = ()

    def apply(self, reading: Reading, model: str) -> Reading:
        """Return the next reading without such zeros; itself if it has none."""
        if model != self._model:
            self._model = model
            self._parts = [
                tuple(at for name, at in POSITION.items() if name.startswith(prefixes))
                for prefixes in unmeasured_by(model)
            ]
            self._positions = tuple(chain(*self._parts))
        if [reading[at] for at in self._positions].count(None) == len(self._positions):
            return reading
        self._parts = [positions for positions in self._parts if not any(map(reading.__getitem__, positions))]
        self._positions = tuple(chain(*self._parts))
        values = list(reading)
        for position in self._positions:
            values[position] = None
        return Reading._make(values)


def _is_profiled(reading: Reading) -> bool:
    activity: tuple[Value, ...] = (reading.graphics_engine_active_ratio, reading.sm_active_ratio)
    return activity != (None, None)
