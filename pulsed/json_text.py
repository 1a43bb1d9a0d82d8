"""Documents as JSON that every parser accepts, and times as text: RFC 3339, and durations for people.

Must not import any layer.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import isfinite
from typing import Any

import orjson


def json_bytes(document: object) -> bytes:
    """Return a document as compact JSON in UTF-8; numbers that JSON cannot represent are null.

    Infinity, NaN and integers of thousands of digits are not measurements. One of them must not fail the whole answer,
    and neither must half a surrogate pair, which UTF-8 does not have: it is escaped.
    """
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError:
        return _encode(document).encode()


def as_text(document: object) -> orjson.Fragment:
    """Return a document as a part of others for `json_bytes`: its text takes a tenth of the memory of its objects."""
    return orjson.Fragment(json_bytes(document))


def _encode(document: object) -> str:
    try:
        return json.dumps(document, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_representable(document), separators=(",", ":"))


def _representable(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: _representable(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [_representable(value) for value in document]
    if isinstance(document, float) and not isfinite(document):
        return None
    if isinstance(document, int) and document.bit_length() > 1024:
        return None
    return document


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_LAST = 253402300799.0
"""The end of the year 9999."""

_KEPT = 256
"""Timestamps that are remembered: most of a document are equal."""


@lru_cache(_KEPT)
def rfc3339(seconds: float) -> str:
    """Return Unix seconds as `2026-01-01T00:00:00.100Z`, rounded to the millisecond, and within the years 1970 to 9999.

    Times also come from files and other programs; a wrong one must not cost the whole answer.
    """
    moment = _EPOCH + timedelta(milliseconds=round(min(max(0.0, seconds), _LAST) * 1000))
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def rfc3339_or_none(seconds: float | None) -> str | None:
    """Return Unix seconds as `rfc3339` does, and None for None."""
    return None if seconds is None else rfc3339(seconds)


def moment_of(text: str) -> datetime:
    """Return the moment of a timestamp, in UTC."""
    return datetime.fromisoformat(text).astimezone(UTC)


def duration_text(seconds: float) -> str:
    """Return a duration as its two largest units: `45 s`, `12 min 30 s`, `4 h`, `3 d 04 h`."""
    whole = round(seconds)
    for size, name, part, part_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {name}" + (f" {rest:02d} {part_name}" if rest else "")
    return f"{whole} s"
