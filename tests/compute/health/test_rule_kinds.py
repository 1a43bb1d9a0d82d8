"""The kinds of rules and their measures."""

from __future__ import annotations

from operator import eq

import pytest

from pulsed.compute.health.checks import BY_ID
from pulsed.compute.health.inputs import GpuInputs
from pulsed.compute.health.measures import pcie_replay_limit
from pulsed.compute.health.rule import Rule, RuleState, When, difference, distance, ratio, total
from pulsed.compute.health.rule_kinds import Codes, Duty
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.health.windows import DutyCounter
from pulsed.model.clocks import GpuSeconds
from pulsed.model.tick import Extras
from tests.compute.health.sim import Sim, give


@pytest.mark.parametrize(
    ("generation", "width", "limit"),
    [(1, 16, 3), (2, 16, 5), (3, 16, 8), (4, 16, 16), (5, 16, 31), (6, 16, 62), (7, 8, 31), (3, 1, 1), (4, 8, 8)],
)
def test_replays_per_minute_that_a_link_may_have(generation: int, width: int, limit: int) -> None:
    for replays, state in ((limit, "ok"), (limit + 1, "warn")):
        sim = Sim(interval=10.0)
        link = {"pcie_link_generation_max": float(generation), "pcie_link_width": float(width)}
        sim.health(pcie_replays_total=0.0, **link)
        found = set()
        for k in range(1, 21):
            per_minute = replays * k / 6
            found.add(sim.check("pcie_replay", pcie_replays_total=per_minute, **link).state)
        assert ("warn" in found) is (state == "warn"), (replays, found)


@pytest.mark.parametrize(
    ("watch", "result", "state"),
    [
        ("MEM", 0.0, "ok"),
        ("MEM", 10.0, "warn"),
        ("MEM", 19.0, "warn"),
        ("MEM", 20.0, "warn"),
        ("Power", 10.0, "info"),
        ("POWER", 20.0, "warn"),
    ],
)
def test_results_of_dcgms_watches(watch: str, result: float, state: str) -> None:
    extras, sim = Extras(health_watches=((("SM", ""), 0.0), ((watch, ""), result))), Sim(interval=30.0)
    assert sim.run(300, "dcgm_health", extras, temperature_celsius=40.0).state == "ok"
    assert sim.check("dcgm_health", extras, temperature_celsius=40.0).state == state


@pytest.mark.parametrize(
    ("reason", "check", "state"), [("hw_thermal", "thermal_hw", "hot"), ("hw_power_brake", "power_brake", "warn")]
)
def test_counts_of_clock_events_stand_in_for_a_blank_mask(reason: str, check: str, state: str) -> None:
    sim, cut = Sim(interval=30.0), Extras(clock_events=((reason, 3.0),))
    assert sim.run(150, check, cut, clocks_event_reasons=0.0, temperature_celsius=40.0).state == "ok"
    assert sim.run(150, check, cut, temperature_celsius=40.0).state == state


def test_an_unknown_link_is_of_generation_5_with_16_lanes() -> None:
    inputs = GpuInputs()
    assert pcie_replay_limit(inputs) == 31.0


@pytest.mark.parametrize(
    ("mask", "faults"),
    [
        *[(value << shift, int(value == 1)) for shift in (0, 2, 4, 6) for value in range(4)],
        *[(value << 8, int(value >= 2)) for value in range(16)],
        *[(0b01010101, 4), (0x1000, 0), (0x1001, 1), (0x255, 5)],
    ],
)
def test_faults_of_the_fabrics_health_mask(mask: int, faults: int) -> None:
    (rule,) = (rule for rule in BY_ID["fabric_link"].rules if rule.name == "fabric_health_mask")
    inputs = GpuInputs()
    give(inputs, fabric_health_mask=float(mask))
    assert rule.by(rule, RuleState(), inputs) == faults


def test_a_disabled_check_does_not_stand_in_for_a_watch_of_dcgm() -> None:
    extras, braked = Extras(health_watches=((("POWER", ""), 10.0),)), {"power_brake_slowdown_seconds_total": 1.0}
    for disabled, state in ((frozenset[str](), "ok"), (frozenset({"power_brake"}), "info")):
        sim = Sim(HealthSettings(disabled=disabled), interval=30.0)
        assert sim.run(330, "dcgm_health", extras, **braked).state == state


def test_evidence_of_results_of_dcgm() -> None:
    power = Sim(interval=30.0).run(330, "dcgm_health", Extras(health_watches=((("POWER", ""), 10.0),)))
    assert dict(power.evidence)["dcgm_health_result"] == 5.0
    quiet = Sim().check("dcgm_health", Extras(health_watches=((("MEM", ""), 0.0),)), row_remap_failure=0.0)
    assert dict(quiet.evidence)["dcgm_health_result"] == 0.0


@pytest.mark.parametrize(
    ("values", "evidence"),
    [
        ({"max_operating_temperature_celsius": 80.0}, {"max_operating_temperature_celsius": 80.0}),
        ({}, {"max_operating_temperature_celsius": 87.0, "limit_from_table": 1.0}),
    ],
)
def test_evidence_names_a_limit_of_the_model(values: dict[str, float], evidence: dict[str, float]) -> None:
    check = Sim().run(40, "temp_gpu", temperature_celsius=88.0, **values)
    assert check.state == "hot"
    excess = 88.0 - evidence["max_operating_temperature_celsius"]
    assert dict(check.evidence) == {"above_max_operating_celsius": excess, "temperature_celsius": 88.0, **evidence}


@pytest.mark.parametrize(
    ("values", "measure"),
    [((2.0, 8.0), -6.0), ((8.0, 2.0), 6.0), ((None, 2.0), None), ((2.0, None), None), ((2.0, 2.0), 0.0)],
)
def test_the_difference_of_two_inputs(values: tuple[float | None, float | None], measure: float | None) -> None:
    inputs = GpuInputs("NVIDIA L40S")
    give(inputs, ecc_mode=values[0], ecc_mode_pending=values[1])
    rule = Rule("change", {"warn": 1}, "", ("ecc_mode", "ecc_mode_pending"), by=difference)
    assert difference(rule, RuleState(), inputs) == measure
    assert distance(rule, RuleState(), inputs) == (None if measure is None else abs(measure))
    assert total(rule, RuleState(), inputs) == (None if None in values else sum(filter(None, values)))
    assert ratio(rule, RuleState(), inputs) == (None if None in values else values[0] / values[1])  # type: ignore[operator]


def test_a_ratio_to_0_is_unknown() -> None:
    inputs = GpuInputs()
    give(inputs, ecc_mode=1.0, ecc_mode_pending=0.0)
    assert ratio(Rule("ratio", {}, "", ("ecc_mode", "ecc_mode_pending")), RuleState(), inputs) is None


def test_codes_beyond_the_table_have_a_state_of_their_own() -> None:
    rule = Codes("recovery_action", codes={"warn": (2,), "crit": (4, 5)}, beyond="info")
    assert rule.states == ("warn", "crit", "info")
    assert [rule.severities(RuleState(), code)[0] for code in (0.0, 2.0, 3.0, 4.0, 5.0, 6.0)] == [0, 2, 0, 4, 4, 1]


@pytest.mark.parametrize(
    ("celsius", "state", "held"),
    [(49.0, 0.0, 0), (50.0, 0.0, 1), (50.0, 8.0, 0), (50.0, None, -1), (49.0, None, 0), (None, 0.0, -1)],
)
def test_a_condition_lowers_any_severity_and_is_needed_from_a_level_on(
    celsius: float | None, state: float | None, held: int
) -> None:
    rule = Rule("temperature_celsius", {"info": 50}, when=(When("performance_state", eq, 0),))
    inputs, rule_state = GpuInputs(), RuleState()
    given = {"temperature_celsius": celsius, "performance_state": state}
    give(inputs, **given)
    rule.evaluate(rule_state, inputs, GpuSeconds(1.0))
    assert rule_state.severity == held
    assert dict(rule.evidence(rule_state, inputs)) == {name: each for name, each in given.items() if each is not None}


def follow(counter: DutyCounter, *samples: tuple[float, float | None], window: float = 10.0) -> list[float | None]:
    shares = []
    for now, value in samples:
        counter.update(value, GpuSeconds(now), window)
        shares.append(counter.share)
    return shares


def test_the_share_is_the_growth_within_the_window() -> None:
    assert follow(DutyCounter(), (0, 5.0), (5, 6.0), (10, 8.0), (15, 8.0), (20, 8.0)) == [None, None, 0.3, 0.2, 0.0]


def test_a_young_counter_is_measured_against_the_whole_window() -> None:
    assert follow(DutyCounter(), (0, 0.0), (1, 1.0), (2, 2.0))[-1] == 0.2


def test_rare_samples_extend_the_window() -> None:
    assert follow(DutyCounter(), (0, 0.0), (30, 0.0), (60, 15.0), (90, 15.0))[2:] == [0.25, 0.25]


@pytest.mark.parametrize("value", [None, 1.0])
def test_a_missing_or_lower_value_restarts_it(value: float | None) -> None:
    counter = DutyCounter()
    shares = follow(counter, (0, 5.0), (1, 5.0), (2, 5.0), (3, value), (4, 5.0), (5, 5.0))
    assert shares[2:5] == [0.0, None, None]
    assert len(counter.points) == (2 if value is None else 3)


@pytest.mark.parametrize(("growth", "is_proven"), [(0.0, False), (2e-3, False), (2.1e-3, True), (0.5, True)])
def test_growth_beyond_microseconds_proves_the_unit(growth: float, is_proven: bool) -> None:
    counter = DutyCounter()
    start = 1e5
    follow(counter, (start, 0.0), (start + 1, growth), (start + 1, growth + 1.0))  # the last one covers no time
    assert counter.is_proven is is_proven


def measures(rule: Duty, *samples: tuple[float | None, float | None]) -> list[float | None]:
    """Return the measure after each sample, one per 10 s: of the first counter, and the mask of reasons."""
    state, inputs, found = RuleState(), GpuInputs(), []
    for number, (value, mask) in enumerate(samples):
        give(inputs, **dict.fromkeys(rule.inputs[:1], value), clocks_event_reasons=mask)
        inputs.clock_events.update(mask, False, 10.0, GpuSeconds(number * 10.0))
        rule.observe(state, inputs, GpuSeconds(number * 10.0))
        found.append(rule.by(rule, state, inputs))
    return found


COUNTER = "hardware_thermal_slowdown_seconds_total"


def test_a_counter_comes_before_the_mask_of_reasons() -> None:
    rule = Duty("share", {"hot": 0.05}, "heat", (COUNTER,), bits=0x40, window=20.0)
    assert measures(rule, *[(5.0, 64.0)] * 4) == [None, None, 0.0, 0.0]
    assert measures(rule, *[(None, 64.0)] * 4) == [None, None, 1.0, 1.0]
    assert measures(rule, (0.0, 0.0), (10.0, 0.0), (20.0, 0.0), (35.0, 0.0)) == [None, None, 1.0, 1.0], "no more than 1"


def test_a_counter_that_was_absent_starts_again() -> None:
    rule = Duty("share", {"hot": 0.05}, "heat", (COUNTER,), window=20.0)
    assert measures(
        rule, *[(float(k), 64.0) for k in range(3)], (None, 64.0), (9.0, 64.0), (9.0, 64.0), (9.0, 0.0)
    ) == [*(None, None, 0.1, None, None, None, 0.0)]


@pytest.mark.parametrize("bits", [0, 0x40])
def test_the_mask_counts_only_for_rules_with_bits_and_while_it_is_there(bits: int) -> None:
    rule = Duty("share", {"hot": 0.05}, "heat", (), bits=bits, window=20.0)
    share = 1.0 if bits else None
    assert measures(rule, *[(None, 64.0)] * 4, (None, None)) == [None, None, share, share, None]


def test_the_largest_share_of_several_counters_counts() -> None:
    inputs = (COUNTER, "power_brake_slowdown_seconds_total")
    rule = Duty("share", {"hot": 0.05}, "heat", inputs, window=20.0)
    state, facts = RuleState(), GpuInputs()
    for now in (0.0, 10.0, 20.0):
        give(facts, hardware_thermal_slowdown_seconds_total=now / 4, power_brake_slowdown_seconds_total=now / 2)
        rule.observe(state, facts, GpuSeconds(now))
        found = rule.by(rule, state, facts)
    assert found == 0.5


def test_times_of_rules_about_duty() -> None:
    rule = Duty("share", {"hot": 0.05}, "heat")
    assert (rule.window, rule.enter, rule.hold, rule.release, rule.clear_share) == (60.0, 60.0, 300.0, 60.0, 0.5)
    assert (rule.bits, rule.uncertain, rule.below, rule.counts_events) == (0, False, False, False)


def test_growth_of_an_unproven_unit_is_info() -> None:
    rule = Duty("share", {"hot": 0.05}, "heat", ("thermal_violation_seconds_total",), uncertain=True)
    state, inputs = RuleState(), GpuInputs()
    for number, value in enumerate([5.0] * 10 + [5.0 + 1e-3 * step for step in range(20)]):
        give(inputs, thermal_violation_seconds_total=value)
        inputs.measured_at = GpuSeconds(number * 10.0)
        rule.observe(state, inputs, GpuSeconds(number * 10.0))
        rule.evaluate(state, inputs, GpuSeconds(number * 10.0))
    assert state.severity == 1
