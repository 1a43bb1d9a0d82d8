"""The table of DCGM's error codes."""

from __future__ import annotations

from pulsed.compute.health.checks import BY_ID
from pulsed.compute.health.measures import DCGM_CODES, FALSE_ALARMS, OWN_CHECKS, dcgm_code_of


def test_every_code_has_a_meaning_and_a_remedy_and_its_checks_exist() -> None:
    for name, code in DCGM_CODES.items():
        assert name.startswith("DCGM_FR_")
        assert code.severity in ("info", "warn"), name
        assert code.meaning, name
        assert code.remedy, name
        assert set(code.checks) <= set(BY_ID), name
        assert code.false_alarm in ("", *FALSE_ALARMS), name
    assert {check for checks in OWN_CHECKS.values() for check in checks} <= set(BY_ID)
    assert set(FALSE_ALARMS) == {code.false_alarm for code in DCGM_CODES.values()} - {""}


def test_of_an_unknown_code_the_part_is_known() -> None:
    found = dcgm_code_of("MEM", "DCGM_FR_NEW")
    assert (found.code, found.severity, found.checks) == ("DCGM_FR_NEW", "warn", OWN_CHECKS["MEM"])
    assert dcgm_code_of("PMU", "").checks == ()
