"""The output of `dcgmi dmon`: line by line, from a child in pieces, and cut off in the middle of a row."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

from pulsed.errors import SourceError, TooManyGpus
from pulsed.model.raw_tick import RawTick
from pulsed.reader.dcgmi.child import Child
from pulsed.reader.dcgmi.stream import DmonStream
from pulsed.reader.dmon.parser import DmonParser, DmonTick
from pulsed.reader.dmon.tables import is_header
from tests.support.dmon_writer import ABSENT, ERAS, DmonWriter
from tools.fuzz.target import FuzzTarget, pieces, randomness
from tools.fuzz.transport import LOOP

_MAX_GPUS = 16
_MAX_WAITING_TICKS = 64  # ticks that the stream keeps for a reader that is slow
_PLAIN_ROW = re.compile(r"GPU \d(?: +(?:N/A|\d{1,9}|\d{1,9}\.\d{3}))+")


def _read(data: bytes) -> list[DmonTick]:
    return list(_ticks(DmonParser(max_gpus=_MAX_GPUS), data.decode("utf-8", "replace")))


def _ticks(parser: DmonParser, text: str) -> Iterator[DmonTick]:
    *lines, rest = text.split("\n")
    found = [*map(parser.feed, lines), parser.feed_rest(rest), parser.finish()]
    yield from filter(None, found)


class _Child:
    """A `dcgmi` that the test writes for."""

    def __init__(self) -> None:
        self.pid, self.status = 1, 0
        self.stderr: list[str] = []


async def _from_child(written: Iterable[bytes]) -> tuple[list[RawTick], SourceError]:
    """Return the ticks of a child that writes in pieces, faster than pulsed reads, and how its stream ends."""
    callbacks: list[Callable[..., None]] = []

    async def start(command: object, *given: Callable[..., None]) -> _Child:
        callbacks.extend(given)
        return _Child()

    with mock.patch.object(Child, "start", start):
        stream = DmonStream(["dcgmi"], 1.0, _MAX_GPUS, lambda: 1.0, lambda: 1.7e9)
        await stream.start()
    receive, end = callbacks
    for data in written:
        receive(data)
    end()
    found = []
    while True:
        try:
            found.append(await stream.next(60.0))
        except SourceError as error:
            return found, error


def _verify(data: bytes, outcome: Any) -> None:
    found, end = LOOP.run_until_complete(_from_child(pieces(data, randomness(data))))
    if isinstance(outcome, TooManyGpus):
        assert isinstance(end, TooManyGpus), end
        return
    assert [_said(each) for each in found] == [_said(each) for each in outcome[-_MAX_WAITING_TICKS:]], "in pieces"
    for tick in outcome:
        assert len(tick.values) == len(tick.layout.series)
        assert all(math.isfinite(value) for value in tick.values if isinstance(value, float))
    _verify_cut_rows(data)


def _said(tick: DmonTick | RawTick) -> object:
    return tick.layout.series, list(tick.values)


def _verify_cut_rows(data: bytes) -> None:
    """Assert that a row as DCGM prints it, cut at any place, gives no value that the whole row does not have.

    Columns are not compared: where cells are not under their names, the whole row is read by its order.
    """
    header = ""
    for line in data.decode("utf-8", "replace").split("\n"):
        if is_header(line):
            header = line
        elif _PLAIN_ROW.fullmatch(line) and (whole := _only(f"{header}\n{line}\n")) is not None:
            for end in range(len(line)):
                cut = _only(f"{header}\n{line[:end]}")
                assert cut is None or _is_part(cut, whole), f"{line[:end]!r} is read as {cut}"


def _is_part(cut: DmonTick, whole: DmonTick) -> bool:
    return cut.layout.series == whole.layout.series and set(cut.values) <= {None, *whole.values}


def _only(text: str) -> DmonTick | None:
    return next(_ticks(DmonParser(max_gpus=_MAX_GPUS), text), None)


def _seeds() -> Iterator[bytes]:
    for era in ERAS.values():
        writer = DmonWriter(era, [1001, 1002, 155, 203, 50])
        ticks = [
            writer.tick([(f"GPU {gpu}", [0.5, None, 71.25, number, "NVIDIA H100 PCIe"]) for gpu in range(2)])
            for number in range(2)
        ]
        yield (writer.header() + "".join(ticks)).encode()
        numbers = DmonWriter(era, [1001, 155, 203])
        yield (
            numbers.header() + numbers.tick([("GPU 0", [0.5, 71.25, 97]), ("GPU-I 7", [0.25, ABSENT, None])])
        ).encode()
    yield b"Error setting watches. Result: -37: Profiling is held by another process\n"
    yield b"# Entity  GPUTL  POWER\n      Id              W\n    GPU 0     97  71.250\ndmon was stopped.\n"


DMON = FuzzTarget(
    "dmon",
    _read,
    (TooManyGpus,),
    _verify,
    _seeds,
    (
        *(
            b"#Entity  ",
            b"# Entity  ",
            b"ID  ",
            b"GPU 0  ",
            b"GPU-I 7  ",
            b"GPU-CI 1  ",
            b"CPU Core 10",
            b"GPU 0 LINK 1",
        ),
        *(
            b"GPUTL  ",
            b"POWER  ",
            b"DVNAM  ",
            b"N/A  ",
            b"0.500  ",
            b"<<<NULL>>>",
            b"...",
            b"\t",
            b"\n\n",
            b"Result: -37",
        ),
    ),
)
