"""DCGM's own health watches."""

from __future__ import annotations

from pulsed.compute.health.check import Check
from pulsed.compute.health.level import Level, watches
from pulsed.compute.health.rule import MINUTE, SOON

CHECKS: tuple[Check, ...] = (
    Check(
        id="dcgm_health",
        title="A DCGM health watch reports a problem",
        rules=(
            Level(
                name="dcgm_health_result",
                inputs=("health_watches",),
                levels=(("info", 5.0), ("warn", 10.0), ("crit", 20.0)),
                number="at result {:g} or more",
                text="of a DCGM health watch (10 warning, 20 failure; a POWER warning counts as 5) without inputs for "
                "pulsed's own check of the same part",
                by=watches(
                    {
                        "PCIE": ("pcie_replay",),
                        "NVLINK": ("nvlink_errors", "fabric_link"),
                        "MEM": ("ecc_uncorrectable", "row_remap_failed", "retired_pages"),
                        "THERMAL": ("thermal_hw", "thermal_sw", "temp_margin", "temp_gpu"),
                        "POWER": ("power_brake",),
                        "INFOROM": ("config_drift",),
                    },
                    mild=frozenset({"POWER"}),
                ),
                recheck=SOON,
                hold=10 * MINUTE,
            ),
        ),
        remedy="A DCGM health watch reports a problem: read its message and run a level-2 diagnostic.",
        source="DCGM's health watches, through dcgm-exporter",
    ),
)
