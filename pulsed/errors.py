"""The few errors that pulsed raises on purpose.

Every one says what happened, to what, and what to do about it. This module knows no layer.
"""

from __future__ import annotations

from typing import ClassVar


class PulsedError(Exception):
    """Base of all deliberate errors.

    Attributes:
        remedy: what the reader of the message can do about it, one sentence.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}. {self.remedy}" if self.remedy else message


class ConfigError(PulsedError):
    """A setting is wrong: unknown key, bad value, unreadable file (exit code 2)."""

    exit_code = 2


class UsageError(PulsedError):
    """The command line is wrong (exit code 2)."""

    exit_code = 2


class ListenError(PulsedError):
    """A listen address cannot be taken: port in use, no permission, unknown host."""


class SourceError(PulsedError):
    """A source could not deliver a tick; the daemon counts it by `reason` and tries again.

    Attributes:
        reason: the label value of `pulsed_source_errors_total`, one word per kind of error.
    """

    reason: ClassVar[str] = "other"


class ScrapeFailed(SourceError):
    """An exporter did not answer with a page: refused, timed out, HTTP status, TLS, too large."""

    reason = "scrape_failed"


class BadPage(SourceError):
    """An exporter answered, but with nothing that can be read: an HTML page, an empty body."""

    reason = "bad_page"


class BadCapture(SourceError):
    """A file given to replay is not a capture that pulsed can read."""

    reason = "bad_capture"


class SourceEnded(SourceError):
    """A finite source (a replay without loop) has no more ticks. Not a failure."""

    reason = "ended"
