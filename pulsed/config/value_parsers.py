"""Functions that parse or check one value of the configuration, and texts of values for messages.

They raise ValueError with a text that continues the value: "'12 parsecs' is not a duration".
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container
from datetime import datetime, timezone
from ipaddress import IPv6Address
from itertools import pairwise
from urllib.parse import urlsplit

from pulsed.config.gpu_selection import parse
from pulsed.durations import is_number
from pulsed.errors import UsageError
from pulsed.reader.exporter.settings import masked

UNIX = "unix:"
"""How the listen address of a Unix socket begins."""

_SIZES = {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d+)?) ?([A-Za-z]*)")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_HOST_AND_PORT = re.compile(r"(.*@)?(\[[^\[\]/@]*\]|[^/:@\s]+):\d+(/.*)?", re.DOTALL)
_LABEL_TERM = r"(!?[\w./-]+|[\w./-]+ *(=|==|!=) *[\w.-]*|[\w./-]+ +(in|notin) +\([\w., -]*\))"


def matching(pattern: str, problem: str) -> Callable[[str], str]:
    """Return a check that the whole of a text matches a regular expression."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(problem)
        return value

    return check


def one_of(words: Container[str], problem: str) -> Callable[[str], str]:
    """Return a check that a text is one of some words."""

    def check(value: str) -> str:
        if value not in words:
            raise ValueError(problem)
        return value

    return check


http_path = matching(r"/[A-Za-z0-9._~/-]*", "is not a path of a page")
label_name = matching(
    r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", "is not the name of a label"
)
label_selector = matching(rf"{_LABEL_TERM}( *, *{_LABEL_TERM})*", "is not a label selector")
object_kind = matching(r"[A-Z][A-Za-z0-9]*(\.[a-z0-9-]+)+", "is not a kind with its API group")


def size(value: object) -> int:
    """Return the bytes of a size: a whole number, or `64MiB`, `1.5 GB`."""
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
    """Return host and port of a listen address; an empty host means all interfaces, port 0 any free port.

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
    """Return whether an exporter target names a file (`page.prom`), not a URL and not a URL without its scheme."""
    return "://" not in target and not _HOST_AND_PORT.fullmatch(target)


def shown(value: object) -> str:
    """Return a scalar as an error message may show it: quoted, short, without logins."""
    if value is None:
        return "nothing"
    if not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else str(value)
    before, login, rest = value.rpartition("@")
    text = f"***@{rest}" if login and "://" not in before else masked(value)  # a URL whose scheme was forgotten
    return repr(text if len(text) <= 100 else f"{text[:100]}…")


def resolve_path(file: str, name: str) -> str:
    """Return a file name of the configuration file `file`: relative ones start in its folder. URLs are not changed."""
    return os.path.join(os.path.dirname(file), name) if name and is_path(name) else name


def listen_address(value: str) -> str:
    """Return a listen address; a port alone becomes `:port`."""
    if value.startswith(UNIX):
        if not re.fullmatch(r"/[^\0]*[^/\0]", value.removeprefix(UNIX)):
            raise ValueError("has no path that begins with /")
        return value
    host_and_port(value)
    return f":{value}" if value.isdecimal() else value


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


def server_url(value: str) -> str:
    """Return a URL of scheme, host and port."""
    value = external_url(value)
    if urlsplit(value).path:
        raise ValueError("has a path")
    return value


def label_pattern(value: str) -> str:
    """Return the name of a label, or the begin of names and a `*`."""
    if value != "*":
        label_name(f"{value[:-1]}a" if value.endswith("*") else value)
    return value


def namespace(value: str) -> str:
    """Return the name of a namespace of Kubernetes, or `all`."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", value):
        raise ValueError("is not a namespace")
    return value


def namespaces(value: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of namespaces, each once; or `all` alone."""
    if "all" in value and len(value) > 1:
        raise ValueError("has all beside other namespaces")
    return tuple(dict.fromkeys(value))


def pod_port(value: object) -> object:
    """Return the number or name of a port of a pod."""
    is_port = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65535
    if not is_port and not (isinstance(value, str) and re.fullmatch(r"(?=.*[a-z])[a-z0-9-]{1,15}", value)):
        raise ValueError("is not a port")
    return value


def ascending(value: tuple[float, ...]) -> tuple[float, ...]:
    """Return numbers in ascending order."""
    if any(low >= high for low, high in pairwise(value)):
        raise ValueError("is not in ascending order")
    return value


def gpu_list(value: str) -> str:
    """Return a selection of GPUs."""
    try:
        parse(value)
    except UsageError:
        raise ValueError("names no GPUs") from None
    return value


def not_empty(value: str) -> str:
    """Return a text that is not empty."""
    if not value.strip():
        raise ValueError("is empty")
    return value
