"""Balances of owners: GPUs through Compute and the accounting, and made readings of ports."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pulsed.model.clocks import Monotonic
from pulsed.model.host import CpuReading, InfinibandPort
from pulsed.model.owner import Owner
from pulsed.model.vocabulary import Reading
from pulsed.owners.accounting.balance import CPU_POWER, NETWORK, Balance, BalanceSums
from pulsed.owners.accounting.host_balances import BalanceRecorder, HostNetwork
from pulsed.owners.accounting.saved_accounts import dump_account, load_account
from tests.compute.streams import BUSY
from tests.owners.accounting.streams import A, B, Node

RECEIVED, SENT, RATE = NETWORK
NVLINK = "nvlink_receive_bytes_per_second"
EVERY = 15
LIMIT = 45.0
GB = 1e9


def port(name: str, received: float, sent: float = 0.0, *, state: str = "ACTIVE", rate: float | None = 50 * GB) -> Any:
    counters = {"receive_bytes": int(received), "transmit_bytes": int(sent)}
    return InfinibandPort(name, "1", "", state, "LinkUp", rate, counters)


class Host:
    """A node with ports, of which its owners' balances are recorded."""

    def __init__(self) -> None:
        self.node, self.recorder = Node(), BalanceRecorder()
        self.received = 0.0

    def reads(self, *ports: InfinibandPort) -> None:
        """Read what happened since the last time."""
        self.recorder.add_ports(Monotonic(self.node.clock), ports, LIMIT)
        accounting = self.node.accounting
        self.recorder.add_balances(accounting.running, LIMIT)

    def passes(self, *gpus: tuple[tuple[Owner, ...], Reading], traffic: float = 0.0, seconds: int = EVERY) -> None:
        """Take samples of some seconds in which a port receives so many bytes per second, then read."""
        for _ in range(seconds):
            self.node.sees(*gpus)
        self.received += seconds * traffic
        self.reads(port("mlx5_0", self.received))

    def of(self, owner: Owner, name: str) -> BalanceSums | None:
        return self.node.running(owner).balance.sums.get(name)


def gpu(sm: float | None, nvlink: float = 0.0) -> Reading:
    return BUSY._replace(sm_active_ratio=sm, nvlink_receive_bytes_per_second=nvlink)


def test_the_network_is_busy_while_sms_wait() -> None:
    host = Host()
    host.passes(((A,), gpu(1.0)))
    for _ in range(4):
        host.passes(((A,), gpu(1.0, 100 * GB)))
        host.passes(((A,), gpu(0.0)), traffic=20 * GB)
        host.passes(((A,), gpu(0.25)), traffic=4 * GB)
    assert host.of(A, RECEIVED) == pytest.approx((180.0, 1440 * GB, 75.0, 60 * GB, 105.0, 1380 * GB))
    assert host.of(A, RATE) == pytest.approx((180.0, 9000 * GB, 75.0, 3750 * GB, 105.0, 5250 * GB))
    assert host.of(A, NVLINK) == pytest.approx((180.0, 6000 * GB, 75.0, 6000 * GB, 105.0, 0.0))
    assert host.node.running(A).balance.shared_seconds == 0.0


def test_gpu_quantities_are_per_gpu_and_those_of_the_network_per_node() -> None:
    host = Host()
    for _ in range(3):
        host.passes(((A,), gpu(1.0, 2 * GB)), ((A,), gpu(0.5, 4 * GB)), traffic=GB)
    assert host.of(A, NVLINK) == pytest.approx((60.0, 180 * GB, 45.0, 135 * GB, 15.0, 45 * GB))
    assert host.of(A, RECEIVED) == pytest.approx((30.0, 30 * GB, 22.5, 22.5 * GB, 7.5, 7.5 * GB))


def test_without_sm_activity_only_the_sums_grow() -> None:
    host = Host()
    for _ in range(3):
        host.passes(((A,), gpu(None, GB)), traffic=GB)
    assert host.of(A, RECEIVED) == pytest.approx((30.0, 30 * GB, 0.0, 0.0, 0.0, 0.0))
    assert host.of(A, NVLINK) == pytest.approx((30.0, 30 * GB, 0.0, 0.0, 0.0, 0.0))


def test_a_quantity_adds_nothing_while_it_is_unknown() -> None:
    host = Host()
    host.passes(((A,), gpu(1.0)))
    for each in (gpu(1.0, GB), gpu(1.0)._replace(nvlink_receive_bytes_per_second=None)):
        host.passes(((A,), each))
    assert host.of(A, NVLINK) == pytest.approx((15.0, 15 * GB, 15.0, 15 * GB, 0.0, 0.0))
    assert host.of(A, "c2c_receive_bytes_per_second") is None


def test_time_in_which_another_owner_has_gpus_of_the_node_is_shared() -> None:
    host = Host()
    for other in ((), (), (B,), (A, B)):
        host.passes(((A,), gpu(1.0)), (other, gpu(1.0)), traffic=GB)
    assert host.of(A, RECEIVED) == pytest.approx((45.0, 45 * GB, 45.0, 45 * GB, 0.0, 0.0))
    assert host.node.running(A).balance.shared_seconds == pytest.approx(30.0)
    assert host.node.running(B).balance.shared_seconds == pytest.approx(15.0), "its first interval has no begin"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([port("a", 5 * GB), port("b", 5 * GB)], [port("a", 9 * GB), port("b", 0.0)]),
        ([port("a", 5 * GB)], [port("a", 9 * GB), port("b", 9 * GB)]),
        ([port("a", 5 * GB), port("b", 5 * GB)], [port("a", 9 * GB)]),
        ([port("a", 5 * GB)], []),
        ([], [port("a", 5 * GB)]),
        ([port("a", 5 * GB)], [port("a", 9 * GB)._replace(counters={"receive_bytes": 9})]),
    ],
    ids=["reset", "new port", "port gone", "all gone", "first port", "counter gone"],
)
def test_readings_that_do_not_belong_together_add_nothing(
    before: list[InfinibandPort], after: list[InfinibandPort]
) -> None:
    host = Host()
    for ports in (before, after):
        for _ in range(EVERY):
            host.node.sees(((A,), gpu(1.0)))
        host.reads(*ports)
    assert host.of(A, RECEIVED) is None
    assert host.of(A, NVLINK) is not None


def test_a_gap_between_readings_of_ports_costs_the_network_only() -> None:
    host = Host()
    for at in range(6):
        for _ in range(EVERY):
            host.node.sees(((A,), gpu(1.0)))
        if at not in (1, 2, 3):  # the ports of a hanging adapter
            host.recorder.add_ports(Monotonic(host.node.clock), [port("mlx5_0", at * EVERY * GB)], LIMIT)
        host.recorder.add_balances(host.node.accounting.running, LIMIT)
    assert host.of(A, RECEIVED) == pytest.approx((15.0, 15 * GB, 15.0, 15 * GB, 0.0, 0.0))
    assert host.of(A, NVLINK) == pytest.approx((75.0, 0.0, 75.0, 0.0, 0.0, 0.0))


def test_a_gap_between_samples_adds_nothing() -> None:
    host = Host()
    host.passes(((A,), gpu(1.0)), traffic=GB)
    for _ in range(4):
        host.node.clock += EVERY
        host.received += EVERY * GB
        host.reads(port("mlx5_0", host.received))
    for _ in range(2):
        host.passes(((A,), gpu(1.0)), traffic=GB)
    assert host.of(A, RECEIVED) == pytest.approx((15.0, 15 * GB, 15.0, 15 * GB, 0.0, 0.0))


def test_totals_of_the_network_are_interpolated_between_readings() -> None:
    network = HostNetwork()
    assert network.totals.at(Monotonic(5.0))[:2] == [0.0, 0.0]
    for now, received in ((10.0, 0.0), (20.0, GB), (40.0, 5 * GB)):
        network.add(Monotonic(now), [port("mlx5_0", received)], LIMIT)
    found = [network.totals.at(Monotonic(now))[:2] for now in (0.0, 10.0, 15.0, 35.0, 40.0, 50.0)]
    totals = [(0.0, 0.0), (0.0, 0.0), (5.0, 0.5 * GB), (25.0, 4 * GB), (30.0, 5 * GB), (30.0, 5 * GB)]
    assert found == [pytest.approx(each) for each in totals]


@pytest.mark.parametrize(
    ("ports", "rate"),
    [
        ([port("a", 0.0), port("b", 0.0, state="DOWN")], 750 * GB),
        ([port("a", 0.0), port("b", 0.0, rate=None)], None),
        ([port("a", 0.0, state="DOWN", rate=None)], 0.0),
    ],
)
def test_the_rate_is_that_of_active_ports(ports: list[InfinibandPort], rate: float | None) -> None:
    host = Host()
    for _ in range(2):
        for _ in range(EVERY):
            host.node.sees(((A,), gpu(1.0)))
        host.reads(*ports)
    found = host.of(A, RATE)
    assert (None if found is None else found.integral) == pytest.approx(rate)
    assert host.of(A, RECEIVED) is not None


def test_samples_may_be_rarer_than_readings() -> None:
    """What counts is the traffic up to the sample that ends an interval, not up to the reading."""
    host = Host()
    for now in range(0, 601, 5):
        waits = (now - 1) // 60 % 2  # a minute of work, a minute of traffic
        host.received += 5 * GB * waits
        if now % EVERY == 0:
            host.recorder.add_ports(Monotonic(now), [port("mlx5_0", host.received)], 3 * 60.0)
            host.recorder.add_balances(host.node.accounting.running, 3 * 60.0)
        if now % 60 == 0:  # after the reading
            host.node.clock, host.node.interval = now - 60.0, 60.0
            host.node.sees(((A,), gpu(1.0 - waits)))
    assert host.of(A, RECEIVED) == pytest.approx((540.0, 240 * GB, 300.0, 0.0, 240.0, 240 * GB))


def test_a_balance_survives_its_file_and_other_versions() -> None:
    host = Host()
    for _ in range(3):
        host.passes(((A,), gpu(0.3, GB)), ((B,), gpu(1.0)), traffic=GB)
    saved = json.loads(json.dumps(dump_account(host.node.running(A))))
    again = load_account(saved)
    assert json.loads(json.dumps(dump_account(again))) == saved
    assert again.balance.shared_seconds == pytest.approx(30.0)
    assert again.balance.sums[RECEIVED] == pytest.approx(host.of(A, RECEIVED))
    saved["balance"]["sums"]["of_a_newer_version"] = [1.0] * 6
    assert load_account(saved).balance == again.balance
    del saved["balance"]
    assert load_account(saved).balance == Balance()


@pytest.mark.parametrize(
    "damage",
    [
        {"sums": {RECEIVED: [1.0] * 5}},
        {"sums": {RECEIVED: [-1.0] * 6}},
        {"sums": {RECEIVED: [1e300] * 6}},
        {"sums": [], "shared_seconds": 0.0},
        {"shared_seconds": float("nan")},
        {"shared_seconds": None},
        [],
    ],
)
def test_a_damaged_balance_is_refused(damage: object) -> None:
    node = Node()
    node.sees(((A,), BUSY))
    saved = json.loads(json.dumps(dump_account(node.running(A))))
    with pytest.raises(ValueError, match="not an account: balance"):
        load_account(saved | {"balance": damage})


def test_processors_count_while_the_power_of_all_of_them_is_known() -> None:
    host = Host()
    for watts in (150.0, 150.0, None, 250.0, 250.0):
        for _ in range(EVERY):
            host.node.sees(((A,), gpu(0.5)))
        host.recorder.add_cpus(Monotonic(host.node.clock), [CpuReading("", "0", power_watts=watts)], LIMIT)
        host.recorder.add_balances(host.node.accounting.running, LIMIT)
    sums = host.of(A, CPU_POWER)
    assert sums is not None
    assert (sums.seconds, sums.integral) == pytest.approx((3 * EVERY, EVERY * (150.0 + 250.0 + 250.0)))
