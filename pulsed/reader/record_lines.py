"""The lines of a record: ticks of any kind of source as NDJSON, without loss. No files, no clocks.

One JSON object a line, shown here for one GPU::

    {"pulsed_record":1,"version":"0.1.0","source":"dcgmi","node":"gpu1","started":"2026-01-01T00:00:00.000Z",
     "targets":{"localhost":0.1}}
    {"layout":"5f0c9a1e","target":"localhost","dialect":"dmon","labels":[{"entity":"GPU","id":"0"}],
     "series":[["GPUTL",0],["POWER",0]]}
    {"tick":"5f0c9a1e","target":"localhost","time":1767225600.1,"clock":7.1,"interval":0.1,"values":[97.0,null]}

The first line opens a session, one run of `pulsed record`; a record may have several. `targets` are its sources with
their intervals in seconds. A layout names the values of the ticks that refer to it; a series is a name and the number
of its labels. Layouts may also have `help` and `types` by metric name and `decimals` of fractions, ticks `rejected`
rows by reason, and `epoch`, its known parts by name. A value is a number, a text, null, or what JSON has no number for:
`["nan"]`, `["inf"]`, `["-inf"]`.

A reader keeps the last `LAYOUTS_KEPT` layouts of a target, so that memory is bounded. It skips lines that are not valid
(one that was cut by a kill stays in a record that is continued) and objects of an unknown kind, so that format 1 can be
extended. The name of a layout is a checksum of it: after lost lines, no tick is read with another layout.
"""

from __future__ import annotations

import json
import math
import sys
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt, TypeAdapter

from pulsed.errors import BadCapture
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import UNKNOWN_EPOCH, Dialect, Epoch, Layout, RawTick, RawValue, Series

FORMAT = 1
"""The version of the format, in each session's first line. A greater one cannot be read."""

SESSION_MARK = '{"pulsed_record":'
"""How a session's first line begins, byte for byte; by this a record is recognised."""

LAYOUTS_KEPT = 4
"""Layouts of a target that ticks may refer to: with GPUs that come and go, dmon goes back and forth between a few."""

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_UNREADABLE = (ValueError, TypeError, LookupError, RecursionError)
"""Errors of a line that is not valid; pydantic's are ValueErrors."""


_Seconds = Annotated[FiniteFloat, Field(gt=0)]


@dataclass(frozen=True, slots=True)
class Session:
    """One run of `pulsed record`.

    Attributes:
        started: time of the start, in RFC 3339.
        targets: nominal seconds between two ticks by target.
    """

    version: str
    source: str
    node: str
    started: str
    targets: Mapping[str, _Seconds]


class RecordWriter:
    """Renders the lines of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._layouts: dict[str, deque[tuple[Layout, str]]] = {}

    def start(self) -> bytes:
        """Return the first line."""
        return _encode({"pulsed_record": FORMAT, **asdict(self._session)}).encode() + b"\n"

    def tick(self, tick: RawTick) -> bytes:
        """Return the line of a tick, after the line of its layout if that is new."""
        layouts = self._layouts.setdefault(tick.target, deque(maxlen=LAYOUTS_KEPT))
        name, before = next((name for layout, name in layouts if layout == tick.layout), ""), b""
        if not name:
            body = _encode({"target": tick.target, **_layout_object(tick.layout)})
            name = f"{zlib.crc32(body.encode()):08x}"
            before = f'{{"layout":"{name}",{body[1:]}\n'.encode()
            layouts.append((tick.layout, name))
        line: dict[str, object] = {
            "tick": name,
            "target": tick.target,
            "time": tick.time,
            "clock": tick.clock,
            "interval": tick.interval,
            "values": list(tick.values),
        }
        if tick.rejected:
            line["rejected"] = dict(tick.rejected)
        if tick.epoch != UNKNOWN_EPOCH:
            line["epoch"] = {name: part for name, part in tick.epoch._asdict().items() if part}
        try:
            text = _encode(line)
        except ValueError:  # NaN or infinity, which an exporter's page may have
            text = _encode(line | {"values": [_finite(value) for value in tick.values]})
        return before + text.encode() + b"\n"


def _finite(value: RawValue) -> RawValue | list[str]:
    return [str(value)] if isinstance(value, float) and not math.isfinite(value) else value


def _layout_object(layout: Layout) -> dict[str, object]:
    numbers: dict[tuple[tuple[str, str], ...], int] = {}
    series = [[series.name, numbers.setdefault(series.labels, len(numbers))] for series in layout.series]
    texts = {key: dict(texts) for key, texts in (("help", layout.help), ("types", layout.types)) if texts}
    decimals = {} if layout.decimals is None else {"decimals": layout.decimals}
    return {
        "dialect": layout.dialect,
        "labels": [dict(labels) for labels in numbers],
        "series": series,
        **texts,
        **decimals,
    }


class RecordReader:
    """Parses the lines of a record in order, of all its sessions."""

    def __init__(self) -> None:
        self._layouts: dict[str, dict[str, Layout]] = {}
        self._damaged = 0

    def feed(self, line: bytes) -> Session | RawTick | None:
        """Parse one line, with or without its newline; return its session or tick, None for other lines.

        All ticks that were recorded with the same layout have the same `Layout` object. Lines that are not valid are
        counted in the `rejected` rows of the next tick, as `damaged_line`.

        Raises `BadCapture` if the session has a later format; the message does not name the file.
        """
        try:
            return self._read(line)
        except _UNREADABLE:
            self._damaged += 1
            return None

    def _read(self, line: bytes) -> Session | RawTick | None:
        kind = next((kind for kind in _KINDS if line.startswith(_MARKS[kind])), "")
        if not kind and line.strip():
            members = json.loads(line)  # another order of the members, or a kind of a later version
            kind = next((kind for kind in _KINDS if kind in members), "")
        if kind == "tick":
            return self._tick(_TickLine.model_validate_json(line))
        if kind == "layout":
            self._add(_LayoutLine.model_validate_json(line))
        elif kind == "pulsed_record":
            if (format := _FormatLine.model_validate_json(line).pulsed_record) != FORMAT:
                raise BadCapture(
                    f"a record of format {format}, and this pulsed reads format {FORMAT}",
                    "Replay it with the pulsed that recorded it, or a newer one",
                )
            session = _SESSION_LINE.validate_json(line, strict=True)
            self._layouts.clear()
            return session
        return None

    def _add(self, line: _LayoutLine) -> None:
        labels = [tuple(labels.items()) for labels in line.labels]
        series = tuple(Series(sys.intern(name), labels[number]) for name, number in line.series)
        layouts = self._layouts.setdefault(line.target, {})
        layouts.pop(line.layout, None)  # the last one is the newest
        layouts[line.layout] = Layout(line.dialect, series, line.help, line.types, line.decimals)
        if len(layouts) > LAYOUTS_KEPT:
            del layouts[next(iter(layouts))]

    def _tick(self, line: _TickLine) -> RawTick:
        layout = self._layouts[line.target][line.tick]
        values: list[RawValue] = [float(value[0]) if isinstance(value, tuple) else value for value in line.values]
        if len(values) != len(layout.series):
            raise ValueError("the numbers of values and series differ")
        rejected = line.rejected
        if self._damaged:
            rejected = {**rejected, "damaged_line": rejected.get("damaged_line", 0) + self._damaged}
            self._damaged = 0
        return RawTick(
            line.target,
            Unix(line.time),
            Monotonic(line.clock),
            line.interval,
            layout,
            values,
            rejected,
            epoch=line.epoch,
        )


class _Line(BaseModel):
    model_config = ConfigDict(strict=True)


class _TickLine(_Line):
    tick: str
    target: str
    time: FiniteFloat
    clock: FiniteFloat
    interval: _Seconds
    values: list[FiniteFloat | str | tuple[Literal["nan", "inf", "-inf"]] | None]
    rejected: dict[str, int] = {}
    epoch: Epoch = UNKNOWN_EPOCH


class _LayoutLine(_Line):
    layout: str
    target: str
    dialect: Dialect
    labels: list[dict[str, str]]
    series: list[tuple[str, NonNegativeInt]]
    help: dict[str, str] = {}
    types: dict[str, str] = {}
    decimals: Annotated[int, Field(ge=0, le=15)] | None = None


class _FormatLine(_Line):
    pulsed_record: int


_SESSION_LINE = TypeAdapter(Session)

_KINDS = ("tick", "layout", "pulsed_record")
_MARKS = {kind: f'{{"{kind}":'.encode() for kind in _KINDS}
