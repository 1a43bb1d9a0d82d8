"""Where faults of NVLinks began, whatever the order in which they are reported."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.health.link_faults import SOME_RACK, ReportedFault, faults_of, verdicts_on
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.health.xid_log import XidRecord
from pulsed.compute.health_evaluator import HealthEvaluator, HealthTick
from pulsed.compute.settings import ComputeSettings
from pulsed.compute.target_gpus import Tracker
from pulsed.model.gpu import Device, Entity
from pulsed.model.health import CheckState
from pulsed.model.raw_tick import KernelEvent, LinkFault
from tests.compute.health.sim import Sim
from tests.compute.streams import DAY


def fault(
    node: str, gpu: str, code: int, began: float, *, fatal: bool | None = True, fabric: str = "c/1"
) -> ReportedFault:
    return ReportedFault(code, began, (node, gpu), gpu, 14, fatal, fabric)


def origins_of(faults: list[ReportedFault]) -> dict[str, str]:
    """By GPU, the GPU that its fault follows from; itself for an origin."""
    return {
        f"{each.board[0]}:{each.gpu}": f"{origin.board[0]}:{origin.gpu}"
        for each, verdict in verdicts_on(faults).items()
        for origin in [verdict.origin or each]
    }


CASES: dict[str, tuple[list[ReportedFault], dict[str, str]]] = {
    "149 before the time, as far as clocks differ": (
        [fault("a", "0", 145, 10.0), fault("b", "1", 149, 12.0), fault("c", "2", 150, 11.0)],
        {"a:0": "b:1", "b:1": "b:1", "c:2": "b:1"},
    ),
    "out of order": (
        [fault("a", "0", 145, 10.0), fault("b", "1", 149, 30.0), fault("c", "2", 145, 31.0)],
        {"a:0": "a:0", "b:1": "b:1", "c:2": "b:1"},
    ),
    "without 149": (
        [fault("a", "0", 145, 12.0), fault("b", "1", 144, 10.0), fault("a", "2", 145, 12.0)],
        {"a:0": "a:0", "b:1": "b:1", "a:2": "a:2"},
    ),
    "a fault that does not follow from links that are down": (
        [fault("a", "0", 149, 10.0), fault("a", "1", 144, 11.0)],
        {"a:0": "a:0", "a:1": "a:1"},
    ),
    "a link that is not fatally down": (
        [fault("a", "0", 149, 10.0, fatal=False), fault("a", "1", 145, 11.0)],
        {"a:0": "a:0", "a:1": "a:1"},
    ),
    "two links": (
        [fault("a", "3", 149, 10.0), fault("a", "5", 149, 25.0), fault("a", "0", 145, 26.0)],
        {"a:3": "a:3", "a:5": "a:5", "a:0": "a:3"},
    ),
    "a chain that is longer than a minute": (
        [fault("a", "0", 149, 10.0), fault("a", "1", 145, 60.0), fault("a", "2", 145, 110.0)],
        {"a:0": "a:0", "a:1": "a:0", "a:2": "a:2"},
    ),
    "another fabric": (
        [fault("a", "0", 149, 10.0), fault("b", "1", 145, 10.0, fabric="c/2")],
        {"a:0": "a:0", "b:1": "b:1"},
    ),
    "another code of the same GPU": (
        [fault("a", "0", 149, 10.0), fault("a", "0", 145, 10.0)],
        {"a:0": "a:0"},
    ),
    "a GPU of the node whose fabric is not named": (
        [
            fault("a", "0", 149, 10.0),
            fault("a", "1", 145, 11.0, fabric=SOME_RACK),
            fault("b", "2", 145, 11.0, fabric=SOME_RACK),
        ],
        {"a:0": "a:0", "a:1": "a:0", "b:2": "b:2"},
    ),
    "no known fabric: nodes of their own": (
        [
            fault("a", "0", 149, 10.0, fabric=""),
            fault("a", "2", 145, 12.0, fabric=""),
            fault("b", "3", 145, 12.0, fabric=""),
        ],
        {"a:0": "a:0", "a:2": "a:0", "b:3": "b:3"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_origin_does_not_depend_on_the_order(name: str) -> None:
    faults, expected = CASES[name]
    for order in permutations(faults):
        assert origins_of(list(order)) == expected


@pytest.mark.parametrize(
    ("code", "began", "role"),
    [
        *[(145, 9.9, ""), (145, 10.0, "doubt"), (145, 64.9, "doubt"), (145, 65.0, "origin"), (145, 130.0, "origin")],
        *[(145, 130.1, ""), (150, 70.0, "origin"), (144, 70.0, ""), (146, 70.0, ""), (147, 70.0, ""), (148, 70.0, "")],
    ],
)
def test_a_fault_follows_from_a_link_that_went_down_up_to_a_minute_before_or_5_s_after(
    code: int, began: float, role: str
) -> None:
    down, other = fault("a", "0", 149, 70.0), fault("b", "1", code, began)
    verdict = verdicts_on([down, other])[other]
    assert (verdict.origin, verdict.doubt) == (down if role == "origin" else None, down if role == "doubt" else None)


@pytest.mark.parametrize("code", range(143, 152))
def test_faults_of_nvlinks_are_xids_144_to_150(code: int) -> None:
    records = {
        code: XidRecord(7.0, dated=True),
        45: XidRecord(8.0, dated=True),
        79: XidRecord(9.0, dated=False),
    }
    faults = faults_of(records, DAY, boards("n1")[0], "here", [])
    assert [(each.code, each.began) for each in faults] == [(code, DAY + 7.0)] * (144 <= code <= 150)


def test_what_may_follow_names_what_it_may_follow_from() -> None:
    early, down = fault("a", "0", 145, 10.0), fault("b", "1", 149, 30.0)
    assert verdicts_on([early, down])[early].doubt == down
    unknown = fault("c", "2", 145, 31.0, fabric="")
    assert verdicts_on([unknown, down])[unknown].doubt == down
    other = fault("c", "2", 145, 31.0, fabric="c/2")
    assert verdicts_on([other, down])[other].doubt is None


def test_links_of_many_gpus_of_a_node_point_at_their_switch() -> None:
    down = [fault("a", str(gpu), 149, 10.0 + gpu) for gpu in range(3)]
    found = verdicts_on([*down, fault("b", "0", 149, 10.0)])
    assert [found[each].down for each in down] == [3, 3, 3]
    node = Node("n1", GpuTable())
    third = replace(boards("n1")[0], entity=Entity("gpu", "2", "GPU-n12", node="n1"), pci_bus_id="00000000:2A:00.0")
    node.devices = (*boards("n1"), third)
    calm, broken = {"xid_last_code": 0.0}, {"xid_last_code": 149.0}
    node.tick(calm, calm, calm)
    raised = check(node.tick(broken, broken, broken), 2)
    assert raised.message.endswith("links of 3 GPUs of this node went down within a minute")
    assert "switch" in raised.remedy


def test_a_gpu_under_two_keys_follows_from_nothing() -> None:
    same = [fault("a", "0", 149, began) for began in (10.0, 10.4)]
    follower = fault("b", "1", 145, 10.0)
    found = verdicts_on([*same, follower])
    assert [(found[each].origin, found[each].followers) for each in same] == [(None, 1)] * 2
    assert found[follower].origin == same[0]
    assert [verdicts_on(same)[each].followers for each in same] == [0, 0]


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
            KernelEvent("xid", code, self.time + 0.5, self.devices[gpu].pci_bus_id, fault=each)
            for gpu, code, each in faults
        )
        return self.tick({"temperature_celsius": 40.0}, {"temperature_celsius": 40.0})


DOWN = LinkFault("NETIR_LINK_DOWN", True, link=14, subcode=37)
SOURCE = LinkFault("RLW_SRC_TRACK", True, link=3)


def check(tick: HealthTick, gpu: int) -> CheckState:
    return tick.healths[gpu].check("nvlink_fault")


def test_one_gpu_of_all_nodes_is_critical_and_named_by_the_others_also_after_a_restart() -> None:
    table = GpuTable()
    first, second = Node("n1", table), Node("n2", table)
    for node in (first, second):
        node.look()
    early = second.look((0, 145, SOURCE))
    assert check(early, 0).state == "crit", "no other fault is known yet"
    tick = first.look((0, 145, SOURCE), (1, 149, DOWN))
    assert [check(tick, gpu).state for gpu in range(2)] == ["info", "crit"]
    assert check(tick, 1).message == (
        "NVLink fault: XID 149.37, NETIR_LINK_DOWN on link 14, fatal; faults of other GPUs follow from it: 2"
    )
    changes = {(change.device.entity.gpu, change.after) for change in tick.changes if change.check}
    assert changes == {("0", "info"), ("1", "crit")}, "the first verdict about GPU 0 was not told"
    late = second.look()
    assert check(late, 0).state == "info"
    assert check(late, 0).message.endswith("fatal; it follows from XID 149 of GPU 1 of n1, link 14")
    assert check(late, 0).remedy == "XID 145 is a fault of an NVLink: see to XID 149 of GPU 1 of n1, link 14 first."
    found = late.healths[0].nvlink_fault
    assert found is not None
    assert (found.xid, found.link, found.is_origin, found.fabric) == (145, 3, False, "c/1")
    second.table = first.table = GpuTable()  # of a new process
    second.restart()
    first.restart()
    assert check(second.look(), 0).state == "info", "its own target is read first"
    assert check(first.look(), 1).state == "crit"


def test_a_node_that_is_read_for_hours_and_a_new_one_have_the_same_time() -> None:
    table = GpuTable()
    first, second = Node("n1", table), Node("n2", table)
    first.look()
    first.tick({"temperature_celsius": 40.0}, {"temperature_celsius": 40.0}, after=7200.0)
    second.time = first.time
    second.look()
    first.look((1, 149, DOWN))
    assert check(second.look((0, 145, SOURCE)), 0).state == "info"


@pytest.mark.parametrize(("model", "state"), [("NVIDIA GB200", "info"), ("NVIDIA B200", "crit")])
def test_links_of_a_rack_leave_their_nodes_and_those_of_a_board_do_not(model: str, state: str) -> None:
    table = GpuTable()
    first, second = Node("n1", table), Node("n2", table)
    for node in (first, second):
        node.devices = tuple([replace(device, model=model, fabric="") for device in node.devices])
        node.look()
    first.look((1, 149, DOWN))
    assert check(second.look((0, 145, SOURCE)), 0).state == state


def test_new_settings_of_health_leave_followers_what_they_are() -> None:
    table = GpuTable()
    first, second = Node("n1", table), Node("n2", table)
    for node in (first, second):
        node.look()
    first.look((1, 149, DOWN))
    assert check(second.look((0, 145, SOURCE)), 0).state == "info"
    table.reconfigure(ComputeSettings(health=HealthSettings(disabled=frozenset({"temp_gpu"}))))
    assert check(second.look(), 0).state == "info", "its own target is read first"


def test_a_reset_of_the_origin_leaves_its_followers() -> None:
    node = Node("n1", GpuTable())
    node.look()
    node.look((0, 145, SOURCE), (1, 149, DOWN))
    node.devices = (node.devices[0], replace(node.devices[1], driver_version="580.1"))
    node.look()
    node.devices = (node.devices[0], replace(node.devices[1], driver_version="590.1"))
    tick = node.look()
    assert [check(tick, gpu).state for gpu in range(2)] == ["info", "ok"]


def test_followers_confirm_a_code_without_details() -> None:
    node = Node("n1", GpuTable())
    node.tick({"xid_last_code": 0.0}, {"xid_last_code": 0.0})
    tick = node.tick({"xid_last_code": 145.0}, {"xid_last_code": 149.0})
    assert [check(tick, gpu).state for gpu in range(2)] == ["info", "crit"]
