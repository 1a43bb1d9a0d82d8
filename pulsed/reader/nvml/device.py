"""Reads one GPU or MIG instance: each group of calls when it is due, errors as missing values."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from itertools import chain
from types import ModuleType

from pulsed.errors import WatchRefused
from pulsed.reader.nvml.calls import CALLS, DriverCall
from pulsed.reader.nvml.device_list import NvmlDevice
from pulsed.reader.nvml.field_values import FAST, FIELD_VALUES, RARE, SECOND, SLOW, FieldBatch, FieldValue, Values
from pulsed.reader.nvml.gpm import GPM_METRICS, GpmSampler
from pulsed.reader.nvml.library import ENDED, GONE, REFUSALS, profiling_error
from pulsed.reader.nvml.native_call import BoundCall, Handle, Numbers
from pulsed.reader.nvml.settings import NvmlSettings

log = logging.getLogger(__name__)

GPM_SUPPORT = "DCGM_FI_DEV_GPM_SUPPORT"


_EARLY_SECONDS = 0.1
"""A tick may come so much early without missing the calls that are due."""


class _Group:
    """The calls that are due at the same time.

    Attributes:
        values: by DCGM's metric; the names of two groups differ.
        calls: with what is left of each row's calls.
    """

    def __init__(
        self, nvml: ModuleType, device: NvmlDevice, seconds: float, fields: Sequence[FieldValue], rows: list[DriverCall]
    ) -> None:
        self.seconds = seconds
        self.due = -math.inf
        self.is_due = False
        self.batch = _batch(nvml, device.handle, fields)
        self.calls = [(row, list(_bound(nvml, device.handle, row))) for row in rows]
        self._blank: Values = dict.fromkeys(
            chain((field.name for field in fields), *(row.names for row in rows))
        )  # in an order that stays
        self.values: Values = dict(self._blank)

    @property
    def names(self) -> Iterator[str]:
        """The metrics that the driver does not refuse."""
        if self.batch is not None:
            yield from self.batch.names
        for row, calls in self.calls:
            if calls:
                yield from row.names

    def clear(self) -> None:
        """Leave no value."""
        self.values.update(self._blank)


class DeviceReader:
    """A GPU, or a MIG instance of one.

    For every tick the methods `sample`, `compare`, `call_fields` and `read` follow each other.

    Args:
        is_split: whether the GPU has MIG instances: then its own activity is theirs.
        offset: share of an interval, 0..1, by which slow calls are moved, so that not all GPUs' are in one tick.

    Attributes:
        device: what is read.
        gone: NVML's error if the GPU no longer answers; 0 while it does.
        profiling_error: why there are no profiling counters, where the driver has any and it is not the GPU's model.
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
        self.gone = 0
        self.profiling_error: WatchRefused | None = None
        rows = [row for row in CALLS if row.instance or is_board]
        fields = FIELD_VALUES if is_board else ()
        self._groups = [
            _Group(
                nvml,
                device,
                settings.slow_interval if every == SLOW else every,
                [field for field in fields if field.every == every],
                [row for row in rows if row.every == every],
            )
            for every in (FAST, SECOND, SLOW, RARE)
        ]
        self._support: Values = {}
        self._gpm = self._sampler(is_split, max(3.0 * settings.interval, 1.0))
        self._gpm_values: Values = {} if self._gpm is None else self._gpm.values
        self._counters: tuple[str, ...] = ()

    @property
    def all_names(self) -> list[str]:
        """The metrics that `values` are of."""
        return [*chain.from_iterable(self._parts)]

    @property
    def names(self) -> frozenset[str]:
        """The metrics that the driver does not refuse."""
        counters = () if self._gpm is None else self._gpm.names
        return frozenset(chain(self._support, counters, *(group.names for group in self._groups)))

    def was_narrowed(self) -> bool:
        """Return whether the driver has refused profiling counters since the last call."""
        before, self._counters = self._counters, () if self._gpm is None else self._gpm.names
        return before is not self._counters

    @property
    def values(self) -> list[float | None]:
        """The values, in the order of `all_names`; None is missing."""
        return [*chain.from_iterable(part.values() for part in self._parts)]

    @property
    def _parts(self) -> list[Values]:
        return [self._support, self._gpm_values, *(group.values for group in self._groups)]

    @property
    def has_values(self) -> bool:
        """Whether any call for the device succeeded."""
        return any(value is not None for part in self._parts[1:] for value in part.values())

    def sample(self, now: float) -> None:
        """Take a sample of profiling counters at `now`, seconds of a clock that never steps."""
        if self._gpm is not None:
            self._gpm.take(now)

    def compare(self) -> None:
        """Compare it with an earlier one."""
        if self._gpm is not None:
            self._gpm.compare()

    def call_fields(self, now: float) -> None:
        """Read the field values that are due."""
        for group in self._groups:
            group.is_due = now >= group.due
            if group.is_due:
                is_staggered = group.due == -math.inf and group.seconds > SECOND
                group.due = now + group.seconds * (self._offset if is_staggered else 1.0) - _EARLY_SECONDS
                if group.batch is not None:
                    group.batch.call()

    def read(self) -> None:
        """Read the rest that is due, and update the values; slow values stay until they are read again.

        Raises:
            NVMLError: the driver is gone.
        """
        try:
            for group in self._groups:
                if group.is_due:
                    self._read_group(group)
            if self._gpm is not None:
                self._decode_gpm(self._gpm)
        except self._nvml.NVMLError as error:
            if error.value not in GONE:
                raise
            self.gone = error.value
            self.clear()

    def clear(self) -> None:
        """Leave no value."""
        for part in self._parts:
            part.update(dict.fromkeys(part))

    def replace(self, name: str, value: float) -> None:
        """Set a value."""
        for part in self._parts:
            if name in part:
                part[name] = value

    def close(self) -> None:
        """Free the samples of profiling counters. Safe to call twice."""
        if self._gpm is not None:
            self._gpm.close()
            self._gpm = None

    def _read_group(self, group: _Group) -> None:
        group.clear()
        values = group.values
        if group.batch is not None:
            try:
                group.batch.decode(values)
            except self._nvml.NVMLError as error:
                if self._is_refused(error):
                    group.batch = None
        for row, calls in group.calls:
            if row.backup and values[row.names[0]] is not None:
                continue
            numbers = self._numbers(calls)
            if numbers is not None:
                for name, number in zip(row.names, numbers, strict=False):  # older calls have fewer
                    values[name] = number

    def _numbers(self, calls: list[BoundCall]) -> Numbers | None:
        while calls:
            try:
                return calls[0]()
            except self._nvml.NVMLError as error:  # noqa: PERF203 - the next one is another call
                if not self._is_refused(error):
                    break
                del calls[0]
        return None

    def _is_refused(self, error: Exception) -> bool:
        """Return whether a call need not be repeated. Raises the error if it is the GPU's or the driver's."""
        code: int = error.value  # type: ignore[attr-defined]  # of NVMLError, whose module has no types
        if code in GONE or code in ENDED:
            raise error
        return code in REFUSALS

    def _sampler(self, is_split: bool, longest: float) -> GpmSampler | None:
        nvml, board, instance = self._nvml, self.device.board, self.device.instance
        has_gpm = _has_gpm(nvml, board)
        if instance is None:
            self._support[GPM_SUPPORT] = float(has_gpm)
        if not has_gpm:
            return None
        if instance is not None:
            metrics = [metric for metric in GPM_METRICS if metric.of_instance]
        else:
            metrics = [metric for metric in GPM_METRICS if not (is_split and metric.of_instance)]
        try:
            return GpmSampler(nvml, board, instance, metrics, longest)
        except nvml.NVMLError as error:
            self._is_refused(error)
            self._set_profiling_error(profiling_error(error.value))
            return None

    def _decode_gpm(self, gpm: GpmSampler) -> None:
        try:
            gpm.decode()
        except self._nvml.NVMLError as error:
            self._set_profiling_error(profiling_error(error.value))
            if self._is_refused(error):
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


def _has_gpm(nvml: ModuleType, handle: Handle) -> bool:
    try:
        return bool(nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
    except nvml.NVMLError as error:
        if error.value in GONE or error.value in ENDED:
            raise
        return False


def _batch(nvml: ModuleType, handle: Handle, fields: Sequence[FieldValue]) -> FieldBatch | None:
    if not fields:
        return None
    try:
        return FieldBatch(nvml, handle, fields)
    except nvml.NVMLError:  # a driver without the function
        return None


def _bound(nvml: ModuleType, handle: Handle, row: DriverCall) -> Iterator[BoundCall]:
    """Yield the calls of a row that the driver has."""
    for call in row.calls:
        try:
            yield call.bind(nvml, handle)
        except nvml.NVMLError:  # noqa: PERF203 - of an older driver; the next one is another call
            continue
