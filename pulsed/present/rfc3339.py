"""Timestamps in JSON and CSV: RFC 3339 in UTC with milliseconds."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

_LAST = 253402300799.0
"""The end of the year 9999."""

_KEPT = 256
"""Timestamps that are remembered: most of a document are equal."""


@lru_cache(_KEPT)
def rfc3339(seconds: float) -> str:
    """Return Unix seconds as `2026-01-01T00:00:00.100Z`, rounded to the millisecond, and within the years 1970 to 9999.

    Times come from files and other programs, too; a wrong one must not cost the whole answer.
    """
    moment = _EPOCH + timedelta(milliseconds=round(min(max(0.0, seconds), _LAST) * 1000))
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def rfc3339_or_none(seconds: float | None) -> str | None:
    """Return Unix seconds as `rfc3339` does; None if they are None."""
    return None if seconds is None else rfc3339(seconds)


def moment_of(text: str) -> datetime:
    """Return the moment of a timestamp, in UTC."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)
