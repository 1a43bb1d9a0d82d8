"""Reads one GPU or MIG instance: each group of calls when it is due, errors as missing values."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from types import ModuleType

from pulsed.errors import WatchRefused
from pulsed.reader.nvml.call_group import CallGroup, is_refused, names_of
from pulsed.reader.nvml.calls import CALLS
from pulsed.reader.nvml.device_list import NvmlDevice
from pulsed.reader.nvml.field_values import EVERY, FAST, FIELD_VALUES, SLOW, Values
from pulsed.reader.nvml.gpm import GPM_METRICS, GpmMetric, GpmSampler
from pulsed.reader.nvml.library import ENDED, GONE, profiling_error
from pulsed.reader.nvml.native_call import Handle, LongCall
from pulsed.reader.nvml.settings import NvmlSettings

log = logging.getLogger(__name__)

GPM_SUPPORT = "DCGM_FI_DEV_GPM_SUPPORT"


class DeviceReader:
    """A GPU, or a MIG instance of one.

    In every tick the calls of `prepare_sample` are made, those of `prepare_comparison`, those of `prepare_fields`; then
    `read` has the values.

    Args:
        is_split: whether the GPU has MIG instances: then its own activity is theirs.
        offset: share of an interval, 0..1, by which slow calls are moved, so that not all GPUs' are in one tick.

    Attributes:
        device: what is read.
        all_names: the metrics that `values` are of.
        values: None is missing.
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
        has_gpm = _has_gpm(nvml, device.board)
        metrics = _metrics(is_board, is_split) if has_gpm else []
        groups = [
            (
                seconds,
                [field for field in fields if _period(field.every, settings) == seconds],
                [row for row in rows if _period(row.every, settings) == seconds],
            )
            for seconds in sorted({_period(every, settings) for every in EVERY})
        ]
        self._support = (GPM_SUPPORT,) if is_board else ()
        counters = [metric.name for metric in metrics]
        self.all_names = (*self._support, *counters, *chain.from_iterable(names_of(*group[1:]) for group in groups))
        self.values: Values = [None] * len(self.all_names)
        places = {name: place for place, name in enumerate(self.all_names)}
        self._groups = [
            CallGroup(nvml, device.handle, seconds, fields, rows, places) for seconds, fields, rows in groups
        ]
        if is_board:
            self.values[0] = float(has_gpm)
        self._gpm = self._sampler(metrics, places, max(3.0 * settings.interval, 1.0)) if has_gpm else None
        self._counters: tuple[str, ...] = ()
        self._due: list[CallGroup] = []

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
    def has_values(self) -> bool:
        """Whether any call for the device succeeded."""
        return any(value is not None for value in islice(self.values, len(self._support), None))

    def prepare_sample(self, now: float) -> LongCall | None:
        """Return the call that takes a sample of profiling counters at `now`, seconds of a clock that never steps."""
        return None if self._gpm is None else self._gpm.prepare_sample(now)

    def prepare_comparison(self) -> LongCall | None:
        """Return the call that compares it with an earlier one."""
        return None if self._gpm is None else self._gpm.prepare_comparison()

    def prepare_fields(self, now: float) -> Sequence[LongCall]:
        """Return the calls for the field values that are due, and note what else is."""
        self._due = [group for group in self._groups if now >= group.due]
        return [call for group in self._due if (call := group.prepare(now, self._offset)) is not None]

    def read(self) -> None:
        """Read the rest that is due, and update the values; slow values stay until they are read again.

        Raises:
            NVMLError: the driver is gone.
        """
        try:
            for group in self._due:
                group.read(self.values)
            if self._gpm is not None:
                self._decode_gpm(self._gpm)
        except self._nvml.NVMLError as error:
            if error.value not in GONE:
                raise
            self.gone = error.value
            self.clear()

    def clear(self) -> None:
        """Leave no value."""
        self.values[:] = [None] * len(self.values)

    def replace(self, name: str, value: float) -> None:
        """Set a value."""
        self.values[self.all_names.index(name)] = value

    def close(self) -> None:
        """Free the samples of profiling counters. Safe to call twice."""
        if self._gpm is not None:
            self._gpm.close()
            self._gpm = None

    def _sampler(self, metrics: Sequence[GpmMetric], places: Mapping[str, int], longest: float) -> GpmSampler | None:
        try:
            return GpmSampler(self._nvml, self.device.board, self.device.instance, metrics, places, longest)
        except self._nvml.NVMLError as error:
            is_refused(error)
            self._set_profiling_error(profiling_error(error.value))
            return None

    def _decode_gpm(self, gpm: GpmSampler) -> None:
        try:
            gpm.decode(self.values)
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


def _period(every: float, settings: NvmlSettings) -> float:
    """Return the seconds between two reads of what is read so often; `FAST` for all that is due with every tick."""
    seconds = settings.slow_interval if every == SLOW else every
    return seconds if seconds > settings.interval else FAST


def _has_gpm(nvml: ModuleType, handle: Handle) -> bool:
    try:
        return bool(nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
    except nvml.NVMLError as error:
        if error.value in GONE or error.value in ENDED:
            raise
        return False


def _metrics(is_board: bool, is_split: bool) -> Sequence[GpmMetric]:
    """Return the metrics of a GPU, or of a MIG instance."""
    if is_board:
        return [metric for metric in GPM_METRICS if not (is_split and metric.of_instance)]
    return [metric for metric in GPM_METRICS if metric.of_instance]
