"""The share of time in which the clocks of a GPU were reduced, by reason: from the bits of every sample, or from
counters of seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

from pulsed.compute.sample import has_passed

SW_THERMAL_BIT, HW_THERMAL_BIT, POWER_BRAKE_BIT, UNNAMED_BIT = 0x20, 0x40, 0x80, 0x10000
"""Bits of `clocks_event_reasons`; the last is pulsed's own: a hardware slowdown of a busy GPU that no other bit
explains, or one of NVML's newer reasons board limit (0x200) and reliability (0x400)."""

PART = 5.0
"""Seconds of a part of the window: shares move in such steps."""

FINE = 60.0
"""Seconds that are remembered in such parts."""

LONGEST = 600.0
"""Seconds that are remembered, those before the last minute by the minute."""

SHARES_WINDOW = 60.0

FEWEST_SAMPLES = 3
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

Masks = tuple[tuple[int, float], ...]
Part = tuple[float, float, int, Masks]
"""When it ended, the seconds and the samples in it, and seconds by mask, for masks with any bit."""


@dataclass(slots=True, eq=False)
class ClockEvents:
    """The clock event reasons of one GPU over the last minutes.

    Attributes:
        shares: by reason that was there at all, the share of the last minute; the same object while they are equal.
    """

    shares: Shares = ()
    _parts: list[Part] = field(default_factory=list)
    _coarse: list[Part] = field(default_factory=list)
    _masks: dict[int, float] = field(default_factory=dict)
    _begun: float | None = None
    _seconds: float = 0.0
    _samples: int = 0

    def update(self, mask: float | None, is_busy: bool, seconds: float, now: float) -> bool:
        """Take a sample that covers some seconds.

        Returns:
            Whether a part of the window is complete: only then shares have moved.
        """
        if mask is not None:
            bits = int(mask)
            if is_busy and ((bits & _UMBRELLA and not bits & _NAMED) or bits & _BARE):
                bits |= UNNAMED_BIT
            if bits:  # most of the time there are none
                self._masks[bits] = self._masks.get(bits, 0.0) + seconds
            self._seconds += seconds
            self._samples += 1
        if self._begun is None:
            self._begun = now
        if not has_passed(PART, self._begun, now):
            return False
        self._complete(now)
        return True

    def share(self, bits: int, window: float) -> float | None:
        """Return the share of a window, up to the last complete part, in which one of the bits was set; None for fewer
        than three samples in all."""
        seconds_by_mask, observed, samples = self._sum(window, FEWEST_SAMPLES)
        return _with(seconds_by_mask, bits) / max(observed, window) if samples >= FEWEST_SAMPLES and observed else None

    def _sum(self, window: float, fewest: int) -> tuple[dict[int, float], float, int]:
        """Return the seconds by mask, the seconds observed, and the samples; of more than the window for the fewest."""
        seconds_by_mask: dict[int, float] = {}
        observed, samples, now = 0.0, 0, self._begun or 0.0
        for ended, seconds, count, masks in chain(reversed(self._parts), reversed(self._coarse)):
            if samples >= fewest and has_passed(window, ended, now):
                break
            observed += seconds
            samples += count
            for mask, length in masks:
                seconds_by_mask[mask] = seconds_by_mask.get(mask, 0.0) + length
        return seconds_by_mask, observed, samples

    def _complete(self, now: float) -> None:
        parts, coarse = self._parts, self._coarse
        if self._samples:
            parts.append((now, self._seconds, self._samples, tuple(self._masks.items())))
        while len(parts) > FEWEST_SAMPLES and now - parts[0][0] >= FINE:
            self._age(parts.pop(0))
        while coarse and now - coarse[0][0] > LONGEST:
            del coarse[0]
        while parts and now - parts[0][0] > LONGEST:
            del parts[0]
        self._begun, self._masks, self._seconds, self._samples = now, {}, 0.0, 0
        seconds_by_mask, observed, _ = self._sum(SHARES_WINDOW, 0)
        shares: Shares = tuple(
            (name, round(seconds / observed, 3))
            for bit, name in REASONS.items()
            if (seconds := _with(seconds_by_mask, bit))
        )
        if shares != self.shares:
            self.shares = shares

    def _age(self, part: Part) -> None:
        """Keep a part by the minute."""
        coarse = self._coarse
        ended, seconds, samples, masks = part
        if coarse and coarse[-1][1] + seconds <= FINE:
            _, before, count, old = coarse.pop()
            merged = dict(old)
            for mask, length in masks:
                merged[mask] = merged.get(mask, 0.0) + length
            seconds, samples, masks = seconds + before, samples + count, tuple(merged.items())
        coarse.append((ended, seconds, samples, masks))


def _with(seconds_by_mask: Mapping[int, float], bits: int) -> float:
    """Return the seconds of the masks with one of the bits."""
    return sum([seconds for mask, seconds in seconds_by_mask.items() if mask & bits])
