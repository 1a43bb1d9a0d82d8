"""XIDs: the catalogue, and events made out of gauges and counts."""

from __future__ import annotations

import csv
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from pulsed.compute.health import xids
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.health.xids import ADVICE, ENDED_BY, RESET_LATER, XIDS, Action, Scope, Xid, advice, xid_of
from pulsed.model.clocks import Unix
from pulsed.model.gpu import Device
from pulsed.model.owner import pod
from pulsed.model.raw_tick import Epoch, KernelEvent
from pulsed.model.tick import Extras
from tests.compute.health.sim import GPU, Sim
from tests.support.samples import SAMPLES

FACTS = SAMPLES.parent / "xid.tsv"
TABLE = Path(xids.__file__).with_suffix(".tsv")


@pytest.mark.skipif(not FACTS.is_file(), reason="the list of XIDs that the catalogue was made from is not here")
def test_the_catalogue_is_complete() -> None:
    with FACTS.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    known = {int(row["code"]): (row["severity"], row["scope"], row["action"]) for row in rows}
    known[163] = ("warn", "hardware", "reset_for_smoothing")  # NVSentinel#1252
    assert known == {code: (xid.severity, xid.scope, xid.action) for code, xid in XIDS.items()}


def test_every_row_is_valid_and_in_order() -> None:
    rows = TABLE.read_text(encoding="utf-8").splitlines()
    assert rows[0].split("\t") == [each.name for each in fields(Xid)]
    assert [row.split("\t")[0] for row in rows[1:]] == [str(code) for code in sorted(XIDS)], "no code is there twice"
    for xid in XIDS.values():
        assert xid.severity in ("info", "warn", "crit"), xid
        assert xid.scope in get_args(Scope), xid
        assert xid.action in ADVICE, xid


def test_a_code_that_ends_another_is_in_the_table() -> None:
    assert ENDED_BY == {163: 162}
    assert set(ENDED_BY) | set(ENDED_BY.values()) <= XIDS.keys()


def test_every_code_has_words_and_advice() -> None:
    assert set(ADVICE) == set(get_args(Action))
    for xid in XIDS.values():
        assert 0 < len(xid.description) <= 110
        assert ADVICE[xid.action]
    assert xid_of(4711).severity == "warn"


def test_a_reset_can_wait_for_the_jobs_unless_the_code_is_critical() -> None:
    assert [advice(severity, "reset_gpu") for severity in ("crit", "warn")] == [ADVICE["reset_gpu"], RESET_LATER]
    assert [advice(severity, "restart_app") for severity in ("crit", "info")] == [ADVICE["restart_app"]] * 2


def test_a_code_that_was_seen_to_happen_is_an_event() -> None:
    sim = Sim()
    sim.health(xid_last_code=0.0)
    health = sim.health(xid_last_code=79.0)
    assert health.state == "crit"
    assert health.check("xid_critical").last_event == sim.time
    assert dict(health.events)["xid_critical"] == 1
    assert dict(health.xid_events)[79] == 1
    assert health.check("gpu_lost").state == "crit"
    assert sim.run(59, "gpu_lost", xid_last_code=79.0).state == "crit"
    assert sim.run(3, "gpu_lost", xid_last_code=79.0).state != "crit"


@pytest.mark.parametrize("code", [144.0, 145.0, 146.0, 149.0])
def test_a_code_with_sub_codes_is_critical_once_another_input_confirms_it(code: float) -> None:
    sim = Sim()
    sim.health(xid_last_code=0.0, recovery_action=0.0)
    assert sim.check("nvlink_fault", xid_last_code=code, recovery_action=0.0).state == "warn"
    assert sim.run(3, "nvlink_fault", xid_last_code=code, recovery_action=1.0).state == "crit"


def recovery_action(sim: Sim, action: int | None = None, **values: float | None) -> str:
    """Return the state of the check after a sample, with a message of XID 154 in the kernel log."""
    message = (KernelEvent("xid", 154, Unix(sim.time + sim.interval), "", action=action),)
    sim.kernel_events = message if action is not None else ()
    return sim.check("recovery_action", **values).state


def test_a_reading_of_the_recovery_action_replaces_the_message() -> None:
    sim = Sim()
    states = [
        recovery_action(sim, recovery_action=0.0),
        recovery_action(sim, 2, recovery_action=0.0),
        recovery_action(sim, None, recovery_action=2.0),
        recovery_action(sim, 0, recovery_action=2.0),
    ]
    assert states == ["ok", "ok", "crit", "crit"]


@pytest.mark.parametrize("action", [1, 2])
def test_a_reset_ends_the_recovery_action_of_a_message(action: int) -> None:
    sim = Sim()
    sim.epoch = Epoch("a")
    assert [recovery_action(sim), recovery_action(sim, action)] == ["unknown", "crit"]
    assert sim.run(100, "recovery_action").state == "crit"
    sim.epoch = Epoch("b")
    assert [recovery_action(sim), recovery_action(sim)] == ["ok", "ok"]
    assert recovery_action(sim, action) == "crit"


def test_critical_codes_are_counted_from_zero() -> None:
    health = Sim().health(xid_last_code=0.0)
    assert dict(health.xid_events)[79] == 0
    assert 31 not in dict(health.xid_events)


def test_a_warning_lasts_an_hour_and_a_programs_bug_ten_minutes() -> None:
    sim = Sim(interval=10.0)
    sim.health(xid_last_code=0.0)
    assert sim.run(590, "xid_warning", xid_last_code=13.0).state == "info"
    assert sim.run(20, "xid_warning", xid_last_code=13.0).state == "ok"
    assert sim.run(3590, "xid_warning", xid_last_code=94.0).state == "warn"
    assert sim.run(30, "xid_warning", xid_last_code=94.0).state == "ok"


def test_a_critical_code_lasts_a_day() -> None:
    sim = Sim(interval=600.0)
    sim.health(xid_last_code=0.0)
    assert sim.run(86400 - 600, "xid_critical", xid_last_code=48.0).state == "crit"
    assert sim.run(1200, "xid_critical", xid_last_code=48.0).state == "ok"


@pytest.mark.parametrize(
    ("sign", "state"),
    [("energy_joules_total", "ok"), ("pcie_replays_total", "crit"), ("ecc_sbe_volatile_total", "crit")],
)
def test_a_reset_clears_it_which_the_energy_counter_shows(sign: str, state: str) -> None:
    sim = Sim()
    sim.health(**{sign: 1000.0}, xid_last_code=0.0)
    assert sim.health(**{sign: 1000.0}, xid_last_code=48.0).check("xid_critical").state == "crit"
    assert sim.health(**{sign: 5.0}, xid_last_code=48.0).check("xid_critical").state == "crit"
    assert sim.run(70, "xid_critical", **{sign: 6.0}, xid_last_code=48.0).state == state


@pytest.mark.parametrize(("others", "state"), [({}, "crit"), ({"memory_used_bytes": 1e9}, "ok")])
def test_the_first_code_is_an_event_unless_other_fields_appear_with_it(others: dict[str, float], state: str) -> None:
    sim = Sim()
    for _ in range(3):
        sim.health(temperature_celsius=40.0)
    assert sim.check("xid_critical", temperature_celsius=40.0, xid_last_code=79.0, **others).state == state


def test_the_second_lower_energy_is_a_reset_at_any_pace() -> None:
    sim = Sim(interval=0.1)
    sim.health(energy_joules_total=1000.0, xid_last_code=0.0)
    energies = [1e3] * 10 + [5.0, 6.0] + [7.0] * 8  # evaluated once a second
    codes = [sim.check("xid_critical", energy_joules_total=energy, xid_last_code=48.0) for energy in energies]
    assert [check.state for check in codes] == ["ok"] * 9 + ["crit"] * 10 + ["ok"]


def test_a_misread_counter_is_no_reset() -> None:
    sim = Sim()
    for energy, code in ((1000.0, 0.0), (1000.0, 48.0), (0.0, 48.0), (1001.0, 48.0), (1002.0, 48.0), (0.0, 48.0)):
        check = sim.check("xid_critical", energy_joules_total=energy, xid_last_code=code)
    assert check.state == "crit"


def test_another_boot_or_driver_clears_it() -> None:
    sim = Sim()
    sim.epoch = Epoch(boot="a")
    sim.health(xid_last_code=0.0)
    assert sim.health(xid_last_code=48.0).check("xid_critical").state == "crit"
    sim.epoch = Epoch(boot="b")
    health = sim.health(xid_last_code=48.0)
    assert (health.check("xid_critical").state, dict(health.xid_events)[48]) == ("crit", 2), "of another host engine"
    sim.epoch = Epoch(boot="c")
    assert sim.health(xid_last_code=0.0).check("xid_critical").state == "ok"
    sim = Sim(devices=[Device(GPU.entity, driver_version="535.1")])
    sim.health(xid_last_code=0.0)
    sim.health(xid_last_code=48.0)
    sim.devices = (Device(GPU.entity, driver_version="550.2"),)
    assert sim.health(xid_last_code=48.0).check("xid_critical").state == "ok"


def counts(**codes: float) -> Extras:
    return Extras(xid_counts=tuple(sorted((int(code[1:]), count) for code, count in codes.items())))


def test_counts_show_what_the_gauge_cannot() -> None:
    sim = Sim()
    sim.health(counts(), xid_last_code=0.0)
    health = sim.health(counts(x62=1.0, x45=1.0), xid_last_code=45.0)
    assert health.check("xid_critical").state == "crit"
    assert dict(health.xid_events)[62] == 1
    health = sim.health(counts(x62=2.0, x45=2.0), xid_last_code=45.0)
    assert dict(health.xid_events)[62] == 1, "samples are counted, not events"


def test_totals_are_events() -> None:
    sim = Sim()
    sim.health(Extras(xid_totals=((48, 3.0),)))
    assert sim.health(Extras(xid_totals=((48, 3.0),))).check("xid_critical").state == "ok"
    health = sim.health(Extras(xid_totals=((48, 4.0),)))
    assert health.check("xid_critical").state == "crit"
    assert dict(health.xid_events)[48] == 1


def test_the_same_code_again_and_again_is_a_warning() -> None:
    sim = Sim(interval=200.0)
    sim.health(counts())
    states = []
    for _ in range(5):
        states.append(sim.check("xid_repeat", counts(x13=1.0)).state)
        sim.check("xid_repeat", counts())
    assert states == ["ok"] * 4 + ["warn"]
    for _ in range(8):
        sim.health(counts(x45=1.0))
        check = sim.check("xid_repeat", counts())
    assert dict(check.evidence)["xid"] == 13


def test_an_mmu_fault_that_follows_no_job_is_the_boards() -> None:
    sim = Sim(interval=200.0)
    sim.health(counts())
    for job in ("a", "a", "b"):
        sim.owners = {0: (pod("default", job),)}
        check = sim.check("xid_repeat", counts(x31=1.0))
        sim.check("xid_repeat", counts())
    assert check.state == "warn"


def test_the_configuration_ranks_codes() -> None:
    sim = Sim(HealthSettings(xids={79: "ok", 13: "crit", 31: "warn"}))
    sim.health(xid_last_code=0.0)
    health = sim.health(xid_last_code=79.0)
    assert health.check("xid_critical").state == "ok"
    assert health.check("xid_warning").state == "ok"
    assert sim.health(xid_last_code=13.0).check("xid_critical").state == "crit"
    assert sim.health(xid_last_code=31.0).check("xid_warning").state == "warn"
