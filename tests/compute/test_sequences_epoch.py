"""Sequences over time: events of health over restarts of GPUs, drivers, nodes and sources, and blank inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import pytest

from pulsed.model.clocks import Unix
from pulsed.model.owner import Owner, pod
from pulsed.model.raw_tick import Epoch, KernelEvent
from pulsed.model.tick import Extras
from tests.compute.health.sim import Sim

VITAL = {"temperature_celsius": 40.0, "power_watts": 200.0}
DAY = 86400.0


class Step(NamedTuple):
    """Samples of one GPU.

    Attributes:
        values: the readings beside the vital ones.
        times: number of samples.
        after: seconds before the first of them; None: one interval.
        epoch: from now on; None: as before.
        totals: of the exporter, by code; None without any.
        logged: codes that the kernel has logged a second ago.
        restart: whether pulsed is restarted before.
    """

    values: Mapping[str, float | None] = {}
    times: int = 1
    after: float | None = None
    epoch: Epoch | None = None
    totals: Mapping[int, float] | None = None
    logged: tuple[int, ...] = ()
    restart: bool = False


def xid(code: float | None, times: int = 1, **others: float | None) -> Step:
    return Step({"xid_last_code": code, **others}, times)


ABSENT = Step({}, 8)
BLANK = Step({"power_watts": None}, 8)
ONE, TWO = Epoch(engine="1"), Epoch(engine="2")


def played(*steps: Step, interval: float = 15.0) -> Sim:
    sim = Sim(interval=interval)
    for step in steps:
        play(sim, step)
    return sim


def play(sim: Sim, step: Step) -> None:
    if step.restart:
        sim.restart()
    sim.epoch = step.epoch if step.epoch is not None else sim.epoch
    extras = Extras(xid_totals=tuple(step.totals.items())) if step.totals is not None else None
    for number in range(step.times):
        after = step.after if number == 0 else None
        time = sim.time + (sim.interval if after is None else after)
        events = tuple(KernelEvent("xid", code, Unix(time - 1.0), sim.devices[0].pci_bus_id) for code in step.logged)
        sim.kernel_events = events if step.logged and number == 0 else None
        sim.health(extras, after=after, **{**VITAL, **step.values})


def events_of(sim: Sim, code: int) -> int:
    assert sim.last is not None
    return dict(sim.last.healths[0].xid_events).get(code, 0)


@pytest.mark.parametrize(
    ("steps", "events"),
    [
        ((xid(0), xid(48), Step({"xid_last_code": 48.0}, after=2 * DAY), ABSENT, xid(48)), 2),
        ((xid(0), xid(48), ABSENT, xid(48), xid(48)), 2),
        ((xid(0), xid(48), xid(None), xid(48)), 1),
        ((xid(48), ABSENT, xid(48)), 1),
        ((xid(0), xid(48), Step(restart=True, times=8), xid(48)), 2),
        ((xid(0), xid(48), Step({"temperature_celsius": None, "power_watts": None}, 8), xid(48)), 1),
        ((xid(0)._replace(epoch=ONE), xid(48), ABSENT, xid(48)), 1),
        ((xid(0)._replace(epoch=ONE), xid(48), xid(48)._replace(epoch=TWO)), 2),
        ((xid(0)._replace(epoch=ONE), xid(48), xid(48)._replace(epoch=TWO, restart=True)), 2),
        ((xid(0)._replace(epoch=ONE), xid(48), xid(48)._replace(restart=True)), 1),
        ((xid(0)._replace(epoch=ONE), xid(48), xid(48)._replace(epoch=Epoch())), 1),
        ((xid(0), xid(48), xid(48)._replace(epoch=ONE)), 1),
        ((xid(0)._replace(epoch=Epoch("a")), xid(48), xid(48)._replace(epoch=Epoch("b"))), 2),
        ((xid(0), xid(48), ABSENT, xid(48, energy_joules_total=1.0)), 1),
        ((xid(0), xid(48), ABSENT, xid(79, energy_joules_total=1.0)), 1),
        ((xid(0), xid(48), ABSENT, xid(48)._replace(restart=True)), 2),
        ((xid(0), xid(48), ABSENT, xid(48, energy_joules_total=1.0)._replace(restart=True)), 1),
        ((xid(0), xid(48), ABSENT, Step(restart=True), xid(48, energy_joules_total=1.0)), 1),
        ((xid(0), xid(13), ABSENT, xid(48, energy_joules_total=1.0)._replace(restart=True)), 1),
        ((ABSENT, xid(48)._replace(restart=True)), 1),
        ((ABSENT, xid(48, energy_joules_total=1.0)._replace(restart=True)), 0),
        ((ABSENT, Step(restart=True), xid(48, energy_joules_total=1.0)), 0),
        ((BLANK, xid(48)._replace(totals={48: 1.0}, restart=True)), 0),
    ],
    ids=[
        "absent after two days",
        "absent for eight samples",
        "absent for one sample",
        "a code from before the first sample",
        "absent over a restart of pulsed",
        "all values blank",
        "blank, of an engine that is known to run on",
        "another engine that had it at once",
        "another engine over a restart of pulsed",
        "the same engine over a restart of pulsed",
        "an engine that is unknown from now on",
        "an engine that was unknown before",
        "another boot of the node",
        "with another list of fields",
        "another code with another list of fields",
        "absent, and back after a restart of pulsed",
        "blank, and back after a restart of pulsed",
        "blank over a restart of pulsed",
        "blank, and another code after a restart of pulsed",
        "never there until a restart of pulsed",
        "blank since the start until a restart of pulsed",
        "blank since the start, over a restart of pulsed",
        "blank with the totals until a restart of pulsed",
    ],
)
def test_the_same_code_of_a_host_engine_that_was_restarted_is_a_new_event(steps: tuple[Step, ...], events: int) -> None:
    assert events_of(played(*steps), 48) == events


@pytest.mark.parametrize("epoch", [None, TWO], ids=["signs", "epoch"])
def test_a_new_critical_code_after_a_restart_is_critical(epoch: Epoch | None) -> None:
    sim = played(xid(0)._replace(epoch=ONE if epoch else None), xid(48), Step({"xid_last_code": 48.0}, after=2 * DAY))
    assert sim.last is not None
    assert sim.last.healths[0].check("xid_critical").state == "ok"
    sim.epoch = epoch or sim.epoch
    for _ in range(8):
        sim.health(**VITAL)
    assert sim.check("xid_critical", **VITAL, xid_last_code=48.0).state == "crit"


def test_a_code_of_unknown_age_that_was_confirmed_stays_critical_while_its_inputs_are_blank() -> None:
    sim = played(xid(48, ecc_dbe_volatile_total=1.0), xid(None, ecc_dbe_volatile_total=None))
    assert sim.check("xid_critical", **VITAL).state == "crit"
    play(sim, xid(48, ecc_dbe_volatile_total=0.0))
    assert sim.check("xid_critical", **VITAL).state == "unknown"


def counted(*totals: float | None) -> tuple[Step, ...]:
    return tuple(Step(totals=None if total is None else {13: total}) for total in totals)


@pytest.mark.parametrize(
    ("steps", "events"),
    [
        (counted(0, 10), 10),
        (counted(0, 50, 50, 51), 51),
        (counted(7, 10), 3),
        (counted(0, 5, 2), 7),
        (counted(0, 5, None, None, 6), 6),
        (counted(0, 1e300), 2**53),
        ((xid(0)._replace(totals={13: 0}), xid(13)._replace(totals={13: 1}), xid(13)._replace(totals={13: 10})), 10),
        ((xid(0)._replace(totals={13: 0}), xid(13)._replace(totals={13: 0}), xid(13)._replace(totals={13: 3})), 3),
        ((xid(0)._replace(totals={13: 0}), xid(13)._replace(totals={}), xid(13)._replace(totals={13: 1})), 1),
        ((Step(totals={13: 0}), Step(totals={13: 0}, logged=(13, 13)), Step(totals={13: 3})), 3),
        ((Step(totals={13: 0}), Step(totals={13: 3}), Step(totals={13: 3}, logged=(13, 13))), 3),
        ((Step(totals={13: 0}), Step(totals={13: 3}, after=7200.0, logged=(13, 13))), 3),
        (
            (Step(totals={13: 5}, epoch=Epoch(exporter="1")), Step(totals={13: 6}, epoch=Epoch(exporter="2"))),
            6,
        ),
        ((*counted(0, 2), Step(totals={13: 4}, restart=True)), 4),
        ((*counted(0, 2), Step(totals={13: 1}, restart=True)), 3),
        ((ABSENT, *counted(5)), 5),
        ((BLANK, *counted(5, 6)), 1),
        ((BLANK, Step(totals={13: 5}, restart=True), *counted(6)), 1),
    ],
    ids=[
        "ten",
        "fifty in a sample",
        "some before the first sample",
        "restarted",
        "absent for a while",
        "absurd",
        "with the gauge",
        "behind the gauge",
        "no series until the first",
        "behind the kernel log",
        "ahead of the kernel log",
        "with the kernel log after a gap",
        "another exporter",
        "over a restart of pulsed",
        "over a restart of both",
        "without the gauge, the first ones",
        "without the gauge, blank since the start",
        "without the gauge, blank until a restart of pulsed",
    ],
)
def test_xids_are_counted_as_often_as_the_exact_totals_have_them(steps: tuple[Step, ...], events: int) -> None:
    assert events_of(played(*steps), 13) == events


@pytest.mark.parametrize(
    ("booted", "logged", "state"),
    [(100.0, 50.0, "crit"), (100.0, 150.0, "ok"), (0.0, 50.0, "ok"), (1e9, 50.0, "crit")],
    ids=["after the boot", "before the boot", "at an unknown time", "after a boot before the last sample"],
)
def test_an_xid_between_the_boot_and_the_first_sample_is_of_the_new_boot(
    booted: float, logged: float, state: str
) -> None:
    """Times are seconds before that sample; 0: unknown."""
    energy = {"energy_joules_total": 1e9, "ecc_sbe_volatile_total": 7.0}
    sim = played(Step(energy, epoch=Epoch("a")), Step(energy))
    sim.time, sim.clock = sim.time + 600.0, sim.clock + 600.0
    now = sim.time + sim.interval
    sim.epoch = Epoch("b", booted=Unix(now - booted if booted else 0.0))
    sim.kernel_events = (KernelEvent("xid", 79, Unix(now - logged), sim.devices[0].pci_bus_id),)
    for joules in range(10):  # its counters begin again, which is no other reset
        found = sim.check("xid_critical", **VITAL, energy_joules_total=float(joules), ecc_sbe_volatile_total=0.0)
        sim.kernel_events = ()
        assert found.state == state


def verdicts(id_: str, *steps: Step, interval: float = 15.0) -> list[str]:
    """Return the states of a check after each step."""
    sim = Sim(interval=interval)
    found: list[str] = []
    for step in steps:
        play(sim, step)
        assert sim.last is not None
        found.append(sim.last.healths[0].check(id_).state)
    return found


def ecc(aggregate: float | None, volatile: float | None = None, energy: float | None = None, times: int = 2) -> Step:
    counters = {"ecc_dbe_aggregate_total": aggregate, "ecc_dbe_volatile_total": volatile, "energy_joules_total": energy}
    return Step(counters, times)


BLANK = ecc(None, times=40)
DYING = Step({"temperature_celsius": None, "power_watts": None}, 40)


@pytest.mark.parametrize(
    ("check", "steps", "states"),
    [
        ("ecc_uncorrectable", (ecc(5), ecc(6), BLANK, ecc(6)), "ok crit crit crit"),
        ("ecc_uncorrectable", (ecc(5), ecc(6), DYING, ecc(6)), "ok crit crit crit"),
        ("ecc_uncorrectable", (ecc(5), ecc(6), BLANK._replace(restart=True), ecc(6)), "ok crit crit crit"),
        ("ecc_uncorrectable", (ecc(5), ecc(6), BLANK, Step(after=DAY)), "ok crit crit unknown"),
        ("ecc_uncorrectable", (ecc(5), ecc(6), ecc(6)._replace(after=DAY)), "ok crit ok"),
        ("ecc_uncorrectable", (ecc(5, 0), ecc(5, 1), BLANK, ecc(5, 1), ecc(5, 0)), "ok crit crit crit ok"),
        ("ecc_uncorrectable", (ecc(5, 1), BLANK._replace(restart=True), ecc(5, 0)), "crit crit ok"),
        ("ecc_uncorrectable", (ecc(5), ecc(5), BLANK), "ok ok unknown"),
        ("ecc_uncorrectable", (ecc(5, 1), ecc(5, 0), BLANK), "crit ok unknown"),
        *[
            (check, (Step({name: value}), Step(times=40), Step({name: 0.0})), f"{state} {state} ok")
            for check, name, value, state in (
                ("row_remap_failed", "row_remap_failure", 1.0, "crit"),
                ("row_remap_pending", "row_remap_pending", 1.0, "warn"),
                ("memory_unrepairable", "memory_unrepairable", 1.0, "crit"),
                ("recovery_action", "recovery_action", 2.0, "crit"),
                ("row_remap_growth", "remap_banks_no_spares", 1.0, "warn"),
            )
        ],
        ("temp_margin", (Step({"temperature_margin_celsius": -5.0}, 3), Step()), "crit unknown"),
    ],
)
def test_what_does_not_pass_by_itself_is_held_while_its_input_is_blank(
    check: str, steps: tuple[Step, ...], states: str
) -> None:
    assert verdicts(check, *steps) == states.split()


@pytest.mark.parametrize(
    ("check", "steps", "states"),
    [
        (
            "ecc_uncorrectable",
            (ecc(5, 0, 9e9), ecc(6, 1, 9e9), ecc(6, 0, 5.0)),
            "ok crit ok",
        ),
        (
            "ecc_uncorrectable",
            (ecc(5)._replace(epoch=Epoch("a", "1")), ecc(6), ecc(6)._replace(epoch=Epoch("a", "2"))),
            "ok crit ok",
        ),
        (
            "ecc_uncorrectable",
            (ecc(5)._replace(epoch=Epoch("a")), ecc(6), ecc(6)._replace(epoch=Epoch("b"))),
            "ok crit ok",
        ),
        (
            "ecc_uncorrectable",
            (ecc(5)._replace(epoch=Epoch("a")), ecc(6), ecc(6)._replace(epoch=Epoch("b"), restart=True)),
            "ok crit ok",
        ),
        (
            "ecc_uncorrectable",
            (ecc(5)._replace(epoch=Epoch("a")), ecc(6), BLANK._replace(epoch=Epoch("b"))),
            "ok crit unknown",
        ),
        ("ecc_uncorrectable", (ecc(5)._replace(epoch=ONE), ecc(6), ecc(6)._replace(epoch=TWO)), "ok crit crit"),
        (
            "retired_pages",
            tuple(
                Step({"retired_pages_sbe_total": 0.0, "retired_pages_dbe_total": pages}, 2, epoch=Epoch(boot))
                for pages, boot in ((16.0, "a"), (17.0, "a"), (17.0, "b"))
            ),
            "ok crit crit",
        ),
        ("xid_warning", (xid(0)._replace(epoch=Epoch("a")), xid(94), xid(0)._replace(epoch=Epoch("b"))), "ok warn ok"),
        ("xid_warning", (xid(48)._replace(epoch=Epoch("a")), xid(0)._replace(epoch=Epoch("b"))), "warn ok"),
        (
            "row_remap_failed",
            (Step({"row_remap_failure": 1.0}, epoch=Epoch("a")), Step(times=8, epoch=Epoch("b"))),
            "crit crit",
        ),
    ],
    ids=[
        "counters fall",
        "driver",
        "node",
        "node and pulsed",
        "blank after it",
        "host engine only",
        "worn memory",
        "a code that is a warning",
        "a code of unknown age",
        "failed repair",
    ],
)
def test_a_reset_resolves_what_it_can(check: str, steps: tuple[Step, ...], states: str) -> None:
    assert verdicts(check, *steps) == states.split()


@pytest.mark.parametrize(("days", "is_again"), [(3.0, True), (29.0, True), (31.0, False)])
@pytest.mark.parametrize("restart", [False, True])
def test_a_second_event_within_thirty_days_of_one_that_was_resolved_is_named(
    days: float, is_again: bool, restart: bool
) -> None:
    first = (ecc(5)._replace(epoch=Epoch("a")), ecc(6), ecc(6)._replace(epoch=Epoch("b")))
    sim = played(*first, ecc(6)._replace(after=days * DAY, restart=restart), ecc(7, times=1))
    assert sim.last is not None
    check = sim.last.healths[0].check("ecc_uncorrectable")
    assert check.state == "crit"
    assert ("before on 2026-01-01" in check.message) is is_again
    assert ("replacement" in check.remedy) is is_again


A, B = pod("ml", "train-a"), pod("ml", "train-b")
REPLICAS = tuple(replace(pod("ml", f"web-{number}"), workload="web", workload_kind="Deployment") for number in range(6))
TASKS = tuple(Owner("slurm_job", f"4711_{number}") for number in range(6))


@pytest.mark.parametrize(
    ("code", "owners", "state", "suspect"),
    [
        (31, [(A,)] * 5, "info", "pod ml/train-a"),
        (13, [(A,)] * 5, "info", "pod ml/train-a"),
        (13, [(A,)] * 4, "ok", ""),
        (13, [(A,), (), (A,), None, (A,)], "info", "pod ml/train-a"),
        (13, [(each,) for each in REPLICAS], "info", "Deployment ml/web"),
        (13, [(each,) for each in TASKS], "info", "job 4711"),
        (13, [(A, B)] * 5, "info", "pod ml/train-a or pod ml/train-b"),
        (13, [(A, B), (A,), (A,), (A, B), (A,)], "info", "pod ml/train-a"),
        (13, [(A,), (B,), (A,), (B,), (A,)], "warn", ""),
        (31, [(A,), (B,), (A,)], "warn", ""),
        (31, [(A, B)] * 3, "ok", ""),
        (13, [None] * 5, "warn", ""),
        (94, [(A,)] * 5, "warn", ""),
    ],
)
def test_a_code_that_repeats_with_one_program_is_of_that_program(
    code: int, owners: list[tuple[Owner, ...] | None], state: str, suspect: str
) -> None:
    sim = Sim(interval=200.0)
    sim.health(**VITAL, xid_last_code=0.0)
    for having in owners:
        sim.owners = {0: having}
        check = sim.check("xid_repeat", **VITAL, xid_last_code=float(code))
        sim.health(**VITAL, xid_last_code=0.0)
    assert check.state == state
    assert ("each time of" in check.message) is bool(suspect)
    assert suspect in check.message
    assert suspect in check.remedy
    assert ("diagnostic" in check.remedy) is (state == "warn")
