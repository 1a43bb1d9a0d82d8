"""Balances in documents, reports and lines, of one node and of several."""

from __future__ import annotations

from typing import Any

import pytest

from pulsed.model.clocks import Unix
from pulsed.model.host import JobHostUsage
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.owners.accounting.balance import NETWORK, Balance, BalanceSums
from pulsed.owners.report.account_totals import merged_account
from pulsed.owners.report.job_line import job_line
from pulsed.owners.report.job_report import job_report
from pulsed.present.api.account_documents import account_document
from tests.owners.report.accounts import ANN, BEGIN, document, gpu_account

HOUR = 3600.0
GB = 1e9
RECEIVED, SENT, RATE = NETWORK
DRAM, NVLINK = "dram_active_ratio", "nvlink_receive_bytes_per_second"


def sums(hours: float, mean: float, working: float, waiting: float, activity: float = 0.5) -> BalanceSums:
    """Return the sums of some hours with these means."""
    work, wait = activity * hours * HOUR, (1.0 - activity) * hours * HOUR
    return BalanceSums(hours * HOUR, mean * hours * HOUR, work, working * work, wait, waiting * wait)


def of_node(node: str, balance: dict[str, BalanceSums], shared: float = 0.0, **usage: float) -> dict[str, Any]:
    """Return the document of a job with a GPU of a node for 4 hours."""
    gpu = gpu_account(0, node=node)
    account = OwnerAccount(
        ANN, Unix(BEGIN), Unix(BEGIN), Unix(BEGIN + 4 * HOUR), gpus={gpu.device.entity.key: gpu}, elapsed=4 * HOUR
    )
    account.balance = Balance(balance, shared)
    account.host = JobHostUsage(**usage) if usage else None
    return account_document(account, node)


def table(account: dict[str, Any]) -> list[str]:
    lines = job_report(account).splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("  Balance"))
    return lines[start : lines.index("", start)]


def test_the_table_of_a_job_whose_sms_wait_for_the_network() -> None:
    balance = {
        DRAM: sums(4.0, 0.3, 0.6, 0.0),
        NVLINK: sums(4.0, 120 * GB, 240 * GB, 0.0),
        RECEIVED: sums(4.0, 12 * GB, 2 * GB, 22 * GB),
        SENT: sums(4.0, 0.0, 0.0, 0.0),
        RATE: sums(4.0, 50 * GB, 50 * GB, 50 * GB),
    }
    made = of_node("gpu01", balance)
    assert table(made) == [
        "  Balance                                mean  while SMs worked  while SMs waited",
        "  DRAM                                   30 %              60 %               0 %",
        "  NVLink received by a GPU           120 GB/s          240 GB/s             0 B/s",
        "  network received by a node  12.0 GB/s, 24 %    2.00 GB/s, 4 %   22.0 GB/s, 44 %  % of the rate of its ports",
        "  network sent by a node           0 B/s, 0 %        0 B/s, 0 %        0 B/s, 0 %  % of the rate of its ports",
    ]
    assert " net=.24 net_wait=.44 " in job_line(made)
    assert "other owners" not in job_report(made)


def test_a_document_has_the_host_if_its_usage_or_the_balance_is_known() -> None:
    assert of_node("gpu01", {})["hosts"] == []
    (host,) = of_node("gpu01", {DRAM: sums(4.0, 0.3, 0.6, 0.0)}, 60.0)["hosts"]
    assert (host["node"], host["cpu_seconds"], host["network_shared_seconds"]) == ("gpu01", None, 60.0)
    assert host["balance"] == {DRAM: sums(4.0, 0.3, 0.6, 0.0)._asdict()}
    (host,) = of_node("gpu01", {}, cpu_seconds=5.0)["hosts"]
    assert (host["cpu_seconds"], host["balance"]) == (5.0, {})
    assert "Balance" not in job_report(of_node("gpu01", {}, cpu_seconds=5.0))


def test_nodes_of_a_job_add_up() -> None:
    """Each by its seconds: the second one knows its network for an hour only."""
    first = of_node("gpu01", {RECEIVED: sums(4.0, GB, GB, GB), RATE: sums(4.0, 10 * GB, 10 * GB, 10 * GB)}, 4 * HOUR)
    second = of_node("gpu02", {RECEIVED: sums(1.0, 6 * GB, GB, 11 * GB), RATE: sums(1.0, 10 * GB, 10 * GB, 10 * GB)})
    older = document(gpu_account(0, node="gpu03"))
    older["hosts"] = [{"node": "gpu03", "cpu_seconds": 1.0, "memory_peak_bytes": None, "memory_limit_bytes": None}]
    merged = merged_account([first, second, older])
    assert table(merged)[1:] == [
        "  network received by a node  2.00 GB/s, 20 %   1.00 GB/s, 10 %   3.00 GB/s, 30 %  % of the rate of its ports,"
        " known for 42 % of the time",
    ]
    assert "other owners had GPUs of its nodes for 80 % of the time\n" in job_report(merged)
    assert " net=.2 net_wait=.3 " in job_line(merged)


def test_what_is_not_known_is_not_0() -> None:
    unknown_sm = BalanceSums(4 * HOUR, 4 * HOUR * GB)
    assert table(of_node("gpu01", {RECEIVED: unknown_sm, NVLINK: unknown_sm}))[1:] == [
        "  NVLink received by a GPU    1.00 GB/s                 -                 -",
        "  network received by a node  1.00 GB/s                 -                 -",
    ]
    assert " net" not in job_line(of_node("gpu01", {RECEIVED: unknown_sm}))
    down = {RECEIVED: sums(4.0, 0.0, 0.0, 0.0), RATE: sums(4.0, 0.0, 0.0, 0.0)}
    assert table(of_node("gpu01", down))[1] == "  network received by a node  0 B/s             0 B/s             0 B/s"


@pytest.mark.parametrize("number", [1e40, 1e-300])
def test_a_damaged_file_does_not_cost_the_report(number: float) -> None:
    made = of_node("gpu01", dict.fromkeys((DRAM, RECEIVED, RATE), BalanceSums(*[number] * 6)), number)
    assert job_report(made)
    assert job_line(made)
