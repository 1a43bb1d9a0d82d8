"""Temperatures against the limits of the GPU."""

from __future__ import annotations

from pulsed.compute.health.check import Check
from pulsed.compute.health.level import Level, difference
from pulsed.compute.health.model import State


def _above(name: str, inputs: tuple[str, str], fallback: str, limit: str, *levels: tuple[State, float]) -> Level:
    """Return a rule for a temperature relative to a limit of the device, else of its model."""
    return Level(
        name=name,
        inputs=inputs,
        levels=levels,
        number="from {:+g}",
        text=f"°C relative to the {limit}",
        by=difference,
        fallback=fallback,
        enter=30.0,
        clear=3.0,
    )


CHECKS: tuple[Check, ...] = (
    Check(
        id="temp_margin",
        title="Close to the GPU's own temperature limit",
        rules=(
            Level(
                name="temperature_margin_celsius",
                inputs=("temperature_margin_celsius",),
                levels=(("warn", 5.0), ("hot", 0.0), ("crit", -2.0)),
                number="at {:g} °C or less",
                text="below the limit",
                below=True,
                enter=10.0,
                clear=3.0,
            ),
        ),
        note="cleared 3 °C cooler",
        remedy="The GPU has {temperature_margin_celsius:g} degrees left to its limit: cool it before clocks are cut.",
        source="NVML's T.Limit: slowdown at -2 °C on H100, H200, Ada and Blackwell",
        unless=("slowdown_temperature_celsius", "max_operating_temperature_celsius"),
    ),
    Check(
        id="temp_gpu",
        title="The die is too warm",
        rules=(
            _above(
                "above_max_operating_celsius",
                ("temperature_celsius", "max_operating_temperature_celsius"),
                "max_operating",
                "highest operating temperature",
                ("warn", -5.0),
                ("hot", 0.0),
            ),
            _above(
                "above_slowdown_celsius",
                ("temperature_celsius", "slowdown_temperature_celsius"),
                "slowdown",
                "slowdown temperature",
                ("crit", 0.0),
            ),
        ),
        note="cleared 3 °C cooler. Only without a margin; limits are the device's, else the model's",
        remedy="The die is near its slowdown point: check cooling and neighbouring heat.",
        source="NVML's temperature thresholds",
        superseded_by="temperature_margin_celsius",
    ),
    Check(
        id="temp_memory",
        title="The memory is too warm",
        rules=(
            _above(
                "above_memory_max_celsius",
                ("memory_temperature_celsius", "memory_max_operating_temperature_celsius"),
                "memory",
                "memory's highest operating temperature",
                ("warn", -3.0),
                ("hot", 0.0),
            ),
        ),
        note="cleared 3 °C cooler",
        remedy="Memory is too warm: raise airflow; memory heat causes errors before the die does.",
        source="NVML's temperature thresholds",
    ),
)
