"""Log lines about health: the level follows the new state."""

from __future__ import annotations

import logging
from typing import get_args

import pytest

from pulsed.daemon.changes import log_health_change
from pulsed.model.clocks import Unix
from pulsed.model.gpu import Device, Entity
from pulsed.model.health import HealthChange, State

LEVELS = {"crit": "ERROR", "hot": "WARNING", "warn": "WARNING", "info": "INFO"}


@pytest.mark.parametrize("check", ["", "xid"])
@pytest.mark.parametrize("after", get_args(State))
def test_a_critical_state_is_an_error(after: State, check: str, caplog: pytest.LogCaptureFixture) -> None:
    change = HealthChange(check, "ok", after, Unix(0.0), "what", "do this", Device(Entity("gpu", "3")))
    with caplog.at_level(logging.DEBUG, "pulsed.daemon.changes"):
        log_health_change(change, "node")
    levels = [record.levelname for record in caplog.records]
    assert levels == ([LEVELS.get(after, "INFO")] if after in LEVELS or not check else [])


def test_what_becomes_better_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "pulsed.daemon.changes"):
        log_health_change(HealthChange("", "crit", "warn", Unix(0.0), "", "", Device(Entity("gpu", "3"))), "node")
    assert [record.levelname for record in caplog.records] == ["INFO"]
