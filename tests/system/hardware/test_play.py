"""The calls of the driver, on a stand-in of its library that checks order, types, handles and memory."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cuda_standin.library import SOURCE, CudaStandin
from tests.support.daemon import environment
from tests.support.nightly import nightly_after
from tests.support.tools import tool
from tests.support.waiting import SECONDS
from tests.system.deploy.tools import fetched
from tools.hardware.cublas import GEMMS, NAMES, VARIABLE, random_bf16
from tools.hardware.kernels import KERNELS


def played(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.hardware.play", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment())


@pytest.fixture
def cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CudaStandin:
    return CudaStandin(tmp_path / "lib", tmp_path / "report", monkeypatch)


@pytest.mark.parametrize("name", nightly_after(4, [kernel.name for kernel in KERNELS]))
def test_a_kernel_counts_its_work_and_frees_everything(cuda: CudaStandin, name: str) -> None:
    kernel = next(each for each in KERNELS if each.name == name)
    cuda.set(round_ns=1000)
    done = played(name, "0.3")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    first = GEMMS if kernel.gemm else 0
    assert cuda.counted() == (0, 0, found["launches"] + (found["rounds"] + first) * bool(kernel.gemm))
    assert found["library"] == ("cuBLAS 12.8.4" if kernel.gemm else "")
    assert found["ended"] - found["begun"] >= 0.3
    assert (found["copied_bytes"] > 0) == kernel.copies
    if kernel.entry:
        blocks, threads = kernel.launch_shape(132, 2048)
        assert found["rounds"] == found["launches"] * blocks * threads // 32 * round(kernel.busy * 1e6)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("cuInit 100", "cuInit: error 100, no CUDA-capable device is detected"),
        ("cuDeviceGetUuid_v2 999", "cuDeviceGetUuid_v2: error 999"),
        ("cuDevicePrimaryCtxRetain 46", "cuDevicePrimaryCtxRetain: error 46"),
        ("cuModuleLoadData 218", "cuModuleLoadData: error 218"),
        ("cuMemAlloc_v2 2", "cuMemAlloc_v2: error 2"),
        ("cuMemsetD8_v2 700", "cuMemsetD8_v2: error 700"),
        ("cuLaunchKernel 701", "cuLaunchKernel: error 701"),
        ("cuCtxSynchronize 719", "cuCtxSynchronize: error 719"),
        ("cuMemcpyDtoH_v2 719", "cuMemcpyDtoH_v2: error 719"),
    ],
)
def test_a_failed_call_is_named_and_everything_is_freed(cuda: CudaStandin, error: str, message: str) -> None:
    cuda.set(error=error)
    done = played("fp64", "0.1")
    assert done.returncode == 1
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1
    assert cuda.counted()[:2] == (0, 0)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            "cublasCreate_v2 1",
            f"{VARIABLE}=PATH sets its path; tried {{}}: cublasCreate_v2: error 1, the library was not ",
        ),
        ("cublasGetVersion_v2 7", "cublasGetVersion_v2: error 7, stand-in"),
        ("cublasGemmEx 13", "cublasGemmEx: error 13, stand-in"),
        ("cuMemAlloc_v2 2", "cuMemAlloc_v2: error 2, stand-in"),
        ("cuMemAllocHost_v2 2", "cuMemAllocHost_v2: error 2, stand-in"),
    ],
)
def test_a_gemm_that_fails(cuda: CudaStandin, error: str, message: str) -> None:
    cuda.set(error=error)
    done = played("gemm_512", "0.1")
    assert done.returncode == 1
    assert message.format(cuda.library) in done.stderr
    assert done.stderr.count("\n") == 1
    assert cuda.counted()[:2] == (0, 0)


def test_without_cublas(cuda: CudaStandin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/nowhere/libcublas.so.12")
    done = played("gemm_512", "0.1")
    assert done.returncode == 1
    assert "tried /nowhere/libcublas.so.12: cannot open shared object file" in done.stderr
    assert cuda.counted() == (0, 0, 0)


def test_cublas_of_a_python_package(cuda: CudaStandin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader finds others first, which do not work."""
    monkeypatch.delenv(VARIABLE)
    for name in NAMES:
        (cuda.library.parent / name).write_text("not a library")
    folder = tmp_path / "packages/nvidia/cu13/lib"
    folder.mkdir(parents=True)
    (folder / NAMES[0]).symlink_to(cuda.library)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    done = played("gemm_512", "0.1")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_numbers_of_a_gemm() -> None:
    data = random_bf16(1 << 14)
    numbers = {struct.unpack("<f", b"\0\0" + pair)[0] for pair in (data[at : at + 2] for at in range(0, len(data), 2))}
    assert len(numbers) == 2 * 128
    assert min(numbers) < 0 < max(numbers)
    assert all(0.5 <= abs(number) < 1 for number in numbers)


def test_without_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libcuda.so.1").write_text("not a library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    done = played()
    assert done.returncode == 1
    assert done.stderr.startswith("libcuda.so.1 cannot be loaded, no NVIDIA driver is here")
    command = [sys.executable, "-m", "tools.hardware", "--folder", str(tmp_path / "readings")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("libcuda.so.1 cannot be loaded")
    assert not (tmp_path / "readings").exists()


OPEN = "l.cuInit(0); c = c_void_p(); l.cuDevicePrimaryCtxRetain(byref(c), 7); l.cuCtxSetCurrent(c); "
MISUSES = {
    "a call before cuInit": "l.cuDeviceGet(byref(c_int()), 0)",
    "no context": "l.cuInit(0); l.cuMemAlloc_v2(byref(c_uint64()), c_size_t(8))",
    "memory that was not allocated": OPEN + "l.cuMemcpyDtoH_v2(byref(c_uint64()), c_uint64(9), c_size_t(8))",
    "a module that is not PTX": OPEN + "l.cuModuleLoadData(byref(c_void_p()), b'ELF')",
    "a GEMM without cuBLAS": OPEN + "l.cublasGetVersion_v2(None, byref(c_int()))",
    "a GEMM of other memory": OPEN
    + "h = c_void_p(); l.cublasCreate_v2(byref(h)); f = c_float; m = [c_void_p(9), 14, 8]; "
    + "l.cublasGemmEx(h, 0, 0, 8, 8, 8, byref(f(1)), *m, *m, byref(f(0)), *m, 68, -1)",
    "a kernel that was not loaded": OPEN + "l.cuLaunchKernel(None, 1, 1, 1, 32, 1, 1, 0, None, None, None)",
}


@pytest.mark.parametrize("name", MISUSES)
def test_the_stand_in_finds(cuda: CudaStandin, name: str) -> None:
    code = f"from ctypes import *; l = CDLL({str(cuda.library)!r}); {MISUSES[name]}"
    subprocess.run([sys.executable, "-c", code], timeout=SECONDS, check=True, env=environment())
    assert cuda.counted()[1] == 1


def test_the_stand_in_has_the_types_of_the_toolkits_header() -> None:
    flags = [
        "-fsyntax-only",
        "-DCUDA_H",
        f"-I{fetched('cuda.h').parent}",
        "-Wall",
        "-Werror",
        "-Wno-enum-conversion",
        "-Wno-enum-compare",
    ]
    subprocess.run([tool("cc", "gcc"), *flags, str(SOURCE)], check=True, timeout=SECONDS)
