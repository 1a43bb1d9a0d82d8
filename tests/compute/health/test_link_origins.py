"""Faults of NVLinks that may follow from the link of another GPU: the message names it, the severity stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.health.link_faults import LinkDown, is_link_down
from pulsed.compute.health.xid_log import XidRecord
from pulsed.compute.health_evaluator import HealthEvaluator
from pulsed.compute.target_gpus import Tracker
from pulsed.model.clocks import GpuSeconds, Unix
from pulsed.model.gpu import Device, Entity
from pulsed.model.health import CheckState
from pulsed.model.raw_tick import KernelEvent, LinkFault
from tests.compute.health.sim import HealthTick, Sim


@pytest.mark.parametrize(
    ("code", "began", "precedes"),
    [
        *[(145, 9.9, False), (145, 10.0, True), (145, 130.0, True), (145, 130.1, False)],
        *[(150, 70.0, True), (144, 70.0, False), (146, 70.0, False), (147, 70.0, False), (149, 70.0, False)],
    ],
)
def test_a_fault_may_follow_from_a_link_that_went_down_within_a_minute(code: int, began: float, precedes: bool) -> None:
    assert LinkDown("0", "n1", GpuSeconds(70.0)).precedes(code, GpuSeconds(began)) is precedes


@pytest.mark.parametrize(
    ("fault", "dated", "expected"),
    [
        (None, True, True),
        (None, False, False),
        (LinkFault("NETIR_LINK_DOWN", True), True, True),
        (LinkFault("NETIR_LINK_DOWN", False), True, False),
        (LinkFault("NETIR_LINK_DOWN", True, is_injected=True), True, False),
    ],
)
def test_a_link_is_down_at_a_known_time_and_not_as_a_test(fault: LinkFault | None, dated: bool, expected: bool) -> None:
    assert is_link_down(XidRecord(GpuSeconds(7.0), dated=dated, fault=fault)) is expected


def boards(node: str) -> list[Device]:
    return [
        Device(
            Entity("gpu", str(k), f"GPU-{node}{k}", node=node),
            model="NVIDIA GB200",
            pci_bus_id=f"00000000:{k}A:00.0",
            fabric="c/1",
        )
        for k in range(2)
    ]


class Node(Sim):
    """A node of a rack: a target of a process that reads several."""

    def __init__(self, name: str, table: GpuTable) -> None:
        self.table = table
        super().__init__(devices=boards(name))

    def _start(self) -> None:
        self.tracker = Tracker(self.table)
        self.health_evaluator = HealthEvaluator(self.table, self.tracker)

    def look(self, *faults: tuple[int, int, LinkFault]) -> HealthTick:
        """Take a sample with messages about GPUs, by index."""
        self.kernel_events = tuple(
            KernelEvent("xid", code, Unix(self.time + 0.5), self.devices[gpu].pci_bus_id, fault=each)
            for gpu, code, each in faults
        )
        return self.tick({"temperature_celsius": 40.0}, {"temperature_celsius": 40.0})


DOWN = LinkFault("NETIR_LINK_DOWN", True, link=14, subcode=37)
SOURCE = LinkFault("RLW_SRC_TRACK", True, link=3)


def check(tick: HealthTick, gpu: int) -> CheckState:
    return tick.healths[gpu].check("nvlink_fault")


def test_a_fault_keeps_its_severity_and_names_the_link_that_it_follows() -> None:
    node = Node("n1", GpuTable())
    node.look()
    tick = node.look((0, 145, SOURCE), (1, 149, DOWN))
    assert [check(tick, gpu).state for gpu in range(2)] == ["crit", "crit"]
    assert check(tick, 0).message.endswith("fatal; it follows XID 149 of GPU 1")
    assert check(tick, 0).remedy == "XID 145 is a fault of an NVLink: see to XID 149 of GPU 1 first."
    assert check(tick, 1).message == "NVLink fault: XID 149.37, NETIR_LINK_DOWN on link 14, fatal"
    found = tick.healths[0].nvlink_fault
    assert found is not None
    assert (found.xid, found.link, found.fabric) == (145, 3, "c/1")


def test_faults_of_other_nodes_are_alertmanagers() -> None:
    table = GpuTable()
    first, second = Node("n1", table), Node("n2", table)
    for node in (first, second):
        node.look()
    first.look((1, 149, DOWN))
    assert "follows" not in check(second.look((0, 145, SOURCE)), 0).message


def test_links_of_many_gpus_of_a_node_point_at_their_switch() -> None:
    node = Node("n1", GpuTable())
    third = replace(boards("n1")[0], entity=Entity("gpu", "2", "GPU-n12", node="n1"), pci_bus_id="00000000:2A:00.0")
    node.devices = (*boards("n1"), third)
    calm, broken = {"xid_last_code": 0.0}, {"xid_last_code": 149.0}
    node.tick(calm, calm, calm)
    raised = check(node.tick(broken, broken, broken), 2)
    assert raised.message.endswith("links of 3 GPUs of this node went down within a minute")
    assert "switch" in raised.remedy
    node = Node("n1", GpuTable())
    node.tick(calm, calm)
    assert "went down within" not in check(node.tick(broken, broken), 1).message


@pytest.mark.parametrize(
    ("model", "fabric", "shown"),
    [("NVIDIA GB200", "c/1", "c/1"), ("NVIDIA GB200", "", "rack"), ("NVIDIA B200", "", "n1")],
)
def test_faults_follow_within_a_fabric_a_rack_or_a_node(model: str, fabric: str, shown: str) -> None:
    node = Node("n1", GpuTable())
    node.devices = tuple([replace(device, model=model, fabric=fabric) for device in node.devices])
    node.look()
    found = node.look((0, 145, SOURCE)).healths[0].nvlink_fault
    assert found is not None
    assert found.fabric == shown
