"""Settings of the GPU, heat while idle, and wear."""

from __future__ import annotations

from pulsed.compute.health.check import Check
from pulsed.compute.health.inputs import ACTIVITY
from pulsed.compute.health.level import Level, distance, of_data_centre
from pulsed.compute.health.model import State
from pulsed.compute.health.rule import MINUTE, When


def _off(name: str, state: State, text: str) -> Level:
    """Return a rule for a reading that is 0 while something is wrong."""
    return Level(name=name, inputs=(name,), levels=((state, 0.0),), number="", text=text, below=True)


CHECKS: tuple[Check, ...] = (
    Check(
        id="config_drift",
        title="Unexpected GPU settings",
        rules=(
            _off("inforom_valid", "warn", "while the InfoROM is invalid"),
            Level(
                name="ecc_mode_pending_change",
                inputs=("ecc_mode", "ecc_mode_pending"),
                levels=(("warn", 1.0),),
                number="",
                text="while an ECC mode waits for a reset",
                by=distance,
            ),
            Level(
                name="ecc_mode",
                inputs=("ecc_mode",),
                levels=(("warn", 0.0),),
                number="",
                text="while ECC is off on a data-centre GPU",
                by=of_data_centre,
                below=True,
            ),
            _off("persistence_mode", "info", "while persistence mode is off"),
        ),
        remedy="Unexpected GPU settings: compare InfoROM, ECC and persistence mode with its neighbours.",
        source="DCGM's InfoROM watch, fleet practice",
        optional=True,
    ),
    Check(
        id="hot_idle",
        title="Hot while idle",
        rules=(
            Level(
                name="temperature_celsius",
                inputs=("temperature_celsius",),
                levels=(("warn", 70.0),),
                number="at {:g} °C or more",
                text="with less than 10% activity",
                when=(When(ACTIVITY, "<", 0.1),),
                enter=30 * MINUTE,
                clear=3.0,
            ),
        ),
        remedy="The GPU is hot while idle: check cooling and what runs on it.",
        source="OCI's GPU scanner",
        optional=True,
    ),
    Check(
        id="smoothing_wear",
        title="The power smoothing circuit wears out",
        rules=(
            Level(
                name="power_smoothing_lifetime_remaining_ratio",
                inputs=("power_smoothing_lifetime_remaining_ratio",),
                levels=(("warn", 0.1), ("crit", 0.0)),
                number="at {:.0%} or less",
                text="of its life left",
                below=True,
            ),
        ),
        remedy="The power smoothing circuit is nearly used up: schedule service for this board.",
        source="DCGM field 1432",
        optional=True,
    ),
)
