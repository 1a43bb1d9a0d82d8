"""What the configuration can change, and what it is told when it is wrong."""

from __future__ import annotations

import re

import pytest

from pulsed.compute.health.checks import CHECKS
from pulsed.compute.health.settings import HealthSettings, threshold_keys
from tests.compute.health.sim import Sim


def test_a_threshold_can_be_changed() -> None:
    sim = Sim(HealthSettings(thresholds={"temp_margin": {"warn": 10}}))
    assert sim.run(20, "temp_margin", temperature_margin_celsius=9.0).state == "warn"


def test_measures_of_one_check_have_their_own() -> None:
    settings = HealthSettings(thresholds={"nvlink_errors": {"nvlink_crc_errors_per_minute.warn": 50}})
    sim = Sim(settings, interval=15.0)
    for k in range(10):
        check = sim.check("nvlink_errors", nvlink_crc_errors_total=k * 2.0)
    assert check.state == "ok"


def test_a_riser_with_fewer_lanes_is_ok_where_it_is_configured() -> None:
    sim = Sim(HealthSettings(pcie_width_max=8))
    assert sim.run(70, "pcie_link", pcie_link_width=8.0, pcie_link_width_max=16.0).state == "ok"


def test_every_check_can_be_disabled() -> None:
    for check in CHECKS:
        health = Sim(HealthSettings(disabled=frozenset({check.id}))).health(xid_last_code=0.0, temperature_celsius=9.0)
        assert check.id not in {state.id for state in health.checks}
    everything = HealthSettings(disabled=frozenset(check.id for check in CHECKS))
    assert Sim(everything).health(temperature_celsius=9.0, xid_last_code=13.0).state == "unknown"


def test_every_threshold_can_be_given() -> None:
    for check in CHECKS:
        assert list(HealthSettings(thresholds={check.id: threshold_keys(check)}).problems()) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"thresholds": {"temp_margins": {}}}, "no check temp_margins.*temp_margin"),
        ({"disabled": frozenset({"xid_critcal"})}, "no check xid_critcal.*xid_critical"),
        ({"thresholds": {"temp_margin": {"warm": 1}}}, r"temp_margin has no threshold warm.*warn\?"),
    ],
)
def test_a_wrong_setting_names_what_was_meant(settings: dict[str, object], message: str) -> None:
    ((_, problem),) = HealthSettings(**settings).problems()  # type: ignore[arg-type]
    assert re.search(message, problem)


def test_a_rule_states_its_configured_threshold() -> None:
    settings = HealthSettings(thresholds={"retired_pages": {"retired_pages.warn": 20}})
    (check,) = [check for check in settings.checks() if check.id == "retired_pages"]
    assert check.rule.startswith("warn from 20, crit from 63 retired pages;")


def test_a_configured_severity_of_a_code_replaces_that_of_the_table() -> None:
    settings = HealthSettings(xids={13: "crit", 48: "ok"})
    assert [settings.severity_of(code) for code in (13, 48, 79, 999)] == ["crit", "ok", "crit", "warn"]
