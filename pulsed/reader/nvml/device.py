"""Reads one GPU or MIG instance: each group of calls when it is due, errors as missing values."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from types import ModuleType

from pulsed.errors import WatchRefused
from pulsed.model.clocks import Monotonic
from pulsed.reader.nvml import NvmlSettings
from pulsed.reader.nvml.calls import (
    CALLS,
    EVERY,
    FAST,
    FIELD_VALUES,
    GPM_METRICS,
    SECOND,
    SLOW,
    Call,
    GpmMetric,
    Numbers,
)
from pulsed.reader.nvml.device_list import NvmlDevice
from pulsed.reader.nvml.field_values import LINK_TOTALS, FieldReader, GpmSampler, LinkReader, Values
from pulsed.reader.nvml.library import GONE, is_refused, optional, profiling_error

log = logging.getLogger(__name__)

GPM_SUPPORT = "DCGM_FI_DEV_GPM_SUPPORT"

_EARLY_SECONDS = 0.1
"""Seconds that a tick may come early without missing the calls that are due every second or less often."""


class DeviceReader:
    """A GPU, or a MIG instance of one.

    Args:
        is_split: whether the GPU has MIG instances: then its own activity is theirs.
        offset: share of an interval, 0..1, by which slow calls are moved, so that not all GPUs' are in one tick.

    Attributes:
        device: the device to read.
        links: of a GPU; None for a MIG instance.
        values: of the last tick, all metrics in an order that stays.
        gone: NVML's error if the GPU no longer answers; 0 while it does.
        profiling_error: why there are no profiling counters, where the driver has any and it is not the GPU's model.
    """

    def __init__(
        self, nvml: ModuleType, device: NvmlDevice, *, settings: NvmlSettings, is_split: bool, offset: float
    ) -> None:
        self._nvml, self.device, self._offset = nvml, device, offset
        self.gone = 0
        self.profiling_error: WatchRefused | None = None
        support = optional(nvml, "nvmlGpmQueryDeviceSupport", device.board)
        has_gpm = support is not None and bool(support.isSupportedDevice)
        metrics = [
            metric
            for metric in GPM_METRICS
            if has_gpm and (not (is_split and metric.of_instance) if device.is_board else metric.of_instance)
        ]
        periods = sorted({_period(every, settings) for every in EVERY})
        self._groups = [_CallGroup(nvml, device, seconds, settings) for seconds in periods]
        self._support = {GPM_SUPPORT: float(has_gpm)} if device.is_board else {}
        self.values: Values = {**self._support}
        for names in ([metric.name for metric in metrics], *(group.names for group in self._groups)):
            self.values |= dict.fromkeys(names)
        self.links = LinkReader(nvml, device, settings.slow_interval) if device.is_board else None
        if self.links is not None:
            self.values |= {name: None for name in LINK_TOTALS if name not in self.values}
        self._gpm = self._sampler(metrics, max(3.0 * settings.interval, 1.0)) if has_gpm else None

    @property
    def counters(self) -> Sequence[str]:
        """The profiling counters that the driver does not refuse."""
        return () if self._gpm is None else self._gpm.names

    @property
    def names(self) -> Sequence[str]:
        """The metrics that the driver does not refuse, in the order of `values`."""
        totals = () if self.links is None else self.links.totals
        names = {*self._support, *self.counters, *totals}.union(*(group.names for group in self._groups))
        return [name for name in self.values if name in names]

    @property
    def has_values(self) -> bool:
        """Whether any call for the device succeeded."""
        return any(value is not None for name, value in self.values.items() if name not in self._support)

    def read(self, now: Monotonic) -> None:
        """Read what is due at `now`, seconds of a clock that never steps; other values stay.

        Raises:
            NVMLError: the driver is gone.
        """
        try:
            if self._gpm is not None:
                self._read_counters(self._gpm, now)
            for group in self._groups:
                if now >= group.due:
                    group.read(now, self._offset, self.values)
            if self.links is not None:
                self.links.read(now)
                answered = {name for group in self._groups for name in group.names}
                self.values |= {name: total for name, total in self.links.totals.items() if name not in answered}
        except self._nvml.NVMLError as error:
            if error.value not in GONE:
                raise
            self.gone = error.value
            self.values = dict.fromkeys(self.values)

    def close(self) -> None:
        """Free the samples of profiling counters. Safe to call twice."""
        if self._gpm is not None:
            self._gpm.close()
            self._gpm = None

    def _sampler(self, metrics: Sequence[GpmMetric], longest: float) -> GpmSampler | None:
        try:
            return GpmSampler(self._nvml, self.device, metrics, longest)
        except self._nvml.NVMLError as error:
            is_refused(error)
            self._set_profiling_error(profiling_error(error.value))
            return None

    def _read_counters(self, gpm: GpmSampler, now: Monotonic) -> None:
        try:
            gpm.read(now, self.values)
        except self._nvml.NVMLError as error:
            self._set_profiling_error(profiling_error(error.value))
            if is_refused(error):
                self.close()
        else:
            self._set_profiling_error(None)

    def _set_profiling_error(self, error: WatchRefused | None) -> None:
        before, self.profiling_error = self.profiling_error, error
        if error is not None and before is None:
            log.warning(
                "there are no profiling counters",
                extra={"gpu": self.device.index, "reason": error.reason, "error": str(error)},
            )


class _CallGroup:
    """The calls and field values that are read at one interval. What the driver refuses is left out from then on.

    Args:
        seconds: between two reads.

    Attributes:
        due: when it is read next, seconds of a clock that never steps.
    """

    def __init__(self, nvml: ModuleType, device: NvmlDevice, seconds: float, settings: NvmlSettings) -> None:
        self._nvml, self._handle, self._seconds = nvml, device.handle, seconds
        self.due = -math.inf
        fields = [field for field in FIELD_VALUES if device.is_board and _period(field.every, settings) == seconds]
        self._fields = FieldReader(nvml, device.handle, fields)
        self._rows = [
            (row, list(row.calls))
            for row in CALLS
            if (row.of_instance or device.is_board) and _period(row.every, settings) == seconds
        ]
        self._blank: Values = dict.fromkeys(self.names)

    @property
    def names(self) -> Iterator[str]:
        """The metrics that the driver does not refuse."""
        yield from self._fields.names
        for row, calls in self._rows:
            if calls:
                yield from row.names

    def read(self, now: Monotonic, offset: float, values: Values) -> None:
        """Set the values of the group; None where a call fails.

        Args:
            offset: share of the interval, 0..1, after which a slow group is read for the second time.

        Raises:
            NVMLError: the GPU or the driver is gone.
        """
        is_staggered = self.due == -math.inf and self._seconds > SECOND
        early = _EARLY_SECONDS if self._seconds >= SECOND else 0.0
        self.due = now + self._seconds * (offset if is_staggered else 1.0) - early
        values.update(self._blank)
        self._fields.read(values)
        for row, calls in self._rows:
            if calls and not (row.is_backup and values[row.names[0]] is not None):
                values.update(zip(row.names, self._numbers(calls), strict=False))

    def _numbers(self, calls: list[Call]) -> Numbers:
        """Return what the first call returns that is not refused; nothing if it fails."""
        while calls:
            try:
                return calls[0](self._nvml, self._handle)
            except self._nvml.NVMLError as error:
                if not is_refused(error):
                    break
                del calls[0]
        return ()


def _period(every: float, settings: NvmlSettings) -> float:
    """Return the seconds between two reads of metrics with this period; `FAST` for all that is always due."""
    seconds = settings.slow_interval if every == SLOW else every
    return seconds if seconds > settings.interval else FAST
