"""NVML's profiling counters (GPM, Hopper and newer): shares and rates between two samples.

All numbers of a tick come from one pair of samples, so that nothing is multiplexed.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf, isfinite
from types import ModuleType
from typing import Any, NamedTuple

from pulsed.reader.nvml.field_values import SPACED, Values
from pulsed.reader.nvml.library import REFUSALS
from pulsed.reader.nvml.native_call import Handle, LongCall, native_function

_BUFFERS = 2

_MEBIBYTES_PER_SECOND = 1 / 1048576


class GpmMetric(NamedTuple):
    """A metric of GPM.

    Attributes:
        name: DCGM's metric with the same meaning.
        divide: GPM's unit, percent or MiB/s, by that metric's.
        of_instance: whether it exists for a MIG instance.
    """

    id: int
    name: str
    divide: float = 100.0
    of_instance: bool = True


def _engines(first: int, engine: str, count: int) -> tuple[GpmMetric, ...]:
    return tuple(
        GpmMetric(first + number, f"DCGM_FI_PROF_{engine}{number}_ACTIVE", of_instance=False) for number in range(count)
    )


GPM_METRICS: tuple[GpmMetric, ...] = (
    GpmMetric(1, "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
    GpmMetric(2, "DCGM_FI_PROF_SM_ACTIVE"),
    GpmMetric(3, "DCGM_FI_PROF_SM_OCCUPANCY"),
    GpmMetric(4, "DCGM_FI_PROF_PIPE_INT_ACTIVE"),
    GpmMetric(5, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
    GpmMetric(6, "DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE"),
    GpmMetric(7, "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE"),
    GpmMetric(9, "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE"),
    GpmMetric(10, "DCGM_FI_PROF_DRAM_ACTIVE"),
    GpmMetric(11, "DCGM_FI_PROF_PIPE_FP64_ACTIVE"),
    GpmMetric(12, "DCGM_FI_PROF_PIPE_FP32_ACTIVE"),
    GpmMetric(13, "DCGM_FI_PROF_PIPE_FP16_ACTIVE"),
    GpmMetric(20, "DCGM_FI_PROF_PCIE_TX_BYTES", _MEBIBYTES_PER_SECOND, of_instance=False),
    GpmMetric(21, "DCGM_FI_PROF_PCIE_RX_BYTES", _MEBIBYTES_PER_SECOND, of_instance=False),
    *_engines(30, "NVDEC", 8),
    *_engines(40, "NVJPG", 8),
    *_engines(50, "NVOFA", 2),
    GpmMetric(60, "DCGM_FI_PROF_NVLINK_RX_BYTES", _MEBIBYTES_PER_SECOND, of_instance=False),
    GpmMetric(61, "DCGM_FI_PROF_NVLINK_TX_BYTES", _MEBIBYTES_PER_SECOND, of_instance=False),
    GpmMetric(100, "DCGM_FI_PROF_C2C_TX_ALL_BYTES", _MEBIBYTES_PER_SECOND, of_instance=False),
    GpmMetric(101, "DCGM_FI_PROF_C2C_RX_ALL_BYTES", _MEBIBYTES_PER_SECOND, of_instance=False),
    GpmMetric(160, "DCGM_FI_PROF_HOSTMEM_CACHE_HIT", 1.0, of_instance=False),
    GpmMetric(161, "DCGM_FI_PROF_HOSTMEM_CACHE_MISS", 1.0, of_instance=False),
    GpmMetric(162, "DCGM_FI_PROF_PEERMEM_CACHE_HIT", 1.0, of_instance=False),
    GpmMetric(163, "DCGM_FI_PROF_PEERMEM_CACHE_MISS", 1.0, of_instance=False),
)


_HEAD, _ENTRY = "IIPP", "IId24x"
"""`nvmlGpmMetricsGet_t`: version, number of metrics, and the two samples; then for each metric a `nvmlGpmMetric_t`: its
id, return value, number, and three texts. The array of nvidia-ml-py has another length with each release."""


class GpmSampler:
    """The profiling counters of one GPU or MIG instance.

    In every tick the call of `prepare_sample` is made, then that of `prepare_comparison`; then `decode` has the values.

    Args:
        board: handle of the GPU.
        instance: id of the GPU instance; None for the GPU.
        places: of the metrics in the lists that `decode` fills.
        longest: seconds after which a sample is too old to begin a pair.

    Attributes:
        names: the metrics that the driver does not refuse.

    Raises:
        NVMLError: the driver has no profiling counters, or no room for samples.
    """

    def __init__(
        self,
        nvml: ModuleType,
        board: Handle,
        instance: int | None,
        metrics: Sequence[GpmMetric],
        places: Mapping[str, int],
        longest: float,
    ) -> None:
        self._nvml, self._places, self._longest = nvml, places, longest
        take = native_function(nvml, "nvmlGpmSampleGet" if instance is None else "nvmlGpmMigSampleGet")
        self._take = partial(take, board) if instance is None else partial(take, board, ctypes.c_uint(instance))
        self._function = native_function(nvml, "nvmlGpmMetricsGet")
        self._choose(metrics)
        self._samples: list[_GpmSample] = []
        self._now, self._code, self._is_due, self._has_pair = 0.0, 0, False, False
        try:
            for _ in range(_BUFFERS):
                self._samples.append(_GpmSample(nvml.nvmlGpmSampleAlloc(), self._take))
        except nvml.NVMLError:
            self.close()
            raise

    def _choose(self, metrics: Sequence[GpmMetric]) -> None:
        self._metrics = tuple(metrics)
        self.names = tuple(metric.name for metric in metrics)
        self._columns = [(self._places[metric.name], metric.divide) for metric in metrics]
        self._offset = struct.calcsize(_HEAD)
        entries = b"".join(struct.pack(_ENTRY, metric.id, 0, 0.0) for metric in metrics)
        head = struct.pack(_HEAD, 1, len(metrics), 0, 0)
        self._request = ctypes.create_string_buffer(head + entries, len(head) + len(entries))
        self._compare = LongCall(partial(self._function, self._request))
        self._unpack = struct.Struct(_ENTRY * len(metrics)).unpack_from

    def prepare_sample(self, now: float) -> LongCall | None:
        """Return the call that takes a sample in place of the older one; None if the last one is too young.

        Samples must be more than 0.1 s apart (nvml.h). At 10 Hz, therefore, one is taken with every second tick, and
        its values hold for two: all time is covered once.

        Args:
            now: seconds of a clock that never steps.
        """
        older, newest = self._samples
        self._now, self._is_due = now, now - newest.time >= SPACED
        return older.take if self._is_due else None

    def prepare_comparison(self) -> LongCall | None:
        """Return the call that compares the sample with the one before; None if that is too old."""
        if not self._is_due:
            return None
        taken, before = self._samples
        self._has_pair, self._code = False, taken.take.code
        if self._code:
            taken.time = -inf
            return None
        taken.time = self._now
        self._samples.reverse()
        self._has_pair = taken.time - before.time <= self._longest
        if not self._has_pair:
            return None
        struct.pack_into(_HEAD, self._request, 0, 1, len(self._metrics), before.address, taken.address)
        return self._compare

    def decode(self, values: Values) -> None:
        """Set the values, if a sample was taken; there are none without a pair, as in the first tick.

        Raises:
            NVMLError: no sample could be taken, or none compared.
        """
        if not self._is_due:
            return
        code = self._compare.code if self._has_pair else self._code
        if code or not self._has_pair:
            for place, _ in self._columns:
                values[place] = None
            if code:
                raise self._nvml.NVMLError(code)
            return
        flat = self._unpack(self._request, self._offset)
        codes = flat[1::3]
        for (place, divide), code, value in zip(self._columns, codes, flat[2::3], strict=True):
            values[place] = value / divide if code == 0 and isfinite(value) else None
        if not REFUSALS.isdisjoint(codes):
            self._choose([metric for metric, code in zip(self._metrics, codes, strict=True) if code not in REFUSALS])

    def close(self) -> None:
        """Free the samples: necessary before NVML is shut down. Safe to call twice."""
        samples, self._samples = self._samples, []
        for sample in samples:
            self._nvml.nvmlGpmSampleFree(sample.pointer)


class _GpmSample:
    """A buffer of the driver, the call that fills it, and when it was filled."""

    def __init__(self, pointer: Any, take: Callable[[Any], int]) -> None:
        self.pointer = pointer
        self.take = LongCall(partial(take, pointer))
        self.address = ctypes.cast(pointer, ctypes.c_void_p).value
        self.time = -inf
