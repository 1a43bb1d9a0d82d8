"""Files that a record is added to, whatever an interrupted recorder has left in them."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pulsed.reader.record_file import RecordFailed, open_record
from tools.fuzz.target import FuzzTarget

_FOLDER = Path(tempfile.mkdtemp(prefix="pulsed-fuzz-"))
_MAGIC = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_ADDED = b'{"added":1}\n'


def _read(data: bytes) -> bytes:
    """Return the file once a line was added to it."""
    path = _FOLDER / "record.gz"
    path.write_bytes(data)
    file = open_record(str(path))
    file.write(_ADDED)
    file.close()
    return path.read_bytes()


def _verify(data: bytes, outcome: Any) -> None:
    if isinstance(outcome, RecordFailed):
        assert outcome.remedy
        assert (_FOLDER / "record.gz").read_bytes() == data, "a file that is refused has changed"
        return
    if outcome[:2] != b"\x1f\x8b":
        assert outcome == data + (b"" if data[-1:] in (b"", b"\n") else b"\n") + _ADDED
        return
    before, last = _unpacked(data)
    after, _ = _unpacked(outcome)
    if last == data.rfind(_MAGIC):  # else it is damaged before its last member, which is all that is looked at
        assert after.startswith(before), "what could be read before is gone"
        assert after.endswith(b"\n" + _ADDED if before else _ADDED), "what was added cannot be read"


def _unpacked(data: bytes) -> tuple[bytes, int]:
    """Return as much of gzip data as can be read, and where the last member begins that can be, in part at least."""
    text, begin, inflate = b"", 0, zlib.decompressobj(16 + zlib.MAX_WBITS)
    for at in range(len(data)):
        if inflate.eof:
            begin, inflate = at, zlib.decompressobj(16 + zlib.MAX_WBITS)
        try:
            text += inflate.decompress(data[at : at + 1])
        except zlib.error:
            break
    return text, begin


def _seeds() -> Iterator[bytes]:
    path = _FOLDER / "seed.gz"
    for lines, is_closed in ((1, True), (3, False), (3, True)):
        path.unlink(missing_ok=True)
        file = open_record(str(path))
        for number in range(lines):
            file.write(b'{"tick":%d}\n' % number)
            file.flush()
        packed = path.read_bytes()
        file.close()
        data = path.read_bytes() if is_closed else packed
        yield data
        for cut in (1, 5, 9, 12):
            yield data[:-cut]
    yield data * 2
    path.unlink()
    yield b""
    yield b"{}\n{"


RECORD_FILE = FuzzTarget(
    "record_file", _read, (RecordFailed,), _verify, _seeds, (b"\x1f\x8b\x08", b"\0\0\xff\xff", b"\x03\0")
)
