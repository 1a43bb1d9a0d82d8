"""`pulsed health`: problems of the GPUs with their remedies, and an exit code for schedulers and monitors.

The state comes from a running daemon: latched states, rates and lost GPUs need its history.
"""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, unquote, urlencode, urlsplit
from urllib.request import HTTPSHandler, Request, build_opener

from pulsed.errors import HealthUsageError, PulsedError
from pulsed.present.asgi import FORGET
from pulsed.present.health_report import UNKNOWN, Row, exit_code_of, health_line, health_table

PATH = "/health/gpus"


class DaemonUnreachable(PulsedError):
    """No daemon answered, so the health is unknown."""

    exit_code = UNKNOWN


class NotForgotten(PulsedError):
    """A daemon did not forget a GPU."""


def health(urls: Sequence[str], format: str, out: TextIO, *, timeout: float = 10.0, ca_file: str | None = None) -> int:
    """Print the health of all GPUs of one or several daemons; return the exit code.

    Args:
        urls: of the daemons; a login in one is used. If there are several, one without an answer is an unknown row.
        format: `table`, `json`, or `line`: one line with performance data, for Nagios.
        out: where to print.
        timeout: of each request, in seconds.
        ca_file: certificates to trust, for https.

    Raises:
        DaemonUnreachable: the only daemon did not answer, or the certificates cannot be read.
        HealthUsageError: an address is not a URL.
    """
    if len(urls) == 1:
        rows = fetch(urls[0], timeout=timeout, ca_file=ca_file)
    else:
        rows = [row for url in urls for row in _fetch_or_unknown(url, timeout, ca_file)]
    out.write(_FORMATS[format](rows))
    return exit_code_of(rows)


def _fetch_or_unknown(url: str, timeout: float, ca_file: str | None) -> list[Row]:
    """Return the rows of a daemon; one that did not answer is one unknown row."""
    try:
        return fetch(url, timeout=timeout, ca_file=ca_file)
    except DaemonUnreachable as error:
        return [_unreachable(url, error)]


def _unreachable(url: str, error: DaemonUnreachable) -> Row:
    problem = {"id": "daemon", "state": "unknown", "since": None, "message": error.args[0], "remedy": error.remedy}
    return {
        "node": "",
        "gpu": None,
        "uuid": None,
        "mig": None,
        "model": None,
        "target": _address(_split(url)),
        "stale": True,
        "state": "unknown",
        "severity": -1,
        "coverage": 0.0,
        "last_reset": None,
        "problems": [problem],
    }


def forget(
    url: str, gpu: str, node: str | None, out: TextIO, *, timeout: float = 10.0, ca_file: str | None = None
) -> None:
    """Have a daemon forget an absent GPU.

    Args:
        url: of the daemon.
        gpu: UUID or index of the GPU.
        node: its host, if several have such a GPU.
        out: where to print what was forgotten.

    Raises:
        NotForgotten: the daemon refused; the message has its reason.
        DaemonUnreachable: the daemon did not answer.
        HealthUsageError: the address is not a URL.
    """
    query = urlencode({"gpu": gpu} | ({} if node is None else {"node": node}))
    try:
        answer = _request(url, f"{FORGET}?{query}", "POST", timeout, ca_file)
    except HTTPError as error:
        text = error.read(10_000).decode(errors="replace").strip() if error.code in (400, 403, 404, 409) else ""
        remedy = "" if text else "Check that the URL is of a pulsed, and the login"
        raise NotForgotten(text or f"{_address(_split(url))}{FORGET} answered {error.code}", remedy) from None
    out.write(answer.decode())


def fetch(url: str, *, timeout: float, ca_file: str | None) -> list[Row]:
    """Return the GPUs and targets of the daemon as `/health/gpus` has them.

    Raises `DaemonUnreachable` if the daemon did not answer, or the certificates cannot be read.
    """
    where = _address(_split(url)) + PATH
    try:
        found = json.loads(_request(url, PATH, "GET", timeout, ca_file))
        if not isinstance(found, list):
            raise ValueError("the answer is not a list")
    except HTTPError as error:
        raise DaemonUnreachable(
            f"{where} answered {error.code}", "Check that the URL is of a pulsed, and the login"
        ) from None
    except ValueError as error:
        raise DaemonUnreachable(f"{where}: {error}", "Check that the URL is of a pulsed") from None
    return found


def _request(url: str, path: str, method: str, timeout: float, ca_file: str | None) -> bytes:
    """Return the body of an answer; raises `HTTPError` for one that is an error."""
    parts = _split(url)
    try:
        trust = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise DaemonUnreachable(
            f"--ca-file {ca_file} cannot be used: {error.strerror or error}", "Name a file in PEM format"
        ) from None
    request = Request(_address(parts) + path, headers=_login(parts), method=method)
    try:
        with build_opener(HTTPSHandler(context=trust)).open(request, timeout=timeout) as answer:
            body: bytes = answer.read()
            return body
    except HTTPError:
        raise
    except OSError as error:  # URLError is one
        raise _unreachable_error(_address(parts) + path.partition("?")[0], error) from None


def _unreachable_error(where: str, error: OSError) -> DaemonUnreachable:
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
    raise HealthUsageError(f"health: {url!r} is not the URL of a pulsed", "Give one such as http://localhost:9401")


def _address(parts: SplitResult) -> str:
    """Return the URL without its login."""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def _login(parts: SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _json(rows: Sequence[Row]) -> str:
    return json.dumps(rows, indent=2) + "\n"


_FORMATS: Mapping[str, Callable[[Sequence[Row]], str]] = {"table": health_table, "json": _json, "line": health_line}
