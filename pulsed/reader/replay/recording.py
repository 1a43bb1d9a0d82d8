"""Recordings: detects their format by their first lines, and opens their files, gzipped or not."""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Literal, cast

from pulsed.errors import BadCapture
from pulsed.reader.dmon.parser import message_of
from pulsed.reader.record_lines import SESSION_MARK
from pulsed.regular_file import open_regular

Recording = Literal["dmon", "page", "folder", "record"]
"""What can be replayed."""

BROKEN_FILE = (OSError, EOFError, zlib.error)
"""What reading a file may raise; EOFError and zlib.error: gzip data that is cut off or damaged."""

MAX_LINE_LENGTH = 64 * 1024
"""Characters after which a line is taken for two."""

BREATH = 1000
"""Lines without a tick after which other tasks may run."""

REMEDY = "Give a record of `pulsed record`, a capture of dcgmi dmon, a saved page, or a folder of such pages"
DMON_REMEDY = "Correct what it names, or run `pulsed doctor`, then capture again"

_HEAD = 64 * 1024  # characters that must show what a file is; dmon's longest banner has less than one thousand
_RECORD = re.compile(rf"^{re.escape(SESSION_MARK)}", re.MULTILINE)
_HEADER = re.compile(r"^[ \t]*#[ \t]*Entity", re.MULTILINE)
_ROW = re.compile(r"^[ \t]*(?:GPU|GPU-I|GPU-CI|vGPU|Switch|LINK|CPU|CPU Core|CX)[ \t]*\d+[ \t]+\S", re.MULTILINE)
_PAGE = re.compile(r"^(?:# (?:HELP|TYPE) \S|[A-Za-z_:][\w:]*\{.*\}\s*\S)", re.MULTILINE)
_CSV = re.compile(r"\A\ufeff?(?:[a-z0-9_]+,)*(?:time|timestamp|gpu|gpu_id|uuid)(?:,[a-z0-9_]+)*\r?\n?$", re.MULTILINE)
_NATURAL = re.compile(r"(\d+)")


def recording_type(path: Path, columns: Sequence[str] = ()) -> Recording:
    """Find out what a path is by its first lines.

    Args:
        columns: short names of a capture that has no header.

    Raises `BadCapture` if it is nothing that can be replayed; the message names what it is.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            if pages_of(path):
                return "folder"
            raise BadCapture(f"{path} is a folder without files", REMEDY)
        if not stat.S_ISREG(mode):
            raise BadCapture(f"{path} is not a regular file", REMEDY)
        with open_text(path) as file:
            head = _read_head(file)
    except BROKEN_FILE as error:
        raise unreadable(path, error) from error
    except ValueError as error:  # a zero byte in the path
        raise BadCapture(f"{path!s} is not a path: {error}", REMEDY) from error
    if not head.strip():
        raise BadCapture(f"{path} is empty", REMEDY)
    if "\0" in head:
        raise BadCapture(f"{path} is a binary file", REMEDY)
    if _RECORD.search(head):
        return "record"
    if _HEADER.search(head):
        return "dmon"
    if _PAGE.search(head):
        return "page"
    return _look_at_headerless(path, head, columns)


def _look_at_headerless(path: Path, head: str, columns: Sequence[str]) -> Recording:
    messages = [message for line in head.splitlines() if (message := message_of(line)) is not None]
    if messages:
        raise BadCapture(f"{path} is a dcgmi dmon capture without data: {messages[0].text}", DMON_REMEDY)
    if _ROW.search(head):
        if columns:
            return "dmon"
        raise BadCapture(
            f"{path} looks like a dcgmi dmon capture without its header",
            "Name its columns in source.replay.columns, as in [GPUTL, POWER]",
        )
    if _CSV.search(head):
        raise BadCapture(f"{path} is a CSV file, which has no raw samples", "Replay takes what `pulsed record` writes")
    if head.lstrip().startswith("<"):
        raise BadCapture(f"{path} is an HTML or XML file", REMEDY)
    first = head.strip().splitlines()[0][:80]
    raise BadCapture(f"{path} is not a capture; it begins with {first!r}", REMEDY)


def pages_of(folder: Path) -> list[Path]:
    """Return the files of a folder in natural order (`page-9` before `page-10`), hidden ones left out."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_file() and not entry.name.startswith(".")]
    except OSError as error:
        raise unreadable(folder, error) from error
    return [folder / name for name in sorted(names, key=_natural)]


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    parts = _NATURAL.split(name)  # text and digits in turn
    return [(int(part), "") if n % 2 else (0, part) for n, part in enumerate(parts)], name


def open_bytes(path: Path) -> BinaryIO:
    """Open a regular file, unpacking it if it is gzipped."""
    file = io.FileIO(open_regular(path))
    is_zipped = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    if not is_zipped:
        return io.BufferedReader(file)
    unpacked = gzip.GzipFile(fileobj=file)
    unpacked.myfileobj = file  # closed with it
    return cast("BinaryIO", unpacked)


def open_text(path: Path) -> io.TextIOWrapper:
    """Open a file as text, unpacking it if it is gzipped; bytes that are not UTF-8 become replacement characters."""
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8", errors="replace")


def _read_head(file: io.TextIOWrapper) -> str:
    """Return the first lines, whole; of gzip data that is cut off early, what there is."""
    head, size = [], 0
    try:
        while size < _HEAD and (line := file.readline(MAX_LINE_LENGTH)):
            head.append(line)
            size += len(line)
    except EOFError:
        if not head:
            raise
    return "".join(head)


def unreadable(path: Path, error: Exception) -> BadCapture:
    """Return the typed error for what reading the file raised."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return BadCapture(f"cannot read {path}: {reason}", "It must exist, and pulsed's user must be allowed to read it")
