"""The cases that must come out right, and the manner of each kind of rule over time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsed.compute.health.checks import CHECKS
from pulsed.compute.health.settings import HealthSettings
from pulsed.model.gpu import Device, Entity
from pulsed.model.health import SEVERITY, CheckState
from pulsed.model.tick import Extras
from tests.compute.health.sim import GPU, OTHER, Sim

A100 = Device(Entity("gpu", "0", "GPU-0", node="n"), model="NVIDIA A100-SXM4-80GB")
UNNAMED = Device(Entity("gpu", "0", "GPU-0", node="n"), model="NVIDIA B200")


NEVER = {
    "Tesla T4": {"row_remap_failed", "row_remap_growth", "temp_memory", "temp_margin", "nvlink_errors", "fabric_link"},
    "NVIDIA L40S": {"retired_pages", "temp_memory", "nvlink_errors", "fabric_link"},
    "NVIDIA GeForce RTX 5090": {
        *("ecc_uncorrectable", "row_remap_failed", "row_remap_pending", "row_remap_growth", "retired_pages"),
        *("temp_memory", "nvlink_errors", "fabric_link"),
    },
    "Tesla P40": {"row_remap_failed", "row_remap_growth", "temp_memory", "temp_margin", "nvlink_errors", "fabric_link"},
    "Tesla P100-SXM2-16GB": {"row_remap_failed", "row_remap_growth", "temp_margin", "fabric_link"},
    "NVIDIA H100 80GB HBM3": {"retired_pages"},
    "a model of next year": set(),
    "": set(),
}
"""Checks of hardware that a product does not have."""

OPTIONAL = {check.id for check in CHECKS if check.optional}


@pytest.mark.parametrize("model", NEVER)
def test_checks_of_hardware_that_a_product_lacks_do_not_lower_its_coverage(model: str) -> None:
    health = Sim(devices=[replace(A100, model=model)]).health(power_watts=40.0)
    assert {check.id for check in health.checks if not check.applies} == NEVER[model] | OPTIONAL


def test_a_check_with_a_reading_applies_whatever_the_product() -> None:
    """GeForce RTX 4090 can have ECC, which a table of models need not know."""
    sim = Sim(devices=[replace(A100, model="NVIDIA GeForce RTX 4090")])
    health = sim.health(ecc_mode=1.0, ecc_dbe_volatile_total=0.0)
    assert health.check("ecc_uncorrectable").applies
    assert health.check("ecc_uncorrectable").state == "ok"


def test_a_product_whose_name_comes_later() -> None:
    sim = Sim(devices=[replace(A100, model="")])
    assert sim.health(temperature_celsius=40.0).check("nvlink_errors").applies
    tick = sim.tick({"temperature_celsius": 40.0}, devices=[replace(A100, model="Tesla T4")])
    assert not tick.healths[0].check("nvlink_errors").applies


def test_a_repaired_a100_is_ok() -> None:
    sim = Sim(devices=[A100])
    repaired = {"remapped_rows_uncorrectable_total": 3.0, "row_remap_failure": 0.0, "row_remap_pending": 0.0}
    values = {**repaired, "temperature_celsius": 40.0}
    sim.health(**values)
    health = sim.health(**values)
    assert health.check("row_remap_growth").state == "ok"
    assert health.check("row_remap_failed").state == "ok"
    assert health.state == "ok"


def link(**values: float) -> dict[str, float | None]:
    return {
        "pcie_link_generation_max": 5.0,
        "pcie_link_generation": 5.0,
        "pcie_link_width": 16.0,
        "pcie_link_width_max": 16.0,
        "temperature_celsius": 40.0,
        **values,
    }


def test_inputs_that_a_source_had_before_a_gap_are_not_blank_after_it() -> None:
    sim = Sim()
    sim.health(temperature_celsius=40.0, row_remap_failure=0.0, row_remap_pending=0.0, ecc_mode=1.0)
    assert sim.run(60, "telemetry", temperature_celsius=40.0).state == "warn"
    assert sim.check("telemetry", after=8.0, temperature_celsius=40.0).state == "ok"


WORKING = {"temperature_celsius": 50.0, "power_watts": 300.0, "memory_used_bytes": 1e9}


@pytest.mark.parametrize("gap", [8.0, 290.0, 400.0])
@pytest.mark.parametrize("first", [{**WORKING, "energy_joules_total": 1060.0}, {"memory_used_bytes": 1e9}, {}])
def test_the_return_of_a_silent_source_is_no_fault_of_the_gpu(first: dict[str, float | None], gap: float) -> None:
    """Its first page may be an old one, or have no value yet."""
    sim = Sim()
    for second in range(1, 61):
        assert sim.health(**WORKING, energy_joules_total=1000.0 + second).state == "ok"
    returned = sim.health(after=gap, **first)
    assert returned.state in ("ok", "unknown")
    assert {check.id for check in returned.checks if check.severity > 0} == set()
    assert sim.health(**WORKING, energy_joules_total=9000.0).state == "ok"


def test_a_gpu_without_readings_after_a_gap_is_told_by_the_time_since_then() -> None:
    sim = Sim()
    sim.run(60, "telemetry", **WORKING)
    assert sim.check("telemetry", after=300.0, memory_used_bytes=1e9).state == "ok"
    assert sim.run(9, "telemetry", memory_used_bytes=1e9).state == "ok"
    assert sim.run(3, "telemetry", memory_used_bytes=1e9).state == "warn"


def test_a_model_that_is_not_reported_any_more_keeps_its_limits() -> None:
    sim = Sim()
    assert sim.run(40, "temp_gpu", temperature_celsius=89.0).state == "crit"
    tick = sim.tick({"temperature_celsius": 88.9}, devices=[replace(GPU, model="")])
    assert tick.healths[0].check("temp_gpu").covered
    assert sim.run(60, "temp_gpu", temperature_celsius=89.0).state == "crit"


def test_one_replay_is_ok() -> None:
    sim = Sim()
    sim.run(5, "pcie_replay", **link(pcie_replays_total=7.0))
    for _ in range(5):
        assert sim.run(60, "pcie_replay", **link(pcie_replays_total=8.0)).state == "ok"


@pytest.mark.parametrize(("interval", "per_minute", "state"), [(1, 40, "warn"), (15, 40, "warn"), (1, 20, "ok")])
def test_steady_replays_warn_above_what_the_link_explains(interval: int, per_minute: int, state: str) -> None:
    sim = Sim(interval=float(interval))
    check = sim.check("pcie_replay", **link(pcie_replays_total=0.0))
    for k in range(1, 240 // interval):
        check = sim.check("pcie_replay", **link(pcie_replays_total=float(k * interval * per_minute // 60)))
    assert check.state == state
    if state == "warn":
        assert dict(check.evidence)["pcie_replays_over_limit"] > 1
        for _ in range(540 // interval):
            check = sim.check("pcie_replay", **link(pcie_replays_total=1e6))


def test_replays_ten_times_as_many_for_five_minutes_are_critical() -> None:
    sim = Sim(interval=15.0)
    for k in range(60):
        check = sim.check("pcie_replay", **link(pcie_replays_total=k * 100.0))
    assert check.state == "crit"


def test_a_follower_replaces_no_other_code() -> None:
    sim = Sim()
    sim.health(xid_last_code=0.0)
    assert sim.health(xid_last_code=62.0).check("xid_critical").state == "crit"
    health = sim.health(xid_last_code=45.0)
    assert health.check("xid_critical").state == "crit"
    assert health.xid_last is not None
    assert health.xid_last.code == 62
    assert health.check("xid_critical").message.startswith("An XID that needs a reset or a restart: XID 62")
    assert "reset" in health.check("xid_critical").remedy


def test_a_follower_alone_says_nothing() -> None:
    sim = Sim()
    sim.health(xid_last_code=0.0, temperature_celsius=40.0)
    health = sim.health(xid_last_code=45.0, temperature_celsius=40.0)
    assert health.state == "ok"
    assert dict(health.xid_events)[45] == 1


@pytest.mark.parametrize(("code", "state"), [(31, "info"), (79, "warn"), (48, "warn"), (999, "warn")])
def test_a_code_from_before_is_at_most_a_warning(code: int, state: str) -> None:
    sim = Sim()
    health = sim.health(xid_last_code=float(code), temperature_celsius=40.0)
    assert health.check("xid_critical").state == "ok"
    assert health.check("xid_warning").state == state
    assert health.check("xid_warning").last_event is None
    assert dict(health.xid_events).get(code, 0) == 0
    assert health.check("gpu_lost").state == "ok"
    sim.interval = 60.0
    assert sim.run(3700, "xid_warning", xid_last_code=float(code)).state == "ok"


def test_a_critical_code_from_before_counts_if_something_else_says_so_too() -> None:
    sim = Sim()
    health = sim.health(xid_last_code=48.0, ecc_dbe_volatile_total=2.0)
    assert health.check("xid_critical").state == "crit"


def test_an_nvlink_code_is_critical_with_corroboration() -> None:
    sim = Sim()
    sim.health(xid_last_code=0.0, recovery_action=0.0)
    assert sim.health(xid_last_code=145.0, recovery_action=0.0).check("nvlink_fault").state == "warn"
    assert sim.health(xid_last_code=145.0, recovery_action=1.0).check("nvlink_fault").state == "crit"


def test_a_hot_a100_is_critical() -> None:
    sim = Sim(devices=[A100])
    assert sim.check("temp_gpu", temperature_celsius=90.0).state == "ok"
    check = sim.run(31, "temp_gpu", temperature_celsius=90.0)
    assert check.state == "crit"
    assert ("limit_from_table", 1.0) in check.evidence


def test_no_model_has_a_limit_by_default() -> None:
    sim = Sim(devices=[UNNAMED])
    assert sim.run(60, "temp_gpu", temperature_celsius=95.0).state == "unknown"
    own = {"temperature_celsius": 86.0, "max_operating_temperature_celsius": 85.0, "slowdown_temperature_celsius": 92.0}
    assert sim.run(60, "temp_gpu", **own).state == "hot"


def test_the_margin_comes_before_the_die() -> None:
    sim = Sim()
    health = sim.health(temperature_celsius=95.0, temperature_margin_celsius=20.0)
    die = health.check("temp_gpu")
    assert (die.state, die.covered, die.applies) == ("unknown", False, False)
    assert health.check("temp_margin").state == "ok"


def test_an_idle_link_is_ok_and_a_narrow_one_is_not() -> None:
    sim = Sim()
    idle = {"performance_state": 8.0, "gpu_utilization_ratio": 0.0}
    assert sim.run(120, "pcie_link", **link(pcie_link_generation=1.0, **idle)).state == "ok"
    busy = {"performance_state": 0.0, "gpu_utilization_ratio": 0.9}
    assert sim.run(70, "pcie_link", **link(pcie_link_generation=1.0, **busy)).state == "warn"
    assert sim.run(5, "pcie_link", **link(**busy)).state == "ok"
    assert sim.run(70, "pcie_link", **link(pcie_link_width=8.0, **busy)).state == "warn"
    assert sim.run(70, "pcie_link", **link(pcie_link_width=4.0, **busy)).state == "crit"


def test_a_power_cap_raises_no_check() -> None:
    sim = Sim()
    values = {"clocks_event_reasons": 4.0, "gpu_utilization_ratio": 1.0, "temperature_celsius": 60.0}
    assert sim.run(200, "thermal_sw", **values | {"clocks_event_reasons": 0x113}).state == "ok", "other benign reasons"
    for _ in range(200):
        health = sim.health(**values)
    assert health.state == "ok"
    assert health.check("hw_slowdown").state == "ok"
    assert sim.last is not None
    assert sim.last.clock_event_shares == ((("power_cap", 1.0),),)


def test_nothing_is_ok_without_its_inputs() -> None:
    sim = Sim()
    for _ in range(200):
        health = sim.health()
    assert {check.id for check in health.checks if check.state != "unknown"} <= {"telemetry"}
    assert [check.id for check in health.checks] == [check.id for check in CHECKS]
    for check in health.checks:
        if check.id != "telemetry":
            assert not check.covered


def test_inputs_that_go_away_leave_nothing_ok() -> None:
    sim = Sim()
    sim.run(10, "thermal_hw", row_remap_failure=0.0, temperature_margin_celsius=30.0, clocks_event_reasons=0.0)
    health = sim.health(temperature_celsius=50.0)
    for id_ in ("row_remap_failed", "temp_margin", "thermal_hw", "power_brake"):
        assert health.check(id_).state == "unknown"
    assert 0 < health.coverage < 0.2


# The kinds over time.


def test_a_level_needs_its_time_and_its_margin() -> None:
    sim = Sim()

    def margin(value: float) -> str:
        return sim.check("temp_margin", temperature_margin_celsius=value).state

    assert [margin(4.0) for _ in range(12)] == ["ok"] * 10 + ["warn"] * 2
    assert margin(7.9) == "warn"
    assert margin(8.1) == "ok"
    assert [margin(4.0) for _ in range(9)] == ["ok"] * 9
    assert margin(9.0) == "ok"
    assert [margin(4.0) for _ in range(11)] == ["ok"] * 10 + ["warn"]
    assert [margin(-3.0) for _ in range(11)] == ["warn"] * 10 + ["crit"]


def test_time_that_nobody_watched_raises_nothing() -> None:
    sim = Sim()
    sim.check("temp_margin", temperature_margin_celsius=1.0)
    assert sim.check("temp_margin", after=60.0, temperature_margin_celsius=1.0).state == "ok"
    assert sim.health(after=60.0, temperature_margin_celsius=1.0).check("telemetry").state == "ok"


def test_a_step_is_kept_for_its_window() -> None:
    sim = Sim(interval=60.0)
    sim.check("ecc_uncorrectable", ecc_dbe_aggregate_total=5.0)
    assert sim.check("ecc_uncorrectable", ecc_dbe_aggregate_total=5.0).state == "ok"
    check = sim.check("ecc_uncorrectable", ecc_dbe_aggregate_total=7.0)
    assert check.state == "crit"
    assert check.last_event == sim.time
    assert sim.last is not None
    assert dict(sim.last.healths[0].events)["ecc_uncorrectable"] == 2
    assert sim.run(23.9 * 3600, "ecc_uncorrectable", ecc_dbe_aggregate_total=7.0).state == "crit"
    assert sim.run(0.3 * 3600, "ecc_uncorrectable", ecc_dbe_aggregate_total=7.0).state == "ok"


@pytest.mark.parametrize("values", [(5.0, 5.0, 0.0, 5.0, 3.0, 5.0), (5.0, 0.0, 2.0)])
def test_a_counter_of_a_board_that_is_misread_is_no_step(values: tuple[float, ...]) -> None:
    sim = Sim()
    for value in values:
        check = sim.check("ecc_uncorrectable", ecc_dbe_aggregate_total=value)
    assert check.state == "ok"


def test_a_rate_is_given_per_hour() -> None:
    sim = Sim(interval=60.0)
    for k in range(10):
        check = sim.check("ecc_correctable_rate", ecc_sbe_volatile_total=k * 2.0)
    assert check.state == "info"
    assert sim.run(3000, "ecc_correctable_rate", ecc_sbe_volatile_total=18.0).state == "info"
    assert sim.run(1800, "ecc_correctable_rate", ecc_sbe_volatile_total=18.0).state == "ok"
    for k in range(120):
        check = sim.check("ecc_correctable_rate", ecc_sbe_volatile_total=18.0 + k)
    assert check.state == "warn"


def test_duty_needs_samples_then_its_share_for_a_minute() -> None:
    sim = Sim()
    states = [sim.check("thermal_hw", clocks_event_reasons=0x48).state for _ in range(80)]
    assert states[0] == "unknown"
    assert states[20] == "ok"
    assert states[-1] == "hot"
    assert sim.run(60, "thermal_hw", clocks_event_reasons=0x48).state == "crit"
    assert sim.run(200, "thermal_hw", clocks_event_reasons=0.0).state == "crit"
    assert sim.run(400, "thermal_hw", clocks_event_reasons=0.0).state == "ok"


def test_a_long_brake_is_critical_at_any_pace() -> None:
    sim = Sim()
    states = [
        sim.check("power_brake", clocks_event_reasons=0x88 if k % 10 < 7 else 0.0, temperature_celsius=50.0).state
        for k in range(700)
    ]
    assert "crit" not in states[:400]
    assert states[-1] == "crit"
    sim = Sim()
    states = [sim.check("power_brake", clocks_event_reasons=0x88 if k % 10 < 5 else 0.0).state for k in range(900)]
    assert "crit" not in states
    assert states[-1] == "warn"


def test_a_flash_of_a_bit_is_nothing() -> None:
    sim = Sim()
    sim.run(60, "hw_slowdown", clocks_event_reasons=0.0, gpu_utilization_ratio=1.0)
    sim.check("hw_slowdown", clocks_event_reasons=8.0, gpu_utilization_ratio=1.0)
    states = {sim.check("hw_slowdown", clocks_event_reasons=0.0, gpu_utilization_ratio=1.0).state for _ in range(200)}
    assert states == {"ok"}


def test_duty_comes_from_counters_where_there_are_any() -> None:
    sim = Sim(interval=15.0)
    for k in range(20):
        check = sim.check("thermal_sw", software_thermal_slowdown_seconds_total=k * 3.0, clocks_event_reasons=0.0)
    assert check.state == "hot"
    assert dict(check.evidence)["software_thermal_ratio"] == pytest.approx(0.2)


def test_the_exporters_counts_of_clock_events_stand_in_for_the_reasons() -> None:
    cut = Extras(clock_events=(("hw_thermal", 3.0),))
    sim = Sim()
    assert sim.run(70, "thermal_hw", cut, temperature_celsius=50.0).state == "hot"
    assert sim.check("power_brake", cut, temperature_celsius=50.0).state == "ok", "no such event is none"
    assert Sim().run(70, "thermal_hw", cut, clocks_event_reasons=0.0).state == "ok"
    assert Sim().run(70, "thermal_hw", Extras(), temperature_celsius=50.0).state == "unknown"


def test_a_counter_of_unknown_unit_only_informs() -> None:
    sim = Sim(interval=15.0)
    for k in range(20):
        check = sim.check("thermal_sw", thermal_violation_seconds_total=k * 15e-3)
    assert check.state == "info"
    sim = Sim(interval=15.0)
    for k in range(20):
        check = sim.check("thermal_sw", thermal_violation_seconds_total=k * 15.0)
    assert check.state == "hot"


def test_an_exporter_that_is_polled_twice_a_minute_needs_three_samples() -> None:
    sim = Sim(interval=30.0)
    states = [sim.check("thermal_sw", clocks_event_reasons=0x20).state for _ in range(8)]
    assert states[:2] == ["unknown", "unknown"]
    assert states[-1] == "hot"


def test_codes_have_states() -> None:
    for code, state in [(0, "ok"), (1, "crit"), (2, "crit"), (3, "warn"), (4, "crit"), (5, "warn"), (6, "crit")]:
        assert Sim().check("recovery_action", recovery_action=float(code)).state == state
    assert Sim().check("recovery_action", recovery_action=7.0).state == "crit"
    assert Sim().check("recovery_action", recovery_action=12.0).state == "warn"


def test_the_health_does_not_change_while_nothing_is_raised() -> None:
    sim = Sim()
    values = {"temperature_celsius": 60.0, "temperature_margin_celsius": 27.0, "clocks_event_reasons": 4.0}
    for k in range(200):
        health = sim.health(**values, energy_joules_total=100.0 * k, power_watts=600.0 + k)
    for other in ({"energy_joules_total": 1e6, "power_watts": 1.0}, {"temperature_margin_celsius": 26.0}):
        assert sim.health(**values | other) == health


def test_states_are_ordered() -> None:
    assert SEVERITY == {"unknown": -1, "ok": 0, "info": 1, "warn": 2, "hot": 3, "crit": 4}
    assert GPU.whole


BUSY = {"gpu_utilization_ratio": 0.9}


@pytest.mark.parametrize(
    ("load", "state", "covered"),
    [
        ({**BUSY, "performance_state": 0.0}, "warn", True),
        ({**BUSY, "performance_state": 1.0}, "warn", True),
        ({**BUSY, "performance_state": 2.0}, "warn", True),
        ({**BUSY, "performance_state": 8.0}, "ok", True),
        (BUSY, "warn", True),
        ({"gpu_utilization_ratio": 0.1}, "ok", True),
        ({"performance_state": 0.0}, "unknown", False),
        ({}, "unknown", False),
    ],
)
def test_a_slow_link_counts_under_load_whatever_shows_it(load: dict[str, float], state: str, covered: bool) -> None:
    """rtx6kpro#88: a link at generation 2 for hours, in P1; without activity and P-state it is unknown, never ok."""
    check = Sim().run(70, "pcie_link", **link(pcie_link_generation=2.0, **load))
    assert (check.state, check.covered) == (state, covered)


def test_lanes_that_a_gpu_never_had_are_info() -> None:
    """aws-k8s-tester#806: sizes of instances with fewer lanes than the board supports."""
    busy = {"performance_state": 0.0, **BUSY}
    sim = Sim()
    check = sim.run(70, "pcie_link", **link(pcie_link_width=8.0, **busy))
    assert check.state == "info"
    assert "health.pcie_width_max" in check.remedy
    assert sim.run(70, "pcie_link", **link(pcie_link_width=4.0, **busy)).state == "crit", "it had eight"


def test_lanes_that_a_gpu_of_a_virtual_machine_never_had_are_info_whatever_the_others_have() -> None:
    sim, busy = Sim(devices=[GPU, OTHER]), {"performance_state": 0.0, **BUSY}
    sim.is_virtual = True

    def states(width: float, **more: float) -> list[CheckState]:
        for _ in range(70):
            tick = sim.tick(link(pcie_link_width=width, **more, **busy), link(**busy))
        return [health.check("pcie_link") for health in tick.healths]

    narrow, full = states(8.0)
    assert (narrow.state, full.state) == ("info", "ok")
    assert "the instance size may have fewer lanes" in narrow.remedy
    lost, _ = states(4.0)
    assert (lost.state, "reseat" in lost.remedy) == ("crit", False), "it had eight, and nobody can reseat it"
    slow, _ = states(8.0, pcie_link_generation=2.0)
    assert slow.state == "warn"
    assert "report it to the provider" in slow.remedy
    sim.is_virtual = False
    assert states(8.0)[0].state == "warn", "no virtual machine: its neighbour has more lanes"


def test_lanes_are_compared_while_their_check_is_disabled() -> None:
    sim = Sim(HealthSettings(disabled=("pcie_link",)))
    for width in (16.0, 8.0, 16.0):
        health = sim.health(**link(pcie_link_width=width))
    assert "pcie_link" not in [check.id for check in health.checks]


def test_lanes_that_are_lost_before_a_restart_of_pulsed_are_no_design() -> None:
    sim, busy = Sim(), {"performance_state": 0.0, **BUSY}
    sim.run(3, "pcie_link", **link(**busy))
    sim.restart()
    assert sim.run(70, "pcie_link", **link(pcie_link_width=8.0, **busy)).state == "warn"


def test_a_gpu_with_fewer_lanes_than_its_neighbour_is_a_fault() -> None:
    sim = Sim(devices=[GPU, OTHER])
    busy = {"performance_state": 0.0, **BUSY}
    for _ in range(70):
        tick = sim.tick(link(pcie_link_width=8.0, **busy), link(pcie_link_width=16.0, **busy))
    assert [health.check("pcie_link").state for health in tick.healths] == ["warn", "ok"]


@pytest.mark.parametrize(
    ("model", "values", "state"),
    [
        ("NVIDIA GeForce RTX 5090", (0.0,), "unknown"),
        ("NVIDIA A100-SXM4-80GB", (0.0,), "unknown"),
        ("NVIDIA GB300", (0.0,), "crit"),
        ("NVIDIA GeForce RTX 5090", (0.5, 0.05), "warn"),
        ("NVIDIA GeForce RTX 5090", (0.5, 0.0), "crit"),
    ],
)
def test_a_life_of_0_counts_where_the_circuit_is_or_was_used(model: str, values: tuple[float, ...], state: str) -> None:
    sim = Sim(devices=[replace(GPU, model=model)])
    for value in values:
        check = sim.run(3, "smoothing_wear", power_smoothing_lifetime_remaining_ratio=value)
    assert (check.state, check.applies) == (state, state != "unknown")


@pytest.mark.parametrize(
    ("model", "values", "state"),
    [
        ("NVIDIA A100-SXM4-80GB", (0.0,), "unknown"),
        ("NVIDIA H100 80GB HBM3", (0.0,), "hot"),
        ("NVIDIA A100-SXM4-80GB", (20.0, 0.0), "hot"),
    ],
)
def test_a_margin_of_0_counts_where_the_product_has_one(model: str, values: tuple[float, ...], state: str) -> None:
    sim = Sim(devices=[replace(GPU, model=model)])
    for value in values:
        check = sim.run(20, "temp_margin", temperature_margin_celsius=value)
    assert check.state == state


@pytest.mark.parametrize(
    ("check", "values", "state"),
    [
        ("pcie_link", link() | BUSY | {"pcie_link_generation": None}, "unknown"),
        ("pcie_link", link() | BUSY | {"pcie_link_width_max": None}, "unknown"),
        ("pcie_link", link(**BUSY), "ok"),
        ("retired_pages", {"retired_pages_sbe_total": 0.0}, "unknown"),
        ("retired_pages", {"retired_pages_sbe_total": 0.0, "retired_pages_dbe_total": 0.0}, "ok"),
        ("temp_gpu", {"temperature_celsius": 50.0, "slowdown_temperature_celsius": 90.0}, "ok"),
        ("config_drift", {"ecc_mode": 1.0}, "ok"),
    ],
)
def test_a_check_with_a_part_of_the_inputs_of_a_rule_is_not_ok(
    check: str, values: dict[str, float | None], state: str
) -> None:
    found = Sim(devices=[replace(GPU, model="Tesla V100-SXM2-16GB")]).run(3, check, **values)
    assert (found.state, found.covered) == (state, state == "ok")
