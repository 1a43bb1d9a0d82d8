"""Credentials of requests: from files, which may be renewed at any time, and as the header Authorization; and URLs
without them."""

from __future__ import annotations

import base64
import re
from urllib.parse import SplitResult

from pulsed.regular_file import read_regular

MAX_BYTES = 64 * 1024

_SECRET = re.compile("token|secret|passw|key|auth|sig", re.IGNORECASE)


class BadCredentials(Exception):
    """A file without usable credentials; the text has the file and the reason, and not its content."""


def read_token(path: str) -> str:
    """Return the bearer token in a file, without white space around it.

    Raises:
        BadCredentials: the file cannot be read, is empty, or holds more than one word of printable ASCII.
    """
    token = _read(path, "bearer token", "ascii").strip()
    if not token or not token.isprintable() or " " in token:
        raise BadCredentials(f"bearer token file {path} holds no token")
    return token


def read_password(path: str) -> str:
    """Return the password in a file, without line breaks at its end.

    Raises:
        BadCredentials: the file cannot be read, or is not UTF-8.
    """
    return _read(path, "password", "utf-8").rstrip("\r\n")


def basic_authorization(username: str, password: str) -> str:
    """Return the header Authorization of HTTP basic authentication."""
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"


def may_have_credentials(ours: SplitResult, other: SplitResult) -> bool:
    """Return whether credentials of one URL may go to the other: same origin, or https on usual ports."""
    default = {"http": 80, "https": 443}
    origin = (ours.scheme, ours.hostname, ours.port or default.get(ours.scheme))
    other_origin = (other.scheme, other.hostname, other.port or default.get(other.scheme))
    return origin == other_origin or (
        origin == ("http", ours.hostname, 80) and other_origin == ("https", ours.hostname, 443)
    )


def masked(url: str) -> str:
    """Return the URL as a person may see it: login, and what looks like a secret in the query, replaced by `***`."""
    url, number_sign, fragment = url.partition("#")
    url, question_mark, query = url.partition("?")
    scheme, slashes, rest = url.partition("//")
    _, login, host = rest.rpartition("@")  # the last @: a password may hold an unescaped slash
    shown = f"{scheme}//***@{host}" if slashes and login else url
    return f"{shown}{question_mark}{'&'.join(map(_masked, query.split('&')))}{number_sign}{fragment}"


def _masked(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    return f"{name}=***" if equals and _SECRET.search(name) else parameter


def _read(path: str, kind: str, encoding: str) -> str:
    try:
        return read_regular(path, MAX_BYTES).decode(encoding)
    except OSError as error:
        raise BadCredentials(f"cannot read the {kind} file {path}: {error.strerror}") from error
    except ValueError as error:  # the text of an encoding error repeats the content
        reason = f"it is not {encoding.upper()} text" if isinstance(error, UnicodeError) else str(error)
        raise BadCredentials(f"cannot read the {kind} file {path}: {reason}") from None
