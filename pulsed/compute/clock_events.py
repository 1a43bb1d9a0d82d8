"""The share of time in which the clocks of a GPU were reduced, by reason: from the bits of every sample, or from
counters of seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pulsed.compute.sample import has_passed

SW_THERMAL_BIT, HW_THERMAL_BIT, POWER_BRAKE_BIT, UNNAMED_BIT = 0x20, 0x40, 0x80, 0x10000
"""Bits of `clocks_event_reasons`; the last is pulsed's own: a hardware slowdown of a busy GPU that no other bit
explains, or one of NVML's newer reasons board limit (0x200) and reliability (0x400)."""

PART = 5.0
"""Seconds of a part of the window: shares move in such steps."""

MAX_WINDOW = 600.0
"""Seconds that are remembered."""

SHARES_WINDOW = 60.0

MIN_SAMPLES = 3
"""Minimum number of samples of a share."""

REASONS: Mapping[int, str] = {
    0x1: "gpu_idle",
    0x2: "clocks_setting",
    0x4: "power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    SW_THERMAL_BIT: "sw_thermal",
    HW_THERMAL_BIT: "hw_thermal",
    POWER_BRAKE_BIT: "hw_power_brake",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}
"""Bits of NVML's mask and their names, as dcgm-exporter has them where it has any."""

Shares = tuple[tuple[str, float], ...]

_UMBRELLA = 0x8
_NAMED = HW_THERMAL_BIT | POWER_BRAKE_BIT
_BARE = 0x200 | 0x400


class Part(NamedTuple):
    """When a part ended, the seconds and the samples in it, and the seconds by mask, for masks with any bit."""

    ended: float
    seconds: float
    samples: int
    seconds_by_mask: Mapping[int, float]


@dataclass(slots=True, eq=False)
class ClockEvents:
    """The clock event reasons of one GPU over the last minutes.

    Attributes:
        shares: by reason that was there at all, the share of the last minute.
    """

    shares: Shares = ()
    _parts: list[Part] = field(default_factory=list)
    _seconds_by_mask: dict[int, float] = field(default_factory=dict)
    _begun: float | None = None
    _seconds: float = 0.0
    _samples: int = 0

    def update(self, mask: float | None, is_busy: bool, seconds: float, now: float) -> bool:
        """Add a sample that covers some seconds.

        Returns:
            Whether a part of the window is complete: only then shares have moved.
        """
        if mask is not None:
            bits = int(mask)
            if is_busy and ((bits & _UMBRELLA and not bits & _NAMED) or bits & _BARE):
                bits |= UNNAMED_BIT
            if bits:  # most samples have none
                self._seconds_by_mask[bits] = self._seconds_by_mask.get(bits, 0.0) + seconds
            self._seconds += seconds
            self._samples += 1
        if self._begun is None:
            self._begun = now
        if not has_passed(PART, self._begun, now):
            return False
        if self._samples:
            self._parts.append(Part(now, self._seconds, self._samples, self._seconds_by_mask))
        self._parts = [part for part in self._parts if now - part.ended <= MAX_WINDOW]
        self._begun, self._seconds_by_mask, self._seconds, self._samples = now, {}, 0.0, 0
        parts = self._parts_of(SHARES_WINDOW, 0)
        observed = sum([part.seconds for part in parts])
        self.shares = tuple(
            (name, round(reduced / observed, 3)) for bit, name in REASONS.items() if (reduced := _seconds(parts, bit))
        )
        return True

    def share(self, bits: int, window: float) -> float | None:
        """Return the share of a window, up to the last complete part, in which one of the bits was set; None for fewer
        than three samples in all."""
        parts = self._parts_of(window, MIN_SAMPLES)
        observed = sum([part.seconds for part in parts])
        is_known = observed and sum([part.samples for part in parts]) >= MIN_SAMPLES
        return _seconds(parts, bits) / max(observed, window) if is_known else None

    def _parts_of(self, window: float, min_samples: int) -> list[Part]:
        """Return the parts of a window, and older ones if it has fewer samples than the minimum."""
        parts: list[Part] = []
        samples, now = 0, self._begun or 0.0
        for part in reversed(self._parts):
            if samples >= min_samples and has_passed(window, part.ended, now):
                break
            parts.append(part)
            samples += part.samples
        return parts


def _seconds(parts: Sequence[Part], bits: int) -> float:
    """Return the seconds of the masks with one of the bits."""
    return sum([seconds for part in parts for mask, seconds in part.seconds_by_mask.items() if mask & bits])
