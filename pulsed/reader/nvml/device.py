"""Reads one GPU or MIG instance: each group of calls when it is due, errors as missing values."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from types import ModuleType

from pulsed.reader.nvml.calls import CALLS, DriverCall, Handle, Read
from pulsed.reader.nvml.device_list import NvmlDevice
from pulsed.reader.nvml.field_values import FAST, FIELD_VALUES, RARE, SECOND, SLOW, FieldBatch, Values
from pulsed.reader.nvml.gpm import GPM_METRICS, GpmSampler
from pulsed.reader.nvml.library import ENDED, GONE, NO_PERMISSION, REFUSALS
from pulsed.reader.nvml.settings import NvmlSettings

log = logging.getLogger(__name__)

GPM_SUPPORT = "DCGM_FI_DEV_GPM_SUPPORT"


_EARLY_SECONDS = 0.1
"""A tick may come so much early without missing the calls that are due."""


class _Group:
    """The calls that are due at the same time."""

    def __init__(self, seconds: float, batch: FieldBatch | None, calls: Sequence[DriverCall]) -> None:
        self.seconds, self.batch = seconds, batch
        self.due = -math.inf
        self.calls = {call: list(call.reads) for call in calls}
        self.blanks: Values = dict.fromkeys(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        of_calls = tuple(name for call, reads in self.calls.items() if reads for name in call.names)
        return of_calls if self.batch is None else self.batch.names + of_calls


class DeviceReader:
    """A GPU, or a MIG instance of one.

    Args:
        is_split: whether the GPU has MIG instances: then its own activity is theirs.
        offset: share of an interval, 0..1, by which slow calls are moved, so that not all GPUs' are in one tick.

    Attributes:
        device: what is read.
        values: by DCGM metric; None is missing.
        gone: NVML's error if the GPU no longer answers; 0 while it does.
    """

    def __init__(
        self,
        nvml: ModuleType,
        device: NvmlDevice,
        *,
        settings: NvmlSettings,
        is_split: bool = False,
        offset: float = 0.0,
    ) -> None:
        self._nvml, self.device, self._offset = nvml, device, offset
        is_board = device.instance is None
        self.values: Values = {}
        self.gone = 0
        calls = [call for call in CALLS if call.instance or is_board]
        fields = FIELD_VALUES if is_board else ()
        self._groups: list[_Group] = []
        for every in (FAST, SECOND, SLOW, RARE):
            chosen = [field for field in fields if field.every == every]
            batch = FieldBatch(nvml, device.handle, chosen) if chosen else None
            seconds = settings.slow_interval if every == SLOW else every
            self._groups.append(_Group(seconds, batch, [call for call in calls if call.every == every]))
        self._gpm = self._sampler(is_split, max(3.0 * settings.interval, 1.0))

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics that the driver does not refuse; known after the first `read`."""
        names = [name for group in self._groups for name in group.names]
        names += self._gpm.names if self._gpm is not None else ()
        return tuple(dict.fromkeys([*names, *([GPM_SUPPORT] if self.device.instance is None else [])]))

    @property
    def has_values(self) -> bool:
        """Whether any call for the device succeeded."""
        return any(value is not None for name, value in self.values.items() if name != GPM_SUPPORT)

    def read(self, now: float) -> None:
        """Read what is due at `now`, seconds of a clock that never steps; slow values stay until they are read again.

        Raises:
            NVMLError: the driver is gone.
        """
        if self.gone:
            return
        try:
            for group in self._groups:
                if now >= group.due:
                    is_staggered = group.due == -math.inf and group.seconds > SECOND
                    group.due = now + group.seconds * (self._offset if is_staggered else 1.0) - _EARLY_SECONDS
                    self._read_group(group)
            if self._gpm is not None:
                self._read_gpm(self._gpm, now)
        except self._nvml.NVMLError as error:
            if error.value not in GONE:
                raise
            self.gone = error.value
            self.values = {}

    def close(self) -> None:
        """Free the samples of profiling counters. Safe to call twice."""
        if self._gpm is not None:
            self._gpm.close()
            self._gpm = None

    def _read_group(self, group: _Group) -> None:
        self.values.update(group.blanks)
        if group.batch is not None:
            try:
                group.batch.read(self.values)
            except self._nvml.NVMLError as error:
                if self._is_refused(error):
                    group.batch = None
        for call, reads in group.calls.items():
            if call.backup and self.values.get(call.names[0]) is not None:
                continue
            numbers = self._read_call(reads)
            if numbers is not None:
                self.values.update(zip(call.names, numbers, strict=True))

    def _read_call(self, reads: list[Read]) -> Sequence[float | None] | None:
        while reads:
            try:
                return reads[0](self._nvml, self.device.handle)
            except AttributeError:  # noqa: PERF203 - of an older nvidia-ml-py; the next one is another call
                del reads[0]
            except self._nvml.NVMLError as error:
                if not self._is_refused(error):
                    break
                del reads[0]
        return None

    def _is_refused(self, error: Exception) -> bool:
        """Return whether a call need not be repeated. Raises the error if it is the GPU's or the driver's."""
        code: int = error.value  # type: ignore[attr-defined]  # of NVMLError, whose module has no types
        if code in GONE or code in ENDED:
            raise error
        return code in REFUSALS

    def _sampler(self, is_split: bool, longest: float) -> GpmSampler | None:
        nvml, handle, instance = self._nvml, self.device.board, self.device.instance
        has_gpm = _has_gpm(nvml, handle)
        if instance is None:
            self.values[GPM_SUPPORT] = float(has_gpm)
        if not has_gpm:
            return None
        if instance is not None:
            metrics = [metric for metric in GPM_METRICS if metric.of_instance]
            return GpmSampler(nvml, lambda sample: nvml.nvmlGpmMigSampleGet(handle, instance, sample), metrics, longest)
        metrics = [metric for metric in GPM_METRICS if not (is_split and metric.of_instance)]
        return GpmSampler(nvml, lambda sample: nvml.nvmlGpmSampleGet(handle, sample), metrics, longest)

    def _read_gpm(self, gpm: GpmSampler, now: float) -> None:
        self.values.update(dict.fromkeys(gpm.names))
        try:
            gpm.read(self.values, now)
        except self._nvml.NVMLError as error:
            if self._is_refused(error):
                if error.value == NO_PERMISSION:
                    log.warning(
                        "the driver refuses profiling counters; run pulsed with CAP_PERFMON, or load the driver with "
                        "NVreg_RestrictProfilingToAdminUsers=0",
                        extra={"gpu": self.device.index},
                    )
                self.close()


def _has_gpm(nvml: ModuleType, handle: Handle) -> bool:
    try:
        return bool(nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
    except nvml.NVMLError as error:
        if error.value in GONE or error.value in ENDED:
            raise
        return False
