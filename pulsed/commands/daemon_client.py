"""Requests to the HTTP API of running daemons, for commands. Environment proxies apply as everywhere."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
from collections.abc import Sequence
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import HTTPSHandler, OpenerDirector, Request, build_opener

from pulsed.commands.options import DEFAULT_URL
from pulsed.errors import PulsedError, UsageError


class DaemonUnreachable(PulsedError):
    """A daemon did not answer, or not as a pulsed does."""


class RequestRefused(PulsedError):
    """A daemon answered with an error.

    Attributes:
        status: of HTTP.
        text: the body, at most 10,000 bytes.
    """

    def __init__(self, where: str, status: int, text: str) -> None:
        self.status, self.text = status, text
        super().__init__(f"{where} answered {status}", "Check that the URL is of a pulsed, and the login")


class DaemonClient:
    """Requests to one daemon.

    Args:
        url: of the daemon, such as `http://localhost:9401`; a login in it is used, and never shown.
        timeout: of each request, in seconds.
        ca_file: certificates to trust, for https.

    Attributes:
        address: the URL without its login.

    Raises:
        UsageError: the address is not a URL.
    """

    def __init__(self, url: str, *, timeout: float, ca_file: str | None = None) -> None:
        self._parts = _split(url)
        self._timeout, self._ca_file = timeout, ca_file
        parts = self._parts
        self.address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        self._opener: OpenerDirector | None = None

    def json(self, path: str) -> Any:
        """Return the JSON document of a path.

        Raises:
            DaemonUnreachable: no answer, or it is not JSON.
            RequestRefused: an answer that is an error.
        """
        try:
            return json.loads(self.request(path))
        except ValueError as error:
            raise DaemonUnreachable(f"{self.address}{path}: {error}", "Check that the URL is of a pulsed") from None

    def request(self, path: str, method: str = "GET") -> bytes:
        """Return the body of an answer; raises as `json`."""
        where = self.address + path.partition("?")[0]
        if self._opener is None:
            self._opener = self._new_opener()
        request = Request(self.address + path, headers=_login(self._parts), method=method)
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                body: bytes = answer.read()
                return body
        except HTTPError as error:
            raise RequestRefused(where, error.code, error.read(10_000).decode(errors="replace").strip()) from None
        except OSError as error:  # URLError is one
            raise _unreachable(where, error) from None

    def _new_opener(self) -> OpenerDirector:
        if self._parts.scheme == "http" and self._ca_file is None:
            return build_opener()
        try:
            return build_opener(HTTPSHandler(context=ssl.create_default_context(cafile=self._ca_file)))
        except (OSError, ssl.SSLError) as error:
            raise DaemonUnreachable(
                f"--ca-file {self._ca_file} cannot be used: {error.strerror or error}", "Name a file in PEM format"
            ) from None


def clients_of(url: str, nodes: Sequence[str], *, timeout: float, ca_file: str | None) -> dict[str, DaemonClient]:
    """Return a client per node: all of `url`, with its host replaced; without nodes the one of `url`.

    Raises `UsageError` if `url` is not a URL.
    """
    parts = _split(url)
    login, at, _ = parts.netloc.rpartition("@")
    port = f":{parts.port}" if parts.port is not None else ""
    urls = {node: parts._replace(netloc=f"{login}{at}{node}{port}").geturl() for node in nodes}
    urls = urls or {str(parts.hostname): parts.geturl()}
    return {node: DaemonClient(each, timeout=timeout, ca_file=ca_file) for node, each in urls.items()}


def _unreachable(where: str, error: OSError) -> DaemonUnreachable:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return DaemonUnreachable(
            f"{where} shows a certificate that is not trusted: {cause.verify_message}",
            "Give the certificate of its authority with --ca-file, and a host name that is in its certificate",
        )
    if isinstance(cause, ssl.SSLError):
        reason = (cause.reason or "error").replace("_", " ").lower()
        return DaemonUnreachable(f"{where} fails in TLS: {reason}", "Check whether it serves https")
    text = cause.strerror if isinstance(cause, OSError) and cause.strerror else cause
    return DaemonUnreachable(f"cannot reach {where}: {text}", "Check that `pulsed serve` runs there, and host and port")


def _split(url: str) -> SplitResult:
    with contextlib.suppress(ValueError):
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    raise UsageError(f"{url!r} is not the URL of a pulsed", f"Give one such as {DEFAULT_URL}")


def _login(parts: SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
