"""The kinds of values that a configuration holds: how each is written, what is allowed, and its check.

A kind is an annotated type. Its `Notation` is used by error messages and CONFIGURATION.md, and its check
raises ValueError with a text that continues the value: "'12 parsecs' is not a duration". Independent of the keys.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from ipaddress import IPv6Address
from itertools import pairwise
from typing import Annotated, Literal, TypeGuard
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, Strict
from pydantic.fields import FieldInfo

from pulsed.compute.health.checks import BY_ID
from pulsed.compute.health.xids import XidSeverity
from pulsed.config.gpu_selection import parse
from pulsed.errors import UsageError
from pulsed.present.exposition.page import COMPATIBLE
from pulsed.reader.exporter.scraper import masked
from pulsed.translate.watches import GROUPS

Style = Literal["typed", "text", "file"]
"""How a scalar without quotes is taken: by YAML's types; as it is written (`node: 007`); so too, as a file's name."""


@dataclass(frozen=True, slots=True)
class Notation:
    """How a kind of value is written.

    Attributes:
        name: the placeholder of the documentation, without its angle brackets.
        allowed: what is allowed, for an error message.
        style: how a plain scalar is taken. Relative names of files count from the folder of the configuration file.
        secret: never shown: not in errors, not in `/config`.
    """

    name: str
    allowed: str
    style: Style = "typed"
    secret: bool = False


UNIX = "unix:"
"""How the listen address of a Unix socket begins."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?:\d{1,12}(?:\.\d+)?(?:ms|s|m|h|d))+")
_DURATION_PART = re.compile(r"(\d{1,12}(?:\.\d+)?)(ms|s|m|h|d)")
_SIZES = {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d+)?) ?([A-Za-z]*)")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_HOST_AND_PORT = re.compile(r"(.*@)?(\[[^\]/]*\]|[^/:\s]+):\d+(/.*)?")


_LABEL_TERM = r"(!?[\w./-]+|[\w./-]+ *(=|==|!=) *[\w.-]*|[\w./-]+ +(in|notin) +\([\w., -]*\))"
_LABEL_SELECTOR = re.compile(rf"{_LABEL_TERM}( *, *{_LABEL_TERM})*")


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether this is a finite number; `true` and `false`, which Python counts as numbers, are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def duration(value: object) -> float:
    """Seconds of a duration: a number of seconds, or `100ms`, `15s`, `1h30m`."""
    if is_number(value):
        seconds = float(value)
    elif isinstance(value, str) and _DURATION.fullmatch(value.strip()):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(value))
    elif isinstance(value, str) and value.strip().startswith("-"):
        raise ValueError("is negative")
    else:
        raise ValueError("is not a duration")
    if seconds < 0:
        raise ValueError("is negative")
    if seconds == 0:
        raise ValueError("is not a positive duration")
    return seconds


def duration_or_none(value: object) -> float:
    """Seconds of a duration, or 0."""
    return 0.0 if value in (0, "0", "0s") and not isinstance(value, bool) else duration(value)


def size(value: object) -> int:
    """Bytes of a size: a whole number, or `64MiB`, `1.5 GB`."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    parts = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
    if parts is None or parts[2] not in _SIZES:
        raise ValueError("is not a size")
    number = int(float(parts[1]) * _SIZES[parts[2]])
    if number < 1:
        raise ValueError("is too small")
    return number


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
    return (when if when.tzinfo else when.replace(tzinfo=timezone.utc)).timestamp()


def host_and_port(address: str) -> tuple[str, int]:
    """Host and port of a listen address; an empty host means all interfaces, port 0 any free port.

    Raises `ValueError` if it is not a listen address; the message continues the address.
    """
    if address.isdecimal():  # `listen: 9401`
        address = f":{address}"
    host, colon, port = address.rpartition(":")
    if not colon or (host.count(":") and not host.startswith("[")):
        raise ValueError("needs brackets around its IPv6 address" if host else "has no port")
    if host.startswith("["):
        try:
            host = str(IPv6Address(host[1:-1] if host.endswith("]") else ""))
        except ValueError:
            raise ValueError("has no IPv6 address in its brackets") from None
    elif host and not _HOST_NAME.fullmatch(host):
        raise ValueError("has no valid host")
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise ValueError("has no port of 0 to 65535")
    return host, int(port)


def is_path(target: str) -> bool:
    """Whether an exporter target names a file (`page.prom`), not a URL and not a URL without its scheme."""
    return "://" not in target and not _HOST_AND_PORT.fullmatch(target)


def shown(value: object) -> str:
    """A scalar as an error message may show it: quoted, short, without logins."""
    if value is None:
        return "nothing"
    if not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else str(value)
    before, login, rest = value.rpartition("@")
    text = f"***@{rest}" if login and "://" not in before else masked(value)  # a URL whose scheme was forgotten
    return repr(text if len(text) <= 100 else f"{text[:100]}…")


def resolve_path(file: str, name: str) -> str:
    """A file name of the configuration file `file`: relative ones count from its folder. URLs stay as they are."""
    return os.path.join(os.path.dirname(file), name) if name and is_path(name) else name


def notation_of(field: FieldInfo) -> Notation | None:
    """The notation of a field's kind, also inside `| None` and of a list's items; None for a fixed set of words."""
    pending: list[object] = [*field.metadata, field.annotation]
    while pending:
        part = pending.pop(0)
        if isinstance(part, Notation):
            return part
        pending += [*getattr(part, "__metadata__", ()), *getattr(part, "__args__", ())]
    return None


def _one_or_many(value: object) -> object:
    return value if isinstance(value, (list, tuple)) else [value]


def _columns(value: object) -> object:
    return value.replace(",", " ").split() if isinstance(value, str) else value


def _program(value: str) -> str:
    if value not in COMPATIBLE:
        raise ValueError("is not a program that pulsed has series for")
    return value


def _address(value: str) -> str:
    if value.startswith(UNIX):
        if not re.fullmatch(r"/[^\0]*[^/\0]", value.removeprefix(UNIX)):
            raise ValueError("has no path that begins with /")
        return value
    host_and_port(value)
    return f":{value}" if value.isdecimal() else value


def _target(value: str) -> str:
    if is_path(value):
        return _not_empty(value)
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


def _http_path(value: str) -> str:
    if not re.fullmatch(r"/[A-Za-z0-9._~/-]*", value):
        raise ValueError("is not a path of a page")
    return value


def _route_prefix(value: str) -> str:
    return _http_path(f"/{value.strip('/')}").rstrip("/")


def _external_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.hostname and parts.port != 0
    except ValueError:  # an invalid bracket or port
        raise ValueError("is not a URL") from None
    if parts.scheme not in ("http", "https") or not usable:
        raise ValueError("does not begin with http:// or https:// and a host")
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError("has more than scheme, host, port and path")
    _http_path(parts.path or "/")
    return value.rstrip("/")


def _server_url(value: str) -> str:
    value = _external_url(value)
    if urlsplit(value).path:
        raise ValueError("has a path")
    return value


def _label_selector(value: str) -> str:
    if not _LABEL_SELECTOR.fullmatch(value):
        raise ValueError("is not a label selector")
    return value


def _pod_port(value: object) -> object:
    is_port = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65535
    if not is_port and not (isinstance(value, str) and re.fullmatch(r"(?=.*[a-z])[a-z0-9-]{1,15}", value)):
        raise ValueError("is not a port")
    return value


def _group(value: str) -> str:
    if value not in GROUPS:
        raise ValueError("is not a group of fields")
    return value


def _ascending(value: tuple[float, ...]) -> tuple[float, ...]:
    if any(low >= high for low, high in pairwise(value)):
        raise ValueError("is not in ascending order")
    return value


def _gpu_list(value: str) -> str:
    try:
        parse(value)
    except UsageError:
        raise ValueError("names no GPUs") from None
    return value


def _not_empty(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty")
    return value


Switch = Annotated[bool, Notation("boolean", "true, false")]
WholeNumber = Annotated[int, Strict(), Notation("int", "a whole number")]
Count = Annotated[int, Strict(), Field(ge=0), Notation("count", "a whole number, 0 or more")]
PositiveCount = Annotated[int, Strict(), Field(ge=1), Notation("positive", "a whole number, 1 or more")]
Factor = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False), Notation("number", "a number, 0 or more")]
Ratio = Annotated[float, Strict(), Field(ge=0, le=1, allow_inf_nan=False), Notation("ratio", "a number from 0 to 1")]
Bounds = Annotated[
    tuple[
        Annotated[
            float,
            Strict(),
            Field(ge=0, le=1, allow_inf_nan=False),
            Notation("bounds", "ratios in ascending order, such as [0.25, 0.5, 0.75]"),
        ],
        ...,
    ],
    BeforeValidator(_one_or_many),
    AfterValidator(_ascending),
]
Duration = Annotated[
    float,
    BeforeValidator(duration),
    Notation("duration", "seconds as a number above 0, or a text such as 100ms, 15s, 1m, 1h30m"),
]
DurationOrNone = Annotated[
    float,
    BeforeValidator(duration_or_none),
    Notation("duration", "seconds as a number, 0 or more, or a text such as 100ms, 15s, 1m, 1h30m"),
]
Size = Annotated[
    int, BeforeValidator(size), Notation("size", "bytes as a number, or a text such as 512KiB, 64MiB, 1GB")
]
Moment = Annotated[
    float, BeforeValidator(moment), Notation("time", "Unix seconds, or a text such as 2026-01-01T00:00:00Z")
]
Text = Annotated[str, AfterValidator(_not_empty), Notation("string", "a text that is not empty", "text")]
GpuList = Annotated[
    str,
    AfterValidator(_gpu_list),
    Notation("gpus", "indexes (0,2-3), UUIDs or their beginnings, GPU:instance (0:7), all or none", "text"),
]
KernelLogPath = Annotated[
    str,
    AfterValidator(_not_empty),
    Notation("kernel_log", "auto, off, or the path of a file with kernel messages", "text"),
]
CommandOrOff = Annotated[
    str, AfterValidator(_not_empty), Notation("command", "the name or path of a program, or off", "text")
]
SocketOrOff = Annotated[
    str, AfterValidator(_not_empty), Notation("socket", "the path of a Unix socket, or off", "text")
]
FileName = Annotated[str, AfterValidator(_not_empty), Notation("filename", "the name of a file or folder", "file")]
Secret = Annotated[SecretStr, Notation("secret", "a text", "text", secret=True)]
HttpPath = Annotated[
    str, AfterValidator(_http_path), Notation("path", "a path that begins with /, such as /metrics", "text")
]
RoutePrefix = Annotated[
    str, AfterValidator(_route_prefix), Notation("prefix", "a path such as /gpu-node-1/pulsed, or /", "text")
]
ExternalUrl = Annotated[
    str, AfterValidator(_external_url), Notation("url", "a URL such as https://example.org/pulsed/", "text")
]
Addresses = Annotated[
    tuple[
        Annotated[
            str,
            AfterValidator(_address),
            Notation(
                "address",
                "host:port such as :9401, 127.0.0.1:9401, [::1]:9401, or unix:/run/pulsed.sock; one or a list of them",
                "text",
            ),
        ],
        ...,
    ],
    BeforeValidator(_one_or_many),
    Field(min_length=1),
]
Targets = Annotated[
    tuple[
        Annotated[
            str,
            AfterValidator(_target),
            Notation(
                "target",
                "a URL such as http://localhost:9400/metrics, or the name of a saved page; one or a list of them",
                "file",
            ),
        ],
        ...,
    ],
    BeforeValidator(_one_or_many),
    Field(min_length=1),
]
ServerUrl = Annotated[
    str, AfterValidator(_server_url), Notation("url", "a URL without a path, such as https://10.96.0.1:443", "text")
]
LabelSelectors = Annotated[
    tuple[
        Annotated[
            str,
            AfterValidator(_label_selector),
            Notation("selector", "label selectors such as app=dcgm-exporter; one or a list of them", "text"),
        ],
        ...,
    ],
    BeforeValidator(_one_or_many),
    Field(min_length=1),
]
PodPort = Annotated[
    int | str, BeforeValidator(_pod_port), Notation("port", "a number from 1 to 65535, or the name of a port")
]
Directories = Annotated[
    tuple[
        Annotated[
            str, AfterValidator(_not_empty), Notation("directory", "names of directories, one or a list", "file")
        ],
        ...,
    ],
    BeforeValidator(_one_or_many),
]
Columns = Annotated[
    tuple[
        Annotated[
            str, AfterValidator(_not_empty), Notation("column", "names of columns, such as [GPUTL, POWER]", "text")
        ],
        ...,
    ],
    BeforeValidator(_columns),
]
Groups = Annotated[
    tuple[Annotated[str, AfterValidator(_group), Notation("group", f"some of {', '.join(GROUPS)}", "text")], ...],
    BeforeValidator(_columns),
]
FieldIds = Annotated[
    tuple[
        Annotated[int, Strict(), Field(ge=1, le=65535), Notation("field", "ids of DCGM fields, such as [1017]")], ...
    ],
    BeforeValidator(_one_or_many),
]
Families = Annotated[
    tuple[
        Annotated[
            str,
            AfterValidator(_not_empty),
            Notation("family", "names of METRICS.md, with * for any characters, such as [pulsed_gpu_ecc_*]", "text"),
        ],
        ...,
    ],
    BeforeValidator(_columns),
]
Programs = Annotated[
    tuple[
        Annotated[str, AfterValidator(_program), Notation("program", f"some of {', '.join(COMPATIBLE)}", "text")], ...
    ],
    BeforeValidator(_columns),
]
CheckIds = Annotated[
    tuple[Annotated[str, Notation("check", f"some of {', '.join(BY_ID)}", "text")], ...], BeforeValidator(_columns)
]
CheckThresholds = Annotated[
    dict[str, dict[str, Annotated[float, Strict(), Field(allow_inf_nan=False)]]],
    Notation("thresholds", "numbers by check and state, such as {temp_memory: {warn: 90}}"),
]
XidSeverities = Annotated[
    dict[int, XidSeverity], Notation("xids", "ok, info, warn or crit by XID, such as {109: warn}")
]
