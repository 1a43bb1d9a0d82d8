"""Faults of the demo: a GPU whose cooling fails, and one whose memory does.

Functions of time that repeat, like the scenes; this module must not depend on workloads, field names or ticks.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

SIX_MINUTES = 360.0
EIGHT_MINUTES = 480.0
"""Seconds of one cycle of the failing cooling and of the failing memory."""

HEAT_CURVE: tuple[tuple[float, float], ...] = (
    # Passes max operating 87, slowdown 89, and comes back; shutdown at 95 is never reached.
    (0.0, 62.0),
    (60.0, 71.0),
    (125.0, 82.0),
    (172.0, 87.0),
    (210.0, 89.0),
    (228.0, 91.4),
    (255.0, 91.0),
    (280.0, 80.0),
    (320.0, 66.0),
    (SIX_MINUTES, 62.0),
)
"""Seconds into the cycle, and degrees Celsius: cooling that fails and is put right."""


def failing_cooling(t: float) -> float:
    """Temperature of the die in °C while its cooling fails, a cycle of six minutes."""
    phase = t % SIX_MINUTES
    place = bisect_right(HEAT_CURVE, phase, key=lambda point: point[0])
    (before, low), (after, high) = _HEAT_LEGS[min(place, len(_HEAT_LEGS)) - 1]
    return low + (high - low) * (phase - before) / (after - before)


_HEAT_LEGS = tuple(pairwise(HEAT_CURVE))

ROW_REMAPPED = 200.0
CONTAINED_ERROR = 330.0
UNCORRECTABLE_ERROR = 400.0
"""Seconds into the cycle of the failing memory; its GPU is reset at the end of the cycle."""

CORRECTED_PER_CYCLE = 400
BOARD_LIFE = 24
"""Cycles until the failing board is swapped for a new one: a demo may run for weeks, spare rows would not."""


class Faults(NamedTuple):
    """Error counters and flags, as DCGM counts them; `_lifetime` counters and remapped rows outlive a reset."""

    corrected: int = 0
    corrected_lifetime: int = 0
    uncorrected: int = 0
    uncorrected_lifetime: int = 0
    rows_corrected: int = 0
    rows_uncorrected: int = 0
    remap_pending: int = 0
    xid: int = 0
    recovery_action: int = 0


HEALTHY = Faults()


def failing_memory(t: float) -> Faults:
    """Errors that grow for eight minutes, from corrected ones to XID 63, 94 and 48, and end with a reset.

    A reset clears volatile counters, the pending remap and the XID; aggregates and remapped rows stay with the board.
    """
    cycle, phase = divmod(t, EIGHT_MINUTES)
    resets = int(cycle) % BOARD_LIFE
    remapped, contained, lost = phase >= ROW_REMAPPED, phase >= CONTAINED_ERROR, phase >= UNCORRECTABLE_ERROR
    corrected = int(CORRECTED_PER_CYCLE * (max(0.0, phase - 20.0) / (EIGHT_MINUTES - 20.0)) ** 2)
    uncorrected = contained + lost
    return Faults(
        corrected=corrected,
        corrected_lifetime=resets * CORRECTED_PER_CYCLE + corrected,
        uncorrected=uncorrected,
        uncorrected_lifetime=resets * 2 + uncorrected,
        rows_corrected=resets + remapped,
        rows_uncorrected=resets * 2 + uncorrected,
        remap_pending=int(remapped),
        xid=48 if lost else 94 if contained else 63 if remapped else 0,
        recovery_action=int(lost),
    )
