"""Settings of the HTTP server, and how its addresses are written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Annotated
from urllib.parse import urlsplit

from pulsed.config.settings import ListKind, Settings, setting
from pulsed.config.values import Duration, ExternalUrl, FileName, PositiveCount, RoutePrefix, Switch

UNIX = "unix:"
"""How the listen address of a Unix socket begins."""

_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


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


def _listen_address(value: str) -> str:
    """Return a listen address; a port alone becomes `:port`."""
    if value.startswith(UNIX):
        if not re.fullmatch(r"/[^\0]*[^/\0]", value.removeprefix(UNIX)):
            raise ValueError("has no path that begins with /")
        return value
    host_and_port(value)
    return f":{value}" if value.isdecimal() else value


Addresses = Annotated[
    tuple[str, ...],
    ListKind(
        "address",
        "host:port such as :9401, 127.0.0.1:9401, [::1]:9401, or unix:/run/pulsed.sock; one or a list of them",
        _listen_address,
        "text",
        least=1,
    ),
]


@dataclass(frozen=True, slots=True)
class WebServerSettings(Settings):
    """HTTP access and its limits."""

    config_file: FileName | None = setting(
        None,
        "Web configuration file of Prometheus' exporter-toolkit: TLS, users, headers, rate limit "
        "(docs/security.md). Unset: plain HTTP.",
        example="/etc/pulsed/web.yml",
    )
    external_url: ExternalUrl | None = setting(
        None,
        "URL at which clients reach pulsed, for example a proxy's. Unset: links are relative.",
        example="https://example.org/gpu-node-1/pulsed",
    )
    route_prefix: RoutePrefix | None = setting(
        None,
        "Prefix of the path of every page. Unset: the path of `external_url`. `/`: none, for a proxy that removes it.",
        example="/",
    )
    open_probes: Switch = setting(False, "Serve `/-/healthy`, `/-/ready` and `/health` without a password.")
    systemd_socket: Switch = setting(
        False,
        "Refuse to start without sockets of systemd, which replace `listen` in any case.",
    )
    max_connections: PositiveCount = setting(
        256,
        "Open connections. At the limit, idle ones are closed, first of the client with the most.",
    )
    request_timeout: Duration = setting(10.0, "Time to send a request, and for the TLS handshake.")
    keep_alive: Duration = setting(120.0, "How long idle connections stay open; best above the scrape interval.")

    @property
    def prefix(self) -> str:
        """Path before every route, without a slash at the end."""
        return self.external_path if self.route_prefix is None else self.route_prefix

    @property
    def external_path(self) -> str:
        """Path of the external URL, without a slash at the end; empty without one."""
        return urlsplit(self.external_url or "").path
