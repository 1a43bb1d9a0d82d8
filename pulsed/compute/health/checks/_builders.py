"""Rules that several checks share."""

from __future__ import annotations

from pulsed.compute.health.counter_increase import Increase
from pulsed.compute.health.level import Level
from pulsed.compute.health.model import State
from pulsed.compute.health.rule import When

REMAP_INPUTS = ("row_remap_failure", "row_remap_pending", "remapped_rows_uncorrectable_total")
RETIRED_INPUTS = ("retired_pages_sbe_total", "retired_pages_dbe_total")


def flag(name: str, state: State, text: str) -> Level:
    """Return a rule for a reading that is 1 while something is wrong."""
    return Level(name=name, inputs=(name,), levels=((state, 1.0),), number="", text=text)


def step(
    name: str, state: State, window: float, text: str, *, lifetime: bool = False, when: tuple[When, ...] = ()
) -> Increase:
    """Return a rule for a counter that must not increase; the state lasts for the window."""
    return Increase(
        name=f"{name.removesuffix('_total')}_step",
        inputs=(name,),
        levels=((state, 1.0),),
        text=text,
        window=window,
        lifetime=lifetime,
        when=when,
    )
