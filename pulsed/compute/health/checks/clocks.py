"""Clocks that are reduced because of heat or power."""

from __future__ import annotations

from dataclasses import replace

from pulsed.compute.health.check import Check
from pulsed.compute.health.clock_events import HW_THERMAL_BIT, POWER_BRAKE_BIT, SW_THERMAL_BIT, UNNAMED_BIT
from pulsed.compute.health.duty import Duty
from pulsed.compute.health.level import Level
from pulsed.compute.health.model import State
from pulsed.compute.health.rule import MINUTE, Levels, When


def _duty(name: str, levels: Levels, *counters: str, bits: int = 0, cause: str, uncertain: bool = False) -> Duty:
    """Return a rule for a share of a minute."""
    return Duty(
        name=name,
        inputs=counters,
        levels=levels,
        number="at {:.0%} or more",
        text=f"of a minute with clocks reduced by {cause}" + (" (info while its unit is unknown)" if uncertain else ""),
        bits=bits,
        window=MINUTE,
        uncertain=uncertain,
        enter=MINUTE,
        hold=5 * MINUTE,
        release=MINUTE,
        clear_share=0.5,
    )


def _event_count(reason: str, state: State) -> Level:
    """Return a rule for dcgm-exporter's count of a clock event, for pages without `clocks_event_reasons`."""
    return Level(
        name=f"clock_event_{reason}",
        inputs=(f"clock_event_{reason}",),
        levels=((state, 3.0),),
        text="samples with it in dcgm-exporter's window",
        when=(When("clocks_event_reasons", "absent"),),
        enter=MINUTE,
        hold=5 * MINUTE,
    )


_BRAKE = _duty(
    "power_brake_ratio",
    (("warn", 0.05),),
    "power_brake_slowdown_seconds_total",
    bits=POWER_BRAKE_BIT,
    cause="the power brake",
)

THERMAL_HW = Check(
    id="thermal_hw",
    title="Hardware cuts the clocks because of heat",
    rules=(
        _duty(
            "hardware_thermal_ratio",
            (("hot", 0.05), ("crit", 0.5)),
            "hardware_thermal_slowdown_seconds_total",
            bits=HW_THERMAL_BIT,
            cause="the hardware because of heat",
        ),
        _event_count("hw_thermal", "hot"),
    ),
    remedy="Hardware protection cuts the clocks: check fans, airflow, coolant and nearby nodes now.",
    source="NVML's clocks event reasons",
)
THERMAL_SW = Check(
    id="thermal_sw",
    title="The driver lowers the clocks because of heat",
    rules=(
        _duty(
            "software_thermal_ratio",
            (("hot", 0.1),),
            "software_thermal_slowdown_seconds_total",
            bits=SW_THERMAL_BIT,
            cause="the driver because of heat",
        ),
        _duty(
            "thermal_violation_ratio",
            (("hot", 0.1),),
            "thermal_violation_seconds_total",
            cause="heat according to a violation counter",
            uncertain=True,
        ),
    ),
    remedy="The driver lowers clocks to stay cool: improve cooling or reduce the load.",
    source="NVML's clocks event reasons",
)
POWER_BRAKE = Check(
    id="power_brake",
    title="The power brake slows the GPU",
    rules=(
        _BRAKE,
        replace(
            _BRAKE,
            name="power_brake_long_ratio",
            levels=(("crit", 0.6),),
            text="of 10 min",
            window=10 * MINUTE,
            enter=0.0,
        ),
        _event_count("hw_power_brake", "warn"),
    ),
    remedy="The power brake slows the GPU: check PSU, cables and rack power.",
    source="NVML's clocks event reasons",
)
HW_SLOWDOWN = Check(
    id="hw_slowdown",
    title="Hardware slows the clocks for an unnamed reason",
    rules=(
        _duty(
            "hardware_slowdown_ratio",
            (("warn", 0.2),),
            bits=UNNAMED_BIT,
            cause="the hardware of a busy GPU for neither heat nor the power brake",
        ),
        _duty(
            "board_limit_ratio",
            (("warn", 0.2),),
            "board_limit_violation_seconds_total",
            "reliability_violation_seconds_total",
            cause="the board's limits according to a violation counter",
            uncertain=True,
        ),
    ),
    remedy="Hardware slows the clocks for an unnamed reason: check temperature, power and firmware logs.",
    source="NVML's clocks event reasons",
)
