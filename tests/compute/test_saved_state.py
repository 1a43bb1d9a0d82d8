"""What is saved of a GPU, and what a restart makes of it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from pulsed.compute.health.checks import CHECKS
from pulsed.compute.health.rule_kinds import Increase
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.saved_state import VERSION
from pulsed.model.clocks import Unix
from pulsed.model.raw_tick import Epoch
from pulsed.model.tick import Extras
from tests.compute.health.sim import GPU, OTHER, Sim

COUNTERS: dict[str, float | None] = {
    name: 1.0 for check in CHECKS for rule in check.rules if isinstance(rule, Increase) for name in rule.inputs
}


def saved(sim: Sim) -> dict[str, Any]:
    """Return the saved state of the only GPU."""
    document: dict[str, Any] = sim.health_evaluator.dump()
    assert document["version"] == VERSION == 2
    (gpu,) = document["gpus"].values()
    found: dict[str, Any] = gpu
    return found


def test_all_increases_are_saved() -> None:
    sim = Sim()
    sim.health(**COUNTERS)
    names = {
        f"{check.id}/{position}/{rule.name}"
        for check in CHECKS
        for position, rule in enumerate(check.rules)
        if isinstance(rule, Increase)
    }
    assert saved(sim)["increases"].keys() == names
    assert any(name.startswith("nvlink_errors/") for name in names)


def test_an_increase_over_a_restart_counts() -> None:
    sim = Sim()
    sim.run(3, "ecc_correctable_rate", ecc_sbe_volatile_total=5.0, nvlink_replay_errors_total=5.0)
    sim.restart()
    check = sim.check("ecc_correctable_rate", ecc_sbe_volatile_total=25.0, nvlink_replay_errors_total=6.0)
    assert check.state == "info"
    assert sim.last is not None
    assert sim.last.healths[0].check("nvlink_errors").state == "warn"


def test_raised_states_are_saved_with_the_time_until_which_they_are_held() -> None:
    sim = Sim()
    sim.health(temperature_celsius=40.0, row_remap_pending=0.0, nvlink_effective_bit_error_ratio=0.0)
    assert (saved(sim)["held"], saved(sim)["states"]) == ({}, {})
    sim.health(temperature_celsius=40.0, row_remap_pending=1.0, nvlink_effective_bit_error_ratio=1e-9)
    state = saved(sim)
    assert state["held"]["nvlink_errors/6/nvlink_effective_bit_error_ratio"] == [2, 601.0]
    assert state["states"] == {
        "row_remap_pending": ["warn", sim.time, None],
        "nvlink_errors": ["warn", sim.time, None],
    }


def test_a_raised_state_keeps_its_evidence_while_its_inputs_are_blank_after_a_restart() -> None:
    sim = Sim()
    raised = sim.check("row_remap_pending", temperature_celsius=40.0, row_remap_pending=1.0)
    assert (raised.state, raised.evidence) == ("warn", (("row_remap_pending", 1.0),))
    sim.restart()
    found = sim.check("row_remap_pending", temperature_celsius=40.0)
    assert (found.state, found.evidence, found.covered) == ("warn", raised.evidence, False)


def test_links_that_have_been_up_are_down_after_a_restart() -> None:
    sim = Sim(interval=60.0)
    up, down = (Extras(nvlink_states=tuple((link, state) for link in range(18))) for state in (1.0, 0.0))
    assert sim.check("nvlink_down", up, temperature_celsius=40.0).state == "ok"
    sim.restart()
    assert [sim.check("nvlink_down", down, temperature_celsius=40.0).state for _ in range(2)] == ["ok", "crit"]


def test_what_results_were_before_is_known_after_a_restart() -> None:
    sim = Sim(interval=60.0)
    sim.health(imex_daemon_status=5.0, diag_memory_result=0.0)
    sim.restart()
    sim.health(imex_daemon_status=0.0, diag_memory_result=3.0)
    health = sim.health(imex_daemon_status=0.0, diag_memory_result=3.0)
    assert [health.check(id_).state for id_ in ("imex", "dcgm_diag")] == ["warn", "warn"]
    assert health.check("dcgm_diag").last_event == sim.time - sim.interval


def test_an_xid_that_was_confirmed_stays_so_while_its_inputs_are_blank_after_a_restart() -> None:
    sim = Sim()
    assert sim.check("xid_critical", xid_last_code=48.0, ecc_dbe_volatile_total=1.0).state == "crit"
    sim.restart()
    assert sim.check("xid_critical", temperature_celsius=40.0).state == "crit"


def test_a_lost_gpu_is_lost_at_the_first_poll_after_a_restart() -> None:
    alive = {"temperature_celsius": 40.0, "power_watts": 100.0}
    sim = Sim(devices=[GPU, OTHER])
    states = [sim.tick(reading, alive).healths[0].check("gpu_lost").state for reading in (alive, {}, {})]
    sim.restart()
    tick = sim.tick({}, alive)
    assert [*states, tick.healths[0].check("gpu_lost").state] == ["ok", "ok", "crit", "crit"]
    assert [change.check for change in tick.changes if change.check] == []


@pytest.mark.parametrize(("down", "states"), [(598.0, ["warn", "ok"]), (599.0, ["ok", "ok"]), (-50.0, ["warn"] * 2)])
def test_a_state_is_held_over_a_restart_as_long_as_without_one(down: float, states: list[str]) -> None:
    sim = Sim(devices=[replace(GPU, model="NVIDIA B200")])
    sim.health(nvlink_effective_bit_error_ratio=1e-9)
    sim.restart(down=down)
    found = [sim.check("nvlink_errors", nvlink_effective_bit_error_ratio=0.0).state for _ in range(2)]
    assert found == states


def test_a_time_in_the_future_holds_a_state_no_longer_than_its_rule() -> None:
    sim = Sim(devices=[replace(GPU, model="NVIDIA B200")])
    sim.health(nvlink_effective_bit_error_ratio=1e-9)
    document = sim.health_evaluator.dump()
    gpus: Any = document["gpus"]
    (gpu,) = gpus.values()
    gpu["held"] = {name: [severity, until + 1e6] for name, (severity, until) in gpu["held"].items()}
    sim.restart()
    sim.health_evaluator.restore(document, Unix(sim.time))
    sim.interval = 60.0
    states = [sim.check("nvlink_errors", nvlink_effective_bit_error_ratio=0.0).state for _ in range(12)]
    assert states == ["warn"] * 10 + ["ok"] * 2


@pytest.mark.parametrize(("known", "now", "is_reset"), [("1", "2", True), ("1", "1", False), ("", "2", False)])
@pytest.mark.parametrize("is_described_late", [False, True])
def test_another_driver_after_a_restart_is_a_reset(
    known: str, now: str, is_reset: bool, is_described_late: bool
) -> None:
    sim = Sim(devices=[replace(GPU, driver_version=known)])
    sim.health(xid_last_code=0.0)
    assert sim.check("xid_critical", xid_last_code=48.0).state == "crit"
    sim.restart()
    if is_described_late:
        sim.tick({"xid_last_code": 48.0}, devices=[replace(GPU, driver_version="")])
    tick = sim.tick({"xid_last_code": 48.0}, devices=[replace(GPU, driver_version=now)])
    assert tick.healths[0].check("xid_critical").state == ("ok" if is_reset else "crit")
    assert (tick.healths[0].last_reset is not None) is is_reset
    assert saved(sim)["driver_version"] == now


def test_a_restart_with_fewer_checks_ignores_the_others() -> None:
    sim = Sim()
    sim.health(row_remap_pending=1.0, ecc_dbe_volatile_total=1.0)
    sim.settings = HealthSettings(disabled=frozenset({"row_remap_pending"}))
    since = sim.time
    sim.restart()
    health = sim.health(row_remap_pending=1.0, ecc_dbe_volatile_total=1.0)
    assert health.check("ecc_uncorrectable").since == since
    assert "row_remap_pending" not in saved(sim)["states"]


@pytest.mark.parametrize("moments", [[1e20, 2e20], [-1e20, -2e20], [1.0, 2.0] * 50])
def test_a_history_of_any_numbers_does_no_harm(moments: list[float]) -> None:
    sim = Sim()
    for volatile in (1.0, 0.0):
        sim.health(ecc_dbe_volatile_total=volatile)
    document = sim.health_evaluator.dump()
    gpus: Any = document["gpus"]
    (gpu,) = gpus.values()
    assert gpu["history"] == {"ecc_uncorrectable": [0.0]}
    gpu["history"] = {"ecc_uncorrectable": moments}
    sim.restart()
    sim.health_evaluator.restore(document, Unix(sim.time))
    check = sim.check("ecc_uncorrectable", ecc_dbe_volatile_total=1.0)
    assert ("raised 8 times" in check.message) is (len(moments) > 2)
    assert len(saved(sim)["history"]["ecc_uncorrectable"]) == (8 if len(moments) > 2 else 1)


def test_epochs_and_totals_are_saved() -> None:
    sim = Sim()
    sim.epoch = Epoch("a", "b", "c", "d", Unix(5.0))
    sim.health(Extras(xid_totals=((13, 2.0),)), temperature_celsius=40.0)
    state = saved(sim)
    assert [state[name] for name in ("boot_id", "driver", "engine", "exporter")] == ["a", "b", "c", "d"]
    assert state["xid_totals"] == {"13": 2.0}
    for codes in (256, 257):
        sim.health(Extras(xid_totals=tuple((code, 1.0) for code in range(codes))), temperature_celsius=40.0)
        assert (saved(sim)["xid_totals"] is None) is (codes == 257)


@pytest.mark.parametrize(("number", "is_refused"), [(1e21, False), (-1e21, False), (1.001e21, True), (-1.001e21, True)])
def test_numbers_above_those_of_counters_are_refused(number: float, is_refused: bool) -> None:
    sim = Sim()
    sim.health(temperature_celsius=40.0)
    document = sim.health_evaluator.dump()
    gpus: Any = document["gpus"]
    (gpu,) = gpus.values()
    gpu["seconds"] = {"ok": number}
    with pytest.raises(ValueError, match="larger than 1e\\+21") if is_refused else nullcontext():
        sim.health_evaluator.restore(document, Unix(sim.time))
