"""Health of a GPU from its checks."""

from __future__ import annotations

import pytest

from pulsed.compute.health.summary import limited_to, unobserved
from pulsed.model.clocks import Unix
from pulsed.model.health import NOT_EVALUATED, SEVERITY, CheckState, Health, State
from tests.compute.health.sim import Sim

CHECKS = (
    CheckState("telemetry", "ok"),
    CheckState("temp_gpu", "warn"),
    CheckState("pcie_link", "unknown"),
    CheckState("fabric_link", "crit", applies=False),
)


@pytest.mark.parametrize(
    ("checks", "state", "expected", "coverage"),
    [
        (("telemetry",), "warn", "ok", 1.0),
        (("telemetry",), "unknown", "unknown", 1.0),
        (("telemetry", "temp_gpu"), "warn", "warn", 1.0),
        (("telemetry", "pcie_link"), "warn", "unknown", 0.5),
        (("temp_gpu", "pcie_link"), "unknown", "warn", 0.5),
        (("fabric_link",), "warn", "unknown", 0.0),
        ((), "ok", "unknown", 0.0),
    ],
)
def test_health_limited_to_some_checks(checks: tuple[str, ...], state: State, expected: State, coverage: float) -> None:
    health = limited_to(Health(state, 0.5, CHECKS), checks)
    assert (health.state, health.severity, health.coverage) == (expected, SEVERITY[expected], coverage)
    assert [check.id for check in health.checks] == [check.id for check in CHECKS if check.id in checks]


@pytest.mark.parametrize(
    ("event", "state", "coverage"),
    [
        (CheckState("xid_critical", "crit", Unix(60.0), Unix(60.0)), "crit", 1 / 4),
        (CheckState("xid_warning", "info", Unix(60.0), Unix(60.0)), "unknown", 1 / 4),
        (CheckState("xid_critical", "ok", Unix(60.0), Unix(60.0)), "unknown", 0.0),
    ],
)
def test_of_a_gpu_that_is_not_observed_only_events_are_known(event: CheckState, state: State, coverage: float) -> None:
    health = unobserved(Health("warn", 0.5, (*CHECKS, event)), since=Unix(77.0), age=12.34, reason="connection refused")
    telemetry, *others, last = health.checks
    assert (health.state, health.severity, health.coverage) == (state, SEVERITY[state], coverage)
    assert (telemetry.state, telemetry.since, telemetry.message) == ("unknown", 77.0, "connection refused")
    assert telemetry.evidence == (("sample_age_seconds", 12.3),)
    assert [(check.state, check.since, check.applies) for check in others] == [
        ("unknown", 77.0, True),
        ("unknown", 77.0, True),
        ("unknown", 77.0, False),
    ]
    assert last == event or (last.state, last.last_event) == ("unknown", 60.0)


def test_without_fresh_inputs_a_gpu_is_unknown_unless_another_check_warns() -> None:
    still: dict[str, float | None] = {"ecc_mode": 1.0, "ecc_mode_pending": 1.0, "fabric_manager_status": 3.0}
    vital = {"temperature_celsius": 40.0}
    for pending, states in ((0.0, ("ok", "unknown")), (1.0, ("warn", "warn"))):
        sim = Sim(interval=5.0, settings=None)
        before = sim.health(**still, **vital, row_remap_pending=pending)
        assert before is not NOT_EVALUATED
        assert before.state == states[0]
        for _ in range(4):
            sim.tick({**still, "row_remap_pending": pending}, after=5.0)
        assert sim.last is not None
        assert sim.last.healths[0].state == states[1], pending
