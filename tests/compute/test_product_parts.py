"""What a product lacks by its name, and what a 0 of it means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsed.compute.product_parts import has_profiling, has_quantity, unmeasured_by
from pulsed.model.gpu import Device, Entity
from pulsed.model.vocabulary import QUANTITIES

BOARD, INSTANCE = Entity("gpu", "0", "GPU-0"), Entity("mig", "0", "GPU-0", "1", "1g.10gb")


@pytest.mark.parametrize(
    ("model", "quantity", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", "row_remap_failure", True),
        ("NVIDIA H100 80GB HBM3", "retired_pages_pending", False),
        ("Tesla V100-SXM2-16GB", "row_remap_failure", False),
        ("Tesla P100-PCIE-16GB", "row_remap_failure", False),
        ("Tesla P100-PCIE-16GB", "retired_pages_pending", True),
        ("Tesla P100-PCIE-16GB", "memory_temperature_celsius", True),
        ("Tesla P100-PCIE-16GB", "nvlink_crc_errors_total", False),
        ("Tesla P100-SXM2-16GB", "nvlink_crc_errors_total", True),
        ("Tesla P4", "memory_temperature_celsius", False),
        ("NVIDIA RTX PRO 4000 Blackwell", "row_remap_failure", True),
        ("Tesla V100-SXM2-16GB", "retired_pages_pending", True),
        ("NVIDIA L4", "memory_temperature_celsius", False),
        ("NVIDIA GeForce RTX 4090", "ecc_mode", False),
        ("NVIDIA H100 PCIe", "fabric_health_mask", False),
        ("a model of next year", "fabric_health_mask", True),
        ("NVIDIA GH200 480GB", "c2c_receive_bytes_per_second", True),
        ("NVIDIA GB300", "c2c_receive_bytes_per_second", True),
        ("NVIDIA H100 80GB HBM3", "c2c_receive_bytes_per_second", False),
        ("", "c2c_receive_bytes_per_second", False),
        ("a model of next year", "c2c_receive_bytes_per_second", False),
        ("NVIDIA H100 80GB HBM3", "fan_speed_ratio", False),
        ("NVIDIA GeForce RTX 4090", "fan_speed_ratio", True),
        ("NVIDIA RTX 6000 Ada Generation", "fan_speed_ratio", True),
        ("NVIDIA H100 80GB HBM3", "nvlink_link_recoveries_total", False),
        ("NVIDIA B200", "nvlink_link_recoveries_total", True),
        ("NVIDIA A100-SXM4-80GB", "temperature_margin_celsius", False),
        ("NVIDIA L4", "temperature_margin_celsius", True),
        ("a model of next year", "temperature_margin_celsius", True),
        ("NVIDIA H200", "power_smoothing_lifetime_remaining_ratio", False),
        ("Tesla P40", "energy_joules_total", False),
        ("Tesla V100-SXM2-16GB", "energy_joules_total", True),
        ("NVIDIA GB10", "inforom_valid", False),
    ],
)
def test_a_quantity_exists_for_the_models_that_have_it(model: str, quantity: str, expected: bool) -> None:
    assert has_quantity(Device(BOARD, model=model), quantity) is expected


def test_an_instance_has_no_quantities_of_its_board() -> None:
    found = [has_quantity(Device(INSTANCE), name) for name in ("temperature_celsius", "graphics_engine_active_ratio")]
    assert found == [False, True]


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (Device(BOARD, model="NVIDIA H100 80GB HBM3"), True),
        (Device(INSTANCE, model="NVIDIA H100 80GB HBM3"), True),
        (Device(BOARD), True),
        (Device(BOARD, model="NVIDIA GeForce RTX 4090"), False),
        (Device(BOARD, model="NVIDIA TITAN RTX"), False),
        (Device(BOARD, model="Tesla P100-PCIE-16GB"), False),
        (Device(BOARD, model="Tesla P40"), False),
        (Device(BOARD, model="Quadro P6000"), False),
        (Device(BOARD, model="Tesla K80"), False),
        (Device(BOARD, model="Tesla M60"), False),
        (Device(BOARD, model="Tesla V100-SXM2-16GB"), True),
        (Device(BOARD, model="NVIDIA A40"), True),
        (Device(BOARD, model="NVIDIA RTX PRO 4000 Blackwell"), True),
        (Device(replace(BOARD, is_guest=True), model="NVIDIA A40-48Q"), False),
    ],
)
def test_guests_and_consumer_boards_have_no_profiling_counters(device: Device, expected: bool) -> None:
    assert has_profiling(device) is expected


@pytest.mark.parametrize(
    ("model", "has_nvlink"), [("NVIDIA H100 80GB HBM3", True), ("NVIDIA L40S", False), ("a model of next year", True)]
)
def test_nvlink_exists_unless_a_model_is_known_to_have_none(model: str, has_nvlink: bool) -> None:
    assert has_quantity(Device(BOARD, model=model), "nvlink_crc_errors_total") is has_nvlink


def test_each_part_has_quantities_of_its_own() -> None:
    models = ("NVIDIA GB10", "Tesla P40", "NVIDIA GeForce RTX 4090", "NVIDIA A100-SXM4-80GB", "")
    for part in {part for model in models for part in unmeasured_by(model)}:
        for prefix in part:
            assert [name for name in QUANTITIES if name.startswith(prefix)], prefix


def test_activity_of_an_engine_that_a_product_lacks_is_0() -> None:
    prefixes = tuple(prefix for part in unmeasured_by("NVIDIA H100 80GB HBM3") for prefix in part)
    assert not "encoder_utilization_ratio".startswith(prefixes)
