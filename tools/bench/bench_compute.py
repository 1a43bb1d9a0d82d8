"""Compute: real utilization and workload class, 10,000 GPUs that all differ."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial

from pulsed.compute.class_table import DEFAULT_THRESHOLDS
from pulsed.compute.classifier import Classifier
from pulsed.compute.derived_results import Deriver
from pulsed.compute.settings import ComputeSettings
from pulsed.model.computed_tick import RealUtilization, Saturation, Workload
from pulsed.model.gpu import Device, Entity
from pulsed.model.vocabulary import Reading
from tests.compute.readings import RATIO_INPUTS, hide
from tests.compute.test_classifier import expected
from tools.bench.figure import Figure
from tools.bench.measure import cpu_seconds

GPUS = 10_000
ROUNDS = 5

# What is missing in common set-ups: dcgm-exporter's default list has no SM activity and no FP64.
CASES: dict[str, set[str]] = {
    "all inputs": set(),
    "inputs of the exporter's default list": {
        "sm_active_ratio",
        "fp64_active_ratio",
        "fp32_active_ratio",
        "fp16_active_ratio",
    },
    "no profiling": {*RATIO_INPUTS, "fp32_active_ratio", "fp16_active_ratio", "sm_occupancy_ratio"},
}


def run() -> Iterator[Figure]:
    complete = _readings(GPUS)
    seconds = cpu_seconds(lambda: [expected(reading) for reading in complete], rounds=ROUNDS)
    baseline = Figure("the class table in plain ifs, all inputs", seconds / GPUS * 1e6, "µs/GPU")
    yield baseline
    for name, missing in CASES.items():
        readings = [hide(reading, missing) for reading in complete]
        unknown = sum(bool(workload.candidates) for _, workload, _ in _derive(readings))
        seconds = cpu_seconds(partial(_derive, readings), rounds=ROUNDS)
        yield Figure(name, seconds / GPUS * 1e6, "µs/GPU", baseline, note=f"{unknown / GPUS:.0%} unknown")
    seconds = cpu_seconds(lambda: Classifier(DEFAULT_THRESHOLDS), times=20)
    yield Figure("compile the class table, once", seconds * 1e6, "µs", baseline)


def _derive(readings: Sequence[Reading]) -> list[tuple[RealUtilization, Workload, Saturation]]:
    deriver, device = Deriver(ComputeSettings()), Device(Entity("gpu", "0"))
    return [deriver.derive(device, reading, deriver.bounds(reading)) for reading in readings]


def _readings(count: int, seed: int = 1) -> list[Reading]:
    """Make up physically consistent GPUs."""
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
