from __future__ import annotations

import pytest

from pulsed.model.gpu import (
    Device,
    Entity,
    GpuKey,
    board_keys,
    device_key,
    gpu_labels,
    is_product,
    key_of,
    product_name,
)
from pulsed.present.exposition.text_format import label_pairs

U = "12345678-90ab-cdef-1234-567890abcdef"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (f"GPU-{U}", f"gpu-{U}"),
        (f"GPU-{U}::3", f"gpu-{U}"),
        (f"MIG-{U}::7", f"mig-{U}"),
        (f"MIG-GPU-{U}/7/0", f"gpu-{U}/7"),
        ("3", "3"),
        ("03", "3"),
        ("0", "0"),
        ("3.7", "3/7"),
        ("nvidia3", "nvidia3"),
        ("nvidia3/gi7", "nvidia3/7"),
        ("nvidia3/gi7/vgpu1", "nvidia3/7"),
        ("nvidia0/vgpu2", "nvidia0"),
        ("1B:00.0", None),
        ("0000:1B:00.0", "00000000:1b:00.0"),
        ("", None),
        (".3.tmp", None),
        ("3.new", None),
        ("nvidiactl", None),
        ("3.7.1", None),
    ],
)
def test_every_form_of_a_device_has_one_key(name: str, found: str | None) -> None:
    assert device_key(name) == found


def test_a_board_is_found_by_any_of_its_names_the_most_certain_first() -> None:
    keys = board_keys(f"GPU-{U}", "00000000:1B:00.0", "nvidia5", "3", is_local=True)
    names = (f"GPU-{U}", "0000:1b:00.0", "nvidia5", "3")
    assert keys == tuple(map(device_key, names))


def test_without_its_device_file_the_index_is_taken() -> None:
    assert board_keys("", "", "", "3", is_local=True) == ("nvidia3", "3")
    assert board_keys("", "", "", "", is_local=True) == ()


def test_a_board_of_another_host_is_found_by_uuid_only() -> None:
    assert board_keys("GPU-a", "00000000:1B:00.0", "nvidia5", "3", is_local=False) == ("gpu-a",)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 SXM4 80GB"),
        ("NVIDIA-A100-SXM4-80GB-SHARED", "NVIDIA A100 SXM4 80GB"),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "NVIDIA H100 80GB HBM3"),
        (" nvidia_h100__pcie ", "nvidia h100 pcie"),
        ("", ""),
    ],
)
def test_a_product_has_one_name_whatever_separates_its_words(model: str, name: str) -> None:
    assert product_name(model) == name


def test_patterns_of_products_are_found_in_any_case() -> None:
    assert is_product(r"\bH100 PCIe\b", "nvidia-h100-PCIE")
    assert not is_product(r"\bH100 PCIe\b", "NVIDIA H100 NVL")


def key(gpu: str, uuid: str = "", mig_id: str = "", node: str = "") -> GpuKey:
    return key_of(Device(Entity("gpu", gpu, uuid, mig_id, node=node)), "here")


def test_a_uuid_tells_gpus_apart_and_the_index_where_there_is_none() -> None:
    assert key("0", "GPU-a") == key("1", "GPU-a")
    assert key("0") != key("1")
    assert key("0", "GPU-a") != key("0", "GPU-a", "7")
    assert key("0", "GPU-a", node="there") == key("0", "GPU-a")
    assert key("0", node="there") != key("0")
    assert key("0", node="here") == key("0")


def test_every_series_names_its_node() -> None:
    whole = Device(Entity("gpu", "0", "GPU-a", node="n"))
    assert label_pairs(gpu_labels(whole, "here")) == 'node="n",gpu="0",uuid="GPU-a"'
    instance = Device(Entity("mig", "0", "GPU-a", "7", "1g.10gb"))
    assert (
        label_pairs(gpu_labels(instance, "here")) == 'node="here",gpu="0",uuid="GPU-a",mig_id="7",mig_profile="1g.10gb"'
    )
