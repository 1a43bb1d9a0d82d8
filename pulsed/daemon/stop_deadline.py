"""The end of the daemon within a time, also while a call to a disk, a driver or a resolver hangs in a thread."""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
from pathlib import Path

log = logging.getLogger(__name__)

STOP_SECONDS = 8.0
"""Seconds from the signal until the process ends; Docker kills after 10."""

THREAD_SECONDS = 1.0
"""Seconds that threads have to end once everything is saved."""

_PACKAGE = str(Path(__file__).parents[1])


class StopDeadline:
    """Ends the process when stopping takes too long; the log then names the calls that have not returned.

    Python waits for its threads at exit, and a call to a hung file system returns only with that file system.
    """

    def __init__(self) -> None:
        self._is_saved = threading.Event()
        self._is_started = False

    def start(self) -> None:
        """Start the time; further calls have no effect."""
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._wait, name="stop deadline", daemon=True).start()

    def saved(self) -> None:
        """Note that everything is saved: threads that still run do not matter any more."""
        self._is_saved.set()

    def _wait(self) -> None:
        if self._is_saved.wait(STOP_SECONDS):
            threading.Event().wait(THREAD_SECONDS)
            log.warning("ended while calls had not returned", extra={"calls": running_calls()})
            os._exit(0)
        log.error(
            f"ended {STOP_SECONDS:g} s after the signal, while calls had not returned; what state_dir lacks is lost",
            extra={"calls": running_calls()},
        )
        os._exit(1)


def running_calls() -> str:
    """Return what the other threads do: the innermost line of pulsed of each, and the function that it is in."""
    calls = []
    for thread, frame in sys._current_frames().items():
        if thread == threading.get_ident():
            continue
        own = [each for each in traceback.extract_stack(frame) if each.filename.startswith(_PACKAGE)]
        if own:
            place = Path(own[-1].filename).relative_to(_PACKAGE)
            calls.append(f"{own[-1].name} ({place}:{own[-1].lineno}: {own[-1].line})")
    return ", ".join(calls) or "none of pulsed's own"
