"""Temperatures against the limits of the GPU."""

from __future__ import annotations

from collections.abc import Mapping

from pulsed.compute.health.check import check
from pulsed.compute.health.level import Level, difference
from pulsed.compute.health.model import State


def _above(name: str, levels: Mapping[State, float], limit: str, inputs: tuple[str, str], fallback: str) -> Level:
    """Return a rule for a temperature relative to a limit of the device, else of its model."""
    text = f"°C relative to the {limit}"
    return Level(
        name, levels, text, inputs, number="from {:+g}", by=difference, fallback=fallback, enter=30.0, clear=3.0
    )


CHECKS = (
    check(
        "temp_margin",
        "Close to the GPU's own temperature limit",
        Level(
            "temperature_margin_celsius",
            {"warn": 5, "hot": 0, "crit": -2},
            "below the limit",
            number="at {:g} °C or less",
            below=True,
            enter=10.0,
            clear=3.0,
        ),
        remedy="The margin to the GPU's own temperature limit is {temperature_margin_celsius:g} °C (negative: "
        "exceeded): cool the GPU.",
        source="NVML's T.Limit: slowdown at -2 °C on H100, H200, Ada and Blackwell",
        unless=("slowdown_temperature_celsius", "max_operating_temperature_celsius"),
    ),
    check(
        "temp_gpu",
        "The die is too warm",
        _above(
            "above_max_operating_celsius",
            {"warn": -5, "hot": 0},
            "highest operating temperature",
            ("temperature_celsius", "max_operating_temperature_celsius"),
            fallback="max_operating",
        ),
        _above(
            "above_slowdown_celsius",
            {"crit": 0},
            "slowdown temperature",
            ("temperature_celsius", "slowdown_temperature_celsius"),
            fallback="slowdown",
        ),
        note="only without a margin; limits are the device's, else the model's",
        remedy="The die is near its slowdown point: check cooling and neighbouring heat.",
        source="NVML's temperature thresholds",
        superseded_by="temperature_margin_celsius",
    ),
    check(
        "temp_memory",
        "The memory is too warm",
        _above(
            "above_memory_max_celsius",
            {"warn": -3, "hot": 0},
            "memory's highest operating temperature",
            ("memory_temperature_celsius", "memory_max_operating_temperature_celsius"),
            fallback="memory",
        ),
        remedy="Memory is too warm: raise airflow; memory heat causes errors before the die does.",
        source="NVML's temperature thresholds",
    ),
)
