"""Detection of changed files: configuration, certificates and keys. Must not import any layer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

WATCH_SECONDS = 1.0
"""Seconds between two calls of `FileWatcher.has_changed`."""

Signature = tuple[int, int, int] | None
"""Modification time, size and inode of a file; None if there is none."""


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
        found = os.stat(name)
    except (OSError, ValueError):  # a name with a zero byte
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
