"""The file that a record is written to: continued and never overwritten, gzipped or not, good whenever it breaks off.

Each flush of gzip data adds a member of its own, so that all of it can be read again at any time, and only the last
one can be torn. Earlier versions flushed within members of up to 4 MiB. This module handles bytes, not their meaning.
"""

from __future__ import annotations

import fcntl
import io
import os
import stat
import struct
import sys
import zlib

from pulsed.errors import PulsedError

STDOUT = "-"
"""The name of no file: records go to stdout."""

MEMBER_BYTES = 4 * 2**20
"""Text after which a gzip member is ended without waiting for a flush."""

TAIL_BYTES = 16 * 2**20  # more than a member and what is added to it at once take when packed
_RAW, _GZIP = -15, 31  # of zlib's `wbits`
# RFC 1952: magic, deflate, no flags, no time, no hint, unknown system. Fixed, so that members are found by it.
_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


class RecordFailed(PulsedError):
    """A record cannot be written, or there is nothing to write."""


class RecordFile:
    """Target of lines, made by `open_record`. Lines written at once are on disk as a whole, or the disk is full.

    All methods raise `RecordFailed` if lines cannot be written, wholly or in part, and `BrokenPipeError` if the reader
    has closed the pipe; the file is closed then.
    """

    def __init__(self, raw: io.FileIO, name: str, *, zipped: bool) -> None:
        self._raw, self._name, self._zipped = raw, name, zipped
        self._waiting = bytearray()

    def write(self, lines: bytes) -> None:
        """Add whole lines; gzipped ones are kept until the next flush."""
        if not self._zipped:
            self._put(lines)
            return
        self._waiting += lines
        if len(self._waiting) >= MEMBER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Let everything written so far be readable for others."""
        if self._waiting:
            text, self._waiting = bytes(self._waiting), bytearray()
            deflate = zlib.compressobj(wbits=_RAW)
            packed = deflate.compress(text) + deflate.flush()
            self._put(_HEAD + packed + struct.pack("<II", zlib.crc32(text), len(text) & 0xFFFFFFFF))

    def close(self) -> None:
        """Flush, and let go of the file. Safe to call twice."""
        try:
            if not self._raw.closed:
                self.flush()
        finally:
            self._raw.close()

    def _put(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                written = self._raw.write(rest)
                if written is None:
                    raise BlockingIOError("it accepts no more for now")
                rest = rest[written:]
        except BrokenPipeError:
            self._raw.close()
            raise
        except OSError as error:
            self._raw.close()  # behind a part of it nothing else may follow
            raise RecordFailed(
                f"cannot write {self._name}: {error.strerror or error}",
                "Make room, or record into another file; the existing record can be replayed",
            ) from error


def open_record(name: str) -> RecordFile:
    """Open a file to add to, or make it. Gzipped if it is so already, or new and named `.gz`.

    The end of an interrupted record is repaired first: an unfinished line is ended, and the text of a torn gzip member
    written again. No readable content of the file is removed.

    Args:
        name: path, or `-` for stdout.

    Raises `RecordFailed` if the file cannot be opened or continued, or another process records into it.
    """
    if name == STDOUT:
        return RecordFile(io.FileIO(sys.stdout.fileno(), "w", closefd=False), "standard output", zipped=False)
    try:
        return _open(name)
    except OSError as error:
        raise RecordFailed(
            f"cannot write {name}: {error.strerror or error}",
            "Name a file in a folder that exists and that pulsed's user may write to",
        ) from error
    except ValueError as error:  # a zero byte in the name
        raise RecordFailed(f"{name!r} is not a path: {error}", "Use another name") from error


def _open(name: str) -> RecordFile:
    regular = not os.path.exists(name) or stat.S_ISREG(os.stat(name).st_mode)
    flags = os.O_CREAT | (os.O_RDWR if regular else os.O_WRONLY)
    raw = io.FileIO(os.open(name, flags, 0o666), "r+" if regular else "w")
    try:
        if not regular:  # a pipe or a device
            return RecordFile(raw, name, zipped=name.endswith(".gz"))
        try:
            fcntl.flock(raw.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecordFailed(f"another process records into {name}", "Give another name, or end that one") from None
        size = raw.seek(0, os.SEEK_END)
        begin = max(0, size - TAIL_BYTES)
        zipped = name.endswith(".gz") if not size else _HEAD.startswith(os.pread(raw.fileno(), 2, 0))
        file = RecordFile(raw, name, zipped=zipped)
        if zipped:
            good, torn = _examine(os.pread(raw.fileno(), size - begin, begin), name, is_whole=begin == 0)
            raw.truncate(begin + good)
            raw.seek(0, os.SEEK_END)
            file.write(torn)
            file.flush()
        elif size and os.pread(raw.fileno(), 1, size - 1) != b"\n":
            file.write(b"\n")
        return file
    except BaseException:
        raw.close()
        raise


def _examine(tail: bytes, name: str, *, is_whole: bool) -> tuple[int, bytes]:
    """Return how many bytes of a gzip file's tail are whole members, and the text behind them, ended by a line feed.

    Raises `RecordFailed` if the last member is damaged otherwise than by being cut off, or not of a record.

    Args:
        is_whole: whether the tail is all of the file.
    """
    start = tail.rfind(_HEAD)
    if start < 0:
        if is_whole and _HEAD.startswith(tail):  # killed at its very first bytes
            return 0, b""
        raise RecordFailed(f"{name} was not gzipped by pulsed and cannot be continued", "Record into another file")
    inflate = zlib.decompressobj(_GZIP)
    try:
        text = inflate.decompress(tail[start:])
        if not _HEAD.startswith(inflate.unused_data):
            raise zlib.error("something else follows")
    except zlib.error as error:
        raise RecordFailed(f"{name} is damaged and cannot be continued: {error}", "Record into another file") from error
    ending = b"" if text.endswith(b"\n") else b"\n"
    if inflate.eof:
        return len(tail) - len(inflate.unused_data), ending
    return start, text + ending
