"""The file in `state_dir` that keeps the state of all parts over a restart.

It never stops the daemon: a broken file is set aside. What its sections mean is known to the parts; this only brings
them to disk and back, whole or not at all.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pulsed.json_text import json_bytes
from pulsed.regular_file import FOLDER_MODE, FileTooLarge, NotRegular, read_regular, replace_file

log = logging.getLogger(__name__)

FILE_NAME = "state.json"
VERSION = 1

MAX_BYTES = 64 * 1024 * 1024
"""A larger file was not written by pulsed."""

CONTENT = "state"
"""What is in the file, for the log."""


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
        """Write the file: a reader finds the old one or the new one, also after a power cut.

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
