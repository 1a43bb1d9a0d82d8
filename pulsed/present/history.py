"""What every GPU was doing lately, in memory: for `/gpus/{gpu}/history`.

Bounded twice: by time, and by bytes over all GPUs together, so that a process that reads 10,000 GPUs stays as small as
one that reads eight and only looks back less far. The oldest ticks go first, whoever they are of. A sample is one
packed row at the end of its GPU's buffer.

Age is told by the clocks that never step: the source's own, by which a replay looks back as far as its capture did, and
this process's, by which a GPU or target that has gone is forgotten. Rows are answered in the order of their arrival.

Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import json
import struct
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from math import nan
from operator import itemgetter
from typing import Any, NamedTuple

from pulsed.compute.health.model import STATES
from pulsed.compute.rules import WORKLOAD_CLASSES
from pulsed.compute.tick import ComputedTick, Result
from pulsed.errors import UsageError
from pulsed.present.identity import Key, key_of, node_of
from pulsed.translate.tick import Device
from pulsed.translate.vocabulary import POSITION, QUANTITIES, Reading, Value

DERIVED: Mapping[str, Callable[[Result], Value]] = {
    "real_utilization_ratio": lambda result: result.real_utilization.ratio,
    "real_utilization_lower_ratio": lambda result: result.real_utilization.lower,
    "real_utilization_upper_ratio": lambda result: result.real_utilization.upper,
    "saturation_ratio": lambda result: result.saturation.ratio,
}
"""Numbers that are no reading but follow from it, by the name of their CSV column: ratios in 0..1, or None."""

WORDS: Mapping[str, tuple[Callable[[Result], str], tuple[str, ...]]] = {
    "workload_class": (lambda result: result.held.workload_class, WORKLOAD_CLASSES),
    "raw_class": (lambda result: result.workload.raw_class, WORKLOAD_CLASSES),
    "health_state": (lambda result: result.health.state, STATES),
}
"""Words that follow from a reading, by the name of their CSV column, and all that they can be (at most 255)."""

FIELDS: tuple[str, ...] = (*WORDS, *DERIVED, *QUANTITIES)
"""Everything that can be kept."""

DEFAULT_FIELDS: tuple[str, ...] = (
    *WORDS,
    *DERIVED,
    "graphics_engine_active_ratio",
    "sm_active_ratio",
    "sm_occupancy_ratio",
    "tensor_active_ratio",
    "fp64_active_ratio",
    "fp32_active_ratio",
    "fp16_active_ratio",
    "dram_active_ratio",
    "gpu_utilization_ratio",
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
"""What is kept unless the configuration says otherwise."""

SECONDS = 600.0
MAX_BYTES = 8 * 2**20

SERIES_BYTES = 480
"""What a GPU costs besides its rows: buffer, key, places in dictionaries (CPython, with malloc's share)."""

TICK_BYTES = 200
"""What a tick costs besides its rows."""

_NO_WORD = 255
_SLICE = 200
"""Rows that are written as JSON before others get their turn: some 2 ms."""


def nearest_field(name: str, fields: Collection[str] = FIELDS) -> str:
    """The field that was probably meant; empty if none is like it."""
    return next(iter(get_close_matches(name.lower(), fields, 1, 0.5)), "")


class Window(NamedTuple):
    """What is kept of one GPU, as far as it was asked for.

    Attributes:
        device: which GPU, as it was last seen.
        interval: nominal seconds between two samples.
        seconds: how far back this looks from the newest tick of the source.
        rows: the packed samples, oldest first.
    """

    device: Device
    interval: float
    seconds: float
    rows: bytes


class Past(NamedTuple):
    """A GPU of which something is kept, whether it is still there or not."""

    target: str
    device: Device
    node: str


class _Series:
    """The samples of one GPU of one target."""

    __slots__ = ("device", "present", "rows")

    def __init__(self, device: Device) -> None:
        self.device, self.present, self.rows = device, True, bytearray()


class _Source:
    """What is kept of one target."""

    __slots__ = ("devices", "interval", "name", "newest", "roster", "series", "ticks")

    def __init__(self, name: str) -> None:
        self.name, self.newest, self.interval, self.ticks = name, 0.0, 0.0, 0
        self.devices: tuple[Device, ...] = ()
        self.roster: tuple[_Series, ...] = ()
        self.series: dict[Key, _Series] = {}


class _Tick(NamedTuple):
    """A tick that is kept: the first row of each of its series is its own, once all before it have gone."""

    clock: float
    arrived: float
    source: _Source
    roster: tuple[_Series, ...]


class History:
    """The samples of the last minutes.

    Args:
        seconds: how long a sample is kept.
        max_bytes: how much memory all of them together may take; the oldest go first.
        fields: what is kept of each, of `FIELDS`.
        now: a clock that never steps, seconds.

    Attributes:
        seconds: as given.
        fields: as given, each once.

    Raises:
        UsageError: a field is unknown.
    """

    def __init__(
        self,
        seconds: float = SECONDS,
        max_bytes: int = MAX_BYTES,
        fields: Sequence[str] = DEFAULT_FIELDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds, self._max_bytes, self._now = seconds, max_bytes, now
        self.fields = tuple(dict.fromkeys(fields))
        check_fields(self.fields)
        self._columns = _Columns(self.fields)
        self._row_bytes = self._columns.size * 9 // 8  # a growing bytearray is up to an eighth larger than its content
        self._sources: dict[str, _Source] = {}
        self._ticks: deque[_Tick] = deque()
        self._bytes = 0

    @property
    def size(self) -> int:
        """Bytes that all samples take, with what is around them."""
        return self._bytes

    def add(self, tick: ComputedTick) -> None:
        """Keep a tick. Costs 2 to 3 us per GPU; never fails."""
        canonical = tick.canonical
        source = self._sources.get(canonical.target)
        if source is None:
            source = self._sources[canonical.target] = _Source(canonical.target)
        if source.devices is not canonical.devices:
            self._enroll(source, canonical.devices)
        roster = source.roster
        pack, clock, when = self._columns.pack, canonical.clock, canonical.time
        for series, reading, result in zip(roster, canonical.readings, tick.results, strict=True):
            series.rows += pack(clock, when, result, reading)
        source.newest, source.interval = clock, canonical.interval
        source.ticks += 1
        now = self._now()
        self._ticks.append(_Tick(clock, now, source, roster))
        self._bytes += TICK_BYTES + len(roster) * self._row_bytes
        self._forget(now)

    def find(self, wanted: str, node: str | None, here: str) -> list[Past]:
        """Find GPUs that are remembered, each once, by what a person calls them.

        Args:
            wanted: an index, a GPU's UUID, a MIG instance's UUID, or index or UUID and MIG id as `0:7`.
            node: the node that it must be in, None for any.
            here: this process's own node.
        """
        self._forget(self._now())
        found: dict[Key, Past] = {}
        for source in self._sources.values():
            for series in source.series.values():
                past = Past(source.name, series.device, node_of(series.device, here))
                if wanted in names_of(series.device) and node in (None, past.node):
                    found[key_of(series.device, here)] = past
        return list(found.values())

    def window(self, target: str, device: Device, seconds: float) -> Window:
        """Take what is kept of a GPU; no rows if there is nothing.

        Args:
            target: what was read, as its ticks say.
            device: the GPU.
            seconds: how far to look back from the source's newest tick; no further than what is kept.
        """
        self._forget(self._now())
        seconds = min(seconds, self.seconds)
        source = self._sources.get(target)
        series = source.series.get(key_of(device, "")) if source is not None else None
        if source is None or series is None:
            return Window(device, 0.0, seconds, b"")
        rows = self._columns.since(series.rows, source.newest - seconds)
        return Window(series.device, source.interval, seconds, rows)

    async def write(self, window: Window, fields: Sequence[str], head: Mapping[str, Any]) -> bytes:
        """Write a window as JSON, column by column; others run in between.

        Args:
            window: what to write.
            fields: which fields, of `self.fields`.
            head: keys and values to begin with.
        """
        columns = self._columns
        times: list[str] = []
        texts: dict[str, list[str]] = {name: [] for name in fields}
        for start in range(0, len(window.rows), columns.size * _SLICE):
            values = columns.transposed(window.rows[start : start + columns.size * _SLICE])
            times.append(_numbers(values[1], 3))
            for name in fields:
                texts[name].append(columns.text(name, values))
            await asyncio.sleep(0)
        begin = "".join(f"{json.dumps(key)}:{json.dumps(value, allow_nan=False)}," for key, value in head.items())
        written = ",".join(f"{json.dumps(name)}:[{','.join(parts)}]" for name, parts in texts.items())
        return f'{{{begin}"time":[{",".join(times)}],"fields":{{{written}}}}}'.encode()

    def _enroll(self, source: _Source, devices: tuple[Device, ...]) -> None:
        """Give every device of a target its series; what is known already goes on."""
        for series in source.series.values():
            series.present = False
        roster = []
        for device in devices:
            key = key_of(device, "")
            known = source.series.get(key)
            if known is None:
                known = source.series[key] = _Series(device)
                self._bytes += SERIES_BYTES
            known.device, known.present = device, True
            roster.append(known)
        source.devices, source.roster = devices, tuple(roster)

    def _forget(self, now: float) -> None:
        """Let the oldest ticks go while there is too much, or they are too old."""
        ticks, limit = self._ticks, self.seconds
        while ticks:
            oldest = ticks[0]
            expired = oldest.source.newest - oldest.clock > limit or now - oldest.arrived > limit
            if not expired and self._bytes <= self._max_bytes:
                return
            self._drop(ticks.popleft())

    def _drop(self, tick: _Tick) -> None:
        source, size = tick.source, self._columns.size
        self._bytes -= TICK_BYTES + len(tick.roster) * self._row_bytes
        for series in tick.roster:
            del series.rows[:size]
        source.ticks -= 1
        if not source.ticks:
            del self._sources[source.name]
            self._bytes -= SERIES_BYTES * len(source.series)
        elif tick.roster is not source.roster:
            gone = [key for key, series in source.series.items() if not series.present and not series.rows]
            for key in gone:
                del source.series[key]
            self._bytes -= SERIES_BYTES * len(gone)


def check_fields(fields: Sequence[str]) -> None:
    """Refuse fields that nobody knows.

    Raises:
        UsageError: one is unknown; the nearest known one is named.
    """
    for name in fields:
        if name not in FIELDS:
            near = nearest_field(name)
            raise UsageError(f"{name!r} is no field", f"Did you mean {near}?" if near else "METRICS.md lists them")


def names_of(device: Device) -> tuple[str, ...]:
    """What a person may call a device: by index or UUID, as `0:7` also below a whole GPU, or by a MIG UUID."""
    entity = device.entity
    names: Iterator[str] = filter(None, (entity.gpu, entity.uuid))
    if entity.mig_id:
        names = (f"{name}:{entity.mig_id}" for name in names)
    return (*names, *filter(None, (device.mig_uuid,)))


class _Columns:
    """How a sample is packed: its clock, its time, then words, derived numbers and readings.

    Shares of time fit into single precision, which six decimals survive; bytes, joules and hertz do not.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        words = [name for name in fields if name in WORDS]
        derived = [name for name in fields if name in DERIVED]
        readings = [name for name in fields if name in POSITION]
        self._names = (*words, *derived, *readings)
        self._column = {name: position for position, name in enumerate(self._names, 2)}
        single = {*derived, *(name for name in readings if QUANTITIES[name].group == "activity")}
        self._single = frozenset(single)
        codes = "".join("B" if name in WORDS else "f" if name in single else "d" for name in self._names)
        self._struct = struct.Struct(f"=dd{codes}")
        self._clock = struct.Struct("=d")
        self._words = [(WORDS[name][0], {word: code for code, word in enumerate(WORDS[name][1])}) for name in words]
        self._derived = [DERIVED[name] for name in derived]
        positions = [POSITION[name] for name in readings]
        self._pick: Callable[[Reading], tuple[Value, ...]]
        if len(positions) > 1:
            self._pick = itemgetter(*positions)
        else:
            self._pick = lambda reading: tuple(reading[position] for position in positions)
        self.size = self._struct.size

    def pack(self, clock: float, when: float, result: Result, reading: Reading) -> bytes:
        """Pack a sample; what is missing, or no number can hold, is NaN."""
        codes = [known.get(get(result), _NO_WORD) for get, known in self._words]
        values = [get(result) for get in self._derived]
        values += self._pick(reading)
        numbers = [nan if value is None else value for value in values]
        try:
            return self._struct.pack(clock, when, *codes, *numbers)
        except (OverflowError, struct.error):  # beyond single precision, or an integer beyond any
            return self._struct.pack(clock, when, *codes, *map(_within, numbers))

    def since(self, rows: bytearray, clock: float) -> bytes:
        """Copy the rows from the end back to the first that is older."""
        start = len(rows)
        while start >= self.size and self._clock.unpack_from(rows, start - self.size)[0] >= clock:
            start -= self.size
        return bytes(memoryview(rows)[start:])

    def transposed(self, rows: bytes) -> list[tuple[Any, ...]]:
        """Unpack rows into one tuple per column; the first two are clock and time."""
        return list(zip(*self._struct.iter_unpack(rows), strict=True))

    def text(self, name: str, values: Sequence[tuple[Any, ...]]) -> str:
        """Write a column as JSON, without the brackets around it."""
        column = values[self._column[name]]
        if name in WORDS:
            words = WORDS[name][1]
            return json.dumps([words[code] if code != _NO_WORD else None for code in column], separators=(",", ":"))[
                1:-1
            ]
        return _numbers(column, 6 if name in self._single else None)


def _within(value: float) -> float:
    """A number that single precision holds, or NaN."""
    return value if abs(value) < 3e38 else nan


def _numbers(column: Sequence[float], decimals: int | None) -> str:
    values = column if decimals is None else [round(value, decimals) for value in column]
    text = json.dumps(values, separators=(",", ":"))[1:-1]
    # JSON has no word for what is missing but null, and none for infinity.
    return text.replace("-Infinity", "null").replace("Infinity", "null").replace("NaN", "null")
