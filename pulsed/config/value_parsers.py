"""Functions that parse or check one value of the configuration.

They raise ValueError with a text that continues the value: "'12 parsecs' is not a duration".
"""

from __future__ import annotations

import re
from itertools import pairwise
from urllib.parse import urlsplit

from pulsed.settings import NOT_ALLOWED, is_path, not_empty


def exporter_target(value: str) -> str:
    """Return the URL of an exporter or the name of a saved page."""
    if is_path(value):
        return not_empty(value)
    try:
        parts = urlsplit(value)
        usable = parts.path if parts.scheme == "file" else parts.hostname and parts.port != 0
    except ValueError:  # a bad bracket, or a port that is no number
        raise ValueError("is no URL") from None
    if parts.scheme not in ("http", "https", "file"):
        raise ValueError("does not begin with http:// or https://")
    if not usable:
        raise ValueError("names no host")
    return value


def ascending(value: tuple[float, ...]) -> tuple[float, ...]:
    """Return numbers in ascending order."""
    if any(low >= high for low, high in pairwise(value)):
        raise ValueError("is not in ascending order")
    return value


def xid_code(value: str) -> int:
    """Return the code of an XID; `79.0` is 79."""
    try:
        return int(re.sub(r"\.0*$", "", value.strip()))
    except ValueError:
        raise ValueError(NOT_ALLOWED) from None
