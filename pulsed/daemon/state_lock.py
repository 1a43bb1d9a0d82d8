"""The lock of `state_dir`: two daemons do not share the folder."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from pulsed.errors import PulsedError
from pulsed.regular_file import FOLDER_MODE, open_regular

log = logging.getLogger(__name__)

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
