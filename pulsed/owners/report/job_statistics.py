"""Mean and spread of the activity of a job's GPUs, per GPU and over all of them, and the balance of the job.

The balance is made from the `hosts` of its document: memory, links and network while SMs worked and waited. All hosts
are added up; values are means, of a GPU, and of the network of a node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

from pulsed.compute.products import tensor_peak_of
from pulsed.model.gpu import Device
from pulsed.model.vocabulary import Value
from pulsed.number_text import field_text_with_unit, trend
from pulsed.owners.accounting.activity import MOMENTS, Moments, Timeline
from pulsed.owners.accounting.balance import BALANCED, CPU_POWER, NETWORK, BalanceSums
from pulsed.owners.report.job_numbers import MISSING, Account, percent
from pulsed.owners.report.sums import added


class JobQuantity(NamedTuple):
    """A quantity of `statistics`: its name in JSON, title, and the size and name of its unit in texts."""

    name: str
    title: str
    size: float = 0.01
    unit: str = "%"


MFU, FLOPS = "mfu_ratio", "flops_per_second"
JOB_QUANTITIES = (
    JobQuantity("real_utilization_ratio", "real work"),
    JobQuantity("sm_active_ratio", "SM"),
    JobQuantity("sm_occupancy_ratio", "occupancy"),
    JobQuantity("tensor_active_ratio", "tensor"),
    JobQuantity("dram_active_ratio", "DRAM"),
    JobQuantity("power_watts", "power", 1.0, "W"),
    JobQuantity(MFU, "MFU, as dense BF16"),
    JobQuantity(FLOPS, "FLOP/s of a GPU, as dense BF16", 1e12, "TFLOP/s"),
)
"""`flops_per_second` is `mfu_ratio` times the dense BF16 peak: of another precision, or of sparse work, it is another
number."""


MAX_MEAN = 1e50
"""No quantity is as large; a damaged file may have made it so."""

STATISTICS_HELP = f"{', '.join(each.name for each in JOB_QUANTITIES)}; absent if never known"


class GpuStatistic(NamedTuple):
    """A quantity of a GPU: mean and standard deviation over the seconds in which it was known."""

    mean: float
    over_time: float
    seconds: float


class JobStatistic(NamedTuple):
    """A quantity of all GPUs: mean over the GPU seconds in which it was known, and standard deviations.

    `over_time` is the deviation within each GPU, `over_gpus` the deviation of the GPUs' means; null for one GPU.
    """

    mean: float
    over_time: float
    over_gpus: float | None
    seconds: float


class TimelineNumbers(NamedTuple):
    """The real utilization of all GPUs over the life of their owner, in at most 64 buckets from `begin` on.

    `gpu_seconds` are those with known real utilization, `real_utilization_seconds` its integral over them.
    """

    bucket_seconds: float
    gpu_seconds: list[float]
    real_utilization_seconds: list[float]


def timeline_numbers(timeline: Timeline) -> TimelineNumbers:
    """Return the numbers of a timeline, for its document."""
    seconds, integrals = ([round(pair[part], 3) for pair in timeline.buckets] for part in (0, 1))
    return TimelineNumbers(timeline.width, seconds, integrals)


def sparkline(account: Account) -> str:
    """Return the real utilization over the life of an owner as a line of blocks, from 0 to 1; a gap is a space."""
    line = account["timeline"]
    pairs = zip(line["gpu_seconds"], line["real_utilization_seconds"], strict=True)
    ratios = [integral / seconds if seconds > 0.0 else None for seconds, integral in pairs]
    return trend(ratios, len(ratios), 1.0)


def gpu_statistics(moments: Moments, device: Device) -> dict[str, GpuStatistic]:
    """Return the statistic of each quantity that was known."""
    statistics = {name: statistic for name in MOMENTS if (statistic := _statistic(*moments.sums_of(name))) is not None}
    mfu, peak = statistics.get(MFU), tensor_peak_of(device.model)
    if mfu is not None and peak is not None and device.entity.kind == "gpu":
        statistics[FLOPS] = GpuStatistic(mfu.mean * peak.flops, mfu.over_time * peak.flops, mfu.seconds)
    return statistics


def total_statistics(gpus: Sequence[Account]) -> dict[str, dict[str, Any]]:
    """Return a `JobStatistic` of each quantity that was known of a GPU."""
    statistics = {}
    for name in (quantity.name for quantity in JOB_QUANTITIES):
        each_gpu = [gpu["statistics"].get(name) for gpu in gpus]
        per_gpu = [GpuStatistic(each["mean"], each["over_time"], each["seconds"]) for each in each_gpu if each]
        if per_gpu:
            statistics[name] = _over_gpus(per_gpu)._asdict()
    return statistics


def _over_gpus(gpus: Sequence[GpuStatistic]) -> JobStatistic:
    seconds = sum(each.seconds for each in gpus)
    mean = sum(each.seconds * each.mean for each in gpus) / seconds
    within = sum(each.seconds * each.over_time**2 for each in gpus) / seconds
    between = sum(each.seconds * (each.mean - mean) ** 2 for each in gpus) / seconds
    return JobStatistic(mean, sqrt(within), sqrt(between) if len(gpus) > 1 else None, seconds)


def known_ratio(statistic: Mapping[str, Any], total: Account) -> float:
    """Return the share of the observed GPU time of an account in which a quantity was known."""
    return min(statistic["seconds"] / total["gpu_seconds"], 1.0) if total["gpu_seconds"] > 0.0 else 0.0


def _statistic(seconds: float, integral: float, squares: float) -> GpuStatistic | None:
    if seconds <= 0.0 or not (mean := integral / seconds) < MAX_MEAN:
        return None
    return GpuStatistic(mean, sqrt(min(max(squares / seconds - mean * mean, 0.0), MAX_MEAN)), seconds)


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
    shared = sum(host.get("network_shared_seconds", 0.0) for host in account["hosts"])
    seconds = _sums(account)[RECEIVE].seconds
    return min(shared / seconds, 1.0) if seconds >= MIN_SECONDS else 0.0


def _sums(account: Account) -> dict[str, BalanceSums]:
    sums = added(host.get("balance") for host in account["hosts"]) or {}
    return {name: BalanceSums(**sums.get(name, {})) for name in BALANCED}


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
