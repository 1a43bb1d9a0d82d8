"""Mean and spread of what the GPUs of a job did, for documents of `/jobs/{id}`: per GPU, and over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

from pulsed.compute.products import tensor_peak_of
from pulsed.model.gpu import Device
from pulsed.owners.accounting.activity import MOMENTS, Moments, Timeline
from pulsed.present.job_numbers import Account
from pulsed.present.terminal.numbers import trend


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

    `over_time` is that within each GPU, `over_gpus` that of the means of the GPUs; null for one GPU.
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
    line = account.get("timeline")  # absent in documents of older daemons
    pairs = zip(line["gpu_seconds"], line["real_utilization_seconds"], strict=True) if line else ()
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
        each_gpu = [gpu.get("statistics", {}).get(name) for gpu in gpus]  # absent in documents of older daemons
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
