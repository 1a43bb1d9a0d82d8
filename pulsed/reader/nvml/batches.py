"""NVML's calls that return many numbers at once: field values, and profiling counters.

Their buffers are packed here, and made once per device: nvidia-ml-py takes 1.5 ms to fill and read those of a tick of
eight GPUs.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from pulsed.reader.nvml.calls import FieldValue, GpmMetric
from pulsed.reader.nvml.device_list import NvmlDevice
from pulsed.reader.nvml.library import (
    ENDED,
    FUNCTION_NOT_FOUND,
    GONE,
    REFUSALS,
    UNINITIALIZED,
    Handle,
    call,
    is_refused,
)

Values = dict[str, float | None]
"""DCGM's metrics of a device, in their units; None is missing."""

Steps = Iterator[None]
"""What is left to do, with a pause after each call of the driver that takes long.

Code that runs after such a call costs several times as much as code that just ran, so that all GPUs' calls are made one
behind the other, and then their results are taken.
"""

FIELD_ENTRY = struct.Struct("IIqqIIQ")
"""`nvmlFieldValue_t`: field, scope, timestamp, latency, type, return value, and the union of 8 bytes."""

_UNSIGNED_LONG_LONG = 3
_UNION = ("d", "I", "Q", "Q", "q", "i", "H")
"""The value in the union, in terms of `struct`, by `nvmlValueType_t`."""

GPM_HEAD, GPM_ENTRY = struct.Struct("IIPP"), struct.Struct("IId24x")
"""`nvmlGpmMetricsGet_t`: version, number of metrics, and the two samples; then for each metric a `nvmlGpmMetric_t`: its
id, return value, number, and three texts. The array of nvidia-ml-py has another length with each release."""


class FieldBatch:
    """One call for the values of several fields. A field that the driver refuses is left out from then on.

    Attributes:
        names: the metrics of the fields that are still read.
    """

    def __init__(self, nvml: ModuleType, handle: Handle, fields: Sequence[FieldValue]) -> None:
        self._nvml, self._handle = nvml, handle
        self._choose(fields)

    def _choose(self, fields: Sequence[FieldValue]) -> None:
        self._fields = tuple(fields)
        self.names = tuple(field.name for field in fields)
        # Entries may come back untouched, so that every call begins with blanks.
        self._blank = b"".join(FIELD_ENTRY.pack(each.id, each.scope, 0, 0, 0, 0, 0) for each in fields)
        self._entries, self._code = ctypes.create_string_buffer(len(self._blank)), 0

    def call(self) -> None:
        """Make the call, for `decode`."""
        if not self._fields:
            return
        self._entries.raw = self._blank
        try:
            function = self._nvml.nvmlLib.nvmlDeviceGetFieldValues
        except AttributeError:
            self._code = FUNCTION_NOT_FOUND
        else:
            self._code = function(self._handle, len(self._fields), self._entries)

    def decode(self, values: Values) -> None:
        """Set the values of the fields that are None; those of fields without a value are left as they are.

        Raises:
            NVMLError: the GPU or the driver is gone.
        """
        if self._code:
            if is_refused(self._nvml.NVMLError(self._code)):
                self._choose(())
            return
        refused: list[FieldValue] = []
        for field, entry in zip(self._fields, FIELD_ENTRY.iter_unpack(self._entries), strict=True):
            _, _, timestamp, _, type_, code, raw = entry
            if code == 0:
                if values[field.name] is None and (timestamp or type_):
                    values[field.name] = _number(raw, type_ if field.type is None else field.type) / field.divide
            elif code in REFUSALS:
                refused.append(field)
            elif code in GONE or (code in ENDED and code != UNINITIALIZED):
                raise self._nvml.NVMLError(code)
        if refused:
            self._choose([field for field in self._fields if field not in refused])


def _number(raw: int, type_: int) -> float:
    """Return the number in a union of which `raw` are the 8 bytes; NaN for a type that does not exist."""
    if type_ == _UNSIGNED_LONG_LONG:
        return raw
    if type_ >= len(_UNION):
        return math.nan
    return float(struct.unpack_from(_UNION[type_], struct.pack("Q", raw))[0])


class _GpmSample:
    """A buffer of the driver, and when it was filled."""

    def __init__(self, pointer: Any) -> None:
        self.pointer = pointer
        self.address = ctypes.cast(pointer, ctypes.c_void_p).value
        self.time = -math.inf


class GpmSampler:
    """The profiling counters (GPM, Hopper and newer) of a GPU or MIG instance: shares and rates between two samples.

    All numbers of a tick come from one pair of samples, so that nothing is multiplexed.

    Args:
        longest: seconds after which a sample is too old to begin a pair.

    Attributes:
        names: the metrics that the driver does not refuse.

    Raises:
        NVMLError: the driver has no room for samples.
    """

    def __init__(self, nvml: ModuleType, device: NvmlDevice, metrics: Sequence[GpmMetric], longest: float) -> None:
        self._nvml, self._device, self._longest = nvml, device, longest
        self._choose(metrics)
        self._samples: list[_GpmSample] = []
        try:
            for _ in range(2):
                self._samples.append(_GpmSample(call(nvml, "nvmlGpmSampleAlloc")))
        except nvml.NVMLError:
            self.close()
            raise

    def _choose(self, metrics: Sequence[GpmMetric]) -> None:
        self._metrics = tuple(metrics)
        self.names = tuple(metric.name for metric in metrics)
        entries = (GPM_ENTRY.pack(metric.id, 0, 0.0) for metric in metrics)
        request = b"".join((bytes(GPM_HEAD.size), *entries))
        self._request = ctypes.create_string_buffer(request, len(request))

    def read(self, now: float, values: Values) -> Steps:
        """Take a sample and set the values since the one before; there are none without a pair, as in the first tick.

        Args:
            now: seconds of a clock that never steps.

        Raises:
            NVMLError: no sample could be taken, or none compared.
        """
        oldest, before = self._samples
        values.update(dict.fromkeys(self.names))
        oldest.time = -math.inf
        self._fill(oldest)
        oldest.time = now
        self._samples.reverse()
        yield
        if now - before.time <= self._longest:
            GPM_HEAD.pack_into(self._request, 0, 1, len(self._metrics), before.address, oldest.address)
            self._nvml.nvmlGpmMetricsGet(self._request)
            yield
            self._decode(values)

    def _fill(self, sample: _GpmSample) -> None:
        nvml, board, instance = self._nvml, self._device.board, self._device.instance
        if instance is None:
            nvml.nvmlGpmSampleGet(board, sample.pointer)
        else:
            nvml.nvmlGpmMigSampleGet(board, instance, sample.pointer)

    def _decode(self, values: Values) -> None:
        refused: list[GpmMetric] = []
        answers = GPM_ENTRY.iter_unpack(memoryview(self._request)[GPM_HEAD.size :])
        for metric, (_, code, value) in zip(self._metrics, answers, strict=True):
            if code in REFUSALS:
                refused.append(metric)
            elif code == 0 and math.isfinite(value):
                values[metric.name] = value / metric.divide
        if refused:
            self._choose([metric for metric in self._metrics if metric not in refused])

    def close(self) -> None:
        """Free the samples: necessary before NVML is shut down. Safe to call twice."""
        samples, self._samples = self._samples, []
        for sample in samples:
            self._nvml.nvmlGpmSampleFree(sample.pointer)
