"""Class, bottleneck and limiting resource agree, except where docs/metrics.md has the reason."""

from __future__ import annotations

import random

import pytest

from pulsed.compute.peaks import RESOURCES
from pulsed.compute.settings import ComputeSettings, WorkloadSettings
from pulsed.model.gpu import Device, Entity
from pulsed.model.result import Result
from pulsed.model.vocabulary import Reading
from tests.compute.readings import result_of
from tools.class_docs import DIFFERENCES

CLEARLY = 0.15
"""How much closer to its limit another resource is than any of the bottleneck's own."""

OWN = {
    "compute": ("tensor", "fp64", "fp32", "fp16", "integer"),
    "memory": ("dram",),
    "io": ("pcie", "c2c"),
    "idle": (),
}
"""The resources of every bottleneck that names one; `mixed` does not."""

MODELS = ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA GH200 480GB", "Tesla T4", "")


def random_reading(chance: random.Random, has_c2c: bool) -> Reading:
    """Return a complete reading that obeys physics."""
    sm = chance.choice([1.0, chance.random(), chance.random() * 0.1])
    pipes = {
        f"{pipe}_active_ratio": chance.choice([0.0, sm, chance.uniform(0, sm)])
        for pipe in ("tensor", "fp64", "fp32", "fp16", "integer")
    }

    def rate() -> float:
        return chance.choice([0.0, chance.random() * 2e9, chance.random() * 6e10])

    return Reading(
        sm_active_ratio=sm,
        graphics_engine_active_ratio=chance.choice([sm, chance.uniform(sm, 1)]),
        dram_active_ratio=chance.choice([0.66, chance.random(), chance.random() * 0.05]),
        **pipes,
        pcie_transmit_bytes_per_second=rate(),
        pcie_receive_bytes_per_second=rate(),
        nvlink_transmit_bytes_per_second=chance.choice([0.0, 4 * rate()]),
        nvlink_receive_bytes_per_second=0.0,
        c2c_transmit_bytes_per_second=6 * rate() if has_c2c else None,
        c2c_receive_bytes_per_second=6 * rate() if has_c2c else None,
        pcie_link_generation=chance.choice([3, 4, 5]),
        pcie_link_width=16,
    )


def difference(result: Result) -> tuple[str, str] | None:
    """Return class and limiting resource if the bottleneck's own resources are clearly farther from their limits."""
    saturation, workload = result.saturation, result.workload
    own = OWN.get(workload.bottleneck)
    if own is None or saturation.ratio.value is None or saturation.limiting_resource in own:
        return None
    nearest = max(
        (share or 0.0 for name, share in zip(RESOURCES, saturation.resources, strict=True) if name in own), default=0.0
    )
    return (workload.raw_class, saturation.limiting_resource) if saturation.ratio.value - nearest >= CLEARLY else None


@pytest.mark.slow
def test_every_difference_between_class_and_limiting_resource_is_documented() -> None:
    documented = [{(name, resource) for name in row.classes for resource in row.resources} for row in DIFFERENCES]
    chance = random.Random(11)
    met = set()
    for _ in range(30_000):
        device = Device(Entity("gpu", "0"), model=chance.choice(MODELS))
        found = difference(result_of(random_reading(chance, "GH200" in device.model), device=device))
        if found:
            met |= {found}
    assert met <= set().union(*documented)
    assert all(met & row for row in documented)  # none is documented that does not occur


def test_a_copy_kernel_and_decoding_are_memory_bound_and_limited_by_memory() -> None:
    """SM activity counts resident warps, also those that wait: these were `compute_heavy` and `tensor_compute`."""
    for sm, tensor, dram in ((1.0, 0.0, 0.9), (0.95, 0.2, 0.8)):
        reading = Reading(
            sm_active_ratio=sm,
            graphics_engine_active_ratio=1.0,
            dram_active_ratio=dram,
            tensor_active_ratio=tensor,
            fp64_active_ratio=0.0,
            fp32_active_ratio=0.1,
            pcie_transmit_bytes_per_second=0.0,
            pcie_receive_bytes_per_second=0.0,
        )
        result = result_of(reading, device=Device(Entity("gpu", "0"), model="NVIDIA H100 80GB HBM3"))
        assert (result.workload.raw_class, result.workload.bottleneck) == ("memory_bound", "memory")
        assert result.saturation.limiting_resource == "dram"
        older = result_of(reading, ComputeSettings(workload=WorkloadSettings("kempnerpulse")))
        assert older.workload.bottleneck in ("compute", "unknown")
