"""Faults of the demo: a GPU whose cooling fails, and one whose memory does.

Functions of time that repeat, like the scenes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

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
    """Return the temperature of the die in °C while its cooling fails, a cycle of six minutes."""
    phase = t % SIX_MINUTES
    (before, low), (after, high) = next(leg for leg in pairwise(HEAT_CURVE) if phase < leg[1][0])
    return low + (high - low) * (phase - before) / (after - before)


ROW_REMAPPED = 200.0
CONTAINED_ERROR = 330.0
UNCORRECTABLE_ERROR = 400.0
"""Seconds into the cycle of the failing memory; its GPU is reset at the end of the cycle."""

CORRECTED_PER_CYCLE = 400
BOARD_LIFE = 24
"""Cycles until the failing board is swapped for a new one: a demo may run for weeks, spare rows would not."""


def failing_memory(t: float) -> Mapping[str, int]:
    """Return errors that grow for eight minutes, from corrected ones to XID 63, 94 and 48, and end with a reset.

    A reset clears volatile counters, the pending remap and the XID; aggregates and remapped rows stay with the board.
    """
    cycle, phase = divmod(t, EIGHT_MINUTES)
    resets = int(cycle) % BOARD_LIFE
    remapped, contained, lost = phase >= ROW_REMAPPED, phase >= CONTAINED_ERROR, phase >= UNCORRECTABLE_ERROR
    corrected = int(CORRECTED_PER_CYCLE * (max(0.0, phase - 20.0) / (EIGHT_MINUTES - 20.0)) ** 2)
    uncorrected = contained + lost
    return {
        "DEV_ECC_SBE_VOL_TOTAL": corrected,
        "DEV_ECC_SBE_AGG_TOTAL": resets * CORRECTED_PER_CYCLE + corrected,
        "DEV_ECC_DBE_VOL_TOTAL": uncorrected,
        "DEV_ECC_DBE_AGG_TOTAL": resets * 2 + uncorrected,
        "DEV_CORRECTABLE_REMAPPED_ROWS": resets + remapped,
        "DEV_UNCORRECTABLE_REMAPPED_ROWS": resets * 2 + uncorrected,
        "DEV_ROW_REMAP_PENDING": remapped,
        "DEV_XID_ERRORS": 48 if lost else 94 if contained else 63 if remapped else 0,
        "DEV_GET_GPU_RECOVERY_ACTION": lost,
    }


HEALTHY = dict.fromkeys(failing_memory(0.0), 0)
