"""A GPU that is busy for 0.3 s of every second, as a real Prometheus sees it that scrapes every 15 s."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from pulsed.compute.sample import GAP_INTERVALS
from tests.support.daemon import serving
from tests.support.prometheus import CONFIG, prometheus
from tests.support.standin.install import Standin
from tests.support.standin.scenario import Scenario, gpus
from tests.support.standin.signals import Constant, Signal, Square

BUSY = 0.3
"""The truth: the share of time that the GPU is busy in, wholly, and its real utilization over any whole second."""

ACTIVITY = (1001, 1002, 1003, 1004, 1005)
"""DCGM's fields of graphics engine, SM, occupancy, tensor and DRAM activity."""

OTHERS = (1009, 1010, 206, 207)
"""PCIe, encoder and decoder, which do nothing."""

SCRAPE_SECONDS = 15
TICK = 0.1


@dataclass(frozen=True)
class Seen:
    """What can be known of the real utilization afterwards.

    Attributes:
        truth: share of the covered time that the GPU was busy in, from what the stand-in noted while it printed. It is
            BUSY on an idle machine; on one that keeps the stand-in waiting, other parts of the wave are seen longer.
        sampled: the same share from the samples that the daemon got, at the times when they arrived: its history.
        counter: from the counters: integral over observed time.
        gauge: the mean of the scraped gauge.
        idle: share of the observed time in the class idle.
        observed: share of the covered time that was observed.
        samples: of the gauge.
    """

    truth: float
    sampled: float
    counter: float
    gauge: float
    idle: float
    observed: float
    samples: int


def compare(folder: Path, scrapes: int) -> Seen:
    """Let Prometheus scrape so often, and ask it."""
    (folder / "bin").mkdir()
    # The edges are half a tick away from the ticks, whose times are whole tenths of seconds.
    wave = Square(period=1.0, busy=BUSY, phase=-TICK / 2)
    values: dict[int, Signal] = {**dict.fromkeys(ACTIVITY, wave), **dict.fromkeys(OTHERS, Constant(0))}
    scenario = Scenario(gpus=gpus("hopper", 1), values={"*": values}, log_ticks=True)
    standin = Standin(folder / "bin", scenario)
    flags = {"source.interval": f"{TICK}", "source.dcgmi.path": str(standin.path)}
    words = [word for key, value in flags.items() for word in ("--set", f"{key}={value}")]
    with (
        serving(folder, "--source", "dcgmi", *words) as daemon,
        prometheus(folder, CONFIG.format(interval=f"{SCRAPE_SECONDS}s", address=daemon.address)) as server,
    ):
        observed = "pulsed_gpu_observed_seconds_total"
        server.wait_for(f"{observed} > 0", 3 * SCRAPE_SECONDS)
        server.wait_for(f"count_over_time({observed}[1h]) >= {scrapes}", (scrapes + 2) * SCRAPE_SECONDS)

        def growth(series: str) -> float:
            kept = server.ask(f"{series}[1h]")
            (only,) = kept
            return float(only["values"][-1][1]) - float(only["values"][0][1])

        (kept,) = server.ask(f"{observed}[1h]")
        busy, covered = _truth(standin, wave, scenario.update_every, kept["values"][0][0], kept["values"][-1][0])
        history = daemon.get("/gpus/0/history?fields=real_utilization_ratio").json()
        seconds = growth(observed)
        idle = 'pulsed_gpu_workload_class_seconds_total{class="idle"}'
        return Seen(
            truth=busy / covered,
            sampled=_sampled(history, kept["values"][0][0], kept["values"][-1][0]),
            counter=growth("pulsed_gpu_real_utilization_seconds_total") / seconds,
            gauge=server.value("avg_over_time(pulsed_gpu_real_utilization_ratio[1h])"),
            idle=growth(idle) / seconds,
            observed=seconds / covered,
            samples=len(kept["values"]),
        )


def _sampled(history: Mapping[str, Any], begin: float, end: float) -> float:
    """Mean of the real utilization of the samples between two scrapes, weighted with the time that they cover."""
    ratios: list[float] = history["fields"]["real_utilization_ratio"]
    samples = zip(history["time"], ratios, strict=True)
    within = [(now, ratio) for now, ratio in samples if begin < now <= end]
    parts = [
        (after - before, ratio)
        for (before, _), (after, ratio) in pairwise(within)
        if after - before <= GAP_INTERVALS * TICK
    ]
    return float(sum(seconds * ratio for seconds, ratio in parts) / sum(seconds for seconds, _ in parts))


def _truth(standin: Standin, wave: Square, update_every: float, begin: float, end: float) -> tuple[float, float]:
    """Seconds that the GPU was busy in between two scrapes, and seconds that its ticks cover: no gaps."""
    times = [now for now in standin.ticks(round(TICK * 1000)) if begin < now <= end]
    covered = [(after, after - before) for before, after in pairwise(times) if after - before <= GAP_INTERVALS * TICK]
    busy = sum(seconds for now, seconds in covered if wave.clock.state(now // update_every * update_every, 0))
    return busy, sum(seconds for _, seconds in covered)
