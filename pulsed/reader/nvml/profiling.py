"""The profiling counters of the driver (GPM, Hopper and newer)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from pulsed.reader.nvml.calls import GpmMetric
from pulsed.reader.nvml.device_list import NvmlDevice
from pulsed.reader.nvml.field_values import Values
from pulsed.reader.nvml.library import REFUSALS, call


class GpmSampler:
    """The profiling counters of a GPU or MIG instance: shares and rates between two samples.

    All numbers of a tick come from one pair of samples, so that nothing is multiplexed.

    Args:
        longest: seconds after which a sample is too old to begin a pair.

    Raises:
        NVMLError: the driver has no room for samples.
    """

    def __init__(self, nvml: ModuleType, device: NvmlDevice, metrics: Sequence[GpmMetric], longest: float) -> None:
        self._nvml, self._device, self._longest = nvml, device, longest
        self._metrics = tuple(metrics)
        self._samples: list[Any] = []  # buffers of the driver, the one that was filled last at the end
        self._sampled = -math.inf  # when that was
        try:
            for _ in range(2):
                self._samples.append(call(nvml, "nvmlGpmSampleAlloc"))
        except nvml.NVMLError:
            self.close()
            raise

    @property
    def names(self) -> Sequence[str]:
        """The metrics that the driver does not refuse."""
        return [metric.name for metric in self._metrics]

    def read(self, now: float, values: Values) -> None:
        """Take a sample and set the values since the previous one; the first tick sets none.

        Args:
            now: seconds of a clock that never steps.

        Raises:
            NVMLError: no sample could be taken, or none compared.
        """
        oldest, before = self._samples
        values.update(dict.fromkeys(self.names))
        self._fill(oldest)
        self._samples.reverse()
        sampled, self._sampled = self._sampled, now
        if now - sampled <= self._longest:
            self._compare(before, oldest, values)

    def _fill(self, sample: Any) -> None:
        nvml, board, instance = self._nvml, self._device.board, self._device.instance
        if instance is None:
            nvml.nvmlGpmSampleGet(board, sample)
        else:
            nvml.nvmlGpmMigSampleGet(board, instance, sample)

    def _compare(self, first: Any, second: Any, values: Values) -> None:
        request = self._nvml.c_nvmlGpmMetricsGet_t()
        request.version, request.numMetrics = self._nvml.NVML_GPM_METRICS_GET_VERSION, len(self._metrics)
        request.sample1, request.sample2 = first, second
        answers = request.metrics[: len(self._metrics)]
        for metric, answer in zip(self._metrics, answers, strict=True):
            answer.metricId = metric.id
        self._nvml.nvmlGpmMetricsGet(request)
        kept = []
        for metric, answer in zip(self._metrics, answers, strict=True):
            code = answer.nvmlReturn
            if code == 0 and math.isfinite(value := answer.value):
                values[metric.name] = value / metric.divide
            if code not in REFUSALS:
                kept.append(metric)
        self._metrics = tuple(kept)

    def close(self) -> None:
        """Free the samples: necessary before NVML is shut down. Safe to call twice."""
        samples, self._samples = self._samples, []
        for sample in samples:
            self._nvml.nvmlGpmSampleFree(sample)
