"""What Compute costs per GPU: run as `python -m tests.bench.bench_compute`.

Every figure is also given as a ratio to a named baseline of the same run: the class table as plain `if` statements over
complete inputs, the cheapest thing that could be called computing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from pulsed.compute.compute import Settings, compute
from pulsed.compute.rules import DEFAULT_THRESHOLDS
from pulsed.compute.workload import Classifier
from pulsed.reader.tick import Layout, RawTick
from pulsed.translate.tick import CanonicalTick, Device, Entity
from pulsed.translate.vocabulary import Reading
from tests.compute.readings import RATIO_INPUTS, hide
from tests.compute.test_workload import expected

GPUS = 10_000
ROUNDS = 5

# What is missing in common set-ups: dcgm-exporter's default list has no SM activity and no FP64.
CASES: dict[str, set[str]] = {
    "complete": set(),
    "exporter's default list": {"sm_active_ratio", "fp64_active_ratio", "fp32_active_ratio", "fp16_active_ratio"},
    "no profiling": {*RATIO_INPUTS, "fp32_active_ratio", "fp16_active_ratio", "sm_occupancy_ratio"},
}


def readings(count: int, seed: int = 1) -> list[Reading]:
    """Make up physically consistent GPUs, every one different."""
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        engine = chance.random()
        sm = engine * chance.random()
        dram = chance.random()
        made.append(
            Reading(
                graphics_engine_active_ratio=engine,
                gpu_utilization_ratio=engine + (1 - engine) * chance.random(),
                sm_active_ratio=sm,
                sm_occupancy_ratio=sm * chance.random(),
                tensor_active_ratio=sm * chance.random(),
                fp64_active_ratio=sm * chance.random(),
                fp32_active_ratio=sm * chance.random(),
                fp16_active_ratio=sm * chance.random(),
                dram_active_ratio=dram,
                memory_utilization_ratio=dram + (1 - dram) * chance.random(),
                pcie_transmit_bytes_per_second=chance.random() * 1.2e9,
                pcie_receive_bytes_per_second=chance.random() * 1.2e9,
            )
        )
    return made


def best(work: Callable[[], object]) -> float:
    """Return the shortest of some runs, seconds of CPU."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    complete = readings(GPUS)
    devices = (Device(Entity("gpu", "0")),) * GPUS
    baseline = best(lambda: [expected(reading) for reading in complete]) / GPUS
    print(f"baseline, plain cascade on complete inputs: {baseline * 1e6:6.2f} µs per GPU")
    for name, missing in CASES.items():
        tick = CanonicalTick(
            "bench",
            0.0,
            0.0,
            1.0,
            devices,
            tuple(hide(reading, missing) for reading in complete),
            RawTick("bench", 0.0, 0.0, 1.0, Layout("exporter", ()), ()),
        )
        first = time.process_time()
        results = compute(tick, Settings()).results
        first = (time.process_time() - first) / GPUS
        again = best(lambda tick=tick: compute(tick, Settings())) / GPUS  # type: ignore[misc]
        unknown = sum(bool(result.workload.candidates) for result in results) / GPUS
        print(
            f"{name:>24}: {again * 1e6:6.2f} µs per GPU, {again / baseline:5.2f} of the baseline;"
            f" first tick {first * 1e6:6.2f} µs; {unknown:4.0%} unknown"
        )
    compiled = best(lambda: Classifier(DEFAULT_THRESHOLDS))
    print(f"compiling the class table: {compiled * 1e6:.0f} µs, once per set of thresholds")


if __name__ == "__main__":
    main()
