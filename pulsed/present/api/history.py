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
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pulsed.compute.tick import ComputedTick
from pulsed.present.api.sample_fields import DERIVED, WORDS, check_fields
from pulsed.present.api.sample_rows import Columns, json_numbers
from pulsed.present.gpu_keys import Key, key_of, names_of, node_of
from pulsed.translate.tick import Device

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

_SLICE = 200
"""Rows that are written as JSON before others get their turn: some 2 ms."""


class HistoryWindow(NamedTuple):
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


class RememberedGpu(NamedTuple):
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
        self._columns = Columns(self.fields)
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

    def find(self, wanted: str, node: str | None, here: str) -> list[RememberedGpu]:
        """Find GPUs that are remembered, each once, by what a person calls them.

        Args:
            wanted: an index, a GPU's UUID, a MIG instance's UUID, or index or UUID and MIG id as `0:7`.
            node: the node that it must be in, None for any.
            here: this process's own node.
        """
        self._forget(self._now())
        found: dict[Key, RememberedGpu] = {}
        for source in self._sources.values():
            for series in source.series.values():
                past = RememberedGpu(source.name, series.device, node_of(series.device, here))
                if wanted in names_of(series.device) and node in (None, past.node):
                    found[key_of(series.device, here)] = past
        return list(found.values())

    def window(self, target: str, device: Device, seconds: float) -> HistoryWindow:
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
            return HistoryWindow(device, 0.0, seconds, b"")
        rows = self._columns.since(series.rows, source.newest - seconds)
        return HistoryWindow(series.device, source.interval, seconds, rows)

    async def write(self, window: HistoryWindow, fields: Sequence[str], head: Mapping[str, Any]) -> bytes:
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
            times.append(json_numbers(values[1], 3))
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
