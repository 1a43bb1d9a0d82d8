"""The standard streams of a process that was started without some of them, or whose output cannot be written."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from pulsed.errors import PulsedError


class OutputFailed(PulsedError):
    """Standard output cannot be written."""


def open_standard_streams() -> None:
    """Open `/dev/null` on those of the descriptors 0 to 2 that are closed, so that no file or socket gets their number.

    Standard input is empty then and standard error is discarded. Writing to standard output fails, as it would if it
    were closed.
    """
    for descriptor, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:  # noqa: PERF203 - three
            os.set_inheritable(os.open(os.devnull, flags), True)  # it has the lowest free number
    # Python has None for a stream that was closed when it started.
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


@contextlib.contextmanager
def checked_output() -> Iterator[None]:
    """Let writing to standard output raise `OutputFailed`; discard at the end what it has not taken.

    A reader that has closed a pipe is a BrokenPipeError.
    """
    stream = sys.stdout
    with contextlib.redirect_stdout(cast(TextIO, _Checked(stream))):
        try:
            yield
        finally:
            try:
                stream.flush()
            except OSError:  # Python would try again when it exits
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, stream.fileno())
                os.close(null)


class _Checked:
    """A text stream whose errors are typed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with _typed_errors():
            return self._stream.write(text)

    def writelines(self, lines: Iterator[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with _typed_errors():
            self._stream.flush()


@contextlib.contextmanager
def _typed_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)
        raise OutputFailed(f"standard output cannot be written: {reason}") from error
