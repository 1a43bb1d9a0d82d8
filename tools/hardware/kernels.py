"""The known kernels: what each does, and what its readings must be by what the hardware counts.

The expectations follow from the documented meaning of the counters (DCGM's and GPM's: SM activity counts SMs with a
resident warp, whether it computes or waits; a pipe is active in cycles in which it works), not from measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pulsed.compute.settings import PRESETS
from tools.hardware.ptx import ENTRIES, Work

Range = tuple[float, float]
"""Lowest and highest value that agrees."""

ALWAYS, NEVER = (0.95, 1.0), (0.0, 0.04)
_SM, _GR = "sm_active_ratio", "graphics_engine_active_ratio"
_TENSOR, _FP64, _FP32, _DRAM = (f"{name}_active_ratio" for name in ("tensor", "fp64", "fp32", "dram"))
_OCCUPANCY = "sm_occupancy_ratio"
_PCIE = "pcie_receive_bytes_per_second"

WHOLE = 0.25
"""Seconds of one launch of a kernel that runs all the time: the gaps between launches must not count."""


class KnownKernel(NamedTuple):
    """One kernel and its expectations.

    Attributes:
        does: what it does, for readers.
        workload_class: which its samples must have; empty: any.
        bottleneck: of that class.
        inputs: by canonical name. Tensor, FP64 and memory activity that is not named is `NEVER`.
        entry: of `ENTRIES`; empty: no kernel.
        sms: share of the SMs that get blocks; 0: one.
        blocks: of an SM; 0: as many as fit.
        on: share of a kernel's time in which it works, while it stays on its SMs.
        busy: seconds of a launch.
        period: seconds from launch to launch; 0: one follows the other.
        copies: whether it copies from host to device instead.
        gemm: N of the GEMM that it computes by cuBLAS instead. It is skipped where that is not possible.
        uncapped: the same kernel without a power limit, if this one is played with the power limit lowered.
        tensor_work: work of tensor pipes that was counted over the reading of it, which is MFU over its estimate.
    """

    name: str
    does: str
    workload_class: str
    bottleneck: str
    inputs: Mapping[str, Range]
    entry: str = ""
    sms: float = 1.0
    blocks: int = 0
    on: float = 1.0
    busy: float = WHOLE
    period: float = 0.0
    copies: bool = False
    gemm: int = 0
    uncapped: str = ""
    # dcgmproftester's tolerance is 10 %. mma.sync reaches some 60 % of the peak of wgmma on Hopper, while the pipe may
    # count as active all the time; more than what is active cannot have been computed.
    tensor_work: Range = (0.5, 1.1)

    def launch_shape(self, sms: int, threads_per_sm: int) -> tuple[int, int]:
        """Return blocks and threads of a block for a GPU with so many SMs; all of them run at once."""
        entry = ENTRIES[self.entry]
        fitting = min(entry.blocks_per_sm, threads_per_sm // entry.threads)
        return max(1, round(self.sms * sms)) * (self.blocks or fitting), entry.threads

    def work(self) -> Work | None:
        """Return what a round does; None if there are no rounds."""
        if self.gemm:
            return Work(tensor=2 * self.gemm**3)
        return ENTRIES[self.entry].work if self.entry else None

    def used_sms(self, sms: int) -> int:
        """Return how many SMs have a block: blocks go to SMs without one first."""
        return max(1, round(self.sms * sms)) if self.entry else 0

    def ranges(self) -> Mapping[str, Range]:
        """Return all expected inputs."""
        return dict.fromkeys((_TENSOR, _FP64, _DRAM), NEVER) | dict(self.inputs)

    def real_utilization(self) -> Range:
        """Return what real utilization follows from the inputs, with the default weights."""
        weights, ranges = PRESETS["ai"], self.ranges()
        weighted = (
            (weights.sm, ranges[_SM]),
            (weights.tensor, ranges[_TENSOR]),
            (weights.dram, ranges[_DRAM]),
            (weights.graphics_engine, ranges[_GR]),
        )
        return sum(weight * low for weight, (low, _) in weighted), sum(weight * high for weight, (_, high) in weighted)


_BUSY = {_GR: ALWAYS, _SM: ALWAYS}

# 2,048 tiles of 128 x 256 leave less than a seventh of 108 to 148 SMs idle at the end; what L2 does not hold is read
# again.
_LARGE = {_GR: ALWAYS, _SM: (0.85, 1.0), _TENSOR: (0.5, 1.0), _DRAM: (0.0, 0.5)}

# Published for H100 GEMMs (arXiv 2605.20799): 1.9 points of padded tiles, which are 5 % of an MFU of 0.4, and 0.22
# points of noise from sampling the clock.
_LARGE_WORK = (0.95, 1.02)

KERNELS = (
    KnownKernel("idle", "a context, no work", "idle", "idle", {_GR: NEVER, _SM: NEVER}),
    KnownKernel(
        "tensor_heavy",
        "`mma.sync` m16n8k16 in 16 bits on all SMs",
        "tensor_heavy_compute",
        "compute",
        _BUSY | {_TENSOR: (0.5, 1.0)},
        "tensor",
    ),
    KnownKernel(
        "tensor_moderate",
        "the same for half of each millisecond, waiting on its SMs for the rest",
        "tensor_compute",
        "compute",
        _BUSY | {_TENSOR: (0.25, 0.49)},
        "tensor",
        on=0.5,
    ),
    KnownKernel("fp64", "FP64 FMA on all SMs", "fp64_hpc_compute", "compute", _BUSY | {_FP64: (0.8, 1.0)}, "fp64"),
    KnownKernel(
        "copy", "device memory copied by all SMs", "memory_bound", "memory", _BUSY | {_DRAM: (0.65, 1.0)}, "copy"
    ),
    KnownKernel(
        "stream",
        "device memory read by 40 % of the SMs",
        "memory_bound",
        "memory",
        {_GR: ALWAYS, _SM: (0.35, 0.45), _DRAM: (0.5, 1.0)},
        "stream",
        sms=0.4,
    ),
    KnownKernel(
        "host_to_device",
        "copies from pinned host memory",
        "io_or_data_loading",
        "io",
        {_GR: NEVER, _SM: NEVER, _PCIE: (5e9, 70e9)},
        copies=True,
    ),
    KnownKernel(
        "fp32_full",
        "FP32 FMA on all SMs, all warps resident",
        "compute_heavy",
        "compute",
        _BUSY | {_OCCUPANCY: (0.9, 1.0), _FP32: (0.8, 1.0)},
        "fp32",
    ),
    KnownKernel(
        "fp32_partial",
        "the same with one block of 256 threads on 55 % of the SMs",
        "compute_active",
        "compute",
        {_GR: ALWAYS, _SM: (0.5, 0.6), _OCCUPANCY: (0.05, 0.11), _FP32: (0.4, 0.6)},
        "fp32",
        sms=0.55,
        blocks=1,
    ),
    KnownKernel(
        "one_sm",
        "the same with one block",
        "busy_low_sm_use",
        "mixed",
        {_GR: ALWAYS, _SM: (0.001, 0.05)},
        "fp32",
        sms=0.0,
        blocks=1,
    ),
    KnownKernel(
        "short_bursts",
        "FP32 FMA on all SMs for 5 of 20 ms",
        "mixed_or_moderate",
        "mixed",
        {_GR: (0.2, 0.3), _SM: (0.2, 0.3)},
        "fp32",
        busy=0.005,
        period=0.02,
    ),
    KnownKernel(
        "low_duty",
        "the same for 20 of 200 ms",
        "low_utilization",
        "mixed",
        {_GR: (0.08, 0.14), _SM: (0.08, 0.12)},
        "fp32",
        busy=0.02,
        period=0.2,
    ),
    KnownKernel(
        "gemm_8192",
        "BF16 GEMM by cuBLAS, N = 8192",
        "tensor_heavy_compute",
        "compute",
        _LARGE,
        gemm=8192,
        tensor_work=_LARGE_WORK,
    ),
    # Few tiles for the SMs, and launches that may take longer than the work. Tiles of 96 to 224 rows or columns, which
    # cuBLAS has, pad 512 by up to 31 % in each dimension.
    KnownKernel(
        "gemm_512",
        "the same, N = 512",
        "",
        "",
        {_GR: (0.1, 1.0), _SM: (0.01, 1.0), _TENSOR: (0.002, 0.5)},
        gemm=512,
    ),
    KnownKernel(
        "gemm_8192_capped",
        "N = 8192 with the power limit lowered: the SM clock falls, tensor activity does not",
        "tensor_heavy_compute",
        "compute",
        _LARGE | {"power_cap_ratio": (0.5, 1.0)},
        gemm=8192,
        uncapped="gemm_8192",
        tensor_work=_LARGE_WORK,
    ),
)
