"""The state of a check from its rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsed.compute.health.check import Check, GpuCheck, check
from pulsed.compute.health.inputs import GpuInputs
from pulsed.compute.health.rule import Rule
from pulsed.compute.health.rule_kinds import step
from pulsed.model.clocks import GpuSeconds, Unix
from pulsed.model.health import CheckState
from tests.compute.health.sim import Sim, give
from tests.compute.streams import DAY

WARM = Rule("temperature_celsius", {"warn": 50, "crit": 90}, hold=5.0)
CHECK = check("warm", "Too warm", WARM, remedy="Cool it: {temperature_celsius:g} °C.", source="a test")


class Follower:
    """A check of one GPU; its clock starts at 0 when the wall clock is `DAY`."""

    def __init__(self, which: Check = CHECK) -> None:
        self.check = GpuCheck(which)
        self.inputs = GpuInputs()

    @property
    def severity(self) -> int:
        return self.check.state.severity

    def state(self, now: float = 0.0, /, *, is_guest: bool = False, **values: float | None) -> CheckState:
        """Return the state after another sample."""
        give(self.inputs, **values)
        self.inputs.measured_at = GpuSeconds(now)
        for rule, state in self.check.rules:
            rule.observe(state, self.inputs, GpuSeconds(now))
        self.check.suits = self.check.check.suits(self.inputs.model, is_guest)
        self.check.evaluate(self.inputs, Unix(DAY + now), GpuSeconds(now))
        return self.check.state


def test_by_default_a_check_applies_to_boards_only_and_always() -> None:
    assert (CHECK.guest, CHECK.optional, CHECK.unless, CHECK.superseded_by, CHECK.note) == (False, False, (), "", "")


@pytest.mark.parametrize(
    ("which", "is_guest", "values", "applies"),
    [
        (CHECK, False, {}, True),
        (replace(CHECK, optional=True), False, {}, False),
        (replace(CHECK, optional=True), False, {"temperature_celsius": 20.0}, True),
        (CHECK, True, {}, False),
        (CHECK, True, {"temperature_celsius": 20.0}, True),
        (replace(CHECK, guest=True), True, {}, True),
        (replace(CHECK, unless=("ecc_mode",)), False, {}, True),
        (replace(CHECK, unless=("ecc_mode",)), False, {"ecc_mode": 1.0}, False),
        (replace(CHECK, unless=("ecc_mode",)), False, {"ecc_mode": 1.0, "temperature_celsius": 20.0}, True),
        (replace(CHECK, unless=("persistence_mode", "ecc_mode")), False, {"ecc_mode": 1.0}, False),
    ],
)
def test_whether_a_check_applies(which: Check, is_guest: bool, values: dict[str, float | None], applies: bool) -> None:
    state = Follower(which).state(is_guest=is_guest, **values)
    assert (state.applies, state.covered) == (applies, "temperature_celsius" in values)


def test_a_superseded_check_does_not_apply_whatever_its_rules_hold() -> None:
    follower = Follower(replace(CHECK, superseded_by="temperature_margin_celsius"))
    assert follower.state(temperature_celsius=95.0).state == "crit"
    assert follower.severity == 4
    state = follower.state(1.0, temperature_celsius=95.0, temperature_margin_celsius=20.0)
    assert (state.state, state.covered, state.applies) == ("unknown", False, False)
    assert follower.severity == -1


def test_the_severity_is_that_of_the_worst_rule() -> None:
    follower = Follower(replace(CHECK, rules=(WARM, Rule("row_remap_pending", {"warn": 1}))))
    assert follower.severity == -1
    for pending, severity in ((None, -1), (0.0, 0), (1.0, 2)):
        follower.state(0.0, row_remap_pending=pending)
        assert follower.severity == follower.check.state.severity == severity
    assert follower.state(1.0, row_remap_pending=1.0, temperature_celsius=95.0).evidence == (
        ("temperature_celsius", 95.0),
    )


def test_a_state_has_its_time_evidence_and_words_while_it_is_raised() -> None:
    follower = Follower()
    assert follower.state(0.0, temperature_celsius=20.0) == CheckState(
        *("warm", "ok", Unix(DAY)), evidence=(("temperature_celsius", 20.0),), covered=True
    )
    assert follower.state(1.0, temperature_celsius=21.0).evidence == (("temperature_celsius", 20.0),), (
        "as it was entered"
    )
    raised = CheckState(
        *("warm", "warn", Unix(DAY + 2.0), None, "Too warm"),
        evidence=(("temperature_celsius", 60.0),),
        remedy="Cool it: 60 °C.",
        covered=True,
    )
    assert follower.state(2.0, temperature_celsius=60.0) == raised
    raised = replace(raised, evidence=(("temperature_celsius", 61.0),), remedy="Cool it: 61 °C.")
    assert follower.state(3.0, temperature_celsius=61.0) == raised, "with its present numbers"
    assert follower.state(4.0) == replace(raised, covered=False), "held without its inputs, with its evidence"
    again = follower.state(5.0, temperature_celsius=70.0)
    assert again == replace(raised, evidence=(("temperature_celsius", 70.0),), remedy="Cool it: 70 °C.")
    gone = follower.state(60.0)
    assert gone == CheckState("warm", "unknown", Unix(DAY + 60.0))


def test_each_time_that_a_check_is_raised_is_an_event() -> None:
    follower, events = Follower(), []
    for now, celsius in enumerate([20.0, 60.0, 95.0, 60.0, 20.0, 20.0, 20.0, 20.0, 20.0, 60.0]):
        follower.state(float(now), temperature_celsius=celsius)
        events.append(follower.check.events)
    assert events == [0, 1, 1, 1, 1, 1, 1, 1, 1, 2]
    first = Follower()
    first.state(0.0, temperature_celsius=60.0)
    assert first.check.events == 1


def test_events_that_a_rule_counts_are_not_counted_twice() -> None:
    follower = Follower(replace(CHECK, rules=(step("ecc_dbe_aggregate_total", "crit", "errors", 60.0),)))
    for now, value in enumerate([1.0, 1.0, 2.0]):
        follower.state(float(now), ecc_dbe_aggregate_total=value)
    assert (follower.check.state.state, follower.check.events) == ("crit", 1)


def test_the_last_event_is_the_newest_of_all_rules_in_unix_seconds() -> None:
    rules = tuple(step(name, "crit", "errors", 60.0) for name in ("ecc_dbe_aggregate_total", "ecc_sbe_aggregate_total"))
    follower, found = Follower(replace(CHECK, rules=rules)), []
    for now, dbe, sbe in ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (2.0, 0.0, 1.0), (5.0, 1.0, 1.0), (9.0, 1.0, 1.0)):
        found.append(follower.state(now, ecc_dbe_aggregate_total=dbe, ecc_sbe_aggregate_total=sbe).last_event)
    assert found == [None, None, DAY + 2.0, DAY + 5.0, DAY + 5.0]


@pytest.mark.parametrize(("shift", "is_moved"), [(0.25, False), (-0.25, False), (0.5, True), (-0.75, True)])
def test_a_step_of_the_wall_clock_moves_an_event_from_half_a_second_on(shift: float, is_moved: bool) -> None:
    follower = Follower(replace(CHECK, rules=(step("ecc_dbe_aggregate_total", "crit", "errors", 60.0),)))
    for now, value in enumerate([1.0, 1.0, 2.0]):
        follower.state(float(now), ecc_dbe_aggregate_total=value)
    follower.check.evaluate(follower.inputs, Unix(DAY + 3.0 + shift), GpuSeconds(3.0))
    assert follower.check.state.last_event == DAY + 2.0 + (shift if is_moved else 0.0)


def test_a_step_of_the_wall_clock_moves_the_event_of_a_check_that_is_ok_again() -> None:
    follower = Follower(replace(CHECK, rules=(step("ecc_dbe_aggregate_total", "crit", "errors", 60.0),)))
    for now, value in ((0.0, 1.0), (1.0, 1.0), (2.0, 2.0), (100.0, 2.0), (101.0, 2.0)):
        ok = follower.state(now, ecc_dbe_aggregate_total=value)
    assert (ok.state, ok.last_event) == ("ok", DAY + 2.0)
    follower.check.evaluate(follower.inputs, Unix(DAY + 107.0), GpuSeconds(102.0))
    assert follower.check.state.last_event == DAY + 7.0


@pytest.mark.parametrize(
    ("code", "check_id", "advice"),
    [
        (48, "xid_critical", "stop the jobs on this GPU and reset it"),
        (63, "xid_warning", "reset the GPU when the current jobs finish"),
        (13, "xid_warning", "restart the program that ran on this GPU"),
    ],
)
def test_words_of_a_check_about_xids(code: int, check_id: str, advice: str) -> None:
    sim = Sim()
    sim.health(xid_last_code=0.0)
    state = sim.check(check_id, xid_last_code=float(code))
    assert advice in state.remedy
    assert f": XID {code}, " in state.message


def test_a_remedy_without_its_numbers_names_the_check() -> None:
    follower = Follower(replace(CHECK, remedy="See {persistence_mode:g}."))
    assert follower.state(temperature_celsius=60.0).remedy == ("Too warm: check the GPU again, its readings are gone.")


def test_the_parts_of_a_check_in_words() -> None:
    many = replace(CHECK, rules=(WARM, Rule("ecc_mode", {"warn": 1}, text="of mode")), note="a note")
    assert many.rule == f"{WARM.sentence}; {many.rules[1].sentence}; a note"
    assert many.states == ("warn", "crit")
    assert many.inputs == ("temperature_celsius", "ecc_mode")
