"""Counters that are 0 although nothing measures them.

The driver and DCGM have them on products that do not count them. A constant 0 is then no measurement: neither a ceiling
nor a proof of idleness. A counter that was other than 0 once is alive from then on.
"""

from __future__ import annotations

from pulsed.compute.plausibility_rules import PCIE_DEAD, UTILIZATION_DEAD, PlausibilityRule, PlausibilitySettings
from pulsed.compute.products import has_unified_memory, missing_from_model
from pulsed.model.vocabulary import QUANTITIES, Reading, Value

WORKING_RATIO = 0.05
"""A GPU whose engine is as busy as this starts kernels, for which the processor and the GPU exchange data."""

WORKING_DRAM_RATIO = 0.02
"""A kernel that spins in a collective has less, and may exchange nothing for long."""

RISEN_RATIO, RISEN_WATTS = 1.5, 10.0
"""Power that has risen by both is that of work, where the SM clock is the same: clocks alone raise it, too."""

SAME_CLOCK = 0.1
"""SM clocks that differ by this share are the same."""


class DeadCounters:
    """The counters of one GPU that have been 0 in all samples so far."""

    __slots__ = ("_has_pcie", "_has_utilization", "_is_utilization_dead", "_lowest", "_zero_seconds", "_zeros")

    def __init__(self) -> None:
        self._has_pcie = self._has_utilization = self._is_utilization_dead = False
        self._lowest: tuple[float, float] | None = None
        self._zeros, self._zero_seconds = 0, 0.0

    def find(self, reading: Reading, seconds: float, settings: PlausibilitySettings) -> list[PlausibilityRule]:
        """Take the next sample, which covers some seconds; return the rules about counters that are dead in it."""
        rules = []
        if not self._has_utilization and self._lacks_utilization(reading):
            rules.append(UTILIZATION_DEAD)
        if not self._has_pcie and self._lacks_pcie(reading):
            self._zeros, self._zero_seconds = self._zeros + 1, self._zero_seconds + seconds
            if self._zeros >= settings.stuck_samples and self._zero_seconds >= settings.stuck_seconds:
                rules.append(PCIE_DEAD)
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


def without_unmeasured(reading: Reading, model: str) -> Reading:
    """Return a reading without zeros of what a product with unified memory does not have."""
    if not has_unified_memory(model):
        return reading
    absent = missing_from_model(model)
    return Reading._make(
        [
            None if value == 0.0 and name.startswith(absent) else value
            for name, value in zip(QUANTITIES, reading, strict=True)
        ]
    )


def _is_profiled(reading: Reading) -> bool:
    activity: tuple[Value, ...] = (reading.graphics_engine_active_ratio, reading.sm_active_ratio)
    return activity != (None, None)
