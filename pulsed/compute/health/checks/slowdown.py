"""Heat, power, and clocks that are held for their sake."""

from __future__ import annotations

from pulsed.compute.health.checks.shorthand import HW_THERMAL, MINUTE, POWER_BRAKE, SW_THERMAL, UNNAMED, duty
from pulsed.compute.health.rule import Check, Comparison, Duty, Level, When

CHECKS: tuple[Check, ...] = (
    Check(
        id="thermal_hw",
        title="Hardware cuts the clocks because of heat",
        rule="hot when the clocks are cut for 5 % of a minute, crit for 50 %, for 60 s; left 60 s after it fell "
        "below half",
        rules=(
            duty(
                "hardware_thermal_ratio",
                HW_THERMAL,
                (("hot", 0.05), ("crit", 0.5)),
                "hardware_thermal_slowdown_seconds_total",
            ),
            Level(
                name="clock_event_hw_thermal",
                inputs=("clock_event_hw_thermal",),
                levels=(("hot", 3.0),),
                when=(When("clocks_event_reasons", "absent", 0.0),),
                enter=MINUTE,
                hold=5 * MINUTE,
            ),
        ),
        remedy="Hardware protection cuts the clocks: check fans, airflow, coolant and nearby nodes now.",
        source="NVML's clocks event reasons",
    ),
    Check(
        id="thermal_sw",
        title="The driver lowers the clocks because of heat",
        rule="hot when the clocks are lowered for 10 % of a minute, for 60 s; left 60 s after it fell below half; info "
        "when only a counter of unknown unit says that heat holds the clocks",
        rules=(
            duty(
                "software_thermal_ratio",
                SW_THERMAL,
                (("hot", 0.1),),
                "software_thermal_slowdown_seconds_total",
            ),
            Duty(
                name="thermal_violation_ratio",
                inputs=("thermal_violation_seconds_total",),
                levels=(("hot", 0.1),),
                bits=0,
                window=MINUTE,
                uncertain=True,
                enter=MINUTE,
                hold=5 * MINUTE,
                release=MINUTE,
                clear=0.5,
                clear_share=True,
            ),
        ),
        remedy="The driver lowers clocks to stay cool: improve cooling or reduce the load.",
        source="NVML's clocks event reasons",
    ),
    Check(
        id="temp_margin",
        title="Close to the GPU's own temperature limit",
        rule="warn with 5 °C left or less, hot with none, crit 2 °C above it, for 10 s; left when 3 °C cooler",
        rules=(
            Level(
                name="temperature_margin_celsius",
                inputs=("temperature_margin_celsius",),
                levels=(("warn", 5.0), ("hot", 0.0), ("crit", -2.0)),
                below=True,
                enter=10.0,
                clear=3.0,
            ),
        ),
        remedy="The GPU has {temperature_margin_celsius:g} degrees left to its limit: cool it before clocks are cut.",
        source="NVML's T.Limit: slowdown at -2 °C on H100, H200, Ada and Blackwell",
        unless=("slowdown_temperature_celsius", "max_operating_temperature_celsius"),
    ),
    Check(
        id="temp_gpu",
        title="The die is too warm",
        rule="warn from 5 °C below the highest operating temperature, hot from there on, crit from the slowdown "
        "temperature on, for 30 s; left when 3 °C cooler. Only where there is no margin; limits are the device's, "
        "else the model's",
        rules=(
            Comparison(
                name="above_max_operating_celsius",
                inputs=("temperature_celsius", "max_operating_temperature_celsius"),
                levels=(("warn", -5.0), ("hot", 0.0)),
                fallback="max_operating",
                enter=30.0,
                clear=3.0,
            ),
            Comparison(
                name="above_slowdown_celsius",
                inputs=("temperature_celsius", "slowdown_temperature_celsius"),
                levels=(("crit", 0.0),),
                fallback="slowdown",
                enter=30.0,
                clear=3.0,
            ),
        ),
        remedy="The die is near its slowdown point: check cooling and neighbouring heat.",
        source="NVML's temperature thresholds",
        superseded_by="temperature_margin_celsius",
    ),
    Check(
        id="temp_memory",
        title="The memory is too warm",
        rule="warn from 3 °C below the memory's highest operating temperature, hot from there on, for 30 s; left when "
        "3 °C cooler",
        rules=(
            Comparison(
                name="above_memory_max_celsius",
                inputs=("memory_temperature_celsius", "memory_max_operating_temperature_celsius"),
                levels=(("warn", -3.0), ("hot", 0.0)),
                fallback="memory",
                enter=30.0,
                clear=3.0,
            ),
        ),
        remedy="Memory is too warm: raise airflow; memory heat causes errors before the die does.",
        source="NVML's temperature thresholds",
    ),
    Check(
        id="power_brake",
        title="The power brake slows the GPU",
        rule="warn when the brake holds the clocks for 5 % of a minute, for 60 s; crit for 60 % of 10 min",
        rules=(
            duty("power_brake_ratio", POWER_BRAKE, (("warn", 0.05),), "power_brake_slowdown_seconds_total"),
            Duty(
                name="power_brake_long_ratio",
                inputs=("power_brake_slowdown_seconds_total",),
                levels=(("crit", 0.6),),
                bits=POWER_BRAKE,
                window=10 * MINUTE,
                hold=5 * MINUTE,
                release=MINUTE,
                clear=0.5,
                clear_share=True,
            ),
            Level(
                name="clock_event_hw_power_brake",
                inputs=("clock_event_hw_power_brake",),
                levels=(("warn", 3.0),),
                when=(When("clocks_event_reasons", "absent", 0.0),),
                enter=MINUTE,
                hold=5 * MINUTE,
            ),
        ),
        remedy="The power brake slows the GPU: check PSU, cables and rack power.",
        source="NVML's clocks event reasons",
    ),
    Check(
        id="hw_slowdown",
        title="Hardware slows the clocks for an unnamed reason",
        rule="warn when a busy GPU is slowed for 20 % of a minute, for 60 s, neither for heat nor for the power brake; "
        "info when only a counter of unknown unit says so",
        rules=(
            duty("hardware_slowdown_ratio", UNNAMED, (("warn", 0.2),)),
            Duty(
                name="board_limit_ratio",
                inputs=("board_limit_violation_seconds_total", "reliability_violation_seconds_total"),
                levels=(("warn", 0.2),),
                bits=0,
                window=MINUTE,
                uncertain=True,
                enter=MINUTE,
                hold=5 * MINUTE,
                release=MINUTE,
                clear=0.5,
                clear_share=True,
            ),
        ),
        remedy="Hardware slows the clocks for an unnamed reason: check temperature, power and firmware logs.",
        source="NVML's clocks event reasons",
    ),
)
