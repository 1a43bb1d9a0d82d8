"""What is expected of the known kernels agrees with the class table and with the arithmetic of launches."""

from __future__ import annotations

from itertools import product

import pytest

from pulsed.compute.derived_results import result_of
from pulsed.compute.settings import ComputeSettings
from pulsed.model.gpu import Device, Entity
from pulsed.model.vocabulary import CLASSES, NOTHING, POSITION
from tools.hardware.cuda import GpuFacts
from tools.hardware.judge import PEAKS, busy_share, counted_work
from tools.hardware.kernels import KERNELS, KnownKernel
from tools.hardware.play import Played

H100 = GpuFacts("GPU-0", "NVIDIA H100 80GB HBM3", 132, 2048, 5120, "9.0")
BY_NAME = {kernel.name: kernel for kernel in KERNELS}


def played(name: str, *, launches: int = 0, rounds: int = 0, copied: int = 0) -> Played:
    """Ten seconds of a kernel."""
    return Played(name, 100.0, 110.0, launches, rounds, copied)


def test_every_class_has_a_kernel_except_one() -> None:
    assert sum(not kernel.gemm for kernel in KERNELS) == 12  # as README.md has it
    assert set(CLASSES) - {kernel.workload_class for kernel in KERNELS} == {"memory_active"}


@pytest.mark.parametrize(
    ("name", "sms", "threads_per_sm", "shape"),
    [
        ("fp32_full", 132, 2048, (1056, 256)),
        ("fp32_full", 84, 1536, (504, 256)),
        ("fp32_partial", 132, 2048, (73, 256)),
        ("one_sm", 132, 2048, (1, 256)),
        ("tensor_heavy", 108, 2048, (216, 256)),
        ("stream", 132, 2048, (53, 1024)),
    ],
)
def test_shapes(name: str, sms: int, threads_per_sm: int, shape: tuple[int, int]) -> None:
    assert BY_NAME[name].launch_shape(sms, threads_per_sm) == shape


@pytest.mark.parametrize(
    ("kernel", "rounds", "pipe", "share"),
    [
        # An H100 at 1.98 GHz. A round repeats 4 x 16 mma.sync, 4,096 operations each, at 4,096 per clock and SM.
        ("tensor_heavy", 132 * 1980000000 * 10 // (16 * 64), "tensor", 1.0),
        ("gemm_8192", 9000, "tensor", 9000 * 2 * 8192**3 / (10 * 132 * 4096 * 1.98e9)),
        ("gemm_512", 900_000, "tensor", 900_000 * 2 * 512**3 / (10 * 132 * 4096 * 1.98e9)),
        ("fp64", 132 * 1980000000 * 10 // (16 * 64) // 2, "fp64", 0.5),  # 8,192 operations at 128
        ("fp32_full", 132 * 1980000000 * 10 // (16 * 32), "fp32", 1.0),  # 8,192 operations at 256
        # 2619 MHz on 5120 bits, two transfers per cycle: 3.352 TB/s; 8 words of 16 bytes a thread, read and written.
        ("copy", 3352320000000 * 10 // (16 * 8192), "dram", 1.0),
        ("stream", 3352320000000 * 10 // (16 * 8192), "dram", 0.5),
    ],
)
def test_counted_work(kernel: str, rounds: int, pipe: str, share: float) -> None:
    counted = counted_work(BY_NAME[kernel], played(kernel, rounds=rounds), H100, 1.98e9, 2.619e9)
    assert counted.pop(pipe) == pytest.approx(share, rel=1e-6)
    of_data_sheet = 132 * 4096 * 1.98e9 / 989.4e12  # its peak is for 1,830 MHz
    assert counted.pop("mfu") == pytest.approx(share * of_data_sheet if pipe == "tensor" else 0.0, rel=1e-6)
    assert not any(counted.values())


def test_peaks_are_those_of_data_sheets() -> None:
    """TFLOP/s of A100, H100 SXM and B200: tensor pipes with 16 bits at the clock that NVIDIA gives for them."""
    for capability, sms, clock, teraflops in (
        ("8.0", 108, 1.41, 312),
        ("9.0", 132, 1.83, 989),
        ("10.0", 148, 1.85, 2250),
    ):
        assert PEAKS[capability][0] * sms * clock / 1e3 == pytest.approx(teraflops, rel=0.01)


def test_copies_and_schedules() -> None:
    counted = counted_work(BY_NAME["host_to_device"], played("host_to_device", copied=500), H100, 1.98e9, 2.619e9)
    assert counted == {"pcie": 50.0}
    assert busy_share(BY_NAME["short_bursts"], played("short_bursts", launches=500)) == pytest.approx(0.25)
    assert busy_share(BY_NAME["fp64"], played("fp64", launches=38)) == pytest.approx(0.95)
    assert busy_share(BY_NAME["idle"], played("idle")) == 0.0


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_all_expected_inputs_have_the_expected_class(kernel: KnownKernel) -> None:
    """Otherwise a run could fail whatever is measured."""
    others = {"pcie_receive_bytes_per_second": (0.0, 0.0), "pcie_transmit_bytes_per_second": (0.0, 0.0)}
    ranges = others | dict(kernel.ranges())
    gpu = Device(Entity("gpu", "0", H100.uuid), H100.name)
    for values in product(*ranges.values()):
        result = result_of(
            gpu,
            NOTHING._replace(**{k: v for k, v in zip(ranges, values, strict=True) if k in POSITION}),
            ComputeSettings(),
        )
        workload, ratio = result.workload, result.real_utilization.ratio
        assert not kernel.workload_class or (workload.raw_class, workload.bottleneck) == (
            kernel.workload_class,
            kernel.bottleneck,
        ), values
        low, high = kernel.real_utilization()
        assert ratio is not None
        assert low - 1e-9 <= ratio <= high + 1e-9
