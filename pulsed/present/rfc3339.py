"""Timestamps in JSON and CSV: RFC 3339 in UTC with milliseconds."""

from __future__ import annotations

from datetime import datetime, timezone


def rfc3339(seconds: float) -> str:
    """Return Unix seconds as `2026-01-01T00:00:00.100Z`, rounded to the millisecond."""
    moment = datetime.fromtimestamp(round(seconds, 3), timezone.utc)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
