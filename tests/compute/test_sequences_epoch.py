"""Sequences over time: events of health over restarts of GPUs, drivers, nodes and sources, and blank inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from pulsed.model.canonical_tick import Extras
from pulsed.model.raw_tick import Epoch, KernelEvent
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
ONE, TWO = Epoch(engine="1"), Epoch(engine="2")


def played(*steps: Step, interval: float = 15.0) -> Sim:
    sim = Sim(interval=interval)
    for step in steps:
        if step.restart:
            sim.restart()
        sim.epoch = step.epoch if step.epoch is not None else sim.epoch
        extras = Extras(xid_totals=tuple(step.totals.items())) if step.totals is not None else None
        for number in range(step.times):
            after = step.after if number == 0 else None
            time = sim.time + (sim.interval if after is None else after)
            events = tuple(KernelEvent("xid", code, time - 1.0, sim.devices[0].pci_bus_id) for code in step.logged)
            sim.kernel_events = events if step.logged and number == 0 else None
            sim.health(extras, after=after, **{**VITAL, **step.values})
    return sim


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
    sim = played(Step(epoch=Epoch("a")), Step(epoch=Epoch("a")))
    sim.time, sim.clock = sim.time + 600.0, sim.clock + 600.0
    now = sim.time + sim.interval
    sim.epoch = Epoch("b", booted=now - booted if booted else 0.0)
    sim.kernel_events = (KernelEvent("xid", 79, now - logged, sim.devices[0].pci_bus_id),)
    assert sim.check("xid_critical", **VITAL).state == state
