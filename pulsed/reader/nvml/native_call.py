"""Calls into NVML with buffers that are made once per device.

nvidia-ml-py loads the library. Its functions allocate and convert with every call, which costs more than most calls of
the driver, so that what is read with every tick does not go through them.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from pulsed.reader.nvml.library import FUNCTION_NOT_FOUND

Handle = Any
"""A device handle of NVML, opaque."""

Numbers = Sequence[float | None]

BoundCall = Callable[[], Numbers]
"""A call for one device. Raises `NVMLError`."""


class LongCall:
    """A call of the driver that takes long, with all its arguments.

    Code that runs after a pause costs several times as much as code that just ran, so that long calls are made by
    `call_all`, and their results are taken when all have returned.

    Attributes:
        function: the call; returns NVML's code.
        code: what it returned last.
    """

    __slots__ = ("code", "function")

    def __init__(self, function: Callable[[], int]) -> None:
        self.function, self.code = function, 0


def call_all(calls: Sequence[LongCall]) -> None:
    """Make the calls one behind the other, with as little code between them as possible."""
    codes = [call.function() for call in calls]
    for call, code in zip(calls, codes, strict=True):
        call.code = code


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

    @property
    def count(self) -> int:
        """How many numbers the buffer has."""
        return len(struct.unpack(self.result, bytes(self.size)))

    @property
    def positions(self) -> Sequence[int]:
        """The positions of the numbers that count."""
        return range(self.count) if self.order is None else self.order

    def prepare(
        self, nvml: ModuleType, handle: Handle, buffer: ctypes.Array[ctypes.c_char], offset: int
    ) -> Callable[[], int]:
        """Return the call for a device, which fills a part of a buffer and returns NVML's code.

        Raises `NVMLError` if the driver does not have the function.
        """
        function = native_function(nvml, self.function)
        ctypes.memmove(ctypes.byref(buffer, offset), self.head, len(self.head))
        pointers = [ctypes.byref(buffer, offset + pointer) for pointer in self.pointers]
        return partial(function, handle, *map(ctypes.c_uint, self.arguments), *pointers)

    def bind(self, nvml: ModuleType, handle: Handle) -> BoundCall:
        """Prepare the call for a device. Raises `NVMLError` if the driver does not have the function."""
        layout = struct.Struct(self.result)
        buffer = ctypes.create_string_buffer(layout.size)
        function, positions, divide = self.prepare(nvml, handle, buffer, 0), self.positions, self.divide

        def call() -> Numbers:
            code = function()
            if code:
                raise nvml.NVMLError(code)
            numbers = layout.unpack_from(buffer)
            return [numbers[position] if divide is None else numbers[position] / divide for position in positions]

        return call
