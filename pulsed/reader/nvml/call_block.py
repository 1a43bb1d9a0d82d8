"""The short calls for a device that are due at the same time: made in a row, their results converted at once."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType

from pulsed.reader.nvml.library import ENDED, GONE, REFUSALS
from pulsed.reader.nvml.native_call import Handle, NativeCall, native_function

Rows = Mapping[tuple[str, ...], Sequence[NativeCall]]

_ALIGNED = "0Q"
"""Ends the result of one call, so that the next one begins where a structure may."""


class CallBlock:
    """Calls for one device, whose results lie side by side. One that the driver refuses is left out from then on.

    Args:
        rows: by DCGM's metrics the calls that fill them: the first, then what older drivers have instead.
        places: of the metrics in the lists that `read` fills.
    """

    def __init__(self, nvml: ModuleType, handle: Handle, rows: Rows, places: Mapping[str, int]) -> None:
        self._nvml, self._handle, self._places = nvml, handle, places
        self._rows = [(names, [call for call in calls if _exists(nvml, call)]) for names, calls in rows.items()]
        self._choose()

    @property
    def names(self) -> Iterator[str]:
        """The metrics of the calls that are still made."""
        for names, _ in self._rows:
            yield from names

    def _choose(self) -> None:
        """Lay out the first call of each row."""
        self._rows = [(names, calls) for names, calls in self._rows if calls]
        layout = struct.Struct("".join(calls[0].result + _ALIGNED for _, calls in self._rows))
        self._buffer = ctypes.create_string_buffer(layout.size)
        self._unpack = layout.unpack_from
        self._functions = []
        self._plain: list[tuple[int, int]] = []  # place of the value, position of the number
        self._scaled: list[tuple[int, int, float]] = []
        offset = first = 0
        for names, (call, *_) in self._rows:
            self._functions.append(call.prepare(self._nvml, self._handle, self._buffer, offset))
            for name, position in zip(names, call.positions, strict=False):  # older calls have fewer
                place = self._places[name]
                if call.divide is None:
                    self._plain.append((place, first + position))
                else:
                    self._scaled.append((place, first + position, call.divide))
            offset += struct.calcsize(call.result + _ALIGNED)
            first += call.count

    def read(self, values: list[float | None]) -> None:
        """Make the calls, and set their values; None where a call fails.

        Raises:
            NVMLError: the GPU or the driver is gone.
        """
        codes = self._call()
        while any(codes) and self._drop_refused(codes, values):
            codes = self._call()
        numbers = self._unpack(self._buffer)
        for place, position in self._plain:
            values[place] = numbers[position]
        for place, position, divide in self._scaled:
            values[place] = numbers[position] / divide
        if any(codes):
            for (names, _), code in zip(self._rows, codes, strict=True):
                if code:
                    self._clear(names, values)

    def _call(self) -> list[int]:
        return [function() for function in self._functions]

    def _clear(self, names: Sequence[str], values: list[float | None]) -> None:
        for name in names:
            values[self._places[name]] = None

    def _drop_refused(self, codes: Sequence[int], values: list[float | None]) -> bool:
        """Take the next call of each row whose call the driver refuses; return whether there is any."""
        for code in codes:
            if code in GONE or code in ENDED:
                raise self._nvml.NVMLError(code)
        if REFUSALS.isdisjoint(codes):
            return False
        for (names, calls), code in zip(self._rows, codes, strict=True):
            if code in REFUSALS:
                del calls[0]
                self._clear(names, values)
        self._choose()
        return True


def _exists(nvml: ModuleType, call: NativeCall) -> bool:
    try:
        native_function(nvml, call.function)
    except nvml.NVMLError:
        return False
    return True
