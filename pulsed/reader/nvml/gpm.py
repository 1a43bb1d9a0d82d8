"""NVML's profiling counters (GPM, Hopper and newer): shares and rates between two samples.

All numbers of a tick come from one pair of samples, so that nothing is multiplexed.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from pulsed.reader.nvml.field_values import Values
from pulsed.reader.nvml.library import REFUSALS

LEAST_SPACING = 0.1
"""Seconds between two samples (nvml.h)."""

_BUFFERS = 3
"""At 10 Hz the sample before may be too young, and the one before that is taken."""

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


_ENTRY = "IId24x"
"""`nvmlGpmMetric_t`: metric, return value, number, and three texts."""


class _Metric(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_uint),
        ("code", ctypes.c_uint),
        ("value", ctypes.c_double),
        ("texts", ctypes.c_char_p * 3),
    )


def _request(count: int) -> Any:
    """Return a `nvmlGpmMetricsGet_t` with this number of entries; nvidia-ml-py's length differs between releases."""

    class Request(ctypes.Structure):
        _fields_ = (
            ("version", ctypes.c_uint),
            ("count", ctypes.c_uint),
            ("older", ctypes.c_void_p),
            ("newer", ctypes.c_void_p),
            ("metrics", _Metric * count),
        )

    return Request(version=1, count=count)


class GpmSampler:
    """The profiling counters of one GPU or MIG instance.

    Args:
        take: takes a sample into a buffer.
        longest: seconds after which a sample is too old to begin a pair.

    Attributes:
        names: DCGM's metrics that are filled.
    """

    def __init__(
        self, nvml: ModuleType, take: Callable[[Any], object], metrics: Sequence[GpmMetric], longest: float
    ) -> None:
        self._nvml, self._take, self._longest = nvml, take, longest
        self._choose(metrics)
        self._samples: list[tuple[float, Any]] = []
        try:
            for _ in range(_BUFFERS):
                self._samples.append((-math.inf, nvml.nvmlGpmSampleAlloc()))
        except nvml.NVMLError:
            self.close()
            raise

    def _choose(self, metrics: Sequence[GpmMetric]) -> None:
        self._metrics = tuple(metrics)
        self.names = tuple(metric.name for metric in metrics)
        self._request = _request(len(metrics))
        self._unpack = struct.Struct(_ENTRY * len(metrics)).unpack_from
        for entry, metric in zip(self._request.metrics, metrics, strict=True):
            entry.id = metric.id

    def read(self, values: Values, now: float) -> None:
        """Take a sample and add the values since the one before; there are none the first time.

        Args:
            now: seconds of a clock that never steps.

        Raises:
            NVMLError: no sample could be taken, or none compared.
        """
        _, newest = self._samples.pop(0)
        self._samples.append((-math.inf, newest))  # it has no time unless the next line succeeds
        self._take(newest)
        self._samples[-1] = (now, newest)
        pairs = [each for each in self._samples if LEAST_SPACING < now - each[0] <= self._longest]
        if not pairs:
            return
        request, nvml = self._request, self._nvml
        _, older = max(pairs, key=lambda pair: pair[0])
        request.older, request.newer = ctypes.cast(older, ctypes.c_void_p), ctypes.cast(newest, ctypes.c_void_p)
        nvml.nvmlGpmMetricsGet(request)
        flat = self._unpack(request.metrics)
        for metric, code, value in zip(self._metrics, flat[1::3], flat[2::3], strict=True):
            if code == 0 and math.isfinite(value):
                values[metric.name] = value / metric.divide
        if not REFUSALS.isdisjoint(flat[1::3]):
            self._choose(
                [metric for metric, code in zip(self._metrics, flat[1::3], strict=True) if code not in REFUSALS]
            )

    def close(self) -> None:
        """Free the samples: necessary before NVML is shut down. Safe to call twice."""
        samples, self._samples = self._samples, []
        for _, sample in samples:
            self._nvml.nvmlGpmSampleFree(sample)
