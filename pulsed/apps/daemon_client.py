"""Requests to the HTTP API of running daemons, for commands. Environment proxies apply as everywhere.

`/jobs` is read page by page: an answer has a thousand owners at most.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from pulsed.cli.options import DEFAULT_URL
from pulsed.errors import PulsedError, UsageError
from pulsed.http.client import HttpClient, Request
from pulsed.http.credentials import (
    BadCredentials,
    BadTlsFiles,
    ClientTls,
    authorization,
    basic_authorization,
    masked,
    read_password,
)
from pulsed.http.failure import HttpRequestFailed
from pulsed.regular_file import is_readable_by_all

MAX_BYTES, MAX_REPORT_BYTES = 16 * 2**20, 32 * 2**20
"""Size limits of an answer, and of one of `/report`; 1,000 GPUs with all fields take some 5 MB."""

MAX_PAGES, MAX_PAGES_BYTES, PAGES_SECONDS = 1000, 128 * 2**20, 300.0
"""Limits of all pages of `/jobs`: the daemon chooses their number. A job of one GPU has some 10 kB."""

_MAX_REFUSAL_BYTES = 64 * 2**10
_MAX_REDIRECTS = 10
_CHECK_URL = "Check that the URL is of a pulsed"
_CHECK_SERVER = "Check that `pulsed serve` runs there, and host and port"
_REMEDIES: Mapping[str, str] = {
    "certificate": "Give the certificate of its authority with --ca-file, and a host name that is in its certificate",
    "tls": "Check whether it serves https",
    "name": _CHECK_SERVER,
    "connect": _CHECK_SERVER,
    "deadline": _CHECK_SERVER,
}

_DEFAULT_PORT = urlsplit(DEFAULT_URL).port
_HOST_AND_PORT = re.compile(r"(?!pod:)[^/\s]+:\d+(?:[/#?]|$)")


class DaemonUnreachable(PulsedError):
    """A daemon did not answer, or not as a pulsed does."""


class RequestRefused(PulsedError):
    """A daemon answered with an error.

    Attributes:
        status: of HTTP.
        text: the body; empty if it is large.
    """

    def __init__(self, where: str, status: int, text: str) -> None:
        self.status, self.text = status, text
        super().__init__(f"{where} answered {status}", "Check that the URL is of a pulsed, and the login")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How daemons are requested: timeout, credentials and TLS.

    Files are read again for every request, as they may be renewed meanwhile.

    Attributes:
        timeout: of each request, in seconds.
        username: for URLs without one.
        user_file: instead of `username`; may also hold the password.
        password_file: password of the user, for URLs without one.
        bearer_token_file: for URLs without a user.
        ca_file: certificates to trust, for https; empty: the system's certificates.
        cert_file: certificate of the client; empty: none.
        key_file: its key, unless it is in `cert_file`.
    """

    timeout: float
    username: str = ""
    user_file: str = ""
    password_file: str = ""
    bearer_token_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    def tls_options(self) -> str:
        """Return the options of the files of TLS, for a message."""
        named = (("--ca-file", self.ca_file), ("--cert-file", self.cert_file), ("--key-file", self.key_file))
        return ", ".join(f"{option} {file}" for option, file in named if file)


def client_settings(options: argparse.Namespace) -> ClientSettings:
    """Return the settings of `CLIENT` options; a warning for a secret that all users can read goes to stderr.

    Raises:
        UsageError: the options contradict each other.
    """
    if options.bearer_token_file and (options.username or options.user_file or options.password_file):
        options.parser.error("--bearer-token-file and a user are given; give one of them")
    if options.username and options.user_file:
        options.parser.error("--username and --user-file are given; give one of them")
    if options.username and not options.password_file:
        options.parser.error("--username needs --password-file")
    if options.key_file and not options.cert_file:
        options.parser.error("--key-file needs --cert-file")
    for url in options.urls:
        if masked(url) != url:
            sys.stderr.write(f"pulsed: the list of processes shows the login of {masked(url)}; use --user-file\n")
    for file in filter(None, (options.user_file, options.password_file, options.bearer_token_file, options.key_file)):
        if is_readable_by_all(file):
            sys.stderr.write(f"pulsed: all users can read {file}; run chmod o-r on it\n")
    return ClientSettings(**{each.name: getattr(options, each.name) for each in fields(ClientSettings)})


class DaemonClient:
    """Requests to one daemon.

    Args:
        url: of the daemon, such as `http://localhost:9401`; a login in it is used, and never shown.

    Attributes:
        address: the URL without its login.

    Raises:
        UsageError: the address is not a URL, or there is a password without a user.
    """

    def __init__(self, url: str, settings: ClientSettings) -> None:
        self._parts, self._settings = _split(url), settings
        parts = self._parts
        self.address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        if settings.password_file and not (parts.username or settings.username or settings.user_file):
            raise UsageError("--password-file needs a user", "Give --username, --user-file, or a user in the URL")
        self._tls = ClientTls(settings.ca_file, settings.cert_file, settings.key_file)

    def json(self, path: str) -> Any:
        """Return the JSON document of a path.

        Raises:
            DaemonUnreachable: no answer, or it is not JSON.
            RequestRefused: an answer that is an error.
        """
        try:
            return json.loads(self.request(path))
        except (ValueError, RecursionError) as error:
            raise DaemonUnreachable(f"{self.address}{path}: {error}", _CHECK_URL) from None

    def request(self, path: str, method: str = "GET") -> bytes:
        """Return the body of an answer; raises as `json`."""
        return asyncio.run(self._request(path, method))

    async def _request(self, path: str, method: str) -> bytes:
        where = self.address + path.partition("?")[0]
        client = HttpClient(0.0, refusal_bytes=_MAX_REFUSAL_BYTES, max_redirects=_MAX_REDIRECTS, uses_proxies=True)
        try:
            request = Request(self.address + path, secrets=self._authorization(), tls=self._tls, method=method)
            limit = MAX_REPORT_BYTES if path.startswith("/report") else MAX_BYTES
            answer = await client.fetch(request, limit, self._settings.timeout)
        except BadTlsFiles as error:
            raise DaemonUnreachable(
                f"{self._settings.tls_options()} cannot be used: {error.reason}",
                "Name files in PEM format that you may read; a certificate and its key must belong together",
            ) from None
        except HttpRequestFailed as error:
            reason = str(error).partition(": ")[2]
            text = f"cannot reach {where}: {reason}" if error.kind == "connect" else f"{where} {error}"
            raise DaemonUnreachable(text, _REMEDIES.get(error.kind, _CHECK_URL)) from None
        finally:
            await client.close()
        if answer.status != 200:
            raise RequestRefused(where, answer.status, answer.body.decode(errors="replace").strip())
        return answer.body

    def _authorization(self) -> dict[str, str]:
        """Return the header Authorization; empty without credentials."""
        parts, settings = self._parts, self._settings
        try:
            if parts.username is None and settings.bearer_token_file:
                return authorization("", settings.bearer_token_file)
            username, password = settings.username, unquote(parts.password or "")
            if parts.username is not None:
                username = unquote(parts.username)
            elif settings.user_file:
                username, colon, password = read_password(settings.user_file).partition(":")
                if not colon and not settings.password_file:
                    raise BadCredentials(f"user file {settings.user_file} holds no password: it needs USER:PASSWORD")
            if not username:
                return {}
            if parts.password is None and settings.password_file:
                password = read_password(settings.password_file)
        except BadCredentials as error:
            raise DaemonUnreachable(str(error), "Name a file that you may read, and with nothing else") from None
        return {"Authorization": basic_authorization(username, password)}


def is_url(text: str) -> bool:
    """Return whether a text is the URL of a daemon and not the name of a job: it has a scheme or a port."""
    return "://" in text or bool(_HOST_AND_PORT.match(text))


def clients_of(urls: Sequence[str], nodes: Sequence[str], settings: ClientSettings) -> dict[str, DaemonClient]:
    """Return a client per daemon, by the name of its node: for `urls`, by default for this host.

    Args:
        nodes: hosts to use in place of the one of the only URL.

    Raises `UsageError` if one of `urls` is not a URL, or there are several and nodes.
    """
    addresses = [_split(url) for url in urls or [DEFAULT_URL]]
    if nodes:
        if len(addresses) > 1:
            raise UsageError("--nodes needs at most one URL", "All nodes use its scheme, port and path")
        login, at, _ = addresses[0].netloc.rpartition("@")
        port = f":{addresses[0].port}" if addresses[0].port is not None else ""
        addresses = [addresses[0]._replace(netloc=f"{login}{at}{node}{port}") for node in nodes]
    hosts = [parts.hostname for parts in addresses]
    names = [
        str(parts.hostname) if hosts.count(parts.hostname) == 1 else parts.geturl().rpartition("@")[2]
        for parts in addresses
    ]
    return {name: DaemonClient(parts.geturl(), settings) for name, parts in zip(names, addresses, strict=True)}


def _split(url: str) -> SplitResult:
    with contextlib.suppress(ValueError):
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if "://" not in url and parts.port is None:
            parts = parts._replace(netloc=f"{parts.netloc.removesuffix(':')}:{_DEFAULT_PORT}")
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    raise UsageError(f"{url!r} is not the URL of a pulsed", f"Give one such as {DEFAULT_URL}")


Document = dict[str, Any]

PAGE = 250
"""Jobs of one answer: of 8 GPUs each has some 60 kB."""


def all_jobs(where: str, get: Callable[[str], Document], query: str = "", *, with_ended: bool = False) -> Document:
    """Return an answer of `/jobs` that has every running owner; ended ones follow as far as the last page has them.

    Args:
        where: the daemon, for a message.
        get: returns the document of a path.
        query: further parameters, each with a leading `&`.
        with_ended: whether it has every owner that matches, also ended ones; the query then has `since`.
    """
    answer = page = get(f"/jobs?limit={PAGE}{query}")
    pages, size, end = 1, 0, time.monotonic() + PAGES_SECONDS
    while len(page["jobs"]) == PAGE if with_ended else len(answer["jobs"]) < answer.get("running", 0):  # absent of old
        pages, size = pages + 1, size + len(json.dumps(page))
        if pages > MAX_PAGES or size > MAX_PAGES_BYTES or time.monotonic() > end:
            limits = f"{MAX_PAGES_BYTES >> 20} MiB, {MAX_PAGES} pages and {PAGES_SECONDS:g} s"
            text = f"{where}: /jobs has more than fits into {limits}"
            raise DaemonUnreachable(text, "Give a shorter --since, or filters")
        page = get(f"/jobs?limit={PAGE}{query}&offset={len(answer['jobs'])}")
        if not page["jobs"]:
            break  # owners have ended meanwhile
        answer = {**page, "jobs": [*answer["jobs"], *page["jobs"]]}
    return answer
