"""The calls for a device that are due at the same time; errors are missing values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType

from pulsed.reader.nvml.call_block import CallBlock
from pulsed.reader.nvml.calls import DriverCall
from pulsed.reader.nvml.field_values import SECOND, FieldBatch, FieldValue, Values
from pulsed.reader.nvml.library import ENDED, GONE, REFUSALS
from pulsed.reader.nvml.native_call import BoundCall, Handle, LongCall, NativeCall, Numbers

_EARLY_SECONDS = 0.1
"""A tick may come so much early without missing the calls that are due every second or less often."""


class CallGroup:
    """The calls of one interval.

    When they are due, the call of `prepare` is made; then `read` has the values.

    Args:
        seconds: between two reads.
        fields: what is read in one call.
        rows: the other calls.
        places: of DCGM's metrics in the values of the device.

    Attributes:
        due: when it is read next, seconds of a clock that never steps.
    """

    def __init__(
        self,
        nvml: ModuleType,
        handle: Handle,
        seconds: float,
        fields: Sequence[FieldValue],
        rows: Sequence[DriverCall],
        places: Mapping[str, int],
    ) -> None:
        self._nvml, self._seconds = nvml, seconds
        self.due = -math.inf
        self._batch = _batch(nvml, handle, fields, places)
        native = {row.names: calls for row in rows if not row.backup and (calls := _native(row))}
        self._block = CallBlock(nvml, handle, native, places)
        self._single = [
            (row.backup, [places[name] for name in row.names], row.names, list(_bound(nvml, handle, row)))
            for row in rows
            if row.names not in native
        ]
        # The block sets all of its values itself.
        self._blank = [places[name] for name in names_of(fields, [row for row in rows if row.names not in native])]

    @property
    def names(self) -> Iterator[str]:
        """The metrics that the driver does not refuse."""
        if self._batch is not None:
            yield from self._batch.names
        yield from self._block.names
        for _, _, names, calls in self._single:
            if calls:
                yield from names

    def prepare(self, now: float, offset: float) -> LongCall | None:
        """Return the call for the field values, if there is any.

        Args:
            now: seconds of a clock that never steps.
            offset: share of the interval, 0..1, after which a slow group is read for the second time.
        """
        is_staggered = self.due == -math.inf and self._seconds > SECOND
        early = _EARLY_SECONDS if self._seconds >= SECOND else 0.0
        self.due = now + self._seconds * (offset if is_staggered else 1.0) - early
        return None if self._batch is None else self._batch.prepare()

    def read(self, values: Values) -> None:
        """Set the values of the group; None where a call fails.

        Raises:
            NVMLError: the GPU or the driver is gone.
        """
        for place in self._blank:
            values[place] = None
        if self._batch is not None:
            try:
                self._batch.decode(values)
            except self._nvml.NVMLError as error:
                if is_refused(error):
                    self._batch = None
        self._block.read(values)
        for is_backup, places, _, calls in self._single:
            if is_backup and values[places[0]] is not None:
                continue
            numbers = self._numbers(calls)
            if numbers is not None:
                for place, number in zip(places, numbers, strict=False):  # older calls have fewer
                    values[place] = number

    def _numbers(self, calls: list[BoundCall]) -> Numbers | None:
        while calls:
            try:
                return calls[0]()
            except self._nvml.NVMLError as error:  # noqa: PERF203 - the next one is another call
                if not is_refused(error):
                    break
                del calls[0]
        return None


def names_of(fields: Sequence[FieldValue], rows: Sequence[DriverCall]) -> Sequence[str]:
    """Return the metrics of a group, each once, in an order that stays."""
    return [*dict.fromkeys((*(field.name for field in fields), *(name for row in rows for name in row.names)))]


def is_refused(error: Exception) -> bool:
    """Return whether a call need not be repeated. Raises the error if it is the GPU's or the driver's."""
    code: int = error.value  # type: ignore[attr-defined]  # of NVMLError, whose module has no types
    if code in GONE or code in ENDED:
        raise error
    return code in REFUSALS


def _native(row: DriverCall) -> list[NativeCall]:
    return [call for call in row.calls if isinstance(call, NativeCall)]


def _batch(
    nvml: ModuleType, handle: Handle, fields: Sequence[FieldValue], places: Mapping[str, int]
) -> FieldBatch | None:
    if not fields:
        return None
    try:
        return FieldBatch(nvml, handle, fields, places)
    except nvml.NVMLError:  # a driver without the function
        return None


def _bound(nvml: ModuleType, handle: Handle, row: DriverCall) -> Iterator[BoundCall]:
    """Yield the calls of a row that the driver has."""
    for call in row.calls:
        try:
            yield call.bind(nvml, handle)
        except nvml.NVMLError:  # noqa: PERF203 - of an older driver; the next one is another call
            continue
