"""Why a request has no complete answer, in words for its user."""

from __future__ import annotations

import os
import ssl
from typing import Literal

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from pulsed.printable import clean

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 256
MAX_SHOWN = 100
"""Characters of an answer in a message."""

FailureKind = Literal["request", "name", "connect", "certificate", "tls", "deadline", "broken", "body", "redirect"]


_CERTIFICATE_REMEDIES = {
    9: "Correct the clock of this machine, or of the one that made the certificate",
    10: "Renew the certificate of that server; if it is valid, correct the clock of this machine",
}
"""By codes of X509_verify_cert_error_string(3): not yet valid, expired."""


class HttpRequestFailed(Exception):
    """A request without a complete answer; the text follows the name of the server in a message.

    Attributes:
        kind: what failed; of a `request` that cannot be sent, the text has no details: they may be secret.
        remedy: what to do about a `body`, or a certificate out of its time; empty for others.
        url: where redirects have led.
    """

    def __init__(self, kind: FailureKind, what: str, remedy: str = "", url: str = "") -> None:
        super().__init__(what)
        self.kind, self.remedy, self.url = kind, remedy, url


def broken(how: str) -> HttpRequestFailed:
    """Return the error of an answer that has not come to its end."""
    return HttpRequestFailed("broken", f"broke off the answer ({how})")


def head_too_large() -> HttpRequestFailed:
    """Return the error of an answer with too many or too large headers."""
    return broken(f"a header of more than {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} lines")


def failure_of(error: BaseException, cause: BaseException | None = None) -> HttpRequestFailed:
    """Return the failure that an error of aiohttp, and what caused it, stand for."""
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or cause or error
    if isinstance(error, HttpRequestFailed):
        return error
    if isinstance(error.__cause__, HttpProcessingError):
        error = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        text = f"shows a certificate that is not trusted: {cause.verify_message}"
        return HttpRequestFailed("certificate", text, _CERTIFICATE_REMEDIES.get(cause.verify_code, ""))
    if isinstance(cause, ssl.SSLError):
        return HttpRequestFailed("tls", f"fails in TLS: {(cause.reason or 'error').replace('_', ' ').lower()}")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return HttpRequestFailed("name", "has a host name that is not known")
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = os.strerror(error.errno) if error.errno else "no connection"
        return HttpRequestFailed("connect", f"cannot be reached: {reason}")
    if isinstance(error, HttpProcessingError):
        if error.message.startswith(("Got more than", "Too many headers")):
            return head_too_large()
        return broken(f"invalid HTTP: {clean(error.message.partition(chr(10))[0][:MAX_SHOWN]).rstrip(' :')}")
    if isinstance(error, ValueError):
        return HttpRequestFailed("request", "cannot be sent this request")
    return broken(getattr(error, "strerror", None) or "connection closed")
