"""Faults of NVLinks: what the kernel's message says about one of them decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsed.compute.health.link_faults import down_reason
from pulsed.compute.health.settings import HealthSettings
from pulsed.model.clocks import Unix
from pulsed.model.health import CheckState
from pulsed.model.raw_tick import KernelEvent, LinkFault
from pulsed.model.tick import Extras, LinkCounters
from tests.compute.health.sim import GPU, Sim

ADDRESS = "00000000:3B:00.0"
BOARD = replace(GPU, pci_bus_id=ADDRESS, model="NVIDIA GB200")
DOWN = LinkFault("NETIR_LINK_DOWN", True, link=14, subcode=37)


def message(sim: Sim, code: int, fault: LinkFault | None, *, before: float = 0.0) -> tuple[KernelEvent, ...]:
    """An event just before the next tick."""
    return (KernelEvent("xid", code, Unix(sim.time + sim.interval - 0.1 - before), ADDRESS, fault=fault),)


def after(code: int, fault: LinkFault, **settings: object) -> CheckState:
    sim = Sim(HealthSettings(**settings), devices=[BOARD])  # type: ignore[arg-type]  # names of settings
    sim.kernel_events = ()
    sim.health(xid_last_code=0.0)
    sim.kernel_events = message(sim, code, fault)
    return sim.check("nvlink_fault", xid_last_code=float(code))


@pytest.mark.parametrize(
    ("code", "fault", "state"),
    [
        (149, DOWN, "crit"),
        (149, DOWN._replace(subcode=38), "warn"),
        (149, DOWN._replace(is_injected=True), "info"),
        (145, LinkFault("RLW_SRC_TRACK", True, link=3), "crit"),
        (145, LinkFault("RLW_REMAP", False), "warn"),
        (148, LinkFault("NVLPW", False), "info"),
        (150, LinkFault("MSE_WATCHDOG", False), "warn"),
    ],
)
def test_the_message_decides(code: int, fault: LinkFault, state: str) -> None:
    assert after(code, fault).state == state


def test_reasons_of_a_link_that_is_down_are_those_of_nvidias_table() -> None:
    signal, software, peer = "check the signal", "find out which software", "investigate the device at the other end"
    expected = {
        **dict.fromkeys((2, 4, 10, 42, 43), (signal, False)),
        **dict.fromkeys((15, 16, 17, 18, 22), (software, False)),
        **dict.fromkeys((21, 32, 33, 34, 35, 36, 37), (peer, False)),
        38: (software, True),
        40: ("look for the fault of the host", True),
    }
    for subcode in range(64):
        reason, known = down_reason(149, DOWN._replace(subcode=subcode)), expected.get(subcode)
        assert (reason is None) is (known is None), subcode
        if reason and known:
            assert (reason.advice[: len(known[0])], reason.is_harmless) == known, subcode
            assert ("cables" in reason.advice, "does not help" in reason.advice) == (
                subcode in (42, 43),
                subcode in (16, 18),
            )
    others = [(148, DOWN), (149, None), (149, DOWN._replace(subcode=None)), (149, DOWN._replace(unit="RLW"))]
    assert [down_reason(*each) for each in others] == [None] * 4


def test_a_configured_severity_stays_but_for_a_test() -> None:
    assert after(149, DOWN, xids={149: "info"}).state == "info"
    assert after(149, DOWN, xids={149: "ok"}).state == "ok"
    assert after(147, DOWN._replace(is_injected=True), xids={147: "crit"}).state == "info"


def test_message_and_remedy_name_the_link() -> None:
    check = after(149, DOWN)
    assert check.message == "NVLink fault: XID 149.37, NETIR_LINK_DOWN on link 14, fatal"
    assert check.remedy == (
        "XID 149 is a fault of an NVLink: stop the jobs on this GPU and reset it, then investigate the device at the "
        "other end of the link (link 14)."
    )
    assert dict(check.evidence)["link"] == 14.0


def test_no_other_check_of_xids_is_raised_and_the_details_survive_a_restart() -> None:
    sim = Sim(devices=[BOARD])
    sim.kernel_events = ()
    sim.health(xid_last_code=0.0)
    sim.kernel_events = message(sim, 149, DOWN)
    health = sim.health(xid_last_code=149.0)
    assert {check.id for check in health.checks if check.severity > 0} == {"nvlink_fault"}
    sim.restart()
    sim.kernel_events = ()
    again = sim.check("nvlink_fault", xid_last_code=149.0)
    assert (again.state, again.message) == ("crit", health.check("nvlink_fault").message)


def test_a_message_after_its_gauge_and_one_from_before_the_start() -> None:
    sim = Sim(devices=[BOARD])
    sim.kernel_events = ()
    sim.health(xid_last_code=0.0)
    assert sim.check("nvlink_fault", xid_last_code=149.0).state == "warn"
    sim.kernel_events = message(sim, 149, DOWN, before=1.5)
    assert sim.check("nvlink_fault", xid_last_code=149.0).state == "crit"
    other = Sim(devices=[BOARD])
    other.kernel_events = message(other, 149, DOWN, before=600.0)
    found = other.check("nvlink_fault", xid_last_code=149.0)
    assert (found.state, "link 14" in found.message) == ("crit", True)


def counters(links: int = 18, **kinds: dict[int, float]) -> LinkCounters:
    return tuple([(link, tuple([(kind, of.get(link, 0.0)) for kind, of in kinds.items()])) for link in range(links)])


@pytest.mark.parametrize(
    ("recovered", "state", "text"),
    [
        ({14: 505.0}, "warn", "link 14: 505 recoveries, none on 17 others"),
        ({14: 3.0}, "info", "link 14: 3 recoveries, none on 17 others"),
        ({14: 505.0, 3: 2.0}, "ok", ""),
        ({}, "ok", ""),
    ],
)
def test_a_link_that_alone_has_recovered_is_named(recovered: dict[int, float], state: str, text: str) -> None:
    extras = Extras(nvlink_counters=counters(link_recoveries=recovered))
    check = Sim().check("nvlink_errors", extras, nvlink_crc_errors_total=0.0)
    assert (check.state, text in check.message) == (state, True)


@pytest.mark.parametrize(
    ("links", "recoveries", "state"),
    [(4, 1.0, "info"), (4, 0.9, "ok"), (4, 99.0, "info"), (4, 100.0, "warn")],
)
def test_one_of_four_links_or_more_is_an_outlier(links: int, recoveries: float, state: str) -> None:
    extras = Extras(nvlink_counters=counters(links, link_recoveries={0: recoveries}))
    assert Sim().check("nvlink_errors", extras, nvlink_crc_errors_total=0.0).state == state


def test_recoveries_alone_do_not_show_that_links_have_no_errors() -> None:
    extras = Extras(nvlink_counters=counters(link_recoveries={}))
    assert Sim().check("nvlink_errors", extras, nvlink_link_recoveries_total=0.0).state == "unknown"
    raised = Extras(nvlink_counters=counters(link_recoveries={14: 505.0}))
    assert Sim().check("nvlink_errors", raised).state == "warn"
    assert (
        Sim().check("nvlink_errors", Extras(nvlink_counters=counters(3, link_recoveries={0: 1.0}))).state == "unknown"
    )


def test_errors_name_their_links_and_links_are_listed() -> None:
    sim = Sim()
    sim.health(Extras(nvlink_counters=counters(replay_errors={})), nvlink_replay_errors_total=0.0)
    extras = Extras(nvlink_states=((3, 1.0),), nvlink_counters=counters(replay_errors={3: 5.0}))
    for _ in range(2):
        health = sim.health(extras, nvlink_replay_errors_total=5.0)
    assert health.check("nvlink_errors").message.startswith("NVLink errors: link 3: 5")
    assert len(health.nvlinks) == 18
    assert (health.nvlinks[3].state, health.nvlinks[3].counters) == (1.0, (("replay_errors", 5.0),))
    assert sim.health(extras, nvlink_replay_errors_total=5.0) == health
