"""Numbers and properties that the rest of the code only names, written down once more: a change is a decision."""

from __future__ import annotations

import math
from dataclasses import asdict
from importlib import import_module

import pytest

from pulsed.compute.class_table import ClassThresholds
from pulsed.compute.derived_results import DERIVED_RESULTS, DERIVED_VALUES
from pulsed.compute.plausibility_rules import PlausibilitySettings
from pulsed.compute.settings import ComputeSettings, RealUtilizationSettings, Weights, WorkloadSettings


@pytest.mark.parametrize(
    ("module", "constants"),
    [
        (
            "accumulator",
            {"MAX_WATTS": 10_000, "MAX_REFRESHES": 2, "MIN_STANDING_SECONDS": 1, "MAX_STANDING_SECONDS": 60},
        ),
        ("workload", {"ROUNDING": 1e-9}),
        ("sample", {"FRESH_SECONDS": 10, "FRESH_INTERVALS": 3, "BUSY_WATTS": 100}),
        ("health.check", {"JITTER": 0.5}),
        (
            "health.windows",
            {
                "PART": 5,
                "MAX_WINDOW": 600,
                "SHARES_WINDOW": 60,
                "MIN_SAMPLES": 3,
                "SW_THERMAL_BIT": 0x20,
                "HW_THERMAL_BIT": 0x40,
                "POWER_BRAKE_BIT": 0x80,
                "UNNAMED_BIT": 0x10000,
                "REASONS": {
                    1: "gpu_idle",
                    2: "clocks_setting",
                    4: "power_cap",
                    8: "hw_slowdown",
                    16: "sync_boost",
                    32: "sw_thermal",
                    64: "hw_thermal",
                    128: "hw_power_brake",
                    256: "display_clocks",
                    512: "board_limit",
                    1024: "reliability",
                },
            },
        ),
        ("health.windows", {"MICROSECONDS": 1000}),
        (
            "health_evaluator",
            {"FORGET_SECONDS": 30 * 86_400, "MAX_WAITING_EVENTS": 1000},
        ),
        ("health.reachability", {"LOST_SECONDS": 1, "LOST_POLLS": 2}),
        ("health.reachability", {"ABSENT_SAMPLES": 2}),
        ("saved_state", {"VERSION": 2}),
        ("health.xid_log", {"BURST_GAP": 180, "REPEAT_WINDOW": 86_400}),
        ("health.xid_rule", {"CRITICAL_SECONDS": 86_400}),
        ("health.xids", {"FOLLOWER": 45, "CORROBORABLE": {144, 145, 146, 149}}),
        ("plausibility_rules", {"MIN_FRACTIONAL": 3}),
        ("real_utilization", {"COVERAGE_DIGITS": 12, "SETTLED": 0.005 + 1e-6, "FULL": 1 - 1e-15}),
        ("sample", {"GAP_INTERVALS": 3, "ROUNDING": 1e-6}),
        ("health.settings", {"NEVER_FORGOTTEN": 0}),
        ("gpu_table", {"LATE_INTERVALS": 2}),
    ],
)
def test_constants(module: str, constants: dict[str, object]) -> None:
    assert {name: getattr(import_module(f"pulsed.compute.{module}"), name) for name in constants} == constants


def test_defaults_of_settings() -> None:
    settings = ComputeSettings()
    assert settings.real_utilization.chosen_weights() == Weights(0.35, 0.35, 0.2, 0.1)
    assert (settings.real_utilization.min_coverage, settings.workload.hold, settings.idle.held_memory) == (
        0.5,
        2,
        268_435_456,
    )
    assert (settings.health.forget_after, settings.real_utilization.histogram) == (
        0,
        (0.05, 0.25, 0.5, 0.75, 0.95),
    )
    assert (tuple(settings.health.disabled), settings.health.pcie_width_max) == ((), 0)
    assert asdict(settings.plausibility) == {
        "enabled": True,
        "busy_utilization_ratio": 0.9,
        "stuck_seconds": 10,
        "stuck_samples": 3,
        "frozen_seconds": 300,
        "frozen_samples": 20,
        "moved_ratio": 0.2,
        "power_max_watts": 10_000,
        "temperature_min_celsius": -50,
        "temperature_max_celsius": 200,
        "sm_clock_max_hertz": 10_000_000_000,
        "traffic_max_bytes_per_second": 10_000_000_000_000,
        "memory_excess_ratio": 1.05,
        "memory_min_bytes": 2.0**28,
    }
    assert asdict(ClassThresholds()) == {
        "idle_real_utilization_ratio": 0.05,
        "idle_graphics_engine_ratio": 0.05,
        "idle_dram_ratio": 0.05,
        "idle_media_ratio": 0.05,
        "tensor_heavy_compute_tensor_ratio": 0.5,
        "tensor_heavy_compute_sm_ratio": 0.6,
        "memory_bound_saturated_dram_ratio": 0.65,
        "tensor_compute_tensor_ratio": 0.15,
        "tensor_compute_sm_ratio": 0.4,
        "fp64_hpc_compute_fp64_ratio": 0.2,
        "fp64_hpc_compute_sm_ratio": 0.5,
        "io_bytes_per_second": 1e9,
        "io_memory_utilization_ratio": 0.4,
        "io_or_data_loading_sm_ratio": 0.3,
        "memory_bound_dram_ratio": 0.5,
        "memory_bound_sm_ratio": 0.5,
        "compute_heavy_sm_ratio": 0.8,
        "compute_active_sm_ratio": 0.5,
        "memory_active_dram_ratio": 0.4,
        "busy_low_sm_use_graphics_engine_ratio": 0.4,
        "busy_low_sm_use_sm_ratio": 0.25,
        "low_utilization_graphics_engine_ratio": 0.15,
        "low_utilization_sm_ratio": 0.15,
        "low_utilization_dram_ratio": 0.15,
    }


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("busy_utilization_ratio", 0.05, 1.0),
        ("moved_ratio", 0.01, 1.0),
        ("stuck_samples", 2.0, math.inf),
        ("frozen_samples", 3.0, math.inf),
        ("stuck_seconds", 0.0, math.inf),
        ("frozen_seconds", 0.0, math.inf),
        ("memory_excess_ratio", 1.0, math.inf),
        ("temperature_min_celsius", -273.15, 199.9),
        ("temperature_max_celsius", 0.0, math.inf),
        ("power_max_watts", 0.0, math.inf),
    ],
)
def test_limits_of_plausibility_settings(name: str, low: float, high: float) -> None:
    for allowed in (low, min(high, 1e9)):
        assert list(PlausibilitySettings(**{name: allowed}).problems()) == []  # type: ignore[arg-type]
    for beyond in (low - 0.2, high + 0.2, math.nan):
        assert name in dict(PlausibilitySettings(**{name: beyond}).problems())  # type: ignore[arg-type]


def test_inputs_of_derived_results() -> None:
    utilization = ("sm_active_ratio", "tensor_active_ratio", "dram_active_ratio", "graphics_engine_active_ratio")
    traffic = tuple(f"{link}_{way}_bytes_per_second" for link in ("pcie", "c2c") for way in ("transmit", "receive"))
    clocks = ("sm_clock_hertz", "sm_clock_max_hertz")
    pipes = ("tensor_active_ratio", *(f"{pipe}_active_ratio" for pipe in ("fp64", "fp32", "fp16", "integer")))
    expected: dict[str, list[tuple[str, ...]]] = {
        "real_utilization": [(name,) for name in utilization],
        "workload_class": [(name,) for name in (*utilization, "fp64_active_ratio", *traffic)],
        "saturation": [pipes, ("dram_active_ratio",)],
        "tensor_throughput_ratio": [(name,) for name in ("tensor_active_ratio", *clocks)],
    }
    of_health = {
        name for result in DERIVED_RESULTS if result.name == "health" for names in result.inputs(ALL) for name in names
    }
    assert {result.name: [*result.inputs(ALL)] for result in DERIVED_RESULTS if result.name != "health"} == expected
    assert of_health > {"xid_last_code", "temperature_celsius", "clocks_event_reasons", "nvlink_crc_errors_total"}
    assert not of_health & {"gpu_activity_ratio", "inputs_blank_ratio", "persistence_mode", "row_remap_failure"}
    without_tensor = ComputeSettings(
        "bounds", RealUtilizationSettings("custom", Weights(1, 0, 1, 1)), WorkloadSettings("kempnerpulse")
    )
    by_name = {result.name: result.inputs(without_tensor) for result in DERIVED_RESULTS}
    assert ("tensor_active_ratio",) not in by_name["real_utilization"]
    assert by_name["workload_class"][-1] == ("memory_utilization_ratio",)


ALL = ComputeSettings()


def test_derived_values_that_are_never_missing_or_have_no_column() -> None:
    def named(attribute: str, value: object) -> set[str]:
        return {
            each.name for each in DERIVED_VALUES if hasattr(each, "name") and getattr(each, attribute, None) is value
        }

    bounds = {"real_utilization_bound_ratio", "saturation_bound_ratio"}
    of_health = {"health_severity", "health_coverage_ratio"}
    changes = "workload_class_changes_total"
    assert named("always", True) == {*bounds, *of_health, changes, "real_utilization_coverage_ratio"}
    assert named("csv", False) == {
        *of_health,
        changes,
        "mfu_ratio",
        "mig_unpartitioned_ratio",
        "tensor_throughput_ratio",
        "use",
    }
    assert named("integer", True) == {"health_severity"}
