"""The file that a record is written to: continued and never overwritten, gzipped or not, good whenever it breaks off.

Gzip data is flushed so that all of it can be read again at any time, and comes in members of a few MiB: only the last
one has to be looked at to mend a file whose writer was killed. This module handles bytes, not their meaning.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import stat
import struct
import sys
import zlib
from dataclasses import dataclass
from typing import Protocol

from pulsed.errors import PulsedError

STDOUT = "-"
"""The name of no file: records go to stdout."""

MEMBER_BYTES = 4 * 2**20
"""Text after which a gzip member is ended and another begun."""

TAIL_BYTES = 16 * 2**20  # more than a member and what is added to it at once take when packed
_DEFLATE, _RAW = 8, -15
# RFC 1952: magic, deflate, no flags, no time, no hint, unknown system. Fixed, so that members are found by it.
_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_TRAILER = struct.Struct("<II")  # CRC-32 and size of the text
_FLUSHED = b"\x00\x00\xff\xff"  # how data ends that was flushed with Z_SYNC_FLUSH
_LAST_BLOCK = b"\x03\x00"  # an empty last block, in its place behind a flush


class RecordFailed(PulsedError):
    """A record cannot be written, or there is nothing to write."""


class RecordFile(Protocol):
    """Where lines go. One call of `write` is on disk as a whole, or the disk is full."""

    def write(self, lines: bytes) -> None:
        """Add whole lines.

        Raises:
            RecordFailed: they cannot be written, wholly or in part; the file is closed then.
            BrokenPipeError: the reader has closed the pipe.
        """

    def flush(self) -> None:
        """Let everything written so far be readable for others. Raises like `write`."""

    def close(self) -> None:
        """End the data properly and let go of the file. Raises like `write`; safe to call twice."""


def open_record(name: str) -> RecordFile:
    """Open a file to add to, or make it. Gzipped if it is so already, or new and named `.gz`.

    What an interrupted writer left is made whole first: an unfinished line is ended, gzip data closed. Nothing that can
    be read in the file is taken away.

    Args:
        name: path, or `-` for stdout.

    Raises `RecordFailed` if the file cannot be opened or continued, or another process records into it.
    """
    if name == STDOUT:
        return _Plain(io.FileIO(sys.stdout.fileno(), "w", closefd=False), "standard output")
    try:
        return _open(name)
    except OSError as error:
        raise RecordFailed(
            f"cannot write {name}: {error.strerror or error}",
            "Name a file in a folder that exists and that pulsed's user may write to",
        ) from error
    except ValueError as error:  # a zero byte in the name
        raise RecordFailed(f"{name!r} is no path: {error}", "Give another name") from error


def _open(name: str) -> RecordFile:
    regular = not os.path.exists(name) or stat.S_ISREG(os.stat(name).st_mode)
    raw = io.FileIO(
        os.open(name, os.O_CREAT | (os.O_RDWR if regular else os.O_WRONLY), 0o666), "r+" if regular else "w"
    )
    try:
        if not regular:  # a pipe or a device
            return _Zipped(raw, name) if name.endswith(".gz") else _Plain(raw, name)
        try:
            fcntl.flock(raw.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecordFailed(f"another process records into {name}", "Give another name, or end that one") from None
        size = raw.seek(0, os.SEEK_END)
        zipped = name.endswith(".gz") if not size else _HEAD.startswith(os.pread(raw.fileno(), 2, 0))
        if not zipped:
            if size and os.pread(raw.fileno(), 1, size - 1) != b"\n":
                _write_all(raw, b"\n", name)
            return _Plain(raw, name)
        return _Zipped(raw, name, _mend(raw, name) if size else b"")
    except BaseException:
        raw.close()
        raise


class _Plain:
    def __init__(self, raw: io.FileIO, name: str) -> None:
        self._raw, self._name = raw, name

    def write(self, lines: bytes) -> None:
        _write_all(self._raw, lines, self._name)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self._raw.close()


class _Zipped:
    """Packs lines until the next flush, which writes them in one go.

    Args:
        text: what the first member begins with.
    """

    def __init__(self, raw: io.FileIO, name: str, text: bytes = b"") -> None:
        self._raw, self._name = raw, name
        self._packed = bytearray()
        self._waiting = False  # whether text has been added since the last flush
        self._begin()
        if text:
            self.write(text)
            self.flush()

    def _begin(self) -> None:
        self._deflate = zlib.compressobj(method=_DEFLATE, wbits=_RAW)
        self._crc = self._size = 0

    def write(self, lines: bytes) -> None:
        if not self._size:
            self._packed += _HEAD
        self._packed += self._deflate.compress(lines)
        self._crc, self._size = zlib.crc32(lines, self._crc), self._size + len(lines)
        self._waiting = True
        if self._size >= MEMBER_BYTES:
            self._finish()

    def flush(self) -> None:
        if self._waiting:
            self._packed += self._deflate.flush(zlib.Z_SYNC_FLUSH)
            self._put()

    def close(self) -> None:
        if self._raw.closed:
            return
        try:
            if self._size:
                self._finish()
        finally:
            self._raw.close()

    def _finish(self) -> None:
        self._packed += self._deflate.flush(zlib.Z_FINISH) + _trailer(self._crc, self._size)
        self._begin()
        self._put()

    def _put(self) -> None:
        packed, self._packed, self._waiting = bytes(self._packed), bytearray(), False
        _write_all(self._raw, packed, self._name)


@dataclass(frozen=True, slots=True)
class _Member:
    """What the last member of a gzip file needs to be whole.

    Attributes:
        keep: bytes of it that are good.
        add: what must follow them.
        beyond: text behind these bytes that could still be read.
        ends_line: whether all of its text, with what is beyond, surely ends a line.
    """

    keep: int
    add: bytes
    beyond: bytes
    ends_line: bool


def _mend(raw: io.FileIO, name: str) -> bytes:
    """Make a gzip file end with a whole member; returns the text that the next one must begin with."""
    size = raw.seek(0, os.SEEK_END)
    begin = max(0, size - TAIL_BYTES)
    tail = os.pread(raw.fileno(), size - begin, begin)
    start = tail.rfind(_HEAD)
    if start < 0:
        if begin == 0 and _HEAD.startswith(tail):  # killed at its very first bytes
            raw.truncate(0)
            raw.seek(0)
            return b""
        raise RecordFailed(f"{name} was not gzipped by pulsed and cannot be continued", "Record into another file")
    try:
        member = _examine(tail[start:])
    except zlib.error as error:
        raise RecordFailed(f"{name} is damaged and cannot be continued: {error}", "Record into another file") from error
    raw.truncate(begin + start + member.keep)
    raw.seek(0, os.SEEK_END)
    if member.add:
        _write_all(raw, member.add, name)
    return member.beyond + (b"" if member.ends_line else b"\n")


def _examine(member: bytes) -> _Member:
    """Return how much of the last member is good.

    Raises:
        zlib.error: it is damaged otherwise than by being cut off.
    """
    packed = member[len(_HEAD) :]
    inflate = zlib.decompressobj(_RAW)
    text = inflate.decompress(packed)
    ends_line = text.endswith(b"\n")
    if inflate.eof:
        keep, trailer = len(member) - len(inflate.unused_data), _trailer(zlib.crc32(text), len(text))
        rest = inflate.unused_data
        if trailer.startswith(rest):
            return _Member(keep, trailer, b"", ends_line)
        if rest.startswith(trailer) and _HEAD.startswith(rest[len(trailer) :]):
            return _Member(keep + len(trailer), b"", b"", ends_line)
        raise zlib.error("its checksum is wrong, or something else follows")
    end = len(packed)
    while (end := packed.rfind(_FLUSHED, 0, end)) >= 0:
        inflate = zlib.decompressobj(_RAW)
        with contextlib.suppress(zlib.error):  # the same four bytes amid packed text
            flushed = inflate.decompress(packed[: end + len(_FLUSHED)] + _LAST_BLOCK)
            if inflate.eof and not inflate.unused_data:
                keep = len(_HEAD) + end + len(_FLUSHED)
                add = _LAST_BLOCK + _trailer(zlib.crc32(flushed), len(flushed))
                return _Member(keep, add, text[len(flushed) :], ends_line)
        end += len(_FLUSHED) - 1
    return _Member(0, b"", text, ends_line)


def _trailer(crc: int, size: int) -> bytes:
    return _TRAILER.pack(crc, size & 0xFFFFFFFF)


def _write_all(raw: io.FileIO, data: bytes, name: str) -> None:
    rest = memoryview(data)
    try:
        while rest:
            written = raw.write(rest)
            if written is None:
                raise BlockingIOError("it takes no more for now")
            rest = rest[written:]
    except OSError as error:
        raw.close()  # behind a part of it nothing else may follow
        if isinstance(error, BrokenPipeError):
            raise
        raise _failed(name, error) from error


def _failed(name: str, error: OSError) -> RecordFailed:
    return RecordFailed(
        f"cannot write {name}: {error.strerror or error}",
        "Make room, or record into another file; what was recorded before can be replayed",
    )
