"""Readings to test Compute with: physically consistent ones, arbitrary ones, and ways to hide a part of them."""

from __future__ import annotations

import math
from dataclasses import fields

from hypothesis import strategies as st

from pulsed.compute import derived_results as derive
from pulsed.compute.class_table import DEFAULT_THRESHOLDS
from pulsed.compute.settings import ComputeSettings
from pulsed.model.gpu import Device, Entity
from pulsed.model.result import Result
from pulsed.model.vocabulary import Reading
from tests.support.examples import examples

many = examples(500)
"""How property tests of Compute run."""

WHOLE = Device(Entity("gpu", "0"))
INSTANCE = Device(Entity("mig", "0", mig_id="1"))
GUEST = Device(Entity("gpu", "0", is_guest=True))
SUPERCHIP = Device(Entity("gpu", "0"), model="NVIDIA GH200 480GB")
SUPERCHIP_INSTANCE = Device(Entity("mig", "0", mig_id="1"), model="NVIDIA GH200 480GB")

PCIE = ("pcie_transmit_bytes_per_second", "pcie_receive_bytes_per_second")
C2C = ("c2c_transmit_bytes_per_second", "c2c_receive_bytes_per_second")
PIPES = ("tensor_active_ratio", "fp64_active_ratio", "fp32_active_ratio", "fp16_active_ratio", "sm_occupancy_ratio")
RATIO_INPUTS = (
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "graphics_engine_active_ratio",
    "fp64_active_ratio",
)
"""What the class table compares, in its words."""

INPUTS = (
    "sm_active_ratio",
    "graphics_engine_active_ratio",
    "dram_active_ratio",
    "gpu_utilization_ratio",
    "memory_utilization_ratio",
    *PIPES,
    *PCIE,
    *C2C,
)
"""Every quantity that Compute looks at."""

MEMORY_RATE, C2C_RATE = 4.9e12, 450e9
"""Bytes/s of a GH200: device memory, and one direction of its chip-to-chip link."""

EDGES = sorted({getattr(DEFAULT_THRESHOLDS, field.name) for field in fields(DEFAULT_THRESHOLDS)} - {1e9})
NEAR_EDGES = [0.0, 1.0, *(x for edge in EDGES for x in (math.nextafter(edge, 0), edge, math.nextafter(edge, 1)))]

ratios = st.one_of(st.sampled_from(NEAR_EDGES), st.floats(0, 1), st.floats(0, 0.06))
rates = st.one_of(st.sampled_from([0.0, math.nextafter(1e9, 0), 1e9, 2e10]), st.floats(0, 64e9))


def at_most(limit: float) -> st.SearchStrategy[float]:
    return st.one_of(st.just(limit), st.just(0.0), ratios.map(lambda value: min(value, limit)), st.floats(0, limit))


def at_least(limit: float) -> st.SearchStrategy[float]:
    return st.one_of(st.just(limit), ratios.map(lambda value: max(value, limit)), st.floats(limit, 1))


@st.composite
def consistent(draw: st.DrawFn) -> Reading:
    """All inputs present, as physics has them."""
    sm = draw(ratios)
    dram = draw(ratios)
    engine = draw(at_least(sm))
    traffic = rates if dram or engine else st.just(0.0)
    most = MEMORY_RATE * dram + C2C_RATE * engine
    c2c = rates.map(lambda rate: min(rate, most))
    return Reading(
        sm_active_ratio=sm,
        graphics_engine_active_ratio=engine,
        gpu_utilization_ratio=draw(at_least(engine)),
        dram_active_ratio=dram,
        memory_utilization_ratio=draw(at_least(dram)),
        **{name: draw(at_most(sm)) for name in PIPES},
        **{name: draw(traffic) for name in PCIE},
        **{name: draw(c2c) for name in C2C},
    )


@st.composite
def arbitrary(draw: st.DrawFn) -> Reading:
    """Any subset of the inputs with any values: noise, contradictions, a little out of range."""
    wild = st.none() | ratios | st.floats(-0.5, 2)
    names = {name: draw(wild) for name in INPUTS if name not in (*PCIE, *C2C)}
    return Reading(**names, **{name: draw(st.none() | rates) for name in (*PCIE, *C2C)})


hidden = st.sets(st.sampled_from(INPUTS))
devices = st.sampled_from([WHOLE, WHOLE, SUPERCHIP, INSTANCE, SUPERCHIP_INSTANCE, GUEST])


def hide(reading: Reading, names: set[str]) -> Reading:
    return reading._replace(**dict.fromkeys(names))


def result_of(reading: Reading, options: ComputeSettings | None = None, device: Device = WHOLE) -> Result:
    return derive.result_of(device, reading, ComputeSettings() if options is None else options)
