"""The balance of a job, from the `hosts` of its document: memory, links and network while SMs worked and waited.

All hosts are added up. Values are means, of a GPU, and of the network of a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import NamedTuple

from pulsed.model.vocabulary import Value
from pulsed.owners.accounting.balance import BALANCED, CPU_POWER, NETWORK, BalanceSums
from pulsed.present.job_numbers import MISSING, Account, percent
from pulsed.present.terminal.numbers import field_text_with_unit

RECEIVE, TRANSMIT, RATE = NETWORK

TITLES = {
    "dram_active_ratio": "DRAM",
    "nvlink_receive_bytes_per_second": "NVLink received by a GPU",
    "nvlink_transmit_bytes_per_second": "NVLink sent by a GPU",
    "c2c_receive_bytes_per_second": "C2C received by a GPU",
    "c2c_transmit_bytes_per_second": "C2C sent by a GPU",
    "pcie_receive_bytes_per_second": "PCIe received by a GPU",
    "pcie_transmit_bytes_per_second": "PCIe sent by a GPU",
    RECEIVE: "network received by a node",
    TRANSMIT: "network sent by a node",
}
"""Rows of the table, by quantity."""

MIN_SECONDS = 1.0
"""There is no mean over less."""

MIN_KNOWN_RATIO = 0.9
"""A quantity that was known for less of the time is marked. Up to two intervals of a job are not covered."""


class Means(NamedTuple):
    """Means of a quantity: over all time, and weighted by SM activity, and by the rest of it."""

    mean: Value
    working: Value
    waiting: Value


def balance_rows(account: Account) -> list[list[str]]:
    """Return the table with its head; empty where nothing was known."""
    sums, nodes = _sums(account), {gpu["node"] for gpu in account["gpus"]}
    rows = [["Balance", "mean", "while SMs worked", "while SMs waited", ""]]
    for name, title in TITLES.items():
        if sums[name].seconds < MIN_SECONDS:
            continue
        shares = _shares(sums, name)
        texts = [MISSING if value is None else field_text_with_unit(name, value) for value in _means(sums[name])]
        cells = [
            text if share is None else f"{text}, {percent(share)}" for text, share in zip(texts, shares, strict=True)
        ]
        possible = len(nodes) * account["elapsed_seconds"] if name in NETWORK else account["total"]["gpu_seconds"]
        notes = ["% of the rate of its ports"] if shares.mean is not None else []
        if (known_ratio := sums[name].seconds / possible if possible else 1.0) < MIN_KNOWN_RATIO:
            notes.append(f"known for {percent(known_ratio)} of the time")
        rows.append([title, *cells, ", ".join(notes)])
    return rows if len(rows) > 1 else []


def network_shares(account: Account) -> Means:
    """Return the share of the ports' rate that the direction with more traffic used."""
    sums = _sums(account)
    received, sent = _shares(sums, RECEIVE), _shares(sums, TRANSMIT)
    return Means(*map(_largest, zip(received, sent, strict=True)))


def cpu_joules(account: Account) -> float:
    """Return the energy that the processors of the job's nodes are known to have used while it had GPUs there."""
    return _sums(account)[CPU_POWER].integral


def shared_ratio(account: Account) -> float:
    """Return the share of the time with a known network in which other owners had GPUs of the same nodes."""
    shared, seconds = (
        sum(host.get("network_shared_seconds", 0.0) for host in _hosts(account)),
        _sums(account)[RECEIVE].seconds,
    )
    return min(shared / seconds, 1.0) if seconds >= MIN_SECONDS else 0.0


def _hosts(account: Account) -> Sequence[Account]:
    hosts: Sequence[Account] = account.get("hosts", ())  # absent in documents of older daemons, as is `balance`
    return hosts


def _sums(account: Account) -> dict[str, BalanceSums]:
    sums = dict.fromkeys(BALANCED, BalanceSums())
    for host in _hosts(account):
        for name, members in host.get("balance", {}).items():
            if name in sums:
                sums[name] = BalanceSums(*map(add, sums[name], [members[each] for each in BalanceSums._fields]))
    return sums


def _means(sums: BalanceSums) -> Means:
    pairs = zip(sums[::2], sums[1::2], strict=True)
    return Means(*(integral / seconds if seconds >= MIN_SECONDS else None for seconds, integral in pairs))


def _shares(sums: dict[str, BalanceSums], name: str) -> Means:
    """Return the shares of the ports' rate; None for a quantity of GPUs."""
    if name not in NETWORK:
        return Means(None, None, None)
    pairs = zip(_means(sums[name]), _means(sums[RATE]), strict=True)
    return Means(*(value / rate if value is not None and rate else None for value, rate in pairs))


def _largest(values: Sequence[Value]) -> Value:
    return max((value for value in values if value is not None), default=None)
