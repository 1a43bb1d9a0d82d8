"""Health of one GPU over time: which rules a sample concerns, and what is remembered."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from pulsed.compute.health.checks import CHECKS
from pulsed.compute.health.dcgm_rule import DcgmResult, LinkOutlier, LinksDown
from pulsed.compute.health.gpu import Reachability
from pulsed.compute.health.plan import GpuRules
from pulsed.compute.health.rule import OK, Rule, RuleState
from pulsed.compute.health.rule_kinds import Duty, Increase, Level
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.health.xid_rule import XidRule
from pulsed.compute.sample import InputState
from pulsed.model.canonical_tick import Extras
from pulsed.model.health import Health
from pulsed.model.raw_tick import Epoch, Layout
from pulsed.model.vocabulary import NOTHING, Reading
from tests.compute.health.sim import GPU, OTHER, Sim

RULES = [rule for check in CHECKS for rule in check.rules]
ALL = {rule.name for rule in RULES}
DUTIES = {rule.name for rule in RULES if isinstance(rule, Duty)}
INCREASES = {rule.name for rule in RULES if isinstance(rule, Increase)}
REPLAYS = {"pcie_replays_over_limit", "pcie_replays_long_over_limit"}
XIDS = {"xid"}

STEADY: Mapping[str, float | None] = {
    "temperature_celsius": 60.0,
    "temperature_margin_celsius": 27.0,
    "power_watts": 300.0,
    "gpu_utilization_ratio": 0.5,
    "clocks_event_reasons": 0.0,
    "xid_last_code": 0.0,
    "pcie_replays_total": 5.0,
    "row_remap_pending": 0.0,
    "performance_state": 0.0,
}
"""Of a healthy GPU."""


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the rules that were evaluated."""
    names: list[str] = []

    def recording(measure: Callable[..., float | None]) -> Callable[..., float | None]:
        def record(rule: Rule, state: RuleState, *arguments: object) -> float | None:
            names.append(rule.name)
            return measure(rule, state, *arguments)

        return record

    for kind in (Level, Increase, Duty, XidRule, DcgmResult, LinkOutlier, LinksDown):
        monkeypatch.setattr(kind, "measure", recording(kind.measure))
    return names


def settled(measured: list[str], **values: float | None) -> Sim:
    """Return a node after samples until no rule is due but those of a complete part of five seconds."""
    sim = Sim()
    for _ in range(7):
        sim.health(**{**STEADY, **values})
    measured.clear()
    return sim


def test_the_first_sample_evaluates_every_rule_once(measured: list[str]) -> None:
    sim = Sim()
    sim.health(**STEADY)
    assert sorted(measured) == sorted([rule.name for rule in RULES])


def test_a_sample_without_a_change_evaluates_nothing(measured: list[str]) -> None:
    sim = settled(measured)
    for number in range(1, 4):
        sim.health(**{**STEADY, "power_watts": 300.0 + number, "sm_clock_hertz": 1e9})
    sim.health(**STEADY)
    assert measured == [], "nor does a part that is complete while no clock was reduced"


@pytest.mark.parametrize("moved", [{"clocks_event_reasons": 64.0}, {"thermal_violation_seconds_total": 2.0}])
def test_shares_of_time_are_evaluated_for_a_part_with_reduced_clocks(
    measured: list[str], moved: dict[str, float]
) -> None:
    sim = settled(measured, thermal_violation_seconds_total=1.0)
    for _ in range(30):
        sim.health(**STEADY, thermal_violation_seconds_total=1.0)
    measured.clear()
    for _ in range(5):
        sim.health(**{**STEADY, "thermal_violation_seconds_total": 1.0, **moved})
    assert set(measured) == DUTIES


@pytest.mark.slow
@pytest.mark.parametrize("interval", [0.5, 1.0, 5.0, 15.0, 70.0])
@pytest.mark.parametrize("seed", range(4))
def test_skipped_shares_of_time_change_nothing(monkeypatch: pytest.MonkeyPatch, interval: float, seed: int) -> None:
    """Counters that stand still for minutes, move, fall and disappear; bits, gaps and changes of the owner's load."""
    names = [
        "thermal_violation_seconds_total",
        "power_brake_slowdown_seconds_total",
        "board_limit_violation_seconds_total",
    ]

    phase = max(60, round(200.0 / interval))

    def run() -> list[Health]:
        rng, sim, counters = random.Random(seed), Sim(interval=interval), dict.fromkeys(names, 3.0)
        mask: float | None = 0.0
        found = []
        for number in range(6 * phase):
            chance, is_calm = rng.random(), number // phase % 2 == 0
            after = interval * rng.choice([4.0, 50.0]) if chance < 0.01 else interval
            if chance > (0.98 if is_calm else 0.3):
                name = rng.choice(names[: 1 + number // (2 * phase)])
                counters[name] = 0.0 if chance > 0.995 else counters[name] + rng.random() * interval
            if 0.1 < chance < 0.15:
                mask = rng.choice([None, 0.0, 1.0, 4.0] if is_calm else [8.0, 64.0, 0.0])
            hidden = names[0] if chance < 0.03 else None
            shown = {name: value for name, value in counters.items() if name != hidden}
            moving = {"temperature_celsius": rng.choice([30.0, 60.0]), "gpu_utilization_ratio": rng.choice([0.0, 0.9])}
            found.append(sim.health(after=after, **{**STEADY, "clocks_event_reasons": mask, **moving, **shown}))
        return found

    skipping = run()
    monkeypatch.setattr(
        GpuRules, "take_part", lambda rules, *_: setattr(rules, "pending", rules.pending | rules.plan.on_parts)
    )
    assert skipping == run()
    assert {check.severity for health in skipping for check in health.checks} >= {-1, 0, 2}


@pytest.mark.parametrize("seed", range(4))
def test_states_that_gpus_share_change_nothing(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """All inputs of rules about one sample, harmless and not, present and missing, with gaps between them."""
    inputs = sorted({name for rule in RULES if isinstance(rule, Level) for name in rule.inputs} & set(Reading._fields))
    values = [None, 0.0, 0.0, 0.0, 0.5, 1.0, 1.0, 2.0, 16.0, 60.0, 95.0, 300.0]

    def run() -> list[Health]:
        rng, sim, shown = random.Random(seed), Sim(), dict[str, float | None](STEADY)
        found = []
        for _ in range(600):
            shown |= {rng.choice(inputs): rng.choice(values) for _ in range(rng.choice([0, 1, 1, 3]))}
            found.append(sim.health(after=rng.choice([1.0, 1.0, 1.0, 60.0, 900.0]), **shown))
        return found

    sharing = run()
    monkeypatch.setattr(RuleState, "settled", lambda state, _: state)
    assert sharing == run()
    assert {check.severity for health in sharing for check in health.checks} >= {-1, 0, 1, 2, 4}


def test_rules_that_are_ok_share_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: dict[str, bool] = {}
    settled_state = RuleState.settled

    def recording(state: RuleState, rule: Rule) -> RuleState:
        found = settled_state(state, rule)
        shared[rule.name] = found is OK
        return found

    monkeypatch.setattr(RuleState, "settled", recording)
    Sim().health(**STEADY)
    assert {"temperature_margin_celsius", "row_remap_pending", "xid"} <= {
        name for name, is_ok in shared.items() if is_ok
    }
    assert not any(shared[name] for name in {*INCREASES, *DUTIES}), "they remember values of counters"


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        (
            {"temperature_celsius": 61.0},
            {"above_max_operating_celsius", "above_slowdown_celsius", "temperature_celsius"},
        ),
        ({"temperature_margin_celsius": 26.0}, {"temperature_margin_celsius"}),
        ({"clocks_event_reasons": 4.0}, set()),
        ({"xid_last_code": 45.0}, XIDS),
        ({"pcie_replays_total": 6.0}, {*REPLAYS, "dcgm_health_result"}),
        ({"row_remap_pending": 1.0}, {"row_remap_pending", "dcgm_health_result"}),
        ({"performance_state": 2.0}, {"pcie_width_ratio", "pcie_generation_ratio"}),
        ({"gpu_utilization_ratio": 0.9}, set()),
        ({"gpu_utilization_ratio": 0.11}, set()),
        ({"gpu_utilization_ratio": 0.099}, {"pcie_width_ratio", "pcie_generation_ratio", "temperature_celsius"}),
        ({"gpu_utilization_ratio": 0.0}, {"pcie_width_ratio", "pcie_generation_ratio", "temperature_celsius"}),
        ({"row_remap_pending": None}, ALL - DUTIES),
        ({"ecc_mode": 1.0}, ALL - DUTIES),
        ({"clocks_event_reasons": None}, ALL),
        ({"energy_joules_total": 7.0}, set()),
    ],
)
def test_a_change_evaluates_the_rules_that_depend_on_it(
    measured: list[str], changes: dict[str, float | None], names: set[str]
) -> None:
    sim = settled(measured)
    sim.health(**{**STEADY, **changes})
    assert set(measured) == names


def test_results_of_dcgm_and_counts_of_xids_evaluate_their_rules(measured: list[str]) -> None:
    sim = settled(measured)
    sim.health(Extras(health_watches=()), **STEADY)
    assert set(measured) == {"dcgm_health_result", "nvlinks_down", "nvlink_recoveries_of_one_link", *XIDS}
    measured.clear()
    sim.health(Extras(health_watches=()), **STEADY)
    assert measured == []


def test_a_gap_evaluates_duty_and_increases(measured: list[str]) -> None:
    sim = settled(measured)
    sim.health(after=60.0, **STEADY)
    assert set(measured) == {*DUTIES, *INCREASES}


def test_another_model_evaluates_everything_and_a_new_driver_the_xids(measured: list[str]) -> None:
    sim = settled(measured)
    sim.tick(STEADY, devices=[replace(GPU, driver_version="550.1")])
    sim.tick(STEADY, devices=[replace(GPU, driver_version="")])
    assert measured == [], "the first version that is known is no change"
    sim.tick(STEADY, devices=[replace(GPU, driver_version="560.1")])
    assert set(measured) == XIDS
    sim = settled(measured)
    sim.tick(STEADY, devices=[replace(GPU, model="NVIDIA H200")])
    assert set(measured) == ALL


def test_a_level_that_is_reached_is_evaluated_when_it_is_due(measured: list[str]) -> None:
    sim, found = settled(measured), []
    for number in range(12):
        sim.health(**{**STEADY, "temperature_margin_celsius": 4.0})
        if set(measured) - DUTIES:
            found.append((number, set(measured) - DUTIES))
        measured.clear()
    assert found == [
        (0, {"temperature_margin_celsius"}),
        (10, {"temperature_margin_celsius", "dcgm_health_result"}),
    ]


def test_the_clock_of_a_gpu_starts_at_0_and_continues_over_a_restart() -> None:
    def saved() -> Mapping[str, float]:
        document = sim.health_evaluator.dump()
        gpus = document["gpus"]
        assert isinstance(gpus, dict)
        return next(iter(gpus.values()))

    sim = Sim()
    sim.health(**STEADY)
    assert (saved()["now"], saved()["saved"]) == (0.0, sim.time)
    for _ in range(5):
        sim.health(**STEADY)
    assert saved()["now"] == 5.0
    sim.restart(down=10.0)
    sim.health(**STEADY)
    assert saved()["now"] == 16.0
    sim.health(**STEADY)
    assert saved()["now"] == 17.0


def test_what_must_survive_a_restart_changes_the_number_of_latches() -> None:
    sim = Sim()

    def latched(**values: float | None) -> int:
        sim.health(**{**STEADY, **values})
        (number,) = sim.health_evaluator.latched.values()
        return number

    start = [latched() for _ in range(7)][-1]
    steps = []
    for values in ({}, {"xid_last_code": 45.0}, {"xid_last_code": 0.0}, {"row_remap_pending": 1.0}, {}, {}):
        before, start = start, latched(**values)
        steps.append(start - before)
    assert steps == [0, 1, 0, 1, 1, 0]
    for boot_id, step in (("a", 1), ("a", 0), ("b", 2), ("", 0), ("b", 0)):
        sim.epoch = Epoch(boot=boot_id)
        before, start = start, latched()
        assert start - before == step, boot_id


def test_a_gpu_without_any_input_ever_is_not_blank() -> None:
    sim = Sim(devices=[GPU, OTHER])
    for _ in range(60):
        tick = sim.tick({}, STEADY)
    telemetry = tick.healths[0].check("telemetry")
    assert (telemetry.state, tick.healths[0].state) == ("ok", "unknown")


@pytest.mark.parametrize(("left", "state"), [(1, "warn"), (2, "warn"), (3, "ok"), (4, "ok")])
def test_telemetry_warns_after_half_a_minute_without_half_of_the_inputs(left: int, state: str) -> None:
    names = ("row_remap_pending", "row_remap_failure", "ecc_mode", "memory_unrepairable")
    sim = Sim()
    inputs = dict.fromkeys(names, 0.0)
    vital = {"power_watts": 100.0}  # no rule depends on it
    assert sim.run(40, "telemetry", **inputs, **vital).state == "ok"
    for number in range(1, 32):
        check = sim.check("telemetry", **dict.fromkeys(names[:left], 0.0), **vital, sm_clock_hertz=float(number))
        assert check.state == (state if number == 31 else "ok")
    assert sim.run(1, "telemetry", **inputs, **vital).state == "ok"


def test_a_new_layout_of_the_source_has_other_inputs() -> None:
    sim = Sim()
    sim.run(10, "telemetry", temperature_celsius=40.0, row_remap_failure=0.0, row_remap_pending=0.0, ecc_mode=1.0)
    sim.layout = Layout("exporter", ())
    assert sim.run(60, "telemetry", temperature_celsius=40.0).state == "ok"
    assert sim.run(60, "telemetry", power_watts=40.0).state == "warn", "the one that was left"


def test_a_slowdown_counts_only_for_a_busy_gpu() -> None:
    for utilization, state in ((0.0, "ok"), (0.01, "warn")):
        sim = Sim()
        values = {**STEADY, "clocks_event_reasons": 8.0, "gpu_utilization_ratio": utilization}
        assert sim.run(130, "hw_slowdown", **values).state == state


def test_xids_of_a_configuration_without_their_checks_are_counted() -> None:
    sim = Sim(HealthSettings(disabled=frozenset({"xid_critical", "xid_warning", "xid_repeat", "gpu_lost"})))
    sim.health(**STEADY)
    assert dict(sim.health(**{**STEADY, "xid_last_code": 13.0}).xid_events)[13] == 1


def test_a_code_of_unknown_age_changes_the_number_of_latches() -> None:
    sim = Sim(HealthSettings(disabled=frozenset({"xid_warning"})))
    for _ in range(7):
        sim.health(**{**STEADY, "xid_last_code": None})
    (before,) = sim.health_evaluator.latched.values()
    health = sim.health(**{**STEADY, "xid_last_code": 79.0, "memory_used_bytes": 1e9})
    (after,) = sim.health_evaluator.latched.values()
    assert health.xid_last is not None
    assert (health.xid_last.code, health.xid_last.time) == (79, None)
    raised = [check.id for check in health.checks if check.since == sim.time]
    assert after - before == 1 + len(raised)


BLANK = Reading(ecc_mode=1.0)
"""A row without a vital value."""


def followed(*states: tuple[float, InputState, Reading], has_peers: bool = True) -> list[tuple[float | None, bool]]:
    """Take samples: seconds of the GPU's clock, state, and reading; return the polls missed, and whether it is lost."""
    reachability, found = Reachability(), []
    for now, state, reading in states:
        reachability.update(state, reading, has_peers, 1000.0 + now, now)
        found.append((reachability.polls_missed, reachability.is_lost))
    return found


def test_two_missed_polls_and_a_second_are_a_lost_gpu() -> None:
    samples = [(0.0, "present", BLANK), (0.4, "blank", NOTHING), (0.8, "blank", NOTHING), (1.0, "blank", NOTHING)]
    assert followed(*samples) == [(0.0, False), (1.0, False), (1.0, False), (2.0, True)]  # type: ignore[arg-type]
    late = [(0.0, "present", BLANK), (5.0, "blank", NOTHING), (10.0, "blank", NOTHING), (15.0, "blank", NOTHING)]
    assert followed(*late) == [(0.0, False), (1.0, False), (2.0, True), (2.0, True)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reading", "has_peers", "missed"), [(NOTHING, False, 1.0), (BLANK, True, 1.0), (BLANK, False, 0.0)]
)
def test_blank_rows_of_all_gpus_are_a_silent_source(reading: Reading, has_peers: bool, missed: float) -> None:
    assert followed((0.0, "present", BLANK), (5.0, "blank", reading), has_peers=has_peers)[-1] == (missed, False)


@pytest.mark.parametrize(("reading", "missed"), [(NOTHING, None), (BLANK, 0.0)])
def test_a_gpu_that_never_answered_is_not_lost(reading: Reading, missed: float | None) -> None:
    assert followed(*[(float(now), "blank", reading) for now in range(5)])[-1] == (missed, False)


def test_stale_inputs_are_no_proof_and_an_answer_ends_it() -> None:
    reachability = Reachability()
    found = []
    for now, state in enumerate(["present", "blank", "blank", "stale", "repeated", "blank"]):
        reachability.update(state, NOTHING, True, 1000.0 + now, float(now))  # type: ignore[arg-type]
        found.append((reachability.polls_missed, reachability.missed_since, reachability.last_seen))
    assert found == [
        (0.0, None, 1000.0),
        (1.0, 1001.0, 1000.0),
        (2.0, 1001.0, 1000.0),
        (2.0, 1001.0, 1000.0),
        (0.0, None, 1004.0),
        (1.0, 1005.0, 1004.0),
    ]


def test_a_gpu_of_an_earlier_run_needs_no_second() -> None:
    reachability = Reachability()
    reachability.expect(900.0)
    for now in (0.0, 0.1):
        reachability.update("blank", NOTHING, True, 1000.0 + now, now)
    assert (reachability.is_lost, reachability.last_seen, reachability.missed_since) == (True, 900.0, 1000.0)
