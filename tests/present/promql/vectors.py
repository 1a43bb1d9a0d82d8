"""Input vectors for the rules: dcgm-exporter's rows of made-up GPUs, and what pulsed itself says of them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pulsed.compute.bounds import MEDIA
from pulsed.compute.class_table import RULES
from pulsed.compute.derived_results import result_of
from pulsed.compute.settings import ComputeSettings
from pulsed.model.computed_tick import Result
from pulsed.model.vocabulary import Reading
from pulsed.translate.fields import AMBIGUOUS_NAME, sources
from pulsed.translate.translator import Translator
from tests.compute.readings import C2C, NEAR_EDGES, PCIE, PIPES
from tests.translate.build import Row, tick

SHARES = (
    "sm_active_ratio",
    "graphics_engine_active_ratio",
    "dram_active_ratio",
    "gpu_utilization_ratio",
    "memory_utilization_ratio",
    "integer_active_ratio",
    *PIPES,
)
NVLINK = tuple(f"nvlink_{each}_bytes_per_second" for each in ("transmit", "receive", "bandwidth"))
QUANTITY_OF = {
    "sm": "sm_active_ratio",
    "tensor": "tensor_active_ratio",
    "dram": "dram_active_ratio",
    "graphics_engine": "graphics_engine_active_ratio",
    "fp64": "fp64_active_ratio",
}
MODELS = (
    "NVIDIA H100 80GB HBM3",
    "NVIDIA A100-SXM4-80GB",
    "Tesla T4",
    "NVIDIA L40S",
    "Tesla V100-SXM2-16GB",
    "NVIDIA B200",
    "NVIDIA GH200 480GB",
    "NVIDIA GB200",
    "NVIDIA A40",
    "Something Else",
)
GUEST = "GRID A100DX-40C"
WEIRD = (1.003, 1.04, 1.2, 1.6, -0.25, 140737488355328.0, 2147483634.0, math.nan)
"""Shares above 1, below 0, DCGM's blanks, no number."""


@dataclass(frozen=True)
class Gpu:
    """The rows of one GPU or MIG instance."""

    labels: Mapping[str, str]
    rows: tuple[Row, ...]

    @property
    def number(self) -> str:
        return self.labels["gpu"]


def make(number: int, values: Mapping[str, float], chance: random.Random, **labels: str) -> Gpu:
    """Give rows with these values, in any of the spellings that DCGM has for a field."""
    every = {"gpu": str(number), "UUID": f"GPU-{number}", chance.choice(["Hostname", "hostname"]): "node"}
    every |= {"modelName": "NVIDIA H100 80GB HBM3", **labels}
    if chance.random() < 0.3:
        every["pod"] = chance.choice(["", "job-1"])
    rows: list[Row] = [("DCGM_FI_DEV_GPU_TEMP", every, 40.0)]
    for quantity, value in values.items():
        field = chance.choice([field for field in sources(quantity) if AMBIGUOUS_NAME not in field.names])
        rows.append((chance.choice(field.names), every, value * field.unit.divide / field.unit.multiply))
    return Gpu(every, tuple(rows))


def random_gpus(count: int, seed: int) -> Iterator[Gpu]:
    """Any subset of the inputs, half of the time as physics has them, else with noise and nonsense."""
    chance = random.Random(seed)
    for number in range(count):
        values = _consistent(chance) if chance.random() < 0.5 else _arbitrary(chance)
        absent = chance.choice([0.0, 0.1, 0.3, 0.6, 0.9])
        values = {name: value for name, value in values.items() if chance.random() >= absent}
        labels = {"modelName": chance.choice(MODELS)}
        kind = chance.random()
        if kind < 0.15:
            labels |= {"GPU_I_ID": "3", "GPU_I_PROFILE": "1g.10gb+me"}
        elif kind < 0.22:
            labels["modelName"] = GUEST
        yield make(number, values, chance, **labels)


def edge_gpus(first: int, settings: ComputeSettings, seed: int) -> Iterator[Gpu]:
    """Every threshold of every variable: at it, just below and just above, beside others of all kinds."""
    chance = random.Random(seed)
    number = first
    for rule in RULES:
        for condition in rule.conditions:
            threshold = getattr(settings.workload.thresholds, condition.threshold)
            for value in (math.nextafter(threshold, 0), threshold, math.nextafter(threshold, math.inf)):
                for absent in (0.0, 0.0, 0.3, 0.6):
                    values = _consistent(chance) if absent else _deciding(rule.name, settings, chance)
                    kept = {name: each for name, each in values.items() if chance.random() >= absent}
                    for name in _named(condition.variable, chance):
                        kept[name] = value
                    yield make(number, kept, chance)
                    number += 1


def _named(variable: str, chance: random.Random) -> tuple[str, ...]:
    if variable == "io":
        return (chance.choice((*PCIE, *C2C)),)
    if variable == "real_utilization":  # all inputs at the threshold: so is their mean
        return ("sm_active_ratio", "tensor_active_ratio", "dram_active_ratio", "graphics_engine_active_ratio")
    if variable == "media":
        return (chance.choice(MEDIA),)
    return (QUANTITY_OF[variable],)


def _deciding(name: str, settings: ComputeSettings, chance: random.Random) -> dict[str, float]:
    """All inputs, each on the right side of the thresholds of a rule."""
    values = {quantity: chance.choice([0.0, 0.01, 0.1]) for quantity in QUANTITY_OF.values()}
    values |= dict.fromkeys(PCIE, 0.0)
    for condition in next(rule for rule in RULES if rule.name == name).conditions:
        if condition.variable == "real_utilization":
            continue
        threshold = getattr(settings.workload.thresholds, condition.threshold)
        for quantity in _named(condition.variable, chance):
            values[quantity] = threshold if condition.comparison == ">=" else threshold / 2
    return values


def _share(chance: random.Random) -> float:
    return chance.choice([chance.choice(NEAR_EDGES), chance.random(), chance.random() * 0.1, 0.0])


def _rates(chance: random.Random) -> dict[str, float]:
    """Links, clocks and what else is no share; in units of every field (kB, MB, MHz) whole numbers."""
    rates = {
        name: chance.choice([0.0, 1e9, 999e6, 2e9, chance.randrange(60_000) * 1e6]) for name in (*PCIE, *NVLINK, *C2C)
    }
    rates |= {name: chance.choice([rates[name], 3e11, 9e11]) for name in NVLINK}
    rates |= {"sm_clock_hertz": chance.randrange(210, 1980) * 1e6, "sm_clock_max_hertz": chance.choice([0.0, 1980e6])}
    for each in ("", "_max"):
        rates[f"pcie_link_generation{each}"] = chance.choice([0, 1, 3, 4, 5, 9])
        rates[f"pcie_link_width{each}"] = chance.choice([0, 1, 8, 16, 64])
    return rates


def _arbitrary(chance: random.Random) -> dict[str, float]:
    weird = chance.random() < 0.2
    shares = {name: chance.choice(WEIRD) if weird and chance.random() < 0.3 else _share(chance) for name in SHARES}
    return shares | _rates(chance)


def _consistent(chance: random.Random) -> dict[str, float]:
    sm, dram = (0.0, 0.0) if chance.random() < 0.05 else (_share(chance), _share(chance))
    engine = max(sm, 0.0 if sm == dram == 0.0 else _share(chance))
    return {
        "sm_active_ratio": sm,
        "graphics_engine_active_ratio": engine,
        "gpu_utilization_ratio": max(engine, _share(chance)),
        "dram_active_ratio": dram,
        "memory_utilization_ratio": max(dram, _share(chance)),
        **{name: min(sm, _share(chance)) for name in (*PIPES, "integer_active_ratio")},
        **_rates(chance),
    }


def results(gpus: list[Gpu], settings: ComputeSettings) -> dict[str, tuple[Reading, Result]]:
    """Translate and compute with pulsed; readings and results by `gpu`."""
    canonical = Translator(max_gpus=len(gpus)).translate(tick([row for gpu in gpus for row in gpu.rows]))
    kinds = {gpu.number: "mig" if "GPU_I_ID" in gpu.labels else "gpu" for gpu in gpus}
    return {
        device.entity.gpu: (reading, result_of(device, reading, settings))
        for device, reading in zip(canonical.devices, canonical.readings, strict=True)
        if kinds[device.entity.gpu] == device.entity.kind
    }
