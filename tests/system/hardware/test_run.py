"""The whole run: on stand-ins of both driver libraries, on readings that were kept, and on a GPU where there is one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cuda_standin.library import CudaStandin
from tests.support.daemon import environment
from tests.support.nvml_standin import boards
from tests.support.nvml_standin.library import SCENARIO, NvmlStandin
from tests.support.standin.install import install
from tests.support.standin.scenario import Gpu, Scenario
from tests.support.standin.signals import Constant, Signal
from tests.support.waiting import SECONDS, until
from tools.hardware import runner
from tools.hardware.__main__ import main
from tools.hardware.cuda import GpuFacts
from tools.hardware.judge import PEAKS, PIPES, POWER_CAP, evaluate
from tools.hardware.kernels import KERNELS, KnownKernel
from tools.hardware.price import INTERVALS, price, rounds_per_second
from tools.hardware.ptx import ENTRIES, WARP
from tools.hardware.readings import READINGS, kept_runs, read_run, write_run
from tools.hardware.table import document, summary

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

CLOCK, CAPPED_CLOCK, MEMORY_CLOCK = 1.98e9, 1.2e9, 2.619e9
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
    if kernel.gemm:
        # So few small ones that the host is not too slow for them.
        exact = {"tensor_active_ratio": 0.005} if kernel.gemm == 512 else {}
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


@pytest.mark.nightly
def test_a_run_on_the_stand_ins(cuda: CudaStandin, driver: NvmlStandin, tmp_path: Path) -> None:
    gpu = runner.find_gpu()

    def script(kernel: KnownKernel) -> None:
        values = readings_of(kernel, gpu)
        clock = CAPPED_CLOCK if kernel.uncapped else CLOCK
        driver.gpus[0] |= {"clock.1": clock / 1e6, "reasons": POWER_CAP if kernel.uncapped else 0}
        driver.gpus[0] |= {f"gpm.{number}": values[name] * 100 for name, number in GPM.items()}
        driver.gpus[0] |= {
            "encoder": 0,
            "decoder": 0,
            "gpm.30": 0,
            "gpm.20": 0,
            "gpm.21": COPY / 2**20 if kernel.copies else 0,
        }
        driver.write()
        cuda.set(flops=values["tensor_active_ratio"] * gpu.sms * PEAKS[gpu.capability][0] * clock)
        cuda.set(copy=SURPLUS * COPY, round_ns=nanoseconds_of_a_round(kernel, gpu, values) if kernel.entry else 1)

    kept = runner.run(tmp_path, 3.0, "nvml", script, options=("--set", "source.interval=200ms"), power_limit=60.0)
    done, seen = evaluate(kept)
    assert summary(seen).count("DIFFERS") == 0, summary(seen)
    assert list(seen) == [kernel.name for kernel in KERNELS]
    assert not done.skipped
    assert limits(driver) == [420_000, 700_000]
    assert document([(done, seen)]).count(", cuBLAS 12.8.4") == 3
    assert (done.gpu.name, done.driver, done.source) == ("NVIDIA H100 80GB HBM3", driver.driver, "nvml")
    assert kept.name.startswith("NVIDIA-H100-80GB-HBM3-580.105.08-nvml-20")
    assert "|`one_sm`|" in document([(done, seen)])
    # What a kernel did is not what was read: less work, another kernel's readings, or no readings at all.
    tensor, fp64, stream, bursts, gemm, capped = (done.played[at] for at in (1, 3, 5, 10, 12, 14))
    wrong = [
        tensor._replace(rounds=tensor.rounds // 3),
        fp64._replace(begun=stream.begun, ended=stream.ended),
        stream._replace(begun=0.0, ended=10.0),
        bursts._replace(launches=bursts.launches // 2),
        gemm._replace(rounds=gemm.rounds * 9 // 10),
        capped._replace(begun=gemm.begun, ended=gemm.ended),
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
    assert problems["gemm_8192"].startswith("tensor: 0.67")
    assert "mfu: 0.7" in problems["gemm_8192"]
    assert "power_cap_ratio 0, expected 0.5 to 1" in problems["gemm_8192_capped"]
    assert "SM clock 1980 MHz, 1980 MHz with the usual power limit" in problems["gemm_8192_capped"]


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


def test_a_gemm_that_fails_is_skipped(cuda: CudaStandin, driver: NvmlStandin, tmp_path: Path) -> None:
    """The power limit is restored then, too."""
    cuda.set(error="cublasGemmEx 13")
    kernels = [kernel for kernel in KERNELS if kernel.name == "idle" or kernel.gemm]
    options = ("--set", "source.interval=200ms")
    kept = runner.run(tmp_path, 2.0, "nvml", lambda kernel: None, kernels, options, power_limit=60.0)
    done, seen = evaluate(kept)
    assert list(seen) == ["idle"]
    assert done.skipped == {
        kernel.name: f"{kernel.name} cublasGemmEx: error 13, stand-in" for kernel in kernels if kernel.gemm
    }
    assert "|not run: gemm_512 cublasGemmEx: error 13, stand-in|" in document([(done, seen)])
    assert limits(driver) == [420_000, 700_000]


def limits(driver: NvmlStandin) -> list[int]:
    """Return the power limits that were set, in milliwatts."""
    path = driver.scenario.with_name(f"{driver.scenario.name}.limits")
    return [int(line.split()[1]) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize(
    ("percent", "before", "lowered"),
    [(60.0, 700_000, 420_000), (10.0, 700_000, 200_000), (60.0, 300_000, 300_000)],
    ids=["of the default", "the lowest", "not raised"],
)
def test_the_power_limit(driver: NvmlStandin, cuda: CudaStandin, percent: float, before: int, lowered: int) -> None:
    driver.gpus[0]["power.limit"] = before
    driver.write()
    with runner.lowered_power_limit(boards.uuid_of(0), percent):
        assert limits(driver) == [lowered]
    assert limits(driver) == [lowered, before]


@pytest.mark.parametrize(
    ("function", "code", "message"),
    [
        ("SetPowerManagementLimit", 4, "the power limit cannot be lowered, which needs root: Insufficient Permissions"),
        ("GetPowerManagementLimitConstraints", 3, "the power limit cannot be lowered, which needs root: Not Supported"),
        ("GetHandleByUUID", 6, "the power limit cannot be lowered, which needs root: Not Found"),
    ],
)
def test_a_power_limit_that_cannot_be_lowered(
    driver: NvmlStandin, cuda: CudaStandin, function: str, code: int, message: str
) -> None:
    driver.write(**{f"nvmlDevice{function}.error": code})
    with pytest.raises(runner.NotPossible, match=message), runner.lowered_power_limit(boards.uuid_of(0), 60.0):
        pytest.fail("it is not lowered")
    assert limits(driver) == []


def test_a_power_limit_that_cannot_be_restored(
    driver: NvmlStandin, cuda: CudaStandin, capfd: pytest.CaptureFixture[str]
) -> None:
    with (
        pytest.raises(runner.NotRestored, match=f"the power limit of {boards.uuid_of(0)} is not restored"),
        runner.lowered_power_limit(boards.uuid_of(0), 60.0),
    ):
        driver.write(**{"nvmlDeviceSetPowerManagementLimit.error": 15})
    assert f"use nvidia-smi --id={boards.uuid_of(0)} --power-limit=700" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_power_limit_is_restored_after_a_signal(driver: NvmlStandin, cuda: CudaStandin, number: int) -> None:
    """Signals of a terminal, and of systemd and Slurm at first, go to all processes; a kill goes to the run alone."""
    code = (
        "import time; from tools.hardware.runner import lowered_power_limit\n"
        f"with lowered_power_limit('{boards.uuid_of(0)}', 60.0): print(flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=subprocess.DEVNULL, env=environment(), start_new_session=True
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"\n"
        assert limits(driver) == [420_000]
        send = os.kill if number == signal.SIGKILL else os.killpg
        send(run.pid, number)
        assert run.wait(SECONDS) == -number
        until(lambda: limits(driver) == [420_000, 700_000])


@pytest.mark.parametrize("text", ["0", "101", "nan", "much"])
def test_a_power_limit_that_is_not_a_percentage(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--power-limit", text])
    assert "--power-limit" in capsys.readouterr().err


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
        expected = {kernel.name: kernel.workload_class for kernel in KERNELS if kernel.name not in run.skipped}
        assert {name: expected[name] and each.workload_class for name, each in seen.items()} == expected, run


@pytest.mark.slow
def test_the_known_kernels_on_this_gpu(tmp_path: Path) -> None:
    try:
        runner.find_gpu()
    except runner.NotPossible as error:
        pytest.skip(f"no GPU for known kernels: {error}; run this test on a node with an NVIDIA GPU and its driver")
    kept = runner.run(tmp_path, 10.0, runner.usual_source(), lambda kernel: print(kernel.name, file=sys.stderr))
    done, seen = evaluate(kept)
    assert not any(each.problems for each in seen.values()), f"{document([(done, seen)])}\n{summary(seen)}"


@pytest.mark.nightly
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
