"""`make hardware` without a GPU: what it names as missing, and how it judges recorded samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsed.model.vocabulary import POSITION, WORKLOAD_CLASSES
from pulsed.reader.replay import DEFAULT_START
from tests.support.dmon_writer import ERAS, DmonWriter, Value
from tools.hardware import MFU_OVER_WORK, RU, WORKLOADS, Played, Workload, judge, main, report, samples

SECONDS = 20
DRIVER = Path("/proc/driver/nvidia/version")
FIELDS = {
    "graphics_engine_active_ratio": 1001,
    "sm_active_ratio": 1002,
    "tensor_active_ratio": 1004,
    "dram_active_ratio": 1005,
    "fp64_active_ratio": 1006,
    "fp32_active_ratio": 1007,
    "pcie_receive_bytes_per_second": 1010,
}
COPY = {"graphics_engine_active_ratio": 0.99, "sm_active_ratio": 0.98, "dram_active_ratio": 0.9}


def capture(folder: Path, values: dict[str, float]) -> Path:
    """Write a capture of one GPU, whose readings stay as they are."""
    writer = DmonWriter(ERAS["C2"], [50, *FIELDS.values()])
    row: list[Value] = ["NVIDIA H100 80GB HBM3", *(values.get(name, 0.0) for name in FIELDS)]
    path = folder / "capture.txt"
    path.write_text(writer.header() + "".join(writer.tick([("GPU 0", row)]) for _ in range(SECONDS)))
    return path


def workload(name: str) -> Workload:
    return next(each for each in WORKLOADS if each.name == name)


def played(steps: int = 1) -> Played:
    return Played(DEFAULT_START, DEFAULT_START + SECONDS, steps)


@pytest.mark.skipif(DRIVER.exists(), reason="this machine has a GPU")
def test_what_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--source", "dcgmi"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["not possible here:", "no NVIDIA driver is loaded: run this on a node with a GPU"]
    assert any("pip install torch" in line for line in lines)


def test_expectations_are_of_classes_and_quantities_that_exist() -> None:
    assert len({each.name for each in WORKLOADS}) == len(WORKLOADS)
    for each in WORKLOADS:
        assert {*each.classes} <= {*WORKLOAD_CLASSES}
        assert {*each.ranges} - {RU, MFU_OVER_WORK} <= {*POSITION}


def test_samples_that_agree(tmp_path: Path) -> None:
    found = samples(capture(tmp_path, COPY))
    assert len(found) == SECONDS
    seen, problems = judge(workload("copy"), played(), found)
    assert (seen.partition(":")[0], problems) == ("memory_bound", [])
    assert "dram_active_ratio 0.9" in seen


def test_samples_that_differ(tmp_path: Path) -> None:
    found = samples(capture(tmp_path, {**COPY, "tensor_active_ratio": 0.8}))
    _, problems = judge(workload("copy"), played(), found)
    assert len(problems) == 2
    assert problems[0].startswith("class tensor_heavy_compute in ")
    assert problems[1] == "tensor_active_ratio is 0.8, expected 0 to 0.04"
    assert judge(workload("copy"), Played(1.0, 21.0, 1), found)[1] == ["no samples of GPU 0 in its 20 s"]


def test_the_report_names_what_is_skipped_and_what_differs(tmp_path: Path) -> None:
    found = samples(capture(tmp_path, COPY))
    done = {"copy": played(), "gemm_fp8": Played(skipped="needs compute capability 8.9")}
    text, agrees = report([workload("copy"), workload("gemm_fp8")], done, found)
    assert (agrees, "gemm_fp8     skipped: needs compute capability 8.9" in text.splitlines()) == (True, True)
    text, agrees = report([workload("idle_held")], {"idle_held": played()}, found)
    assert not agrees
    assert "DIFFERS: class memory_bound in " in text
