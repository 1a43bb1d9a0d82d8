"""A day of minutes of every GPU, in memory: lowest, mean and highest of each number, and each state.

A minute is accumulated from every sample, and ends with the first sample of the next one. Minutes follow the wall
clock; if it goes back, the minutes after that are replaced. Must not depend on HTTP.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, inf, nan
from typing import Any, NamedTuple

from pulsed.durations import DAY, MINUTE
from pulsed.json_text import json_bytes
from pulsed.model.gpu import Device, GpuKey, key_of
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import Value
from pulsed.owners.accounting.saved_accounts import dump_device, load_device
from pulsed.present.api.history import History, history_head
from pulsed.present.api.history_points import (
    PointAxis,
    Points,
    merged_numbers,
    merged_state,
    merged_states,
    window_points,
)
from pulsed.present.api.sample_fields import NO_STATE, WORDS, Columns

MINUTES = int(DAY / MINUTE)

MAX_CURRENT = 256
"""GPUs of a target, or twice the number it shows, with a kept current minute; beyond, only shown GPUs have one."""

_Place = tuple[str, GpuKey]

WAITING_SAMPLES = 64
"""Packed samples of a GPU that wait to be accumulated: one by one they would cost four times as much."""

_MINUTE = struct.Struct("=I")


@dataclass(slots=True, eq=False)
class _GpuMinutes:
    """The packed minutes of a GPU, the oldest first."""

    device: Device
    rows: bytearray = field(default_factory=bytearray)


class _Number:
    """A number of one GPU over a minute; it has none while `count` is 0."""

    __slots__ = ("count", "highest", "lowest", "total")

    def __init__(self) -> None:
        self.count, self.total, self.lowest, self.highest = 0, 0.0, inf, -inf

    def add(self, values: Sequence[float]) -> None:
        """Take the values of some samples; NaN and infinities are left out."""
        known = [value for value in values if -inf < value < inf]
        if known:
            self.count += len(known)
            self.total += sum(known)
            self.lowest, self.highest = min(self.lowest, *known), max(self.highest, *known)

    def parts(self, decimals: int | None) -> Sequence[Value]:
        """Return lowest, mean and highest, which are exact to some decimals; None: to all."""
        if not self.count:
            return None, None, None
        parts = self.lowest, self.total / self.count, self.highest
        return parts if decimals is None else [round(part, decimals) for part in parts]


class _Minute:
    """The current minute of one GPU, accumulated from packed samples.

    Args:
        device: the GPU.
        columns: of the samples.
    """

    __slots__ = ("_columns", "_numbers", "_states", "_waiting", "device")

    def __init__(self, device: Device, columns: Columns) -> None:
        self.device, self._columns, self._waiting = device, columns, bytearray()
        self._states: list[Counter[int]] = [Counter() for _ in columns.words]
        self._numbers = [_Number() for _ in columns.numbers]

    def add(self, sample: bytes) -> None:
        """Take a sample."""
        self._waiting += sample
        if len(self._waiting) >= WAITING_SAMPLES * self._columns.size:
            self._accumulate()

    def _accumulate(self) -> None:
        columns = self._columns.transposed(self._waiting)
        self._waiting.clear()
        for states, codes in zip(self._states, columns, strict=False):  # the states come first
            states.update(codes)
        for number, values in zip(self._numbers, columns[len(self._states) :], strict=True):
            number.add(values)

    def values(self) -> list[float | str | None]:
        """Return each state, then the parts of each number."""
        if self._waiting:
            self._accumulate()
        columns = self._columns
        states = [
            merged_state({code: count for code, count in counts.items() if code != NO_STATE}, WORDS[name])
            for counts, name in zip(self._states, columns.words, strict=True)
        ]
        numbers = zip(self._numbers, columns.numbers, strict=True)
        return [*states, *[part for number, name in numbers for part in number.parts(columns.decimals(name))]]


class DayMinute(NamedTuple):
    """One minute of one target, by its number since 1970.

    Each device has a value for each state, then three for each number, in the order of the fields.
    """

    minute: int
    target: str
    fields: Sequence[str]
    gpus: Sequence[tuple[Device, Sequence[float | str | None]]]

    def dump(self) -> dict[str, Any]:
        """Return it as JSON."""
        gpus = [[dump_device(device), values] for device, values in self.gpus]
        return {"minute": self.minute, "target": self.target, "fields": self.fields, "gpus": gpus}

    @classmethod
    def load(cls, saved: Any) -> DayMinute:
        """Return it from JSON; raises `ValueError` if it is something else."""
        try:
            gpus = [(load_device(device), list(values)) for device, values in saved["gpus"]]
            minute = cls(int(saved["minute"]), str(saved["target"]), list(map(str, saved["fields"])), gpus)
            if any(len(values) != sum(map(_size, minute.fields)) for _, values in gpus):
                raise TypeError
            return minute
        except (KeyError, TypeError, AttributeError):
            raise ValueError("not a minute of the history") from None


class DayHistory:
    """The minutes of the last day; of many GPUs fewer, so that all together take at most `max_bytes`."""

    def __init__(self, fields: Sequence[str], max_bytes: int) -> None:
        self._max_bytes, self._columns = max_bytes, Columns(fields)
        self._words = self._columns.words
        self.fields = [*self._words, *self._columns.numbers]
        self._struct = struct.Struct(f"=I{len(self._words)}B{3 * len(self._columns.numbers)}f")
        self._gpus: dict[_Place, _GpuMinutes] = {}
        self._open: dict[str, tuple[int, dict[GpuKey, _Minute]]] = {}

    @property
    def gpus(self) -> int:
        """How many GPUs have minutes."""
        return len(self._gpus)

    @property
    def seconds(self) -> float:
        """How long a minute is kept."""
        return DAY if self._max_bytes else 0.0

    def add(self, tick: Tick, samples: Sequence[bytes]) -> DayMinute | None:
        """Take a tick; return the minute of its target that ends before it.

        Args:
            samples: of its rows, packed as by `Columns` with the same fields.
        """
        if not self._max_bytes:
            return None
        number, ended = floor(tick.time / MINUTE), None
        if (current := self._open.get(tick.target)) is None or current[0] != number:
            if current is not None:
                gpus = [(minute.device, minute.values()) for minute in current[1].values()]
                ended = DayMinute(current[0], tick.target, self.fields, gpus)
                self.keep(ended)
            current = self._open[tick.target] = (number, {})
        for row, sample in zip(tick.gpus, samples, strict=True):
            key = key_of(row.device, "")
            if (minute := current[1].get(key)) is None:
                minute = current[1][key] = _Minute(row.device, self._columns)
            minute.add(sample)
        if len(current[1]) > max(MAX_CURRENT, 2 * len(tick.gpus)):  # GPUs that are others in each page
            shown = {key_of(row.device, "") for row in tick.gpus}
            self._open[tick.target] = (number, {key: each for key, each in current[1].items() if key in shown})
        return ended

    def keep(self, ended: DayMinute) -> None:
        """Keep a minute, of this run or of an earlier one."""
        size, names = self._struct.size, ended.fields == self.fields
        for device, columns in ended.gpus:
            gpu = self._gpus.setdefault((ended.target, key_of(device, "")), _GpuMinutes(device))
            gpu.device = device
            while gpu.rows and self._last(gpu) >= ended.minute:
                del gpu.rows[-size:]
            gpu.rows += self._packed(ended.minute, columns if names else self._ordered(ended.fields, columns))
            del gpu.rows[: max(0, len(gpu.rows) - size * self._most)]
        self._forget(ended.minute)

    def earlier(self, minutes: Iterable[DayMinute]) -> DayHistory:
        """Return the minutes of an earlier run, the oldest first, for `continue_from`; may run in another thread."""
        history = DayHistory(self.fields, self._max_bytes)
        for minute in minutes:
            history.keep(minute)
        return history

    def continue_from(self, earlier: DayHistory) -> None:
        """Put the minutes of an earlier run before the minutes of this one."""
        new, self._gpus = self._gpus, earlier._gpus
        for place, gpu in new.items():
            old = self._gpus.setdefault(place, _GpuMinutes(gpu.device))
            old.device, old.rows = gpu.device, old.rows + gpu.rows

    @property
    def _most(self) -> int:
        """How many minutes of a GPU fit."""
        return max(1, min(MINUTES, self._max_bytes // (self._struct.size * max(1, len(self._gpus)))))

    def _forget(self, minute: int) -> None:
        """Remove the GPUs that had no sample for a day."""
        for place, gpu in list(self._gpus.items()):
            if self._last(gpu) <= minute - MINUTES:
                del self._gpus[place]

    def forget(self, device: Device) -> None:
        """Drop all minutes of a GPU and of its parts."""
        board = device.entity.board
        self._gpus = {place: gpu for place, gpu in self._gpus.items() if gpu.device.entity.board != board}
        for _, minutes in self._open.values():
            for key in [key for key, minute in minutes.items() if minute.device.entity.board == board]:
                del minutes[key]

    def _packed(self, minute: int, values: Sequence[float | str | None]) -> bytes:
        count = len(self._words)
        codes = [
            WORDS[name].states.index(value) if value in WORDS[name].states else NO_STATE
            for name, value in zip(self._words, values[:count], strict=True)
        ]
        numbers = [
            float(value) if isinstance(value, int | float) and abs(value) < 3e38 else nan for value in values[count:]
        ]
        return self._struct.pack(minute, *codes, *numbers)

    def _ordered(self, fields: Sequence[str], values: Sequence[float | str | None]) -> Sequence[float | str | None]:
        """Return the values of other fields in the order of these; None for those that are not there."""
        columns: dict[str, Sequence[float | str | None]] = {}
        at = 0
        for name in fields:
            columns[name], at = values[at : at + _size(name)], at + _size(name)
        return [
            value
            for name in self.fields
            for value in (columns.get(name) or ([None] if name in WORDS else [None, None, None]))
        ]

    def points(self, target: str, device: Device, fields: Sequence[str], axis: PointAxis) -> dict[str, Points]:
        """Return the points of a GPU; on an axis finer than a minute, points have the values of their minute."""
        gpu = self._gpus.get((target, key_of(device, "")))
        rows = list(self._struct.iter_unpack(gpu.rows)) if gpu is not None else []
        by_minute = {row[0]: at for at, row in enumerate(rows)}
        places: dict[int, list[int]] = {}
        for point in range(axis.size):
            begin = (axis.first + point) * axis.step
            first, end = floor(begin / MINUTE), max(floor(begin / MINUTE) + 1, ceil((begin + axis.step) / MINUTE))
            if minutes := [by_minute[minute] for minute in range(first, end) if minute in by_minute]:
                places[point] = minutes
        return {name: self._points(name, rows, places, axis.size) for name in fields}

    def newest(self, target: str, device: Device) -> float:
        """Return the Unix time at which the last minute of a GPU ends; 0 without any."""
        gpu = self._gpus.get((target, key_of(device, "")))
        if gpu is None:
            return 0.0
        return MINUTE * (self._last(gpu) + 1)

    def _last(self, gpu: _GpuMinutes) -> int:
        """Return the number of the last minute of a GPU."""
        last: int = _MINUTE.unpack_from(gpu.rows, len(gpu.rows) - self._struct.size)[0]
        return last

    def _points(
        self, name: str, rows: Sequence[tuple[Any, ...]], places: Mapping[int, Sequence[int]], size: int
    ) -> Points:
        at, words = self.fields.index(name), len(self._words)
        if name in WORDS:
            return merged_states([row[1 + at] for row in rows], places, size, WORDS[name])
        first = 1 + words + 3 * (at - words)
        lowest, mean, highest = ([row[first + part] for row in rows] for part in range(3))
        return merged_numbers(lowest, mean, highest, places, size)


def _size(name: str) -> int:
    """Return how many values a field has in a minute."""
    return 1 if name in WORDS else 3


async def write_points(
    history: History,
    day: DayHistory,
    places: Sequence[tuple[str, Device]],
    fields: Sequence[str],
    count: int,
    seconds: float,
    here: str,
) -> bytes:
    """Render some GPUs as `count` points of one axis; yields to the event loop after each field.

    If the time is longer than `history` keeps, points are minutes, except where it has all samples.

    Args:
        places: target and device of each.
        seconds: length of the axis, which ends with the newest sample of all.
        here: this process's node, for GPUs whose source does not name one.
    """
    is_recent = seconds <= history.seconds
    windows = [history.window(*place, min(seconds, history.seconds)) for place in places]
    times = [
        window.time or (0.0 if is_recent else day.newest(*place)) for window, place in zip(windows, places, strict=True)
    ]
    axis = PointAxis.until(max(times, default=0.0), seconds, count)
    gpus = []
    for place, window in zip(places, windows, strict=True):
        points = {} if is_recent else day.points(*place, fields, axis)
        first = next((time for each in history.samples(window) for time in each.times), inf)
        begin = next((at for at, time in enumerate(axis.times) if time >= first), axis.size)
        for name, recent in window_points(history, window, fields, axis):
            points[name] = recent if is_recent else _with_recent(points[name], recent, begin)
            await asyncio.sleep(0)
        gpus.append({**history_head(window, here), "fields": points})
    return json_bytes({"seconds": axis.seconds, "step_seconds": axis.step, "time": axis.times, "gpus": gpus})


def _with_recent(points: Points, recent: Points, begin: int) -> Points:
    """Return points, from one on the recent ones where there are any."""
    if isinstance(points, Mapping) and isinstance(recent, Mapping):
        return {part: [*points[part][:begin], *recent[part][begin:]] for part in points}
    return [*list(points)[:begin], *list(recent)[begin:]]
