"""Functions that parse or check one value of the configuration.

They raise ValueError with a text that continues the value: "'12 parsecs' is not a duration".
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from itertools import pairwise
from urllib.parse import urlsplit

from pulsed.config.gpu_selection import parse
from pulsed.errors import UsageError
from pulsed.settings import NOT_ALLOWED, http_path, is_path, matching, not_empty

UNIX = "unix:"
"""How the listen address of a Unix socket begins."""

_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_LABEL_TERM = r"(!?[\w./-]+|[\w./-]+ *(=|==|!=) *[\w.-]*|[\w./-]+ +(in|notin) +\([\w., -]*\))"

label_name = matching(
    r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", "is not the name of a label"
)
label_selector = matching(rf"{_LABEL_TERM}( *, *{_LABEL_TERM})*", "is not a label selector")
object_kind = matching(r"[A-Z][A-Za-z0-9]*(\.[a-z0-9-]+)+", "is not a kind with its API group")


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


def xid_code(value: str) -> int:
    """Return the code of an XID; `79.0` is 79."""
    try:
        return int(re.sub(r"\.0*$", "", value.strip()))
    except ValueError:
        raise ValueError(NOT_ALLOWED) from None
