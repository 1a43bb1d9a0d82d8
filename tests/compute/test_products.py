"""What a product can have by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from pulsed.compute.mig_rollup import partitioning_of, shares_of
from pulsed.compute.product_parts import has_profiling, missing_from_model, unmeasured_by
from pulsed.compute.products import (
    FIRST_DCGM,
    PCIE_BYTES_PER_SECOND,
    TemperatureLimits,
    architecture_of,
    c2c_of,
    is_data_centre,
    is_rack_scale,
    limits_of,
    memory_bandwidth_of,
    nvlink_of,
    tensor_peak_of,
)
from pulsed.model.gpu import Device, Entity

BOARD = Entity("gpu", "0", "GPU-0")


MODELS = (
    *(
        "NVIDIA H100 80GB HBM3",
        "NVIDIA H100 PCIe",
        "NVIDIA H200",
        "NVIDIA H20-3e",
        "NVIDIA GH200 480GB",
        "NVIDIA GB300",
    ),
    *("NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe", "Tesla V100-PCIE-16GB", "Tesla P100-SXM2-16GB", "Tesla T4"),
    *("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090", "NVIDIA RTX A6000", "NVIDIA RTX 4000 SFF Ada Generation"),
    *(
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "NVIDIA H100-20C",
        "NVIDIA L40S",
        "NVIDIA GB10",
        "Quadro RTX 6000",
    ),
)


@pytest.mark.parametrize(
    "written",
    [
        lambda model: model.replace(" ", "-"),
        lambda model: model.replace(" ", "_").replace("-", "_"),
        lambda model: model.replace("-", " "),
        str.lower,
        str.upper,
        lambda model: f"{model.replace(' ', '-')}-SHARED",
    ],
)
def test_a_product_has_the_same_whatever_a_relay_makes_of_its_name(written: Callable[[str], str]) -> None:
    for model in MODELS:

        def facts(model: str) -> object:
            device = Device(BOARD, model=model)
            return (
                *(
                    missing_from_model(model),
                    unmeasured_by(model),
                    architecture_of(model),
                    nvlink_of(model),
                    tensor_peak_of(model),
                ),
                *(c2c_of(model), limits_of(model), memory_bandwidth_of(model), has_profiling(device)),
                *(is_data_centre(model), is_rack_scale(model), partitioning_of(model)),
                [shares_of(profile, model) for profile in ("1g.10gb", "3g.40gb", "4g.96gb", "7g.80gb")],
            )

        assert facts(written(model)) == facts(model), model


@pytest.mark.parametrize(
    ("model", "terabytes"), [("NVIDIA GH200 480GB", 4.9), ("NVIDIA GB200", 8), ("NVIDIA GB300", 8)]
)
def test_the_traffic_of_c2c_is_limited_by_memory_and_kernels_together(model: str, terabytes: float) -> None:
    link = c2c_of(model)
    assert link is not None
    assert (link.limit(1.0, 0.0), link.limit(0.0, 1.0)) == (terabytes * 1e12, 450e9)
    assert link.limit(0.5, 0.25) == terabytes * 1e12 / 2 + 450e9 / 4


@pytest.mark.parametrize(
    ("models", "terabytes"),
    [
        (("NVIDIA A100-SXM4-80GB", "NVIDIA A800-SXM4-80GB", "GRID A100DX-40C"), 2.04),
        (("Tesla T4", "NVIDIA A10G", "NVIDIA L40S", "NVIDIA GeForce RTX 5090", "Tesla V100-SXM2-16GB"), 1.8),
        (("NVIDIA H100 80GB HBM3", "NVIDIA B200", "NVIDIA GB300", "a model of next year", ""), 8),
    ],
)
def test_device_memory_is_no_faster_than_the_data_sheets_of_its_kind(models: Sequence[str], terabytes: float) -> None:
    assert {memory_bandwidth_of(model) for model in models} == {terabytes * 1e12}


def test_numbers_that_hold_for_all_products_of_a_kind() -> None:
    assert FIRST_DCGM == {"ada": 3, "hopper": 3, "blackwell": 4}
    assert PCIE_BYTES_PER_SECOND == 64e9


@pytest.mark.parametrize("model", ["NVIDIA H200", "NVIDIA H200 141GB HBM3e"])
def test_h200(model: str) -> None:
    assert limits_of(model).max_operating == 87.0


@pytest.mark.parametrize("model", ["NVIDIA GH200 480GB", "GH200", "NVIDIA H200 NVL"])
def test_boards_with_other_limits_do_not_take_those_of_h200(model: str) -> None:
    assert limits_of(model) == TemperatureLimits()


@pytest.mark.parametrize(
    ("model", "slowdown", "max_operating", "memory"),
    [
        ("NVIDIA A100-SXM4-80GB", 89, 85, 95),
        ("NVIDIA A10G", 95, 88, None),
        ("Tesla T4", 93, 85, None),
        ("Tesla V100-SXM2-16GB", 87, 83, 85),
        ("Tesla P100-PCIE-16GB", 82, None, None),
        ("NVIDIA GeForce RTX 3080", 95, 93, None),
        ("NVIDIA GeForce RTX 3090", 95, 93, None),
        ("NVIDIA GeForce RTX 3090 Ti", None, None, None),
        ("NVIDIA GeForce RTX 2080 SUPER", 97, 89, None),
        ("NVIDIA GeForce RTX 4080 SUPER", 96, 90, None),
        ("NVIDIA H100 80GB HBM3", 89, 87, None),
        ("NVIDIA H200", 89, 87, None),
        ("NVIDIA L40S", 90, 88, None),
        ("NVIDIA RTX 4000 SFF Ada Generation", 89, 87, None),
        ("NVIDIA GeForce RTX 4090", 85, 83, None),
        ("NVIDIA GeForce RTX 5090", 92, 90, None),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 93, 93, None),
    ],
)
def test_limits_are_those_that_the_driver_reports(
    model: str, slowdown: float | None, max_operating: float | None, memory: float | None
) -> None:
    assert limits_of(model) == TemperatureLimits(slowdown, max_operating, memory)


@pytest.mark.parametrize(
    ("models", "teraflops", "sms", "flops_per_clock"),
    [
        (("NVIDIA A100-SXM4-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA A800-SXM4-80GB"), 312.0, 108, 2048),
        (("NVIDIA H100 PCIe",), 756.0, 114, 4096),
        (("NVIDIA H100 NVL", "NVIDIA H200 NVL"), 835.5, 132, 4096),
        (("NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA GH200 480GB"), 989.4, 132, 4096),
        (("NVIDIA B200",), 2250.0, 148, 8192),
        (("NVIDIA L40S",), 362.05, 142, 1024),
    ],
)
def test_the_tensor_peak_and_its_clock_are_those_of_the_data_sheet(
    models: Sequence[str], teraflops: float, sms: int, flops_per_clock: int
) -> None:
    for model in models:
        peak = tensor_peak_of(model)
        assert peak is not None
        assert (peak.flops, peak.sms, peak.flops_per_clock) == (round(teraflops * 1e12), sms, flops_per_clock)
        assert peak.clock_hertz == round(teraflops * 1e12 / sms / flops_per_clock)


@pytest.mark.parametrize("model", ["NVIDIA H100-20C", "NVIDIA GB200", "NVIDIA L40", "NVIDIA A10", ""])
def test_other_products_have_no_tensor_peak(model: str) -> None:
    assert tensor_peak_of(model) is None
