"""Calls that return many values of a device at once: fields, fields of its NVLinks, and profiling counters (GPM)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from pulsed.model.clocks import Monotonic
from pulsed.model.raw_tick import Labels
from pulsed.reader.nvml.calls import FieldValue, GpmMetric
from pulsed.reader.nvml.device_list import NvmlDevice
from pulsed.reader.nvml.library import ENDED, GONE, REFUSALS, UNINITIALIZED, Handle, call, is_refused

Values = dict[str, float | None]
"""DCGM's metrics of a device, in their units; None is missing."""

_UNION = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The member of the union that has the value, by `nvmlValueType_t`; another type is NaN."""


class FieldReader:
    """Reads several fields. A field that the driver refuses is left out from then on."""

    def __init__(self, nvml: ModuleType, handle: Handle, fields: Sequence[FieldValue]) -> None:
        self._nvml, self._handle, self._fields = nvml, handle, tuple(fields)

    @property
    def names(self) -> Sequence[str]:
        """The metrics of the fields that are still read."""
        return [field.name for field in self._fields]

    def read(self, values: Values) -> None:
        """Set the values of the fields that are None; fields without a value are left as they are.

        Raises:
            NVMLError: the GPU or the driver is gone.
        """
        if not self._fields:
            return
        requested = [(field.id, field.scope) for field in self._fields]
        try:
            answers = call(self._nvml, "nvmlDeviceGetFieldValues", self._handle, requested)
        except self._nvml.NVMLError as error:
            if is_refused(error):
                self._fields = ()
            return
        kept = []
        for field, answer in zip(self._fields, answers, strict=True):
            code = answer.nvmlReturn
            if code in GONE or (code in ENDED and code != UNINITIALIZED):
                raise self._nvml.NVMLError(code)
            # An entry that the driver left untouched has neither a time nor a type.
            if code == 0 and values[field.name] is None and (answer.timestamp or answer.valueType):
                type_ = answer.valueType if field.type is None else field.type
                number = getattr(answer.value, _UNION[type_]) if type_ < len(_UNION) else math.nan
                values[field.name] = float(number) / field.divide
            if code not in REFUSALS:
                kept.append(field)
        self._fields = tuple(kept)


MAX_LINKS = 18

_STATE = "DCGM_FI_DEV_NVLINK_GET_STATE"
_FIELDS = {
    165: _STATE,
    161: "DCGM_FI_DEV_NVLINK_ERROR_DL_REPLAY",
    162: "DCGM_FI_DEV_NVLINK_ERROR_DL_RECOVERY",
    163: "DCGM_FI_DEV_NVLINK_ERROR_DL_CRC",
    208: "DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS",
    213: "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS",
    214: "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS",
}
"""Fields whose scope is a link, with DCGM's metrics of the same meaning."""

LINK_TOTALS = tuple(metric for metric in _FIELDS.values() if metric != _STATE)
"""Counters of a GPU that are the sums of its links: before Blackwell the driver refuses them for all links at once."""


class LinkReader:
    """Reads the NVLinks of one GPU: their states, and what they count.

    Those that do not exist are refused by the driver, and left out from then on.

    Args:
        every: seconds between two reads.

    Attributes:
        names: metric and number of the link, as in `DCGM_FI_DEV_NVLINK_GET_STATE 14`: all states, and the counters of
            which any link has one above 0. A clean link costs no series besides.
        values: by name.
        totals: of the counters that any link has, by metric.
    """

    def __init__(self, nvml: ModuleType, device: NvmlDevice, every: float) -> None:
        fields = [
            FieldValue(field, f"{metric} {link}", every, scope=link)
            for field, metric in _FIELDS.items()
            for link in range(MAX_LINKS)
        ]
        self._fields = FieldReader(nvml, device.handle, fields)
        self._labels = (("gpu", str(device.index)), ("gpu_uuid", device.uuid))
        self._every, self._due = every, -math.inf
        self.names: Sequence[str] = ()
        self.values: Values = {}
        self.totals: dict[str, float] = {}

    def read(self, now: Monotonic) -> None:
        """Read the links if they are due at `now`, seconds of a clock that never steps.

        Raises:
            NVMLError: the GPU or the driver is gone.
        """
        if now < self._due or not self._fields.names:
            return
        self._due = now + self._every
        self.values = dict.fromkeys(self._fields.names)
        self._fields.read(self.values)
        shown = {name.split()[0] for name in self.names} | {_STATE}
        shown |= {name.split()[0] for name, value in self.values.items() if value}
        self.names = [name for name in self._fields.names if name.split()[0] in shown]
        self.totals = {}
        for name, value in self.values.items():
            metric = name.split()[0]
            if value is not None and metric != _STATE:
                self.totals[metric] = self.totals.get(metric, 0.0) + value

    def labels(self, name: str) -> tuple[str, Labels]:
        """Return metric and labels of a name, as on a dcgm-exporter's page."""
        metric, link = name.split()
        return metric, (("nvlink", link), *self._labels)


class GpmSampler:
    """The profiling counters of a GPU or MIG instance (Hopper and newer): shares and rates between two samples.

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

    def read(self, now: Monotonic, values: Values) -> None:
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
