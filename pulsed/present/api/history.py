"""The samples of the last minutes of every GPU, in memory: for `/gpus/{gpu}/history`.

Each target has a ring of ticks, which are packed rows. It is bounded by time, and by bytes over all GPUs together: a
process that reads 1,000 GPUs stays as small as one that reads eight and only looks back less far. Beyond the limit the
oldest ticks are dropped, whichever target they belong to.

Age is measured on clocks that never step: the source's own, so that a replay looks back as far as its capture did, and
this process's, by which a GPU or target that is gone expires. Samples are returned in the order of their arrival.

Must not depend on HTTP.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from pydantic import Field

from pulsed.json_text import json_bytes
from pulsed.model.clocks import Monotonic
from pulsed.model.gpu import Device, Entity, GpuKey, key_of, names_of, node_of
from pulsed.model.tick import Tick
from pulsed.present.api.gpu_matches import NamedGpu, identity_of
from pulsed.present.api.sample_fields import DEFAULT_FIELDS, Columns, check_fields
from pulsed.present.api.schema import Document
from pulsed.present.settings import HISTORY_BYTES, HISTORY_SECONDS

_RING_BYTES = 1000
"""Memory of a ring without ticks (CPython, with malloc's share)."""

_TICK_BYTES = 130
"""Memory of a tick besides its data: its objects and its places."""

_DEVICE_BYTES = 480
"""Memory of a device that no other tick has."""

_PIECE_TICKS = 256
"""Ticks that are read at once; it takes less than 1 ms."""

_MOMENT = struct.Struct("=ddd")
"""How each tick begins: its clock, its time, and when it arrived by this process's clock. The GPUs' rows follow."""

_FORGOTTEN = Device(Entity("gpu", ""))
"""In place of a device whose samples are hidden; it has no name."""


class _Tick(NamedTuple):
    """The packed samples of all devices of a target; consecutive ticks with equal devices have the same tuple."""

    devices: tuple[Device, ...]
    data: bytes

    @property
    def moment(self) -> tuple[float, float, float]:
        """Its clock, its Unix time, and when it arrived."""
        clock, time, arrived = _MOMENT.unpack_from(self.data)
        return clock, time, arrived


class _Ring:
    """The ticks of one target, the oldest first, and clock, Unix time and interval of the newest."""

    __slots__ = ("interval", "newest", "target", "ticks", "time")

    def __init__(self, target: str) -> None:
        self.target, self.newest, self.time, self.interval = target, 0.0, 0.0, 0.0
        self.ticks: deque[_Tick] = deque()

    def layouts(self) -> Iterator[tuple[Device, ...]]:
        """Yield the devices of consecutive ticks."""
        for _, ticks in groupby(self.ticks, lambda tick: id(tick.devices)):
            yield next(ticks).devices


class HistorySamples(NamedTuple):
    """Consecutive samples of a GPU: clocks, Unix times, and packed rows."""

    clocks: list[float]
    times: list[float]
    rows: bytes


class HistoryWindow(NamedTuple):
    """Kept samples of one GPU, at most `seconds` back from the newest tick of its target: clock and Unix time of that
    tick, and the ticks with the position of the GPU in each.
    """

    device: Device
    interval: float
    seconds: float
    newest: float = 0.0
    time: float = 0.0
    ticks: Sequence[tuple[_Tick, int]] = ()


class HistoryHead(NamedGpu):
    """Whose history it is."""

    interval_seconds: float = Field(description="nominal time between two samples; 0 without samples")


class HistoryShape(HistoryHead):
    """Recent samples of a GPU as columns, oldest first."""

    seconds: float = Field(description="length of the window")
    time: list[float] = Field(description="Unix seconds of each sample, oldest first")
    fields: dict[str, list[float | str | None]] = Field(
        description="one list per field, as long as time; null without a reading"
    )


def history_head(window: HistoryWindow, here: str) -> Document:
    """Return the members of `HistoryHead`; `here` is this process's node."""
    return {**identity_of(window.device, here), "interval_seconds": window.interval}


class History:
    """The samples of the last `seconds`; the oldest are dropped if all together take more than `max_bytes`.

    Raises `UsageError` if a field is unknown. `size` is in bytes, overhead included.
    """

    def __init__(
        self,
        seconds: float = HISTORY_SECONDS,
        max_bytes: int = HISTORY_BYTES,
        fields: Sequence[str] = DEFAULT_FIELDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds, self._max_bytes, self._now = seconds, max_bytes, now
        self.fields = tuple(dict.fromkeys(fields))
        check_fields(self.fields)
        self.columns = Columns(self.fields)
        self.size = 0
        self._rings: dict[str, _Ring] = {}
        self._order: deque[_Ring] = deque()  # of each tick, in the order of their arrival

    def add(self, tick: Tick) -> Sequence[bytes]:
        """Keep a tick; return the packed sample of each row. Costs 2 to 3 us per GPU; never fails."""
        now = Monotonic(self._now())
        ring = self._rings.get(tick.target)
        if ring is None:
            ring = self._rings[tick.target] = _Ring(tick.target)
            self.size += _RING_BYTES
        devices = tick.devices
        if ring.ticks and ring.ticks[-1].devices == devices:
            devices = ring.ticks[-1].devices
        else:
            self.size += _DEVICE_BYTES * len(devices)
        moment = _MOMENT.pack(tick.clock, tick.time, now)
        samples = [self.columns.pack(row.result, row.reading) for row in tick.gpus]
        data = b"".join((moment, *samples))
        ring.ticks.append(_Tick(devices, data))
        ring.newest, ring.time, ring.interval = tick.clock, tick.time, tick.interval
        self._order.append(ring)
        self.size += len(data) + _TICK_BYTES
        self._forget(now)
        return samples

    def find(self, name: str, node: str | None, here: str) -> list[tuple[str, Device]]:
        """Return target and device of the GPUs with this name, as in `gpu_matches.find`, that have kept samples."""
        self._forget(Monotonic(self._now()))
        remembered: dict[GpuKey, tuple[str, Device]] = {}
        for ring in sorted(self._rings.values(), key=lambda ring: ring.ticks[-1].moment[2]):
            for device in (device for devices in ring.layouts() for device in devices):
                if name in names_of(device) and node in (None, node_of(device, here)):
                    remembered[key_of(device, here)] = ring.target, device
        return list(remembered.values())

    def window(self, target: str, device: Device, seconds: float) -> HistoryWindow:
        """Return what is kept of a GPU, at most `seconds` back from the target's newest tick; perhaps nothing."""
        now, seconds = Monotonic(self._now()), min(seconds, self.seconds)
        self._forget(now)
        ring, key = self._rings.get(target), key_of(device, "")
        if ring is None:
            return HistoryWindow(device, 0.0, seconds)
        positions: dict[int, int | None] = {}
        shown: list[tuple[_Tick, int]] = []
        for tick in reversed(ring.ticks):
            if not self._is_within(tick, ring, seconds, now):
                break
            if (layout := id(tick.devices)) not in positions:
                positions[layout] = next((at for at, each in enumerate(tick.devices) if key_of(each, "") == key), None)
            if (position := positions[layout]) is not None:
                shown.append((tick, position))
        if shown:
            device = shown[0][0].devices[shown[0][1]]
        shown.reverse()
        return HistoryWindow(device, ring.interval, seconds, ring.newest, ring.time, shown)

    def forget(self, gpu: Device) -> None:
        """Hide all samples of a GPU and of its parts; their memory is freed when they expire."""
        board = gpu.entity.board
        for ring in self._rings.values():
            shown = {
                id(devices): tuple([_FORGOTTEN if each.entity.board == board else each for each in devices])
                for devices in ring.layouts()
            }
            ring.ticks = deque(_Tick(shown[id(tick.devices)], tick.data) for tick in ring.ticks)

    async def write(self, window: HistoryWindow, fields: Sequence[str], head: Mapping[str, Any]) -> bytes:
        """Render a window as JSON, piece by piece; yields to the event loop after each piece.

        The object begins with the keys and values of `head`.
        """
        times: list[float] = []
        columns: dict[str, list[float | str | None]] = {name: [] for name in fields}
        for _, moments, rows in self.samples(window):
            values = self.columns.transposed(rows)
            times += [round(moment, 3) for moment in moments]
            for name, column in columns.items():
                column += self.columns.shown(name, values)
            await asyncio.sleep(0)
        return json_bytes({**head, "time": times, "fields": columns})

    def samples(self, window: HistoryWindow) -> Iterator[HistorySamples]:
        """Yield the samples of a window, piece by piece, in the order of their arrival."""
        size = self.columns.size
        for begin in range(0, len(window.ticks), _PIECE_TICKS):
            ticks = window.ticks[begin : begin + _PIECE_TICKS]
            places = [_MOMENT.size + position * size for _, position in ticks]
            moments = [tick.moment for tick, _ in ticks]
            rows = b"".join([tick.data[at : at + size] for (tick, _), at in zip(ticks, places, strict=True)])
            yield HistorySamples([clock for clock, _, _ in moments], [time for _, time, _ in moments], rows)

    def _is_within(self, tick: _Tick, ring: _Ring, seconds: float, now: Monotonic) -> bool:
        clock, _, arrived = tick.moment
        return ring.newest - clock <= seconds and now - arrived <= self.seconds

    def _forget(self, now: Monotonic) -> None:
        """Drop the oldest ticks while there is too much, or they are too old."""
        while self._order:
            ring = self._order[0]
            oldest = ring.ticks[0]
            if self.size <= self._max_bytes and self._is_within(oldest, ring, self.seconds, now):
                return
            self._order.popleft()
            ring.ticks.popleft()
            self.size -= len(oldest.data) + _TICK_BYTES
            if not ring.ticks or ring.ticks[0].devices is not oldest.devices:
                self.size -= _DEVICE_BYTES * len(oldest.devices)
            if not ring.ticks:
                del self._rings[ring.target]
                self.size -= _RING_BYTES
