"""Labels under the names of dcgm-exporter, whatever a relay has made of them."""

from __future__ import annotations

import pytest

from pulsed.model.label_names import with_known_names

ROW = (("gpu", "0"), ("UUID", "GPU-a"), ("modelName", "NVIDIA L4"), ("GPU_I_ID", "7"), ("DCGM_FI_DRIVER_VERSION", "5"))


@pytest.mark.parametrize("name", ["GPU_I_ID", "gpu_i_id", "gpu-i-id", "gpuIId", "Gpu.I.Id"])
def test_case_and_separators_do_not_count(name: str) -> None:
    assert with_known_names(((name, "7"),)) == (("GPU_I_ID", "7"),)


def test_known_labels_are_the_same_object() -> None:
    assert with_known_names(ROW) is ROW
    spellings = (("uuid", "GPU-a"), ("hostname", "n"), ("model_name", "x"), ("exported_pod", "p"), ("app", "x"))
    assert with_known_names(spellings) is spellings


def test_a_row_in_lower_case() -> None:
    lower = tuple((name.lower(), value) for name, value in ROW)
    assert with_known_names(lower) == (
        ("gpu", "0"),
        ("uuid", "GPU-a"),
        ("modelName", "NVIDIA L4"),
        ("GPU_I_ID", "7"),
        ("DCGM_FI_DRIVER_VERSION", "5"),
    )


def test_prometheus_prefix_stays() -> None:
    assert with_known_names((("EXPORTED_Pod", "a"), ("exported_modelname", "b"))) == (
        ("exported_pod", "a"),
        ("exported_modelName", "b"),
    )


def test_a_label_of_the_pod_does_not_take_the_name_of_one_of_the_row() -> None:
    row = (("modelName", "NVIDIA L4"), ("Model-Name", "gpt"), ("Pod", "x"), ("POD", "y"))
    assert with_known_names(row) == (("modelName", "NVIDIA L4"), ("Model-Name", "gpt"), ("pod", "x"), ("POD", "y"))
