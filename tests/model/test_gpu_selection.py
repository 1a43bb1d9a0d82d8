from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.errors import UsageError
from pulsed.model.gpu_selection import EVERYTHING, GpuSelection, SelectableGpu, from_environment, parse

A, B, C = "GPU-aaaa1111-0000", "GPU-aaaa2222-0000", "GPU-bbbb0000-0000"
NODE = (
    SelectableGpu("0", A),
    SelectableGpu("1", B),
    SelectableGpu("2", C),
    SelectableGpu("2", C, "MIG-cccc0001", "1"),
    SelectableGpu("2", C, "MIG-cccc0002", "7"),
    SelectableGpu("3"),
)


def taken(selection: GpuSelection) -> list[int]:
    return [place for place, is_meant in enumerate(selection.among(NODE)) if is_meant]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("all", [0, 1, 2, 3, 4, 5]),
        ("none", []),
        ("", []),
        ("0", [0]),
        ("00", [0]),
        ("0, 3", [0, 5]),
        ("0-1", [0, 1]),
        ("2", [2, 3, 4]),
        ("2:7", [4]),
        ("17", []),
        (A, [0]),
        (A.upper(), [0]),
        ("GPU-aaaa1", [0]),
        ("GPU-aaaa", []),
        ("GPU-bbbb", [2, 3, 4]),
        ("MIG-cccc0001", [3]),
        ("MIG-cccc", []),
        (f"MIG-{C}/7/0", [4]),
        ("1,MIG-cccc0002", [1, 4]),
    ],
)
def test_what_a_list_means(text: str, places: list[int]) -> None:
    assert taken(parse(text)) == places


@pytest.mark.parametrize("text", ["x", "0,,1", "1-", "3-1", "-1", "GPU-", "GPU-xyz", "0;1", "0-99999999999"])
def test_nonsense_of_a_person_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(UsageError, match="names no GPU"):
        parse(text)


def test_an_error_names_its_origin() -> None:
    with pytest.raises(UsageError, match="--gpus"):
        parse("x")


def test_a_whole_uuid_is_not_the_beginning_of_another() -> None:
    candidates = (SelectableGpu("0", "GPU-aa"), SelectableGpu("1", "GPU-aab"))
    assert parse("GPU-aa").among(candidates) == (True, False)


@pytest.mark.parametrize(
    ("environment", "origin", "places"),
    [
        ({}, "", [0, 1, 2, 3, 4, 5]),
        ({"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES", []),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, "CUDA_VISIBLE_DEVICES", []),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, "CUDA_VISIBLE_DEVICES", []),
        ({"CUDA_VISIBLE_DEVICES": "0,-1,1"}, "CUDA_VISIBLE_DEVICES", [0]),
        ({"CUDA_VISIBLE_DEVICES": "1,GPU-bbbb"}, "CUDA_VISIBLE_DEVICES", [1, 2, 3, 4]),
        ({"CUDA_VISIBLE_DEVICES": "MIG-cccc0002"}, "CUDA_VISIBLE_DEVICES", [4]),
        ({"CUDA_VISIBLE_DEVICES": "1", "NVIDIA_VISIBLE_DEVICES": "0"}, "CUDA_VISIBLE_DEVICES", [1]),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, "NVIDIA_VISIBLE_DEVICES", [0, 1, 2, 3, 4, 5]),
        ({"NVIDIA_VISIBLE_DEVICES": "none"}, "NVIDIA_VISIBLE_DEVICES", []),
        ({"NVIDIA_VISIBLE_DEVICES": "void", "SLURM_JOB_GPUS": "1"}, "SLURM_JOB_GPUS", [1]),
        ({"NVIDIA_VISIBLE_DEVICES": ""}, "", [0, 1, 2, 3, 4, 5]),
        ({"NVIDIA_VISIBLE_DEVICES": f"{A},1"}, "NVIDIA_VISIBLE_DEVICES", [0, 1]),
        ({"NVIDIA_VISIBLE_DEVICES": "2:0"}, "NVIDIA_VISIBLE_DEVICES", [2, 3, 4]),
        ({"SLURM_JOB_GPUS": "0-1"}, "SLURM_JOB_GPUS", [0, 1]),
        ({"SLURM_JOB_GPUS": "0,1", "SLURM_STEP_GPUS": "1"}, "SLURM_STEP_GPUS", [1]),
        ({"SLURM_STEP_GPUS": "", "SLURM_JOB_GPUS": "0"}, "SLURM_JOB_GPUS", [0]),
    ],
)
def test_what_an_environment_means(environment: dict[str, str], origin: str, places: list[int]) -> None:
    selection = from_environment(environment)
    assert selection.origin == origin
    assert taken(selection) == places


def test_a_jobs_numbers_become_the_nodes() -> None:
    in_a_cgroup = {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_JOB_GPUS": "1,2"}
    assert taken(from_environment(in_a_cgroup)) == [1, 2, 3, 4]
    without = {"CUDA_VISIBLE_DEVICES": "1,2", "SLURM_JOB_GPUS": "1,2"}
    assert taken(from_environment(without)) == [1, 2, 3, 4]
    a_task = {"CUDA_VISIBLE_DEVICES": "1", "SLURM_STEP_GPUS": "1,2"}
    assert taken(from_environment(a_task)) == [2, 3, 4]


def test_nobody_says_anything() -> None:
    assert from_environment({}) == EVERYTHING


@given(
    st.dictionaries(st.sampled_from(["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "SLURM_JOB_GPUS"]), st.text())
)
def test_no_environment_raises(environment: dict[str, str]) -> None:
    assert len(from_environment(environment).among(NODE)) == len(NODE)
