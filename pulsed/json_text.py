"""Documents as JSON that every parser accepts. Must not import any layer."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, TextIO

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def json_text(document: object) -> str:
    """Return a document as compact JSON; numbers that JSON cannot represent are null.

    Infinity, NaN and integers of thousands of digits are no measurements. One of them must not cost the whole answer.
    """
    try:
        return _encode(document)
    except ValueError:
        return _encode(_representable(document))


def write_json(document: object, file: TextIO) -> None:
    """Write a document as JSON, part by part: other threads run meanwhile. Nothing else is in the file."""
    try:
        json.dump(document, file, separators=(",", ":"), allow_nan=False)
    except ValueError:
        file.seek(0)
        file.truncate()
        json.dump(_representable(document), file, separators=(",", ":"), allow_nan=False)


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
