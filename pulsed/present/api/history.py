"""The samples of the last minutes of every GPU, in memory: for `/gpus/{gpu}/history`.

Bounded by time, and by bytes over all GPUs together: a process that reads 10,000 GPUs stays as small as one that reads
eight and only looks back less far. Consecutive ticks of one target form a segment; a segment that is complete is kept
compressed, without loss. Beyond the limit the oldest segments are dropped, whichever target they belong to.

Age is measured on clocks that never step: the source's own, so that a replay looks back as far as its capture did, and
this process's, by which a GPU or target that is gone expires. Samples are returned in the order of their arrival.

Must not depend on HTTP.
"""

from __future__ import annotations

import asyncio
import struct
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pulsed.json_text import json_text
from pulsed.model.computed_tick import ComputedTick
from pulsed.model.gpu import Device, Entity, Key, key_of, names_of, node_of
from pulsed.present.api.sample_fields import DEFAULT_FIELDS, check_fields
from pulsed.present.api.sample_rows import Columns, json_numbers

SECONDS = 600.0
MAX_BYTES = 8 * 2**20

_SEGMENT_BYTES = 32 * 2**10
"""Uncompressed size at which a segment is complete: compressing it takes some 0.5 ms, decompressing it 0.1 ms."""

_SEGMENTS = 64
"""A segment is complete after this share of the history's time, too: a segment expires as a whole."""

_OVERHEAD_BYTES = 400
"""Memory of a segment besides its data: its objects and its place (CPython, with malloc's share)."""

_DEVICE_BYTES = 480
"""Memory of a device that no other segment holds."""

_MOMENT = struct.Struct("=ddd")
"""How each tick begins: its clock, its time, and when it arrived by this process's clock. The GPUs' rows follow."""


_FORGOTTEN = Device(Entity("gpu", ""))
"""In place of a device whose samples are hidden; it has no name."""


class RememberedGpu(NamedTuple):
    """A GPU of which samples are kept, whether it is still present or not."""

    target: str
    device: Device
    node: str


class _Source:
    """What is kept of one target."""

    __slots__ = ("devices", "interval", "name", "newest", "open", "segments", "time")

    def __init__(self, name: str) -> None:
        self.name, self.newest, self.time, self.interval = name, 0.0, 0.0, 0.0
        self.devices: tuple[Device, ...] = ()
        self.open: _Segment | None = None
        self.segments = 0


class _Segment:
    """Consecutive ticks of one target with the same devices.

    Once it is complete, `compressed` replaces `data`. `arrived` is that of the last tick, `cost` its counted bytes.
    `number` counts all segments, `ticks` those of this one.
    """

    __slots__ = ("arrived", "compressed", "cost", "data", "devices", "first", "last", "number", "source", "ticks")

    def __init__(self, source: _Source, devices: tuple[Device, ...], clock: float, number: int) -> None:
        self.source, self.devices, self.first, self.last, self.arrived = source, devices, clock, clock, 0.0
        self.number, self.ticks = number, 0
        self.data, self.compressed, self.cost = bytearray(), b"", 0


class _Part(NamedTuple):
    """One GPU's samples in a segment: its number, ticks and data, how many GPUs it has, and which of them it is."""

    number: int
    ticks: int
    data: bytes
    compressed: bool
    devices: int
    position: int


class HistoryWindow(NamedTuple):
    """What is kept of one GPU, at most `seconds` back from `newest`, the clock of the newest tick of the source.

    `time` is the Unix time of that tick.
    """

    device: Device
    interval: float
    seconds: float
    newest: float = 0.0
    time: float = 0.0
    now: float = 0.0
    parts: tuple[_Part, ...] = ()

    @property
    def most_samples(self) -> int:
        """Number of samples, those included that are a little too old."""
        return sum(part.ticks for part in self.parts)


class HistorySamples(NamedTuple):
    """Consecutive samples of one of several windows: clocks, Unix times, and packed rows."""

    window: int
    clocks: list[float]
    times: list[float]
    rows: bytes


class History:
    """The samples of the last `seconds`; the oldest are dropped if all together take more than `max_bytes`.

    Raises `UsageError` if a field is unknown.

    Attributes:
        columns: layout of the packed rows.
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
        self.columns = Columns(self.fields)
        self._sources: dict[str, _Source] = {}
        self._segments: deque[_Segment] = deque()
        self._bytes = self._count = 0

    @property
    def size(self) -> int:
        """Bytes that all samples take, overhead included."""
        return self._bytes

    def add(self, tick: ComputedTick) -> None:
        """Keep a tick. Costs 2 to 3 us per GPU; never fails."""
        now = self._now()
        source = self._sources.get(tick.target)
        if source is None:
            source = self._sources[tick.target] = _Source(tick.target)
        clock, pack = tick.clock, self.columns.pack
        segment = self._segment(source, tick.devices, clock)
        data = segment.data
        before = len(data)
        data += _MOMENT.pack(clock, tick.time, now)
        for reading, result in zip(tick.readings, tick.results, strict=True):
            data += pack(result, reading)
        segment.last, segment.arrived = clock, now
        segment.ticks += 1
        source.newest, source.time, source.interval = clock, tick.time, tick.interval
        # A growing bytearray is up to an eighth larger than its content.
        self._charge(segment, (len(data) - before) * 9 // 8)
        self._forget(now)

    def find(self, wanted: str, node: str | None, here: str) -> list[RememberedGpu]:
        """Return the GPUs with this name, as in `documents.find`, of which samples are kept, each once."""
        self._forget(self._now())
        found: dict[Key, RememberedGpu] = {}
        seen: dict[str, tuple[Device, ...]] = {}
        for segment in self._segments:
            target, devices = segment.source.name, segment.devices
            if seen.get(target) is devices:
                continue
            seen[target] = devices
            for device in devices:
                past = RememberedGpu(target, device, node_of(device, here))
                if wanted in names_of(device) and node in (None, past.node):
                    found[key_of(device, here)] = past
        return list(found.values())

    def window(self, target: str, device: Device, seconds: float) -> HistoryWindow:
        """Return what is kept of a GPU, at most `seconds` back from the target's newest tick; perhaps nothing."""
        now, seconds = self._now(), min(seconds, self.seconds)
        self._forget(now)
        source, key = self._sources.get(target), key_of(device, "")
        if source is None:
            return HistoryWindow(device, 0.0, seconds)
        parts: list[_Part] = []
        devices: tuple[Device, ...] = ()
        position: int | None = None
        for segment in self._segments:
            if segment.source is not source:
                continue
            if segment.devices is not devices:
                devices = segment.devices
                position = next((at for at, each in enumerate(devices) if key_of(each, "") == key), None)
                device = device if position is None else devices[position]
            if position is not None and source.newest - segment.last <= seconds:
                data = segment.compressed or bytes(segment.data)
                parts.append(
                    _Part(segment.number, segment.ticks, data, bool(segment.compressed), len(devices), position)
                )
        return HistoryWindow(device, source.interval, seconds, source.newest, source.time, now, tuple(parts))

    def forget(self, gpu: Device) -> None:
        """Hide all samples of a GPU and of its parts; their memory is freed when they expire."""
        board = gpu.entity.board
        hidden: dict[int, tuple[Device, ...]] = {}
        for segment in self._segments:
            devices = segment.devices
            if id(devices) not in hidden:
                shown = tuple([_FORGOTTEN if each.entity.board == board else each for each in devices])
                hidden[id(devices)] = devices if shown == devices else shown
            segment.devices = hidden[id(devices)]

    async def write(self, window: HistoryWindow, fields: Sequence[str], head: Mapping[str, Any]) -> bytes:
        """Render a window as JSON, column by column; yields to the event loop after each part.

        The object begins with the keys and values of `head`.
        """
        columns = self.columns
        times: list[str] = []
        texts: dict[str, list[str]] = {name: [] for name in fields}
        for _, _, moments, rows in self.samples([window]):
            values = columns.transposed(rows)
            times.append(json_numbers(moments, 3))
            for name in fields:
                texts[name].append(columns.text(name, values))
            await asyncio.sleep(0)
        begin = "".join(f"{json_text(key)}:{json_text(value)}," for key, value in head.items())
        written = ",".join(f"{json_text(name)}:[{','.join(parts)}]" for name, parts in texts.items())
        return f'{{{begin}"time":[{",".join(times)}],"fields":{{{written}}}}}'.encode()

    def samples(self, windows: Sequence[HistoryWindow]) -> Iterator[HistorySamples]:
        """Yield the samples of some windows, segment by segment: those of a window in the order of their arrival.

        A segment is decompressed once for all windows. Segments without a sample in a window are left out.
        """
        size = self.columns.size
        uses: dict[int, list[tuple[int, _Part]]] = {}
        for index, window in enumerate(windows):
            for part in window.parts:
                uses.setdefault(part.number, []).append((index, part))
        for number in sorted(uses):
            first = uses[number][0][1]
            data = zlib.decompress(first.data) if first.compressed else first.data
            stride = _MOMENT.size + first.devices * size
            moments = [(at, *_MOMENT.unpack_from(data, at)) for at in range(0, len(data), stride)]
            for index, part in uses[number]:
                window, place = windows[index], _MOMENT.size + part.position * size
                shown = [
                    (clock, when, data[at + place : at + place + size])
                    for at, clock, when, arrived in moments
                    if window.newest - clock <= window.seconds and window.now - arrived <= self.seconds
                ]
                if shown:
                    clocks, times, rows = zip(*shown, strict=True)
                    yield HistorySamples(index, list(clocks), list(times), b"".join(rows))

    def _segment(self, source: _Source, devices: tuple[Device, ...], clock: float) -> _Segment:
        """Return the segment that the next tick of a target belongs to."""
        segment = source.open
        if segment is not None:
            span = clock - segment.first
            within = 0 <= span * _SEGMENTS < self.seconds and len(segment.data) < _SEGMENT_BYTES
            if within and segment.devices == devices:
                return segment
            self._complete(segment)
        self._count += 1
        segment = source.open = _Segment(source, devices, clock, self._count)
        self._segments.append(segment)
        self._charge(segment, _OVERHEAD_BYTES)
        if source.devices is not devices:
            self._charge(segment, _DEVICE_BYTES * len(devices))
        source.devices = devices
        source.segments += 1
        return segment

    def _complete(self, segment: _Segment) -> None:
        """Compress a segment."""
        segment.compressed = zlib.compress(segment.data, 1)
        self._charge(segment, len(segment.compressed) - len(segment.data) * 9 // 8)
        segment.data = bytearray()

    def _charge(self, segment: _Segment, count: int) -> None:
        segment.cost += count
        self._bytes += count

    def _forget(self, now: float) -> None:
        """Drop the oldest segments while there is too much, or they are too old."""
        segments, limit = self._segments, self.seconds
        while segments:
            oldest = segments[0]
            expired = oldest.source.newest - oldest.last > limit or now - oldest.arrived > limit
            if not expired and self._bytes <= self._max_bytes:
                return
            self._drop(segments.popleft())

    def _drop(self, segment: _Segment) -> None:
        source = segment.source
        self._charge(segment, -segment.cost)
        source.segments -= 1
        if source.open is segment:
            source.open = None
        if not source.segments:
            del self._sources[source.name]
