"""Clocks that are reduced because of heat or power."""

from __future__ import annotations

from dataclasses import replace

from pulsed.compute.health.check import check
from pulsed.compute.health.clock_events import HW_THERMAL_BIT, POWER_BRAKE_BIT, SW_THERMAL_BIT, UNNAMED_BIT
from pulsed.compute.health.duty import Duty
from pulsed.compute.health.level import Level
from pulsed.compute.health.model import State
from pulsed.compute.health.rule import MINUTE

_SOURCE = "NVML's clocks event reasons"


def _event_count(reason: str, state: State) -> Level:
    """Return a rule for dcgm-exporter's count of a clock event, for pages without `clocks_event_reasons`."""
    return Level(
        f"clock_event_{reason}",
        {state: 3},
        "samples with it in dcgm-exporter's window",
        enter=MINUTE,
        hold=5 * MINUTE,
    )


_BRAKE = Duty(
    "power_brake_ratio",
    {"warn": 0.05},
    "the power brake",
    ("power_brake_slowdown_seconds_total",),
    bits=POWER_BRAKE_BIT,
)

THERMAL = (
    check(
        "thermal_hw",
        "Hardware cuts the clocks because of heat",
        Duty(
            "hardware_thermal_ratio",
            {"hot": 0.05, "crit": 0.5},
            "the hardware because of heat",
            ("hardware_thermal_slowdown_seconds_total",),
            bits=HW_THERMAL_BIT,
        ),
        _event_count("hw_thermal", "hot"),
        remedy="Hardware protection cuts the clocks: check fans, airflow, coolant and nearby nodes now.",
        source=_SOURCE,
    ),
    check(
        "thermal_sw",
        "The driver lowers the clocks because of heat",
        Duty(
            "software_thermal_ratio",
            {"hot": 0.1},
            "the driver because of heat",
            ("software_thermal_slowdown_seconds_total",),
            bits=SW_THERMAL_BIT,
        ),
        Duty(
            "thermal_violation_ratio",
            {"hot": 0.1},
            "heat according to a violation counter",
            ("thermal_violation_seconds_total",),
            uncertain=True,
        ),
        remedy="The driver lowers clocks to stay cool: improve cooling or reduce the load.",
        source=_SOURCE,
    ),
)

POWER = (
    check(
        "power_brake",
        "The power brake slows the GPU",
        _BRAKE,
        replace(_BRAKE, name="power_brake_long_ratio", levels={"crit": 0.6}, window=10 * MINUTE, enter=0.0),
        _event_count("hw_power_brake", "warn"),
        remedy="The power brake slows the GPU: check PSU, cables and rack power.",
        source=_SOURCE,
    ),
    check(
        "hw_slowdown",
        "Hardware slows the clocks for an unnamed reason",
        Duty(
            "hardware_slowdown_ratio",
            {"warn": 0.2},
            "the hardware of a busy GPU for neither heat nor the power brake",
            (),
            bits=UNNAMED_BIT,
        ),
        Duty(
            "board_limit_ratio",
            {"warn": 0.2},
            "the board's limits according to a violation counter",
            ("board_limit_violation_seconds_total", "reliability_violation_seconds_total"),
            uncertain=True,
        ),
        remedy="Hardware slows the clocks for an unnamed reason: check temperature, power and firmware logs.",
        source=_SOURCE,
    ),
)
