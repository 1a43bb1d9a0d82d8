"""DCGM's own health watches, settings of the GPU, heat while idle, and wear."""

from __future__ import annotations

from operator import lt

from pulsed.compute.health.check import check
from pulsed.compute.health.inputs import ACTIVITY
from pulsed.compute.health.level import Level, distance, of_data_centre, watches
from pulsed.compute.health.rule import MINUTE, When

CHECKS = (
    check(
        "dcgm_health",
        "A DCGM health watch reports a problem",
        Level(
            "dcgm_health_result",
            {"info": 5, "warn": 10, "crit": 20},
            "of a DCGM health watch (10 warning, 20 failure; a POWER warning counts as 5), unless pulsed's own check "
            "of the same part is raised and as severe",
            ("health_watches",),
            number="at result {:g} or more",
            by=watches(
                {
                    "PCIE": ("pcie_replay",),
                    "NVLINK": ("nvlink_errors", "fabric_link"),
                    "MEM": (
                        "ecc_uncorrectable",
                        "memory_unrepairable",
                        "row_remap_failed",
                        "row_remap_pending",
                        "row_remap_growth",
                        "retired_pages",
                    ),
                    "THERMAL": ("thermal_hw", "thermal_sw", "temp_margin", "temp_gpu"),
                    "POWER": ("power_brake",),
                    "INFOROM": ("config_drift",),
                },
                mild=frozenset({"POWER"}),
            ),
            hold=10 * MINUTE,
        ),
        remedy="A DCGM health watch reports a problem: read its message and run a level-2 diagnostic.",
        source="DCGM's health watches, through dcgm-exporter",
    ),
    check(
        "config_drift",
        "Unexpected GPU settings",
        Level("inforom_valid", {"warn": 0}, "while the InfoROM is invalid", number="", below=True),
        Level(
            "ecc_mode_pending_change",
            {"warn": 1},
            "while an ECC mode waits for a reset",
            ("ecc_mode", "ecc_mode_pending"),
            number="",
            by=distance,
        ),
        Level(
            "ecc_mode", {"warn": 0}, "while ECC is off on a data-centre GPU", number="", by=of_data_centre, below=True
        ),
        Level("persistence_mode", {"info": 0}, "while persistence mode is off", number="", below=True),
        remedy="Unexpected GPU settings: compare InfoROM, ECC and persistence mode with its neighbours.",
        source="DCGM's InfoROM watch, fleet practice",
        optional=True,
    ),
    check(
        "hot_idle",
        "Hot while idle",
        Level(
            "temperature_celsius",
            {"warn": 70},
            "with less than 10% activity",
            number="at {:g} °C or more",
            when=(When(ACTIVITY, lt, 0.1),),
            enter=30 * MINUTE,
            clear=3.0,
        ),
        remedy="The GPU is hot while idle: check cooling and what runs on it.",
        source="OCI's GPU scanner",
        optional=True,
    ),
    check(
        "smoothing_wear",
        "The power smoothing circuit wears out",
        Level(
            "power_smoothing_lifetime_remaining_ratio",
            {"warn": 0.1, "crit": 0},
            "of its life left",
            number="at {:.0%} or less",
            below=True,
        ),
        remedy="The power smoothing circuit is nearly used up: schedule service for this board.",
        source="DCGM field 1432",
        optional=True,
    ),
)
