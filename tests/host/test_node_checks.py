"""The rules of the checks of a node, and what false alarms they must not raise."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsed.host.node_checks import NODE_CHECKS, ExpectedGpus, Finding, NodeView
from pulsed.host.node_evaluator import NodeEvaluator
from pulsed.model.clocks import Unix
from pulsed.model.health import NodeHealth
from pulsed.model.host import HostFacts, InfinibandPort, PciGpu, ShownGpu, StuckProcess
from pulsed.model.raw_tick import KernelEvent

NOW = 1_800_000_000.0
ADDRESSES = tuple(f"00000000:{number}B:00.0" for number in range(1, 4))
A, B, C = (PciGpu(address, "nvidia", True) for address in ADDRESSES)
SHOWN = tuple(ShownGpu(address, "NVIDIA H100") for address in ADDRESSES)
UNBOUND, GUEST = C._replace(driver="", is_usable=False), C._replace(driver="vfio-pci", is_usable=False)
WITHHELD = C._replace(is_usable=False)


def found(id_: str, view: NodeView) -> Finding | None:
    (check,) = [check for check in NODE_CHECKS if check.id == id_]
    return check.find(view)


def failed(address: str = ADDRESSES[2], age: float = 3600.0) -> tuple[KernelEvent, ...]:
    return (KernelEvent("not_started", 0, Unix(NOW - age), address, text="why"),)


@pytest.mark.parametrize(
    ("gpus", "shown", "events", "state", "detail"),
    [
        ((A, B, C), SHOWN, (), "ok", ""),
        ((A, B, C), SHOWN, failed(), "ok", ""),
        ((A, B, C), SHOWN[:2], (), "warn", ADDRESSES[2]),
        ((A, B, C), (*SHOWN[:2], SHOWN[2]._replace(shown_as="lost")), (), "ok", ""),
        ((A, B, C), SHOWN[:2], failed(), "crit", f"{ADDRESSES[2]} (why)"),
        ((A, B, UNBOUND), SHOWN[:2], failed(), "crit", f"{ADDRESSES[2]} (why)"),
        ((A, B, UNBOUND), SHOWN[:2], failed(""), "warn", f"{ADDRESSES[2]} (why)"),
        ((A, B, UNBOUND), SHOWN[:2], (), "ok", ""),
        ((A, B, GUEST), SHOWN[:2], failed(), "ok", ""),
        ((A, B, GUEST._replace(is_usable=True)), SHOWN[:2], (), "ok", ""),
        ((A, B, WITHHELD), SHOWN[:2], (), "ok", ""),
        ((A, B, C), SHOWN[:1], failed(), "crit", f"{ADDRESSES[1]}, {ADDRESSES[2]} (why)"),
        # Blind is not broken: without a source only what the kernel has logged of late counts.
        ((A, B, C), None, (), "unknown", ""),
        ((A, B, C), None, failed(), "unknown", ""),
        ((A, B, C), None, failed(age=600.0), "crit", f"{ADDRESSES[2]} (why)"),
        ((A, B, C), None, failed(age=600.1), "unknown", ""),
        ((GUEST,), None, failed(age=60.0), "unknown", ""),
        ((GUEST, WITHHELD), (), (), "unknown", ""),
        ((), SHOWN, (), "unknown", ""),
        (None, SHOWN, (), "unknown", ""),
        ((A, B, C), (SHOWN[0], SHOWN[1]._replace(address="")), (), "unknown", ""),
    ],
)
def test_a_gpu_that_is_on_the_bus_and_not_shown(
    gpus: tuple[PciGpu, ...] | None,
    shown: tuple[ShownGpu, ...] | None,
    events: tuple[KernelEvent, ...],
    state: str,
    detail: str,
) -> None:
    finding = found("gpu_missing", NodeView(HostFacts(Unix(NOW), gpus, kernel_events=events), shown))
    assert finding is not None
    assert (finding.state, finding.detail) == (state, detail)


def test_a_gpu_with_an_xid_from_before_the_start_is_missing() -> None:
    event = KernelEvent("xid", 79, Unix(NOW - 3600.0), ADDRESSES[2], text="79, GPU has fallen off the bus.")
    for gpu in (C, WITHHELD):
        finding = found("gpu_missing", NodeView(HostFacts(Unix(NOW), (A, B, gpu), kernel_events=(event,)), SHOWN[:2]))
        assert finding is not None
        assert (finding.state, finding.detail) == ("crit", f"{ADDRESSES[2]} (XID 79, GPU has fallen off the bus.)")


def test_a_gpu_that_the_key_gpus_may_leave_out_is_not_missing() -> None:
    finding = found("gpu_missing", NodeView(HostFacts(Unix(NOW), (A, B, C)), SHOWN[:2], is_selected=True))
    assert finding == Finding("unknown")


LOST = SHOWN[2]._replace(shown_as="lost")
UNLISTED = SHOWN[2]._replace(shown_as="unlisted")


@pytest.mark.parametrize(
    ("expected", "shown", "state", "detail"),
    [
        (3, SHOWN, "ok", ""),
        (2, SHOWN, "ok", ""),
        (8, SHOWN, "crit", "3 of 8"),
        (3, (*SHOWN[:2], LOST), "crit", "2 of 3"),
        ({"NVIDIA H100": 3}, SHOWN, "ok", ""),
        ({"NVIDIA H100": 3, "NVIDIA L4": 1}, SHOWN, "crit", "0 of 1 NVIDIA L4"),
        ("auto", SHOWN, "ok", ""),
        ("auto", (), "ok", ""),
        ("auto", (*SHOWN[:2], LOST), "crit", "2 of 3"),
        (3, None, "unknown", ""),
    ],
)
def test_fewer_gpus_than_expected(
    expected: ExpectedGpus, shown: tuple[ShownGpu, ...] | None, state: str, detail: str
) -> None:
    finding = found("gpu_count", NodeView(HostFacts(Unix(NOW)), shown, expected=expected))
    assert finding is not None
    assert (finding.state, finding.detail) == (state, detail)
    assert found("gpu_count", NodeView(HostFacts(Unix(NOW)), shown)) is None, "any number is expected"


@pytest.mark.parametrize(
    ("expected", "shown", "gpus", "state"),
    [
        ("auto", (*SHOWN[:2], UNLISTED), None, "unknown"),
        ("auto", (*SHOWN[:2], UNLISTED), (A, B, C), "ok"),
        ("auto", (*SHOWN[:2], UNLISTED), (A, B, WITHHELD), "unknown"),
        ("auto", (*SHOWN[:2], UNLISTED), (A, B), "crit"),
        ("auto", (SHOWN[0], LOST, UNLISTED), None, "crit"),
        (4, (*SHOWN[:2], UNLISTED), None, "crit"),
        (3, SHOWN[:1], (A, B, C), "unknown"),
        ({"NVIDIA H100": 3}, (*SHOWN[:2], UNLISTED), None, "unknown"),
        ({"NVIDIA L4": 1}, (*SHOWN[:2], UNLISTED), None, "crit"),
    ],
)
def test_a_gpu_that_no_source_lists_may_be_there(
    expected: ExpectedGpus, shown: tuple[ShownGpu, ...], gpus: tuple[PciGpu, ...] | None, state: str
) -> None:
    finding = found("gpu_count", NodeView(HostFacts(Unix(NOW), gpus), shown, expected=expected))
    assert finding is not None
    assert finding.state == state


SMI, ENGINE = StuckProcess(7, 100, "nvidia-smi"), StuckProcess(8, 100, "nv-hostengine")


@pytest.mark.parametrize(
    ("looks", "states"),
    [
        (["n"] * 6, "ok ok ok ok crit crit"),
        (["h"] * 5 + [""], "ok ok ok ok warn warn"),
        (["nh"] * 5, "ok ok ok ok crit"),
        (["n", "n", "", "n", "n", "n", "", ""], "ok ok ok ok ok crit ok ok"),
        (["n", "", "n", "", "n", "n", "n", "n", "n"], "ok ok ok ok ok ok ok ok crit"),
        (["n", "N", "n", "N", "n", "N"], "ok ok ok ok ok ok"),
        (["n"] * 4 + ["-"] + ["n"], "ok ok ok ok unknown crit"),
    ],
)
def test_a_process_is_stuck_for_five_looks_with_one_missed(looks: list[str], states: str) -> None:
    """`n` is nvidia-smi, `N` another one with its process id, `h` the host engine, `-` a look that failed."""
    known = {"n": SMI, "N": SMI._replace(start=200), "h": ENGINE}
    evaluator = NodeEvaluator()
    found = []
    for number, look in enumerate(looks):
        stuck = None if look == "-" else tuple(known[letter] for letter in look)
        health = evaluator.evaluate(NodeView(HostFacts(Unix(NOW + 60.0 * number), stuck_processes=stuck), ()))
        (check,) = [check for check in health.checks if check.id == "driver_hung"]
        found.append(check.state)
    assert " ".join(found) == states


def sxid(age: float, *, code: int = 20034, is_fatal: bool = True) -> KernelEvent:
    text = f"{code}, {'Fatal' if is_fatal else 'Non-fatal'}, Link 30"
    return KernelEvent("sxid", code, Unix(NOW - age), "00000000:C1:00.0", is_fatal=is_fatal, text=text)


FATAL, MINOR = (
    "00000000:C1:00.0 (SXID 20034, Fatal, Link 30)",
    "00000000:C1:00.0 (SXID 28006, Non-fatal, Link 30)",
)


@pytest.mark.parametrize(
    ("errors", "state", "detail"),
    [
        (None, "unknown", ""),
        ((), "ok", ""),
        ((sxid(10.0),), "crit", FATAL),
        ((sxid(86_399.9),), "crit", FATAL),
        ((sxid(86_400.0),), "ok", ""),
        ((sxid(3599.9, code=28006, is_fatal=False),), "warn", MINOR),
        ((sxid(3600.0, code=28006, is_fatal=False),), "ok", ""),
        ((sxid(60.0), sxid(10.0, code=28006, is_fatal=False)), "crit", f"{FATAL}, {MINOR}"),
        ((sxid(60.0, code=12028), sxid(10.0)), "crit", f"{FATAL}, {FATAL.replace('20034', '12028')}"),
    ],
)
def test_errors_of_nvswitches(errors: tuple[KernelEvent, ...] | None, state: str, detail: str) -> None:
    finding = found("nvswitch_error", NodeView(HostFacts(Unix(NOW), switch_errors=errors), ()))
    assert finding is not None
    assert (finding.state, finding.detail) == (state, detail)


def test_an_error_of_an_nvswitch_is_raised_at_once() -> None:
    health = NodeEvaluator().evaluate(NodeView(HostFacts(Unix(NOW), switch_errors=(sxid(10.0),)), ()))
    (problem,) = health.problems
    assert (problem.id, problem.state, problem.message) == (
        "nvswitch_error",
        "crit",
        f"Errors of an NVSwitch: {FATAL}",
    )
    assert problem.evidence == (("nvswitch_errors", 1.0),)
    assert problem.remedy.startswith("Jobs that use NVLink fail: drain the node")


def port(
    device: str, state: str = "ACTIVE", physical: str = "LinkUp", gbit: float = 400.0, **counters: int
) -> InfinibandPort:
    return InfinibandPort(device, "1", "MT_1 InfiniBand", state, physical, gbit * 1e9 / 8, counters)


UP, DOWN, SLOW = port("a"), port("a", "DOWN", "Polling"), port("a", gbit=200.0)
OTHERS = (port("b"), port("c"))


@pytest.mark.parametrize(
    ("check", "looks", "states"),
    [
        ("ib_link_down", [(UP,), (DOWN,), (DOWN,), (UP,)], "ok ok crit ok"),
        ("ib_link_down", [(UP,), (port("a", "INIT"),), (port("a", "INIT"),)], "ok ok crit"),
        ("ib_link_down", [(DOWN,)] * 3, "ok ok ok"),
        ("ib_link_down", [(DOWN, *OTHERS)] * 2, "unknown warn"),
        ("ib_link_down", [(DOWN, port("b"))] * 2, "ok ok"),
        ("ib_link_down", [(UP,), *[(port("a", "DOWN", "Disabled"), *OTHERS)] * 2], "ok ok ok"),
        ("ib_link_down", [(UP,), None, (DOWN,), (DOWN,)], "ok unknown unknown crit"),
        ("ib_link_degraded", [(UP,), (SLOW,), (SLOW,), (UP,)], "ok ok warn ok"),
        ("ib_link_degraded", [(SLOW,)] * 2, "ok ok"),
        ("ib_link_degraded", [(SLOW, *OTHERS)] * 2, "unknown warn"),
        ("ib_link_degraded", [(SLOW, port("b"))] * 2, "ok ok"),
        ("ib_link_degraded", [(SLOW, *(each._replace(board="MT_2") for each in OTHERS))] * 2, "ok ok"),
        ("ib_errors", [(port("a", symbol_errors=n),) for n in (0, 60, 120, 121)], "ok ok ok warn"),
        ("ib_errors", [(port("a", symbol_errors=n),) for n in (9000, 100, 130)], "ok ok warn"),
        ("ib_errors", [(UP,), (port("a", symbol_errors=500),), (port("a", receive_bytes=10**9),)], "ok ok ok"),
    ],
)
def test_ports_of_infiniband(check: str, looks: list[tuple[InfinibandPort, ...] | None], states: str) -> None:
    evaluator, found = NodeEvaluator(), []
    for number, ports in enumerate(looks):
        health = evaluator.evaluate(NodeView(HostFacts(Unix(NOW + 60.0 * number), ports=ports), ()))
        (state,) = [each.state for each in health.checks if each.id == check]
        found.append(state)
    assert " ".join(found) == states


@pytest.mark.parametrize(
    ("counter", "maximum", "minutes"),
    [
        ("symbol_errors", 120, 60),
        ("link_downed", 0, 60),
        ("link_recoveries", 50, 10),
        ("rnr_nak_retry_errors", 0, 60),
        ("local_ack_timeout_errors", 600, 10),
    ],
)
def test_a_counter_above_its_maximum_warns_for_its_window(counter: str, maximum: int, minutes: int) -> None:
    for growth, state in ((maximum, "ok"), (maximum + 1, "warn")):
        evaluator, found = NodeEvaluator(), []
        for age in (-60.0, 0.0, 60.0 * minutes - 0.1, 60.0 * minutes):
            ports = (UP._replace(counters={counter: 7 if age < 0.0 else 7 + growth}),)
            health = evaluator.evaluate(NodeView(HostFacts(Unix(NOW + age), ports=ports), ()))
            found += [each.state for each in health.checks if each.id == "ib_errors"]
        assert found == ["ok", state, state, "ok"]


def test_a_message_names_eight_problems() -> None:
    for number, more in ((8, ""), (9, ", 1 more"), (10, ", 2 more")):
        finding = found("nvswitch_error", NodeView(HostFacts(Unix(NOW), switch_errors=(sxid(10.0),) * number), ()))
        assert finding is not None
        assert finding.detail == ", ".join([FATAL] * 8) + more


def test_the_rules_are_those_of_the_health_document() -> None:
    document = (Path(__file__).parents[2] / "docs/health.md").read_text()
    sections = {section.split("\n", 1)[0]: section for section in document.split("\n### ")}
    for check in NODE_CHECKS:
        assert f"* {check.rule}{'; after two looks' if check.looks == 2 else ''}\n" in sections[check.id]


def test_a_host_without_infiniband_has_no_such_checks() -> None:
    health = NodeEvaluator().evaluate(NodeView(HostFacts(Unix(NOW), ports=()), ()))
    assert [check.id for check in health.checks if check.id.startswith("ib_")] == []


def test_a_check_is_raised_after_two_looks_and_ends_at_once() -> None:
    evaluator, time = NodeEvaluator(), NOW

    def look(*shown: ShownGpu, events: tuple[KernelEvent, ...] = ()) -> NodeHealth:
        nonlocal time
        time += 60.0
        return evaluator.evaluate(NodeView(HostFacts(Unix(time), (A, B, C), kernel_events=events), shown))

    assert look(*SHOWN).state == "ok"
    assert look(*SHOWN[:2]).state == "ok"
    (problem,) = look(*SHOWN[:2]).problems
    assert (problem.id, problem.state, problem.since) == ("gpu_missing", "warn", time)
    assert problem.message == f"A GPU on the PCI bus is missing from the source: {ADDRESSES[2]}"
    assert problem.evidence == (("gpus_missing", 1.0), ("pci_gpus", 3.0))
    assert look(*SHOWN[:2]).problems[0].since == time - 60.0
    (problem,) = look(*SHOWN[:2], events=failed()).problems
    assert (problem.state, problem.remedy) == ("crit", NODE_CHECKS[0].critical)
    assert look(*SHOWN).problems == []
    assert look(*SHOWN[:2]).problems == []
    assert evaluator.evaluate(NodeView(HostFacts(Unix(time)), ()), {"gpu_missing"}).state == "unknown"
