"""What several checks have in common."""

from __future__ import annotations

from pulsed.compute.health.model import State
from pulsed.compute.health.rule import Duty, Growth, Level, Levels, Rule, When

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

XID_INPUTS = ("xid_last_code", "xid_counts")
CORROBORATION = ("recovery_action", "ecc_dbe_volatile_total", "nvlink_link_recoveries_failed_total")
REMAP_INPUTS = ("row_remap_failure", "row_remap_pending", "remapped_rows_uncorrectable_total")
RETIRED_INPUTS = ("retired_pages_sbe_total", "retired_pages_dbe_total")

SW_THERMAL, HW_THERMAL, POWER_BRAKE, UNNAMED = 0x20, 0x40, 0x80, 0x10000
"""Bits of `clocks_event_reasons`; the last is ours: a hardware slowdown of a busy GPU that no other bit explains, or
one of NVML's newer reasons board limit (0x200) and reliability (0x400)."""


def duty(name: str, bits: int, levels: Levels, *inputs: str) -> Duty:
    """A share of a minute, raised and left as all of these are."""
    return Duty(
        name=name,
        inputs=inputs,
        bits=bits,
        window=MINUTE,
        levels=levels,
        enter=MINUTE,
        hold=5 * MINUTE,
        release=MINUTE,
        clear=0.5,
        clear_share=True,
    )


def flag(name: str, state: State) -> Rule:
    """A reading that is 1 when something is wrong."""
    return Level(name=name, inputs=(name,), levels=((state, 1.0),))


def step(name: str, state: State, window: float, *, lifetime: bool = False, when: tuple[When, ...] = ()) -> Rule:
    """A counter that must not grow, told for the length of the window."""
    return Growth(
        name=f"{name.removesuffix('_total')}_step",
        inputs=(name,),
        levels=((state, 1.0),),
        window=window,
        lifetime=lifetime,
        when=when,
    )
