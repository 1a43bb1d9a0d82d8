"""Files that keep state over a restart, and their folder `state_dir`, locked so that two daemons do not share it.

They never stop the daemon: a broken file is set aside. What is in them is of other layers; this only brings it to disk
and back, whole or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import io
import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pulsed.compute.health_evaluator import HealthEvaluator
from pulsed.errors import PulsedError
from pulsed.json_text import write_json
from pulsed.pauses import aligned_sleep
from pulsed.regular_file import FileTooLarge, NotRegular, open_regular, read_regular, replace_file

log = logging.getLogger(__name__)

VERSION = 1

WRITE_SECONDS = 2.0
"""Seconds between two writes of changed health."""

MOST_BYTES = 64 * 1024 * 1024
"""A larger file was not written by pulsed."""

FOLDER_MODE = 0o750


class WriteStatus:
    """Whether a file is written; its changes are logged.

    Args:
        path: of the file, for the log.
        content: what is in it, for the log.

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
            log.warning(f"{self._content} cannot be kept", extra={"path": str(self._path), "error": str(error)})
        self.is_failing = True

    def succeeded(self) -> None:
        """Note that a write succeeded."""
        if self.is_failing:
            log.info(f"{self._content} can be kept again", extra={"path": str(self._path)})
        self.is_failing = False


class Draft(NamedTuple):
    """A document to be written, with its number in the order in which they were made."""

    number: int
    document: Mapping[str, object]


class StateFile:
    """A JSON document on disk. A symbolic link in its place is not followed.

    Documents are made in the event loop, and may be written in a thread.

    Args:
        path: where; the folder is made when it is missing.
        content: what is in it, for the log.
    """

    def __init__(self, path: Path, content: str = "latched health") -> None:
        self.path, self._content = path, content
        self.status = WriteStatus(path, content)
        self._lock = threading.Lock()
        self._made = self._written = 0

    def load(self, accept: Callable[[Mapping[str, object]], None]) -> bool:
        """Read the file and hand over what is in it.

        A file that is broken, not accepted or not regular is renamed to `.broken` and logged. A missing file is normal.

        Args:
            accept: takes the document; raises ValueError if it is not one.

        Returns:
            Whether something was handed over.
        """
        try:
            document = json.loads(read_regular(self.path, MOST_BYTES, follow_links=False))
            if not isinstance(document, dict):
                raise ValueError(f"a {type(document).__name__} instead of an object")
            accept(document)
        except FileNotFoundError:
            return False
        except (NotRegular, FileTooLarge, ValueError, RecursionError) as error:  # not JSON, or not UTF-8: a ValueError
            self._set_aside(error)
            return False
        except OSError as error:
            log.warning(f"{self._content} cannot be read", extra={"path": str(self.path), "error": str(error)})
            return False
        return True

    def draft(self, document: Mapping[str, object]) -> Draft:
        """Return the next document to be written."""
        self._made += 1
        return Draft(self._made, document)

    def save(self, draft: Draft) -> bool:
        """Write the file: a reader finds the old one or the new one, also after a power cut.

        Returns:
            Whether this document or a later one is written. A failure is logged once, until a write succeeds.
        """
        with self._lock:  # the write before may still run in its thread, or wait for one, when pulsed ends
            if draft.number < self._written:
                return True
            try:
                content = io.StringIO()
                write_json(draft.document, content)
                self.path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
                replace_file(self.path, content.getvalue().encode())
            except OSError as error:
                self.status.failed(error)
                return False
            self.status.succeeded()
            self._written = draft.number
            return True

    def _set_aside(self, error: Exception) -> None:
        aside = self.path.with_name(self.path.name + ".broken")
        try:
            self.path.replace(aside)
        except OSError as failure:
            log.warning(
                f"{self._content} was broken and cannot be set aside",
                extra={"path": str(self.path), "error": str(failure)},
            )
            return
        log.warning(f"{self._content} was broken and is set aside", extra={"path": str(aside), "error": str(error)})


_Latched = Mapping[str, Mapping[str, int]]


class SavedHealth:
    """The latches of all targets, by the target's name; `status` is that of the file."""

    def __init__(self, file: StateFile) -> None:
        self._file, self.status = file, file.status
        self._kept: dict[str, Mapping[str, object]] = {}
        self._written: _Latched = {}
        file.load(self._accept)

    def restore(self, target: str, evaluator: HealthEvaluator, now: float) -> None:
        """Restore the saved health of a target, once; what is not valid is logged and dropped.

        Args:
            evaluator: has evaluated nothing yet.
            now: in Unix seconds.
        """
        kept = self._kept.pop(target, None)
        if kept is None:
            return
        try:
            evaluator.restore(kept, now)
        except ValueError as error:
            log.warning("latched health is of no use", extra={"target": target, "error": str(error)})

    def write(self, evaluators: Mapping[str, HealthEvaluator]) -> None:
        """Write the health of all targets if it has changed."""
        self._save(*self._changed(evaluators))

    async def write_regularly(self, evaluators: Callable[[], Mapping[str, HealthEvaluator]]) -> None:
        """Write changed health every `WRITE_SECONDS`, until cancelled.

        Args:
            evaluators: returns the evaluators by the name of their target.
        """
        while True:
            await aligned_sleep(WRITE_SECONDS)
            await asyncio.to_thread(self._save, *self._changed(evaluators()))

    def _changed(self, evaluators: Mapping[str, HealthEvaluator]) -> tuple[_Latched, Draft | None]:
        """Return what shows whether health has changed, and the health of all targets if it has since the last write.

        Targets that are not read now are kept as they were.
        """
        latched = {target: evaluator.latched for target, evaluator in evaluators.items()}
        if latched == self._written:
            return latched, None
        targets = {**self._kept, **{name: evaluator.dump() for name, evaluator in evaluators.items()}}
        return latched, self._file.draft({"version": VERSION, "targets": targets}) if targets else None

    def _save(self, latched: _Latched, draft: Draft | None) -> None:
        """Write the health of targets, if there is any; may be done in a thread."""
        if draft is not None and self._file.save(draft):
            self._written = latched

    def _accept(self, document: Mapping[str, object]) -> None:
        targets = document.get("targets")
        if document.get("version") != VERSION or not isinstance(targets, dict):
            raise ValueError(f"version {document.get('version')!r} instead of {VERSION}")
        self._kept = {name: kept for name, kept in targets.items() if isinstance(kept, dict)}


LOCK_FILE = "lock"
"""Its content, process id and host name, is for an error message only."""

_LOCK_MODE = 0o644
_WRITABLE_BY_ALL = 0o002


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
