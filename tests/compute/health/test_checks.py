"""The table: every check can reach each of its states, says what to do, and is complete as documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from pulsed.compute.health.checks import BY_ID, CHECKS
from pulsed.compute.health.inputs import ACTIVITY
from pulsed.compute.health.rule import Rule, RuleState
from pulsed.compute.health.rule_kinds import Duty, Increase
from pulsed.compute.health.xid_rule import XidRule
from pulsed.durations import in_words
from pulsed.model.health import SEVERITY
from pulsed.model.owner import Owners, pod
from pulsed.model.tick import Extras, LinkCounters
from pulsed.model.vocabulary import POSITION
from tests.compute.health.sim import GPU, OTHER, Sim

NOT_READINGS = {
    ACTIVITY,
    "pcie_load",
    "inputs_blank_ratio",
    "polls_missed",
    "polls_unlisted",
    "inputs_age_seconds",
    "clock_event_hw_thermal",
    "clock_event_hw_power_brake",
    "xid_counts",
    "health_watches",
    "nvlink_states",
    "nvlink_counters",
    "kernel_log",
}

Values = Mapping[str, float | None]


class Way(NamedTuple):
    """How a state is reached: readings by number of the sample, how many, how often, and what else there is."""

    values: Callable[[int], Values]
    samples: int = 2
    interval: float = 1.0
    extras: Extras | None = None
    owners: Owners | None = None


def always(samples: int = 2, interval: float = 1.0, **values: float) -> Way:
    return Way(lambda _: values, samples, interval)


def then(before: Values, after: Values, samples: int = 2, interval: float = 1.0) -> Way:
    return Way(lambda k: after if k else before, samples, interval)


def grows(name: str, step: float, samples: int, interval: float = 15.0, **values: float) -> Way:
    return Way(lambda k: {**values, name: k * step}, samples, interval)


def link(**values: float) -> dict[str, float]:
    return {"pcie_link_width": 16.0, "pcie_link_width_max": 16.0, **values}


def recovered(count: float) -> LinkCounters:
    """Link 14 alone."""
    return tuple([(link, (("link_recoveries", count if link == 14 else 0.0),)) for link in range(18)])


LOADED = {"performance_state": 0.0, "gpu_utilization_ratio": 0.9}

WAYS: Mapping[tuple[str, str], Way] = {
    ("gpu_lost", "crit"): then({"temperature_celsius": 40.0}, {}, 4),
    ("recovery_action", "warn"): always(recovery_action=3.0),
    ("recovery_action", "crit"): always(recovery_action=1.0),
    ("telemetry", "warn"): then({"row_remap_failure": 0.0, "row_remap_pending": 0.0, "ecc_mode": 1.0}, {}, 40),
    ("xid_critical", "crit"): then({"xid_last_code": 0.0}, {"xid_last_code": 48.0}),
    ("xid_warning", "info"): then({"xid_last_code": 0.0}, {"xid_last_code": 13.0}),
    ("xid_warning", "warn"): then({"xid_last_code": 0.0}, {"xid_last_code": 94.0}),
    ("xid_repeat", "info"): Way(
        lambda k: {"xid_last_code": (13.0, 31.0)[k % 2]}, 12, 200.0, owners=(pod("ml", "train"),)
    ),
    ("xid_repeat", "warn"): Way(lambda k: {"xid_last_code": (13.0, 31.0)[k % 2]}, 12, 200.0),
    ("ecc_uncorrectable", "crit"): always(ecc_dbe_volatile_total=1.0),
    ("memory_unrepairable", "crit"): always(memory_unrepairable=1.0),
    ("ecc_correctable_rate", "info"): grows("ecc_sbe_volatile_total", 1.0, 20),
    ("ecc_correctable_rate", "warn"): grows("ecc_sbe_aggregate_total", 10.0, 20),
    ("row_remap_failed", "crit"): always(row_remap_failure=1.0),
    ("row_remap_pending", "warn"): always(retired_pages_pending=1.0),
    ("row_remap_growth", "warn"): then(
        {"remapped_rows_uncorrectable_total": 3.0}, {"remapped_rows_uncorrectable_total": 4.0}
    ),
    ("row_remap_growth", "crit"): always(remapped_rows_uncorrectable_total=512.0),
    ("retired_pages", "warn"): always(retired_pages_sbe_total=40.0, retired_pages_dbe_total=8.0),
    ("retired_pages", "crit"): then(
        {"retired_pages_sbe_total": 0.0, "retired_pages_dbe_total": 15.0},
        {"retired_pages_sbe_total": 0.0, "retired_pages_dbe_total": 16.0},
    ),
    ("thermal_hw", "hot"): grows("hardware_thermal_slowdown_seconds_total", 1.5, 12),
    ("thermal_hw", "crit"): always(200, clocks_event_reasons=0x40),
    ("thermal_sw", "info"): grows("thermal_violation_seconds_total", 0.01, 12),
    ("thermal_sw", "hot"): always(200, clocks_event_reasons=0x20),
    ("temp_margin", "warn"): always(20, temperature_margin_celsius=4.0),
    ("temp_margin", "hot"): always(20, temperature_margin_celsius=0.0),
    ("temp_margin", "crit"): always(20, temperature_margin_celsius=-2.0),
    ("temp_gpu", "warn"): always(40, temperature_celsius=82.0),
    ("temp_gpu", "hot"): always(40, temperature_celsius=87.0),
    ("temp_gpu", "crit"): always(40, temperature_celsius=89.0),
    ("temp_memory", "warn"): always(40, memory_temperature_celsius=92.0, memory_max_operating_temperature_celsius=95.0),
    ("temp_memory", "hot"): always(40, memory_temperature_celsius=95.0, memory_max_operating_temperature_celsius=95.0),
    ("power_brake", "warn"): grows("power_brake_slowdown_seconds_total", 1.5, 12),
    ("power_brake", "crit"): always(60, 15.0, clocks_event_reasons=0x88),
    ("hw_slowdown", "warn"): always(200, clocks_event_reasons=0x8, gpu_utilization_ratio=0.5),
    ("hw_slowdown", "info"): grows("reliability_violation_seconds_total", 0.01, 12),
    ("pcie_replay", "warn"): grows("pcie_replays_total", 10.0, 30),
    ("pcie_replay", "crit"): grows("pcie_replays_total", 1000.0, 60),
    ("pcie_link", "info"): always(70, **link(pcie_link_width=8.0), **LOADED),
    ("pcie_link", "warn"): then({**link(), **LOADED}, {**link(pcie_link_width=8.0), **LOADED}, 70),
    ("pcie_link", "crit"): then({**link(), **LOADED}, {**link(pcie_link_width=4.0), **LOADED}, 70),
    ("nvlink_errors", "warn"): grows("nvlink_crc_errors_total", 1.0, 8),
    ("nvlink_errors", "crit"): grows("nvlink_crc_errors_total", 2000.0, 8),
    ("nvlink_errors", "info"): Way(lambda _: {}, 3, 1.0, Extras(nvlink_counters=recovered(99.0))),
    ("nvlink_fault", "info"): then({"xid_last_code": 0.0}, {"xid_last_code": 147.0}),
    ("nvlink_fault", "warn"): then({"xid_last_code": 0.0}, {"xid_last_code": 145.0}),
    ("nvlink_fault", "crit"): then({"xid_last_code": 0.0}, {"xid_last_code": 150.0}),
    ("fabric_link", "warn"): always(330, fabric_manager_status=2.0),
    ("fabric_link", "crit"): always(70, fabric_health_mask=float(0b01 << 4)),
    ("dcgm_health", "info"): Way(lambda _: {}, 23, 15.0, Extras(health_watches=((("POWER", ""), 10.0),))),
    ("dcgm_health", "warn"): Way(lambda _: {}, 23, 15.0, Extras(health_watches=((("PMU", ""), 20.0),))),
    ("nvlink_down", "crit"): Way(
        lambda _: {}, 70, 1.0, Extras(nvlink_states=tuple([(link, float(link > 1)) for link in range(18)]))
    ),
    ("c2c_errors", "warn"): grows("c2c_replay_errors_total", 1.0, 8),
    ("c2c_errors", "crit"): grows("c2c_crc_errors_total", 2000.0, 8),
    ("imex", "warn"): then({"imex_daemon_status": 5.0}, {"imex_daemon_status": 2.0}, 70),
    ("dcgm_diag", "info"): always(diag_pcie_result=2.0, diag_memory_result=0.0),
    ("dcgm_diag", "warn"): always(diag_pcie_result=2.0, diag_memory_result=3.0),
    ("config_drift", "info"): always(persistence_mode=0.0),
    ("config_drift", "warn"): always(ecc_mode=1.0, ecc_mode_pending=0.0),
    ("hot_idle", "warn"): always(140, 15.0, temperature_celsius=72.0, gpu_utilization_ratio=0.0),
    ("smoothing_wear", "warn"): always(power_smoothing_lifetime_remaining_ratio=0.1),
    ("smoothing_wear", "crit"): then(
        {"power_smoothing_lifetime_remaining_ratio": 0.01}, {"power_smoothing_lifetime_remaining_ratio": 0.0}
    ),
}


@pytest.mark.parametrize(("id_", "state"), WAYS)
def test_every_state_can_be_reached(id_: str, state: str) -> None:
    way = WAYS[id_, state]
    sim = Sim(interval=way.interval, devices=[GPU, OTHER])
    sim.owners = {0: way.owners}
    for k in range(way.samples):
        tick = sim.tick(way.values(k), {"temperature_celsius": 40.0}, extras=way.extras)
    check = tick.healths[0].check(id_)
    assert check.state == state
    assert check.applies
    assert check.message
    assert check.evidence
    assert "{" not in check.remedy
    assert len(check.remedy) > 30
    assert dict(tick.healths[0].events)[id_] >= 1
    assert check.since is not None


def test_the_ways_are_all_there_are() -> None:
    reachable = {(check.id, state) for check in CHECKS for state in check.states}
    assert reachable <= set(WAYS)


@pytest.mark.parametrize(
    ("quantity", "state"), [("inforom_valid", "warn"), ("ecc_mode", "warn"), ("persistence_mode", "info")]
)
def test_a_setting_is_unexpected_only_while_it_is_off(quantity: str, state: str) -> None:
    assert [Sim().check("config_drift", **{quantity: value}).state for value in (0.0, 1.0)] == [state, "ok"]


def test_checks_of_a_vgpu_guest() -> None:
    guest = {check.id for check in CHECKS if check.guest}
    assert guest == {"gpu_lost", "telemetry", "xid_critical", "xid_warning", "xid_repeat", "nvlink_fault"}


@pytest.mark.parametrize("seconds", [4.0, 11.0, 61.0, 3600.0])
def test_a_late_sample_is_no_problem_of_the_gpu(seconds: float) -> None:
    sim = Sim()
    sim.health(temperature_celsius=40.0, row_remap_failure=0.0)
    health = sim.health(after=seconds, temperature_celsius=40.0, row_remap_failure=0.0)
    assert (health.state, health.check("telemetry").state) == ("ok", "ok")


def test_the_table_is_complete_as_documentation() -> None:
    assert len(CHECKS) == 33
    assert len(BY_ID) == 33
    for check in CHECKS:
        assert check.title, check.id
        assert check.rule, check.id
        assert check.source, check.id
        assert len(check.remedy) > 30, check.id
        assert check.states, check.id
        assert set(check.states) <= set(SEVERITY) - {"unknown", "ok"}
        for state in check.states:
            assert state in check.rule, f"{check.id} does not say when it is {state}"


def test_the_thresholds_and_times_are_those_of_the_health_document() -> None:
    document = (Path(__file__).parents[3] / "docs/health.md").read_text()
    sections = {section.split("\n", 1)[0]: section for section in document.split("\n### ")}
    for check in CHECKS:
        for rule in check.rules:
            assert rule.sentence in sections[check.id], rule.sentence
        assert ("Only where present" in sections[check.id]) is check.optional, check.id


def test_inputs_are_readings_or_known_to_the_engine() -> None:
    for check in CHECKS:
        for name in (*check.inputs, *check.unless, *([check.superseded_by] if check.superseded_by else [])):
            assert name in POSITION or name in NOT_READINGS, f"{check.id}: {name}"


def test_levels_come_the_mildest_first() -> None:
    for check in CHECKS:
        for rule in check.rules:
            severities = [SEVERITY[state] for state in rule.levels]
            thresholds = [threshold * (-1 if rule.below else 1) for threshold in rule.levels.values()]
            assert severities == sorted(severities)
            assert thresholds == sorted(thresholds)


RULES = [rule for check in CHECKS for rule in check.rules]


def test_rules_have_the_properties_of_the_table() -> None:
    heat = {"hardware_thermal_ratio": 0x40, "software_thermal_ratio": 0x20, "thermal_violation_ratio": 0}
    brake = {"power_brake_ratio": 0x80, "power_brake_long_ratio": 0x80}
    slow = {"hardware_slowdown_ratio": 0x10000, "board_limit_ratio": 0}
    loaded = [("pcie_load", "eq", 1)]
    lifetime = {"remapped_rows_uncorrectable_step", "ecc_dbe_aggregate_step", "retired_pages_dbe_step"}
    nvlink = {"replay_errors", "recovery_errors", "receive_errors", "link_recoveries", "link_recoveries_failed"}
    above = ("above_max_operating", "above_slowdown", "above_memory_max", "temperature_margin", "temperature")
    assert {rule.name for rule in RULES if isinstance(rule, Increase) and rule.lifetime} == lifetime
    assert {rule.name for rule in RULES if rule.counts_events} == {
        "xid",
        *lifetime,
        *(f"nvlink_{name}_step" for name in nvlink),
        "c2c_repeated_replay_errors_step",
    }
    assert {rule.name: rule.bits for rule in RULES if isinstance(rule, Duty)} == {**heat, **brake, **slow}
    assert {rule.name for rule in RULES if isinstance(rule, Duty) and rule.uncertain} == {
        "thermal_violation_ratio",
        "board_limit_ratio",
    }
    assert {rule.name: rule.clear_share for rule in RULES if rule.clear_share} == dict.fromkeys(
        (*heat, *brake, *slow), 0.5
    )
    assert {rule.name: rule.release for rule in RULES if rule.release} == dict.fromkeys(
        ("polls_missed", *heat, *brake, *slow), 60
    )
    minutes, hour, day, week = 600, 3600, 86_400, 604_800
    of_reset = ("recovery_action", "ecc_dbe_volatile_total", "row_remap_pending", "retired_pages_pending")
    of_board = (
        *("memory_unrepairable", "ecc_sram_threshold_exceeded", "row_remap_failure", "remap_banks_no_spares"),
        *("remapped_rows_uncorrectable", "retired_pages"),
    )
    assert {rule.name: (rule.lasts, rule.ends_with_reset) for rule in RULES if rule.lasts} == {
        **dict.fromkeys((*of_reset, "ecc_dbe_aggregate_step", "remapped_rows_uncorrectable_step"), (day, True)),
        **dict.fromkeys(of_board, (day, False)),
        "retired_pages_dbe_step": (week, False),
        **dict.fromkeys([f"nvlink_{name}_step" for name in nvlink], (minutes, True)),
        "c2c_repeated_replay_errors_step": (minutes, True),
    }
    assert {rule.choose: dict(rule.keep) for rule in RULES if isinstance(rule, XidRule)} == {
        79: {"crit": 60},
        "critical": {"crit": day},
        "warning": {"info": minutes, "warn": hour},
        "repeated": {"info": day, "warn": day},
        92: {"warn": hour},
        "nvlink": {"info": minutes, "warn": hour, "crit": day},
    }
    assert {rule.name: rule.clear for rule in RULES if rule.clear} == dict.fromkeys(
        [f"{name}_celsius" for name in above], 3
    )
    assert {
        rule.name: [(when.quantity, when.compare.__name__, when.value) for when in rule.when]
        for rule in RULES
        if rule.when
    } == {
        "retired_pages_dbe_step": [("retired_pages_dbe_total", "gt", 15)],
        "pcie_width_ratio": loaded,
        "pcie_generation_ratio": loaded,
        "temperature_celsius": [("gpu_activity_ratio", "lt", 0.1)],
    }
    assert {check.id for check in CHECKS if check.optional} == {
        "smoothing_wear",
        "config_drift",
        "hot_idle",
        "c2c_errors",
        "imex",
        "dcgm_diag",
    }


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.levels], ids=lambda rule: rule.name)
def test_a_level_is_reached_at_its_threshold_and_kept_within_its_margin(rule: Rule) -> None:
    worse = -1.0 if rule.below else 1.0
    for state, at in rule.levels.items():
        severity, margin = SEVERITY[state], rule.clear + abs(at) * rule.clear_share
        assert rule.severities(RuleState(), at)[0] == severity
        assert rule.severities(RuleState(), at + worse * 1e-9 * max(abs(at), 1e-3))[0] >= severity
        milder = rule.severities(RuleState(), at - worse * 1e-9 * max(abs(at), 1e-3))
        assert milder[0] < severity
        assert (milder[1] >= severity) is (margin > 0.0)
        assert rule.severities(RuleState(), at - worse * margin * 0.999)[1] >= severity
        assert rule.severities(RuleState(), at - worse * (margin * 1.001 + 1e-9 * abs(at) + 1e-15))[1] < severity


def test_a_sentence_names_the_window_and_the_margin_of_its_rule() -> None:
    for check in CHECKS:
        for rule in check.rules:
            if isinstance(rule, (Increase, Duty)):
                assert in_words(rule.window) in rule.sentence
                assert "2.5 h" in replace(rule, window=9000.0).sentence
            if rule.clear:
                assert "cleared 7 °C cooler" in replace(rule, clear=7.0).sentence


def test_replaced_rows_count_only_above_their_peak() -> None:
    sim = Sim()
    values = [5.0, 3.0, 4.0, 6.0]
    states = [sim.check("row_remap_growth", remapped_rows_uncorrectable_total=value).state for value in values]
    assert states[1:] == ["ok", "ok", "warn"]
