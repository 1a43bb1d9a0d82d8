"""Fields of a sample in history and events, and its columns in CSV: derived values and readings, by their name.

A sample is kept as one packed row, from which columns of JSON are made.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import nan
from typing import Any

from pulsed.compute.declaration import DerivedNumber, DerivedState, DerivedVector
from pulsed.compute.derived_results import DERIVED_VALUES
from pulsed.errors import UsageError, did_you_mean
from pulsed.model.result import Result
from pulsed.model.vocabulary import POSITION, QUANTITIES, Reading, Value

Number = Callable[[Reading, Result], Value]


def _numbers() -> Iterator[tuple[str, Number]]:
    for value in DERIVED_VALUES:
        if isinstance(value, DerivedNumber) and value.csv:
            yield value.name, value.get
        elif isinstance(value, DerivedVector) and value.csv:
            for position, key in enumerate(value.keys):
                yield value.csv.format(key), value.element(position)


NUMBERS: Mapping[str, Number] = dict(_numbers())
"""Derived numbers by name."""

WORDS: Mapping[str, DerivedState] = {value.name: value for value in DERIVED_VALUES if isinstance(value, DerivedState)}
"""Derived states by name."""


def getter(name: str) -> Callable[[Reading, Result], str | Value]:
    """Return the function that gets a field from a sample."""
    if name in WORDS:
        return WORDS[name].get
    if name in NUMBERS:
        return NUMBERS[name]
    position = POSITION[name]
    return lambda reading, result: reading[position]


FIELDS: tuple[str, ...] = (*WORDS, *NUMBERS, *QUANTITIES)
"""All fields of the history."""

DEFAULT_FIELDS: tuple[str, ...] = (
    "workload_class",
    "raw_class",
    "health_state",
    "real_utilization_ratio",
    "real_utilization_lower_ratio",
    "real_utilization_upper_ratio",
    "saturation_ratio",
    "graphics_engine_active_ratio",
    "sm_active_ratio",
    "sm_occupancy_ratio",
    "tensor_active_ratio",
    "fp64_active_ratio",
    "fp32_active_ratio",
    "fp16_active_ratio",
    "dram_active_ratio",
    "gpu_utilization_ratio",
    "memory_utilization_ratio",
    "pcie_transmit_bytes_per_second",
    "pcie_receive_bytes_per_second",
    "nvlink_transmit_bytes_per_second",
    "nvlink_receive_bytes_per_second",
    "memory_used_bytes",
    "power_watts",
    "energy_joules_total",
    "temperature_celsius",
    "memory_temperature_celsius",
    "sm_clock_hertz",
    "memory_clock_hertz",
    "clocks_event_reasons",
)
"""What the history keeps by default."""


def check_fields(fields: Sequence[str]) -> None:
    """Raise `UsageError` if a field is unknown; the message names the nearest known one."""
    for name in fields:
        if name not in FIELDS:
            raise UsageError(f"{name!r} is not a field", did_you_mean(name, FIELDS, "fields are in docs/metrics.md"))


NO_STATE = 255
"""Position of a state that is missing."""


class Columns:
    """Layout of a packed sample: states, derived numbers, then readings.

    Ratios have single precision, sufficient for six decimals; bytes, joules and hertz have double.

    Attributes:
        words: the names of the states.
        numbers: the names of the numbers, which follow them.
        size: bytes of a sample.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        words = [name for name in fields if name in WORDS]
        derived = [name for name in fields if name in NUMBERS]
        readings = [name for name in fields if name in POSITION]
        self.words, self.numbers = words, (*derived, *readings)
        names = (*words, *self.numbers)
        self._column = {name: position for position, name in enumerate(names)}
        ratios = [name for name in derived if name.endswith("_ratio")]
        single = frozenset((*ratios, *(name for name in readings if QUANTITIES[name].group == "activity")))
        self._single = single
        codes = "".join("B" if name in WORDS else "f" if name in single else "d" for name in names)
        self._struct = struct.Struct(f"={codes}")
        self._words = [
            (WORDS[name].get, {word: code for code, word in enumerate(WORDS[name].states)}) for name in words
        ]
        self._derived = [NUMBERS[name] for name in derived]
        self._positions = [POSITION[name] for name in readings]
        self.size = self._struct.size

    def pack(self, result: Result, reading: Reading) -> bytes:
        """Return a packed sample; missing values, and numbers out of range, are NaN."""
        codes = [codes_by_word.get(get(reading, result), NO_STATE) for get, codes_by_word in self._words]
        values = [get(reading, result) for get in self._derived]
        values += [reading[position] for position in self._positions]
        numbers = [nan if value is None else value for value in values]
        try:
            return self._struct.pack(*codes, *numbers)
        except (OverflowError, struct.error):  # beyond single precision, or an integer beyond any
            return self._struct.pack(*codes, *map(_within, numbers))

    def transposed(self, rows: bytes | bytearray) -> list[tuple[Any, ...]]:
        """Return the rows as one tuple per column."""
        return list(zip(*self._struct.iter_unpack(rows), strict=True))

    def column(self, name: str, values: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return a transposed column: numbers, NaN where they are missing, or the positions of states."""
        return values[self._column[name]]

    def decimals(self, name: str) -> int | None:
        """Return the decimals to which the numbers of a column are exact; None for all."""
        return 6 if name in self._single else None

    def shown(self, name: str, values: Sequence[tuple[Any, ...]]) -> Sequence[float | str | None]:
        """Return a transposed column as the API shows it: rounded numbers, NaN where they are missing, or states."""
        column = self.column(name, values)
        if name in WORDS:
            words = WORDS[name].states
            return [words[code] if code != NO_STATE else None for code in column]
        decimals = self.decimals(name)
        return column if decimals is None else [round(value, decimals) for value in column]


def _within(value: float) -> float:
    """Return a number in the range of single precision, or NaN."""
    return value if abs(value) < 3e38 else nan
