"""What the stand-in's process does with its streams, its signals and its end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from typing import NoReturn

from tests.support.standin.home import Home

STDOUT, STDERR = 1, 2


class _Woken(Exception):
    """A signal came during a sleep that signals cut short."""


class Process:
    """This process.

    Attributes:
        is_stopping: whether a first SIGINT came after `stop_on_interrupt`.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self.is_stopping = False
        self._is_asleep = False
        self._ignored: frozenset[int] = frozenset()

    def write(self, text: str | bytes, stream: int = STDOUT) -> None:
        """Write at once, as DCGM flushes."""
        rest = text.encode() if isinstance(text, str) else text
        while rest:
            rest = rest[os.write(stream, rest) :]

    def leave(self, status: int) -> NoReturn:
        """Exit without a word; `status` may be one of DCGM's negative results."""
        self._home.log_end(status & 255)
        os._exit(status & 255)

    def fail(self, text: str, status: int, stream: int = STDERR) -> NoReturn:
        """Print an error and exit."""
        self.write(text, stream)
        self.leave(status)

    def ignore(self, names: Iterable[str]) -> None:
        """From now on ignore these signals, and only these."""
        numbers = frozenset(signal.Signals[f"SIG{name}"].value for name in names)
        for number in numbers - self._ignored:
            signal.signal(number, signal.SIG_IGN)
        for number in self._ignored - numbers:
            signal.signal(number, self._interrupted if number == signal.SIGINT else self._exit)
        self._ignored = numbers

    def stop_on_interrupt(self) -> None:
        """The first SIGINT only sets `is_stopping`, and a second does nothing."""
        if signal.SIGINT not in self._ignored:
            signal.signal(signal.SIGINT, self._interrupted)

    def sleep(self, seconds: float, until_signal: bool = False) -> None:
        """Sleep the whole time, or until SIGINT."""
        if not until_signal:
            time.sleep(seconds)
            return
        try:
            self._is_asleep = True
            if not self.is_stopping:
                time.sleep(seconds)
        except _Woken:
            pass
        finally:
            self._is_asleep = False

    def _interrupted(self, number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        self.is_stopping = True
        if self._is_asleep:
            raise _Woken

    def _exit(self, number: int, frame: object) -> None:
        os._exit(128 + number)
