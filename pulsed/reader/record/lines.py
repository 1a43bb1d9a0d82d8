"""The lines of a record: ticks of any kind of source as NDJSON, and back without loss. No files, no clocks.

One JSON object a line, shown here for one GPU::

    {"pulsed_record":1,"version":"0.1.0","source":"dcgmi","node":"gpu1","started":"2026-01-01T00:00:00.000Z",
     "targets":{"localhost":0.1}}
    {"layout":"5f0c9a1e","target":"localhost","dialect":"dmon","labels":[{"entity":"GPU","id":"0"}],
     "series":[["GPUTL",0],["POWER",0]]}
    {"tick":"5f0c9a1e","target":"localhost","time":1767225600.1,"clock":7.1,"interval":0.1,"values":[97.0,null]}

The first line opens a session, one run of `pulsed record`; a record may have several. `targets` are its sources with
their intervals in seconds. A layout names the values of the ticks that refer to it; a series is a name and the number
of its labels. Layouts may also have `help` and `types` by metric name, ticks `rejected` rows by reason. A value is a
number, a text, null, or what JSON has no number for: `["nan"]`, `["inf"]`, `["-inf"]`.

A reader keeps the last `LAYOUTS_KEPT` layouts of a target, so that neither side grows. It leaves out a line that it
cannot read, because one that was cut by a kill stays in a record that is continued; and an object of a kind that it
does not know, so that format 1 can grow. Layouts are called after what they say: behind lines that were lost, no tick
is ever read by the layout of another.
"""

from __future__ import annotations

import json
import math
import sys
import zlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from pulsed.errors import BadCapture
from pulsed.reader.tick import DIALECTS, Layout, RawTick, RawValue, Series

FORMAT = 1
"""The version of the format, in each session's first line. A greater one cannot be read."""

SESSION_MARK = '{"pulsed_record":'
"""How a session's first line begins, byte for byte; by this a record is recognised."""

LAYOUTS_KEPT = 4
"""Layouts of a target that ticks may refer to: with GPUs that come and go, dmon goes back and forth between a few."""

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_UNREADABLE = (ValueError, TypeError, KeyError, OverflowError, RecursionError)
"""What a line that is no line of a record may raise; OverflowError: a whole number beyond every float."""


@dataclass(frozen=True, slots=True)
class Session:
    """One run of `pulsed record`.

    Attributes:
        version: of the pulsed that recorded.
        source: the kind of source that it read.
        node: the host that it ran on.
        started: when, in RFC 3339.
        targets: what it read, each with its nominal seconds between two ticks.
    """

    version: str
    source: str
    node: str
    started: str
    targets: Mapping[str, float]


class RecordWriter:
    """Writes one session; what to do with the lines is the caller's business.

    Args:
        session: which.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._layouts: dict[str, deque[tuple[Layout, str]]] = {}

    def start(self) -> bytes:
        """The session's first line."""
        session = self._session
        line = {
            "pulsed_record": FORMAT,
            "version": session.version,
            "source": session.source,
            "node": session.node,
            "started": session.started,
            "targets": dict(session.targets),
        }
        return _encode(line).encode() + b"\n"

    def tick(self, tick: RawTick) -> bytes:
        """The line of a tick, behind the line of its layout where that is new."""
        known = self._layouts.setdefault(tick.target, deque(maxlen=LAYOUTS_KEPT))
        name, before = next((name for layout, name in known if layout is tick.layout), ""), b""
        if not name:
            body = _encode({"target": tick.target, **_layout_object(tick.layout)})
            name = f"{zlib.crc32(body.encode()):08x}"
            before = f'{{"layout":"{name}",{body[1:]}\n'.encode()
            known.append((tick.layout, name))
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
    return {"dialect": layout.dialect, "labels": [dict(labels) for labels in numbers], "series": series, **texts}


class RecordReader:
    """Reads the lines of a record in order, of all its sessions."""

    def __init__(self) -> None:
        self._layouts: dict[str, dict[str, Layout]] = {}
        self._damaged = 0

    def feed(self, line: bytes) -> Session | RawTick | None:
        """Take one line, with or without its newline; returns what it says, None if that is not for the caller.

        The same `Layout` object comes with all ticks that were recorded with one. Lines that cannot be read since the
        tick before are among a tick's rejected rows, as `damaged_line`.

        Raises:
            BadCapture: the session is of a later format; does not say which file.
        """
        try:
            return self._read(line)
        except _UNREADABLE:
            self._damaged += 1
            return None

    def _read(self, line: bytes) -> Session | RawTick | None:
        if not line.strip():
            return None
        said = _object(json.loads(line))
        if "pulsed_record" in said:
            session = _session(said)
            self._layouts.clear()
            return session
        if "layout" in said:
            layouts = self._layouts.setdefault(_text(said["target"]), {})
            name = _text(said["layout"])
            layouts.pop(name, None)  # the last one named is the youngest
            layouts[name] = _layout(said)
            if len(layouts) > LAYOUTS_KEPT:
                del layouts[next(iter(layouts))]
        elif "tick" in said:
            return self._tick(said)
        return None

    def _tick(self, said: Mapping[str, object]) -> RawTick:
        target = _text(said["target"])
        layout = self._layouts[target][_text(said["tick"])]
        values = [value if value is None or type(value) is float else _value(value) for value in _list(said["values"])]
        if len(values) != len(layout.series):
            raise ValueError("another number of values than series")
        time, clock, interval = _number(said["time"]), _number(said["clock"]), _seconds(said["interval"])
        rejected = {reason: int(_number(count)) for reason, count in _object(said.get("rejected", {})).items()}
        if self._damaged:
            rejected["damaged_line"] = rejected.get("damaged_line", 0) + self._damaged
            self._damaged = 0
        return RawTick(target, time, clock, interval, layout, values, rejected)


def _session(said: Mapping[str, object]) -> Session:
    if said["pulsed_record"] != FORMAT:
        raise BadCapture(
            f"a record of format {said['pulsed_record']}, and this pulsed reads format {FORMAT}",
            "Replay it with the pulsed that recorded it, or a newer one",
        )
    return Session(
        version=_text(said["version"]),
        source=_text(said["source"]),
        node=_text(said["node"]),
        started=_text(said["started"]),
        targets={target: _seconds(interval) for target, interval in _object(said["targets"]).items()},
    )


def _layout(said: Mapping[str, object]) -> Layout:
    dialect = next((known for known in DIALECTS if known == said["dialect"]), None)
    if dialect is None:
        raise ValueError("unknown dialect")
    # Numbered from 0 by a dictionary, so that a negative number is none.
    labels = dict(enumerate(tuple(_texts(labels).items()) for labels in _list(said["labels"])))
    series = []
    for pair in _list(said["series"]):
        name, number = _list(pair)
        series.append(Series(sys.intern(_text(name)), labels[int(_number(number))]))
    return Layout(dialect, tuple(series), _texts(said.get("help", {})), _texts(said.get("types", {})))


def _value(value: object) -> RawValue:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        (word,) = value
        return float(_text(word))
    return _number(value)


def _number(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(number := float(cast(float, value))):
        raise ValueError("no number")
    return number


def _seconds(value: object) -> float:
    number = _number(value)
    if number <= 0:
        raise ValueError("no time at all")
    return number


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")
    return value


def _texts(value: object) -> dict[str, str]:
    return {key: _text(text) for key, text in _object(value).items()}


def _list(value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise ValueError("no list")
    return value


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value
