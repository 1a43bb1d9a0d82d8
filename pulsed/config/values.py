"""Kinds of values that settings of several layers have, and parsers for their own kinds. Must not import any layer."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import urlsplit

from pulsed.config.settings import NOT_ALLOWED, Kind, ListKind
from pulsed.durations import duration, duration_or_none, is_number


def matching(pattern: str, problem: str) -> Callable[[str], str]:
    """Return a check that the whole of a text matches a regular expression."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(problem)
        return value

    return check


def one_of(words: Collection[str], problem: str = NOT_ALLOWED) -> Callable[[object], str]:
    """Return a check that a value is one of some words."""

    def check(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(problem)
        return value

    return check


def whole(least: float = -math.inf, most: float = math.inf) -> Callable[[object], int]:
    """Return a parser of whole numbers within bounds."""

    def parse(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(NOT_ALLOWED)
        return value

    return parse


def number(least: float = -math.inf, most: float = math.inf) -> Callable[[object], float]:
    """Return a parser of finite numbers within bounds."""

    def parse(value: object) -> float:
        if not is_number(value) or not least <= value <= most:
            raise ValueError(NOT_ALLOWED)
        return float(value)

    return parse


def switch(value: object) -> bool:
    """Return whether a value means yes: `true`, 1, or one of YAML 1.1's words."""
    word = value.lower() if isinstance(value, str) else str(int(value)) if value in (0, 1) else ""
    if word not in _SWITCH_WORDS:
        raise ValueError(NOT_ALLOWED)
    return _SWITCH_WORDS[word]


def not_empty(value: str) -> str:
    """Return a text that is not empty."""
    if not value.strip():
        raise ValueError("is empty")
    return value


def size(value: object) -> int:
    """Return the bytes of a size: a whole number, or `64MiB`, `1.5 GB`."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    parts = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
    if parts is None or parts[2] not in _SIZES:
        raise ValueError("is not a size")
    byte_count = int(float(parts[1]) * _SIZES[parts[2]])
    if byte_count < 1:
        raise ValueError("is too small")
    return byte_count


def moment(value: object) -> float:
    """Unix seconds of a time: such seconds, or RFC 3339 as in `2026-01-01T00:00:00Z` (UTC unless it has an offset)."""
    if is_number(value):
        return float(value)
    try:
        when = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", value.strip())) if isinstance(value, str) else None
    except ValueError:
        when = None
    if when is None:
        raise ValueError("is not a time")
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def is_path(target: str) -> bool:
    """Return whether a name denotes a file (`page.prom`), not a URL and not a URL without its scheme."""
    return "://" not in target and not _HOST_AND_PORT.fullmatch(target)


def resolve_path(file: str, name: str) -> str:
    """Return a file name of the configuration file `file`: relative ones start in its folder. URLs are not changed."""
    return os.path.join(os.path.dirname(file), name) if name and is_path(name) else name


http_path = matching(r"/[A-Za-z0-9._~/-]*", "is not a path of a page")


def route_prefix(value: str) -> str:
    """Return a path with a slash at its beginning and none at its end; empty for `/`."""
    return http_path(f"/{value.strip('/')}").rstrip("/")


def external_url(value: str) -> str:
    """Return a URL of scheme, host, port and path, without a slash at its end."""
    try:
        parts = urlsplit(value)
        usable = parts.hostname and parts.port != 0
    except ValueError:  # an invalid bracket or port
        raise ValueError("is not a URL") from None
    if parts.scheme not in ("http", "https") or not usable:
        raise ValueError("does not begin with http:// or https:// and a host")
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError("has more than scheme, host, port and path")
    http_path(parts.path or "/")
    return value.rstrip("/")


_SWITCH_WORDS = dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True)
_SWITCH_WORDS |= dict.fromkeys(("false", "f", "no", "n", "off", "0"), False)
_SIZES = {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d+)?) ?([A-Za-z]*)")
_HOST_AND_PORT = re.compile(r"(.*@)?(\[[^\[\]/@]*\]|[^/:@\s]+):\d+(/.*)?", re.DOTALL)

Switch = Annotated[bool, Kind("boolean", "true, false", switch)]
WholeNumber = Annotated[int, Kind("int", "a whole number", whole())]
Count = Annotated[int, Kind("count", "a whole number, 0 or more", whole(0))]
PositiveCount = Annotated[int, Kind("positive", "a whole number, 1 or more", whole(1))]
Factor = Annotated[float, Kind("number", "a number, 0 or more", number(0))]
Ratio = Annotated[float, Kind("ratio", "a number from 0 to 1", number(0, 1))]
Duration = Annotated[
    float, Kind("duration", "seconds as a number above 0, or a text such as 100ms, 15s, 1m, 1h30m", duration)
]
DurationOrNone = Annotated[
    float,
    Kind("duration or 0", "seconds as a number, 0 or more, or a text such as 100ms, 15s, 1m, 1h30m", duration_or_none),
]
Size = Annotated[int, Kind("size", "bytes as a number, or a text such as 512KiB, 64MiB, 1GB", size)]
Moment = Annotated[float, Kind("time", "Unix seconds, or a text such as 2026-01-01T00:00:00Z", moment)]
Text = Annotated[str, Kind("string", "a text that is not empty", not_empty, "text")]
FileName = Annotated[str, Kind("filename", "the name of a file or folder", not_empty, "file")]
SecretFileName = Annotated[str, Kind("secret file", "the name of a file", not_empty, "file", secret_file=True)]
Secret = Annotated[str, Kind("secret", "a text", str, "text", secret=True)]
HttpPath = Annotated[str, Kind("path", "a path that begins with /, such as /metrics", http_path, "text")]
RoutePrefix = Annotated[str, Kind("prefix", "a path such as /gpu-node-1/pulsed, or /", route_prefix, "text")]
ExternalUrl = Annotated[str, Kind("url", "a URL such as https://example.org/pulsed/", external_url, "text")]
FieldNames = Annotated[
    tuple[str, ...],
    ListKind(
        "names",
        "names of quantities, such as [sm_active_ratio, power_watts]",
        not_empty,
        "text",
        single=False,
        words=True,
        least=1,
    ),
]
