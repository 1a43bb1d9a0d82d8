"""Regular files, for folders that others may write to, and for disks that may be full; and whether files have changed.

Opening never waits: a FIFO or device in place of a file is an error. Reading is limited, and what is written is there
as a whole or not at all. All errors are OSErrors with a `strerror`. Must not import any layer.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

STATE_MODE = 0o640
"""Files of pulsed's own are for its user and group: accounts have the names of users."""

FOLDER_MODE = 0o750

_OTHER_KIND = (errno.ELOOP, errno.ENXIO, errno.EISDIR)
"""Errors of opening a link that is not followed, a socket, and a directory."""


class NotRegular(OSError):
    """A path is a directory, FIFO, device or socket, or a link where links are not followed."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(errno.EINVAL, "not a regular file", str(path))


class FileTooLarge(OSError):
    """A file is larger than its reader allows."""

    def __init__(self, path: str | Path, limit: int) -> None:
        super().__init__(errno.EFBIG, f"larger than {limit} bytes", str(path))


def open_regular(
    path: str | Path, flags: int = os.O_RDONLY, mode: int = STATE_MODE, *, follow_links: bool = True
) -> int:
    """Return a descriptor of a regular file.

    Args:
        flags, mode: as for `os.open`.
        follow_links: whether the last part of the path may be a symbolic link.

    Raises:
        NotRegular: it is something else.
        OSError: it cannot be opened.
    """
    flags |= os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (0 if follow_links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags, mode)
    except OSError as error:
        if error.errno in _OTHER_KIND:
            raise NotRegular(path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegular(path)
    return descriptor


def text_of(path: Path, limit: int = -1) -> str:
    """Return what a file of the kernel has, at most `limit` characters; empty if unreadable, as of a removed device."""
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            return file.read(limit).strip()
    except OSError:
        return ""


def read_regular(path: str | Path, limit: int, *, follow_links: bool = True) -> bytes:
    """Return the content of a regular file.

    Raises:
        NotRegular, FileTooLarge: it is something else, or has more than `limit` bytes.
        OSError: it cannot be read.
    """
    with open(open_regular(path, follow_links=follow_links), "rb") as file:
        size = os.fstat(file.fileno()).st_size  # Python reserves as much memory as it is asked to read
        content = file.read(min(size, limit) + 1)
    if len(content) > limit:
        raise FileTooLarge(path, limit)
    return content


_BLOCK_BYTES = 256 * 2**10
_MAX_LINE_BYTES = 4 * 2**20


def lines_from_end(path: str | Path) -> Iterator[bytes]:
    """Yield the lines of a regular file that is not a link, the last one first; in memory is one line, and a block.

    Raises:
        NotRegular, FileTooLarge: it is something else, or has a line of more than 4 MiB.
        OSError: it cannot be read.
    """
    with open(open_regular(path, follow_links=False), "rb") as file:
        end, rest = os.fstat(file.fileno()).st_size, b""
        while end > 0:
            begin = max(0, end - _BLOCK_BYTES)
            file.seek(begin)
            first, *lines = (file.read(end - begin) + rest).split(b"\n")
            yield from reversed(lines)
            end, rest = begin, first
            if len(rest) > _MAX_LINE_BYTES:
                raise FileTooLarge(path, _MAX_LINE_BYTES)
        yield rest


def write_all(descriptor: int, data: bytes) -> None:
    """Write data, in several steps if the system takes a part of it only; raises OSError."""
    rest = memoryview(data)
    while rest:
        if not (written := os.write(descriptor, rest)):
            raise OSError(errno.EIO, "the system accepts no more bytes")
        rest = rest[written:]


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically: a reader finds the old one or the new one, even after a power cut.

    Raises:
        OSError: it cannot be written; the old one is unchanged.
    """
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)  # of a process that was killed
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, STATE_MODE)
    try:
        try:
            write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):  # a partial file would occupy space on a full disk
            temporary.unlink()
        raise


def append_lines(path: Path, lines: bytes) -> None:
    """Add whole lines to a file, or make it. A last line without an end, as of a power cut, is ended first.

    Raises:
        OSError: they cannot be written; the file is as before.
    """
    descriptor = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, STATE_MODE, follow_links=False)
    try:
        size = os.fstat(descriptor).st_size
        is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        try:
            write_all(descriptor, b"\n" * is_torn + lines)
            os.fsync(descriptor)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def why_not_writable(folder: str | Path) -> str:
    """Return why this user cannot make files in a folder, which is made if it is missing; empty if it can."""
    path = Path(folder).absolute()
    there = next(each for each in (path, *path.parents) if os.path.lexists(each))
    missing = "" if there == path else f"{path} does not exist, and "
    if not there.is_dir():
        return f"{missing}{there} is not a folder"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"{missing}{there} cannot be written to"


def is_readable_by_all(path: str | Path) -> bool:
    """Return whether the mode of a file lets all users read it; False without a file."""
    try:
        return bool(os.stat(path).st_mode & stat.S_IROTH)
    except (OSError, ValueError):
        return False


WATCH_SECONDS = 1.0
"""Seconds between two calls of `FileWatcher.has_changed`."""

Signature = tuple[int, int, int] | None
"""Modification time, size and inode of a file; None without a file."""


class FileWatcher:
    """Detects files that have changed and then stayed the same for one interval.

    A writer may not be done at the first look, and a certificate and its key are two files. Links are followed:
    Kubernetes changes a ConfigMap by replacing a link.
    """

    def __init__(self, files: Sequence[str | Path]) -> None:
        self.watch(files)

    def watch(self, files: Sequence[str | Path]) -> None:
        """Watch these files from now on; their present state is not a change."""
        self._files = tuple(files)
        self._known = self._seen = self._signatures()

    def has_changed(self) -> bool:
        """Return whether a file has changed since the last true answer, and not since the last call."""
        now = self._signatures()
        is_settled, self._seen = now == self._seen, now
        if not is_settled or now == self._known:
            return False
        self._known = now
        return True

    def _signatures(self) -> tuple[Signature, ...]:
        return tuple(_signature(name) for name in self._files)


def _signature(name: str | Path) -> Signature:
    try:
        status = os.stat(name)
    except (OSError, ValueError):  # a name with a zero byte
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
