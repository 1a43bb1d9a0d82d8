"""What DCGM says of parts that we cannot see, and how the GPU is set up."""

from __future__ import annotations

from pulsed.compute.health.checks.shorthand import MINUTE
from pulsed.compute.health.rule import ACTIVITY, Check, Comparison, Level, Watches, When

CHECKS: tuple[Check, ...] = (
    Check(
        id="dcgm_health",
        title="A DCGM health watch reports a problem",
        rule="crit for a failure, warn for a warning of a DCGM health watch (info for POWER) whose part pulsed lacks "
        "the inputs to judge; for 10 min",
        rules=(
            Watches(
                name="dcgm_health_result",
                inputs=("health_watches",),
                levels=(("info", 5.0), ("warn", 10.0), ("crit", 20.0)),
                hold=10 * MINUTE,
                ours={
                    "PCIE": ("pcie_replay",),
                    "NVLINK": ("nvlink_errors", "fabric_link"),
                    "MEM": ("ecc_uncorrectable", "row_remap_failed", "retired_pages"),
                    "THERMAL": ("thermal_hw", "thermal_sw", "temp_margin", "temp_gpu"),
                    "POWER": ("power_brake",),
                    "INFOROM": ("config_drift",),
                },
                mild=frozenset({"POWER"}),
            ),
        ),
        remedy="A DCGM health watch reports a problem: read its message and run a level-2 diagnostic.",
        source="DCGM's health watches, through dcgm-exporter",
    ),
    Check(
        id="config_drift",
        title="Unexpected GPU settings",
        rule="warn for an invalid InfoROM, an ECC mode that waits for a reset, or ECC off on a data-centre GPU; info "
        "while persistence mode is off",
        rules=(
            Level(name="inforom_valid", inputs=("inforom_valid",), levels=(("warn", 0.0),), below=True),
            Comparison(
                name="ecc_mode_pending_change",
                inputs=("ecc_mode", "ecc_mode_pending"),
                levels=(("warn", 1.0),),
                apart=True,
            ),
            Level(
                name="ecc_mode",
                inputs=("ecc_mode",),
                levels=(("warn", 0.0),),
                below=True,
                data_centre=True,
            ),
            Level(name="persistence_mode", inputs=("persistence_mode",), levels=(("info", 0.0),), below=True),
        ),
        remedy="Unexpected GPU settings: compare InfoROM, ECC and persistence mode with its neighbours.",
        source="DCGM's InfoROM watch, fleet practice",
        optional=True,
    ),
    Check(
        id="hot_idle",
        title="Hot while idle",
        rule="warn at 70 °C or more with less than 10 % of activity for 30 min",
        rules=(
            Level(
                name="temperature_celsius",
                inputs=("temperature_celsius",),
                levels=(("warn", 70.0),),
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
        rule="warn with 10 % of its life left, crit with none",
        rules=(
            Level(
                name="power_smoothing_lifetime_remaining_ratio",
                inputs=("power_smoothing_lifetime_remaining_ratio",),
                levels=(("warn", 0.1), ("crit", 0.0)),
                below=True,
            ),
        ),
        remedy="The power smoothing circuit is nearly used up: schedule service for this board.",
        source="DCGM field 1432",
        optional=True,
    ),
)
