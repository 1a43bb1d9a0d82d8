"""The whole run: on stand-ins of both driver libraries, on readings that were kept, and on a GPU where there is one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.cuda_standin.library import CudaStandin
from support.hardware import runner
from support.hardware.cuda import GpuFacts
from support.hardware.judge import PEAKS, PIPES, evaluate
from support.hardware.kernels import KERNELS, KnownKernel
from support.hardware.price import INTERVALS, price, rounds_per_second
from support.hardware.ptx import ENTRIES, WARP
from support.hardware.readings import READINGS, kept_runs, read_run, write_run
from support.hardware.table import document, summary
from support.nvml_standin import boards
from support.nvml_standin.library import SCENARIO, NvmlStandin
from support.standin.install import install
from support.standin.scenario import Gpu, Scenario
from support.standin.signals import Constant, Signal

GPM = {
    "graphics_engine_active_ratio": 1,
    "sm_active_ratio": 2,
    "sm_occupancy_ratio": 3,
    "tensor_active_ratio": 5,
    "dram_active_ratio": 10,
    "fp64_active_ratio": 11,
    "fp32_active_ratio": 12,
}
FIELDS = {name: 1001 + place for place, name in enumerate(GPM)}
"""DCGM's fields."""

CLOCK, MEMORY_CLOCK = 1.98e9, 2.619e9
COPY = 6e9


SURPLUS = 1.05
"""More work than the readings have: on a busy machine launches of the stand-in are late."""


def busy(kernel: KnownKernel) -> float:
    """Return the share of time in which a kernel is scheduled to run."""
    return kernel.busy / (kernel.period or kernel.busy) if kernel.entry else 0.0


def readings_of(kernel: KnownKernel, gpu: GpuFacts) -> dict[str, float]:
    """Return ratios that the schedule makes exact, and others in the middle of what is expected."""
    sm = busy(kernel) * kernel.used_sms(gpu.sms) / gpu.sms
    exact = {"graphics_engine_active_ratio": busy(kernel), "sm_active_ratio": sm}
    middle = {name: sum(kernel.inputs[name]) / 2 for name in GPM if name in kernel.inputs}
    usual = {"fp32_active_ratio": sm * (kernel.entry == "fp32")}
    return dict.fromkeys(GPM, 0.0) | usual | middle | exact


def nanoseconds_of_a_round(kernel: KnownKernel, gpu: GpuFacts, values: dict[str, float]) -> float:
    """Return how long a round takes on a GPU with these readings."""
    work, (blocks, threads) = ENTRIES[kernel.entry].work._asdict(), kernel.launch_shape(gpu.sms, gpu.threads_per_sm)
    peaks = {pipe: gpu.sms * peak * CLOCK for pipe, peak in zip(PIPES, PEAKS[gpu.capability], strict=True)}
    peaks["bytes"] = MEMORY_CLOCK * 2 * gpu.bus_bits / 8
    (unit,) = (name for name, amount in work.items() if amount)
    per_second = values["dram_active_ratio" if unit == "bytes" else f"{unit}_active_ratio"] * peaks[unit]
    return float(1e9 * busy(kernel) * work[unit] * blocks * threads / WARP / (SURPLUS * per_second))


@pytest.fixture
def cuda(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CudaStandin:
    return CudaStandin(nvml_library.parent, tmp_path / "report", monkeypatch)


@pytest.fixture
def driver(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NvmlStandin:
    driver = NvmlStandin(nvml_library, tmp_path / "nvml.scenario", [boards.hopper(0), boards.hopper(1)])
    monkeypatch.setenv(SCENARIO, str(driver.scenario))
    return driver


@pytest.mark.long
def test_a_run_on_the_stand_ins(cuda: CudaStandin, driver: NvmlStandin, tmp_path: Path) -> None:
    gpu = runner.find_gpu()

    def script(kernel: KnownKernel) -> None:
        values = readings_of(kernel, gpu)
        driver.gpus[0] |= {f"gpm.{number}": values[name] * 100 for name, number in GPM.items()}
        driver.gpus[0] |= {
            "encoder": 0,
            "decoder": 0,
            "gpm.30": 0,
            "gpm.20": 0,
            "gpm.21": COPY / 2**20 if kernel.copies else 0,
        }
        driver.write()
        cuda.set(copy=SURPLUS * COPY, round_ns=nanoseconds_of_a_round(kernel, gpu, values) if kernel.entry else 1)

    kept = runner.run(tmp_path, 3.0, "nvml", script, options=("--set", "source.interval=200ms"))
    done, seen = evaluate(kept)
    assert summary(seen).count("DIFFERS") == 0, summary(seen)
    assert list(seen) == [kernel.name for kernel in KERNELS]
    assert (done.gpu.name, done.driver, done.source) == ("NVIDIA H100 80GB HBM3", driver.driver, "nvml")
    assert kept.name.startswith("NVIDIA-H100-80GB-HBM3-580.105.08-nvml-20")
    assert "| `one_sm` |" in document([(done, seen)])
    # What a kernel did is not what was read: less work, another kernel's readings, or no readings at all.
    tensor, fp64, stream, bursts = (done.played[at] for at in (1, 3, 5, 10))
    wrong = [
        tensor._replace(rounds=tensor.rounds // 3),
        fp64._replace(begun=stream.begun, ended=stream.ended),
        stream._replace(begun=0.0, ended=10.0),
        bursts._replace(launches=bursts.launches // 2),
    ]
    write_run(kept, done._replace(played=wrong))
    assert read_run(kept).played == wrong
    _, seen = evaluate(kept)
    problems = {name: " / ".join(each.problems) for name, each in seen.items()}
    assert problems["tensor_heavy"].startswith("tensor: 0.2")
    assert "mfu: 0.2" in problems["tensor_heavy"]
    assert "class memory_bound in " in problems["fp64"]
    assert "fp64_active_ratio 0, expected 0.8 to 1" in problems["fp64"]
    assert problems["stream"] == "no samples in its time"
    assert "s of SM activity in" in problems["short_bursts"]


def test_a_source_without_profiling_counters(cuda: CudaStandin, driver: NvmlStandin, tmp_path: Path) -> None:
    driver.gpus[:] = [boards.ampere(0)]
    driver.write()
    idle = KERNELS[:1]
    kept = runner.run(tmp_path, 2.0, "nvml", lambda kernel: None, idle, ("--set", "source.interval=200ms"))
    problems = evaluate(kept)[1]["idle"].problems
    assert "sm_active_ratio is not measured" in problems
    assert "tensor_active_ratio is not measured" in problems


def test_a_run_through_dcgmi(cuda: CudaStandin, tmp_path: Path) -> None:
    kernel, gpu = KERNELS[1], runner.find_gpu()
    values = readings_of(kernel, gpu)
    fields: dict[int, Signal] = {FIELDS[name]: Constant(value) for name, value in values.items()}
    fields |= dict.fromkeys((1009, 1010), Constant(0)) | dict.fromkeys((100, 113), Constant(CLOCK / 1e6))
    scenario = Scenario(gpus=(Gpu(uuid=gpu.uuid),), values={"*": fields})
    cuda.set(round_ns=nanoseconds_of_a_round(kernel, gpu, values))
    dcgmi = f"source.dcgmi.path={install(tmp_path, scenario)}"
    options = ("--set", "source.interval=200ms", "--set", dcgmi)
    seen = evaluate(runner.run(tmp_path, 5.0, "dcgmi", lambda kernel: None, [kernel], options))[1]
    assert summary(seen).count("DIFFERS") == 0, summary(seen)
    assert seen[kernel.name].counted["tensor"] > 0


def test_a_kernel_that_fails_ends_the_run(cuda: CudaStandin, driver: NvmlStandin, tmp_path: Path) -> None:
    cuda.set(error="cuLaunchKernel 719")
    with pytest.raises(runner.NotPossible, match="fp64 cuLaunchKernel: error 719"):
        runner.run(tmp_path / "readings", 1.0, "nvml", lambda kernel: None, KERNELS[3:4])
    assert not (tmp_path / "readings").exists()


def test_a_source_that_does_not_work_ends_the_run(cuda: CudaStandin, driver: NvmlStandin, tmp_path: Path) -> None:
    driver.write(all_error=9)
    with pytest.raises(runner.NotPossible, match=r"(?s)the source delivers nothing.*driver"):
        runner.run(tmp_path, 1.0, "nvml", lambda kernel: None)


def test_readings_from_hardware_have_the_expected_classes() -> None:
    folders = kept_runs()
    if not folders:
        pytest.skip(
            f"{READINGS} has no readings from hardware: run `make hardware` on a GPU node and add the folder it writes"
        )
    for folder in folders:
        run, seen = evaluate(folder)
        assert {name: each.workload_class for name, each in seen.items()} == {
            k.name: k.workload_class for k in KERNELS
        }, run


@pytest.mark.long
def test_the_known_kernels_on_this_gpu(tmp_path: Path) -> None:
    try:
        runner.find_gpu()
    except runner.NotPossible as error:
        pytest.skip(f"no GPU for known kernels: {error}; run this test on a node with an NVIDIA GPU and its driver")
    kept = runner.run(tmp_path, 10.0, runner.usual_source(), lambda kernel: print(kernel.name, file=sys.stderr))
    done, seen = evaluate(kept)
    assert not any(each.problems for each in seen.values()), f"{document([(done, seen)])}\n{summary(seen)}"


@pytest.mark.long
def test_the_price_of_sampling_on_the_stand_ins(cuda: CudaStandin, driver: NvmlStandin) -> None:
    cuda.set(round_ns=1000)
    started: list[str] = []
    rates = rounds_per_second(0.3, "nvml", started.append)
    assert list(rates) == [*INTERVALS]
    assert min(rates.values()) > 0
    assert started[:3] == [
        "tensor_heavy, not sampled",
        "tensor_heavy, sampled every 1s",
        "tensor_heavy, sampled every 100ms",
    ]
    assert price({"": 100.0, "1s": 100.0, "100ms": 98.0}).splitlines() == [
        "sampled every 1s: +0.00 % of throughput lost",
        "sampled every 100ms: +2.00 % of throughput lost",
    ]
