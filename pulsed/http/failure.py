"""Errors of the HTTP client in words: texts of the operating system's errors are for programmers."""

from __future__ import annotations

import os
import socket
import ssl
from typing import Literal

from pulsed.http.connection import BrokenAnswer

FailureKind = Literal["certificate", "tls", "name", "broken", "connect"]


def describe(error: BrokenAnswer | OSError) -> tuple[FailureKind, str]:
    """Return the kind of an error and a text to put behind the name of the server."""
    cause = error.__cause__ if isinstance(error.__cause__, ssl.SSLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "certificate", f"shows a certificate that is not trusted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return "tls", f"fails in TLS: {(cause.reason or 'error').replace('_', ' ').lower()}"
    if isinstance(error, socket.gaierror):
        return "name", "has a host name that is not known"
    if isinstance(error, BrokenAnswer):
        return "broken", f"broke off the answer ({error})"
    return "connect", f"cannot be reached: {os.strerror(error.errno) if error.errno else 'no connection'}"
