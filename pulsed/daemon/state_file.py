"""The file in `state_dir` that keeps the state of all parts over a restart, and the lock of that folder.

The file never stops the daemon: a broken one is set aside. What its sections mean is known to the parts; this only
brings them to disk and back, whole or not at all. Two daemons do not share the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pulsed.errors import PulsedError
from pulsed.json_text import json_bytes
from pulsed.regular_file import FOLDER_MODE, FileTooLarge, NotRegular, open_regular, read_regular, replace_file

log = logging.getLogger(__name__)

LOCK_FILE = "lock"
"""Its content, process id and host name, is for an error message only."""

_LOCK_MODE = 0o644
_WRITABLE_BY_ALL = 0o002

FILE_NAME = "state.json"
VERSION = 1

MAX_BYTES = 16 * 1024 * 1024
"""A larger file was not written by pulsed."""

CONTENT = "state"
"""Name of the content, for the log."""


class StateFolderInUse(PulsedError):
    """Another daemon uses the same `state_dir`."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder and keep other daemons out of it; the system ends the lock with the process, however that ends.

    Where the folder cannot be locked, as on some network file systems, that is logged.

    Raises:
        StateFolderInUse: another process has the lock.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            if folder.stat().st_mode & _WRITABLE_BY_ALL:
                log.warning("all users can change the files in state_dir; run chmod o-w", extra={"path": str(folder)})
            descriptor = _open(folder / LOCK_FILE)
            stack.callback(os.close, descriptor)
            _lock(descriptor, folder)
        except OSError as error:
            log.warning(
                "state_dir cannot be locked; make sure that no other pulsed uses it",
                extra={"path": str(folder), "error": str(error)},
            )
        yield


def _open(path: Path) -> int:
    """Open the lock file. One of another user, or on a disk that cannot be written, can be locked without writing."""
    try:
        return open_regular(path, os.O_RDWR | os.O_CREAT, _LOCK_MODE, follow_links=False)
    except OSError:
        return open_regular(path, follow_links=False)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StateFolderInUse(
            f"state_dir: {folder} is in use by {_holder(descriptor)}",
            "End that process, or set another state_dir: each daemon needs its own",
        ) from None
    with contextlib.suppress(OSError):  # a full disk
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)


def _holder(descriptor: int) -> str:
    pid, _, host = os.pread(descriptor, 512, 0).decode(errors="replace").strip().partition(" ")
    if not pid.isdecimal():
        return "another process"
    return f"process {pid}" + (f" on {host}" if host.isprintable() and host != socket.gethostname() else "")


class WriteStatus:
    """Whether a file is written; its changes are logged.

    Args:
        path: of the file, for the log.
        content: name of the content, for the log.

    Attributes:
        name: of the file.
        is_failing: whether the last write failed.
    """

    def __init__(self, path: Path, content: str) -> None:
        self._path, self._content = path, content
        self.name = path.name
        self.is_failing = False

    def failed(self, error: Exception) -> None:
        """Note that a write failed."""
        if not self.is_failing:
            log.warning(f"{self._content} cannot be saved", extra={"path": str(self._path), "error": str(error)})
        self.is_failing = True

    def succeeded(self) -> None:
        """Note that a write succeeded."""
        if self.is_failing:
            log.info(f"{self._content} can be saved again", extra={"path": str(self._path)})
        self.is_failing = False


class Draft(NamedTuple):
    """Sections to be written, with their number in the order in which they were made."""

    number: int
    sections: Mapping[str, object]


class StateFile:
    """A JSON document of sections by name. A symbolic link in its place is not followed.

    Drafts are made in the event loop, and may be written in a thread.

    Args:
        folder: where; it is made when it is missing.

    Attributes:
        status: whether the file is written.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self.status = WriteStatus(self._path, CONTENT)
        self._lock = threading.Lock()
        self._made = self._written = 0

    def load(self) -> Mapping[str, object]:
        """Return the sections; none if the file is missing, broken, not regular or of another version.

        One that is not usable is set aside.
        """
        try:
            document = json.loads(read_regular(self._path, MAX_BYTES, follow_links=False))
            if not isinstance(document, dict) or not isinstance(sections := document.get("sections"), dict):
                raise ValueError("not a state file: it has no sections")
            if document.get("version") != VERSION:
                raise ValueError(f"version {document.get('version')!r} instead of {VERSION}")
        except FileNotFoundError:
            return {}
        except (NotRegular, FileTooLarge, ValueError, RecursionError) as error:  # not JSON, or not UTF-8: a ValueError
            self.set_aside(str(error))
            return {}
        except OSError as error:
            log.warning(f"{CONTENT} cannot be read", extra={"path": str(self._path), "error": str(error)})
            return {}
        return sections

    def draft(self, sections: Mapping[str, object]) -> Draft:
        """Return the next document to be written."""
        self._made += 1
        return Draft(self._made, sections)

    def save(self, draft: Draft) -> bool:
        """Write the file atomically: a reader finds the old one or the new one, even after a power cut.

        Returns:
            Whether this document or a later one is written. A failure is logged once, until a write succeeds.
        """
        with self._lock:  # the write before may still run in its thread, or wait for one, when pulsed ends
            if draft.number < self._written:
                return True
            try:
                content = json_bytes({"version": VERSION, "sections": draft.sections})
                self._path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
                replace_file(self._path, content)
            except OSError as error:
                self.status.failed(error)
                return False
            self.status.succeeded()
            self._written = draft.number
            return True

    def set_aside(self, reason: str) -> None:
        """Rename the file to `.broken`; log the reason."""
        aside = self._path.with_name(self._path.name + ".broken")
        try:
            self._path.replace(aside)
        except OSError as failure:
            log.warning(
                f"{CONTENT} was broken and cannot be set aside",
                extra={"path": str(self._path), "error": str(failure)},
            )
            return
        log.warning(f"{CONTENT} was broken and is set aside", extra={"path": str(aside), "error": reason})
