"""Rules about XIDs: which code decides, what it means, and until when."""

from __future__ import annotations

import pytest

from pulsed.compute.health.checks import BY_ID
from pulsed.compute.health.inputs import GpuInputs
from pulsed.compute.health.rule import RuleState
from pulsed.compute.health.xid_log import XidRecord
from pulsed.compute.health.xid_rule import XidRule
from pulsed.compute.health.xids import XIDS, xid_of
from pulsed.model.clocks import GpuSeconds
from tests.compute.health.sim import Sim, give

CRITICAL, WARNING, REPEATED, FALLEN, CORRECTED, NVLINK = (
    next(rule for rule in BY_ID[id_].rules if isinstance(rule, XidRule))
    for id_ in ("xid_critical", "xid_warning", "xid_repeat", "gpu_lost", "ecc_correctable_rate", "nvlink_fault")
)
DAY = 86400.0


def inputs(records: dict[int, XidRecord], **values: float) -> GpuInputs:
    found = GpuInputs()
    give(found, **values)
    found.xids.records = records
    return found


def after(rule: XidRule, facts: GpuInputs, now: float) -> RuleState:
    state = RuleState()
    rule.evaluate(state, facts, GpuSeconds(now))
    return state


def dated(last: float, *, cleared: bool = False) -> XidRecord:
    return XidRecord(GpuSeconds(last), dated=True, cleared=cleared, count=1)


@pytest.mark.parametrize(
    ("rule", "code", "record", "ages"),
    [
        (CRITICAL, 48, dated(100.0), {0: 4, DAY - 1: 4, DAY: -1}),
        (CRITICAL, 48, dated(100.0, cleared=True), {0: -1}),
        (CRITICAL, 48, XidRecord(GpuSeconds(100.0), dated=False), {0: -1}),
        (CRITICAL, 13, dated(100.0), {0: -1}),
        (WARNING, 48, dated(100.0), {0: -1, DAY - 1: -1, DAY: 2, 9 * DAY: 2}),
        (WARNING, 48, dated(100.0, cleared=True), {0: -1, DAY: -1}),
        (WARNING, 48, XidRecord(GpuSeconds(100.0), dated=False), {0: 2, 3599: 2, 3600: -1}),
        (WARNING, 94, dated(100.0), {0: 2, 3599: 2, 3600: -1}),
        (WARNING, 13, dated(100.0), {0: 1, 599: 1, 600: -1}),
        (WARNING, 45, dated(100.0), {0: -1}),
        (FALLEN, 79, dated(100.0), {0: 4, 59: 4, 60: -1}),
        (FALLEN, 79, XidRecord(GpuSeconds(100.0), dated=False), {0: -1}),
        (FALLEN, 48, dated(100.0), {0: -1}),
    ],
)
def test_the_state_of_a_code_depends_on_its_age(
    rule: XidRule, code: int, record: XidRecord, ages: dict[float, int]
) -> None:
    assert {age: after(rule, inputs({code: record}), 100.0 + age).severity for age in ages} == ages


@pytest.mark.parametrize(("gauge", "held"), [(None, 2), (48, 2), (0, 0)])
def test_after_a_day_a_critical_code_is_a_warning_until_the_gauge_is_0(gauge: int | None, held: int) -> None:
    facts = inputs({48: dated(0.0)}, xid_last_code=0.0 if gauge is None else float(gauge))
    facts.xids.shown = gauge
    assert after(WARNING, facts, DAY).severity == held


def test_the_worst_code_decides_and_of_equal_ones_the_newest() -> None:
    records = {48: dated(100.0), 79: dated(200.0), 62: dated(150.0), 13: dated(300.0), 94: dated(250.0)}
    critical = after(CRITICAL, inputs(records), 300.0)
    assert (critical.xid, critical.event_at, critical.measure) == (79, 200.0, 79.0)
    warning = after(WARNING, inputs(records), 300.0)
    assert (warning.xid, warning.event_at, warning.severity) == (94, 250.0, 2)
    of_unknown_age = after(WARNING, inputs({999: XidRecord(GpuSeconds(100.0), dated=False)}), 100.0)
    assert (of_unknown_age.xid, of_unknown_age.event_at) == (999, None)


@pytest.mark.parametrize(
    ("values", "code", "is_confirmed"),
    [
        ({"recovery_action": 1.0}, 79, True),
        ({"recovery_action": 1.0}, 48, True),
        ({"recovery_action": 0.0}, 48, False),
        ({"ecc_dbe_volatile_total": 1.0}, 48, True),
        ({"ecc_dbe_volatile_total": 1.0}, 79, False),
        ({"nvlink_link_recoveries_failed_total": 1.0}, 74, True),
        ({"nvlink_link_recoveries_failed_total": 1.0}, 48, False),
    ],
)
def test_another_input_of_its_scope_confirms_a_code_of_unknown_age(
    values: dict[str, float], code: int, is_confirmed: bool
) -> None:
    assert XIDS[code].severity == "crit"
    facts = inputs({code: XidRecord(GpuSeconds(0.0), dated=False)}, **values)
    assert after(CRITICAL, facts, 1.0).severity == (4 if is_confirmed else -1)
    assert after(WARNING, facts, 1.0).severity == (-1 if is_confirmed else 2)


def test_a_repeated_code_is_a_warning_for_a_day_after_its_first_burst() -> None:
    record = XidRecord(
        GpuSeconds(500.0), dated=True, count=7, bursts=[(GpuSeconds(100.0 * number), ()) for number in range(1, 6)]
    )
    facts = inputs({13: record})
    state = after(REPEATED, facts, 600.0)
    assert (state.severity, state.xid, state.event_at) == (2, 13, 500.0)
    assert REPEATED.evidence(state, facts) == (("xid", 13.0), ("events", 7.0), ("bursts", 5.0), ("time_known", 1.0))
    assert after(REPEATED, facts, 100.0 + DAY).severity == -1


@pytest.mark.parametrize("name", ["xid_last_code", "xid_counts", "kernel_log"])
def test_any_input_about_xids_covers_a_rule(name: str) -> None:
    for rule in (CRITICAL, WARNING, REPEATED, FALLEN):
        state = after(rule, inputs({}, **{name: 0.0}), 1.0)
        assert (state.severity, state.is_covered, state.xid, state.measure) == (0, True, None, None)


@pytest.mark.parametrize(
    ("rule", "codes"),
    [
        *[(CRITICAL, {48, 79}), (WARNING, {13, 92, 94, 999}), (REPEATED, set()), (FALLEN, {79}), (CORRECTED, {92})],
        (NVLINK, set(range(144, 151))),
    ],
)
def test_codes_that_are_events_of_a_rule(rule: XidRule, codes: set[int]) -> None:
    known = (13, 45, 48, 79, 92, 94, *range(143, 152), 999)
    found = {code for code in known if rule.counts(code, xid_of(code).severity)}
    assert found - {143, 151} == codes, "143 and 151 are unknown"
    assert rule.counts_events is (rule is not REPEATED)


def test_the_configuration_replaces_severities() -> None:
    assert [rule.counts(48, "ok") for rule in (CRITICAL, WARNING, FALLEN)] == [False] * 3
    assert [rule.counts(13, "crit") for rule in (CRITICAL, WARNING)] == [True, False]
    assert [rule.counts(149, severity) for rule in (NVLINK, CRITICAL) for severity in ("ok", "info", "crit")] == [
        *(False, True, True),
        *(False, False, False),
    ]


def test_a_code_that_takes_another_back_ends_it() -> None:
    """NVSentinel#1252: 162, engaged again, ends 163."""
    sim = Sim()
    sim.run(1, "xid_warning", xid_last_code=0.0)
    alone = sim.run(2, "xid_warning", xid_last_code=163.0)
    assert alone.state == "warn"
    assert "if the power smoothing is needed" in alone.remedy
    assert sim.run(2, "xid_warning", xid_last_code=162.0).message.count("163") == 0
    again = sim.run(2, "xid_warning", xid_last_code=163.0)
    assert "163" in again.message
