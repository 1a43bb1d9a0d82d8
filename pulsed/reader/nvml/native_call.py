"""Calls into NVML with buffers that are made once per device.

nvidia-ml-py loads the library. Its functions allocate and convert with every call, which costs more than most calls of
the driver, so that what is read with every tick does not go through them.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from pulsed.reader.nvml.library import FUNCTION_NOT_FOUND

Handle = Any
"""A device handle of NVML, opaque."""

Numbers = Sequence[float | None]

BoundCall = Callable[[], Numbers]
"""A call for one device. Raises `NVMLError`."""


def native_function(nvml: ModuleType, name: str) -> Callable[..., int]:
    """Return a function of the loaded library, which returns NVML's code. Raises `NVMLError` if it does not exist."""
    try:
        return getattr(nvml.nvmlLib, name)  # type: ignore[no-any-return]
    except AttributeError:
        raise nvml.NVMLError(FUNCTION_NOT_FOUND) from None


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A function of NVML that fills numbers for a device.

    Attributes:
        function: its symbol.
        result: what it fills, in terms of `struct`: a structure, or numbers one behind the other.
        arguments: numbers between the handle and the results.
        pointers: offsets in `result` that it takes pointers to.
        version: of a structure that begins with its size and version.
        order: the numbers that count, by position; None: all as they come.
        divide: NVML's unit by that of DCGM's metric.
    """

    function: str
    result: str = "I"
    arguments: tuple[int, ...] = ()
    pointers: tuple[int, ...] = (0,)
    version: int | None = None
    order: tuple[int, ...] | None = None
    divide: float | None = None

    @property
    def head(self) -> bytes:
        """What the buffer begins with."""
        return b"" if self.version is None else struct.pack("I", self.size | self.version << 24)

    @property
    def size(self) -> int:
        """Bytes of the buffer."""
        return struct.calcsize(self.result)

    def bind(self, nvml: ModuleType, handle: Handle) -> BoundCall:
        """Prepare the call for a device. Raises `NVMLError` if the driver does not have the function."""
        function = native_function(nvml, self.function)
        layout = struct.Struct(self.result)
        buffer = ctypes.create_string_buffer(self.head, layout.size)
        arguments = (
            handle,
            *map(ctypes.c_uint, self.arguments),
            *(ctypes.byref(buffer, offset) for offset in self.pointers),
        )
        unpack, error = layout.unpack_from, nvml.NVMLError

        def call() -> Numbers:
            code = function(*arguments)
            if code:
                raise error(code)
            return unpack(buffer)

        order, divide = self.order, self.divide
        if order is None and divide is None:
            return call
        places, by = range(len(unpack(buffer))) if order is None else order, divide or 1.0

        def scaled() -> Numbers:
            numbers = call()
            return [numbers[place] / by for place in places]  # type: ignore[operator]  # they are numbers

        return scaled
