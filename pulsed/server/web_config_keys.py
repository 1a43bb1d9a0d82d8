"""Every key of the web configuration file, with what is allowed.

Keys and meanings are those of Prometheus' exporter-toolkit (docs/web-configuration.md), so that one file serves all
exporters of a node.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import cast

from pulsed.config.values import Style, duration_or_none, shown
from pulsed.server.tls_names import CIPHERS, CURVES, TLS13_CIPHERS, VERSIONS, selectable_curves

USERS = "basic_auth_users"

_BCRYPT = re.compile(r"\$2[abxy]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_HEADER_VALUE = re.compile(r"[\t -~\x80-\xff]+")


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the file.

    Attributes:
        read: makes the value of what was written; raises ValueError with words that go on from it.
        allowed: what is allowed, for an error message.
        style: how a plain scalar is taken.
        secret: not repeated in an error.
    """

    read: Callable[[object], object]
    allowed: str
    style: Style = "text"
    secret: bool = False


def _text(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("is not a text")
    return value


def _switch(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError("is not allowed")
    return value


def _number(value: object) -> object:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("is not allowed")
    return value


def _one_of(*words: str) -> Callable[[object], object]:
    def read_word(value: object) -> object:
        if value not in words:
            raise ValueError("is not allowed")
        return value

    return read_word


def _some_of(*words: str) -> Callable[[object], object]:
    def read_words(value: object) -> object:
        if not isinstance(value, list):
            raise ValueError("is not a list")
        for item in value:
            if not isinstance(item, str) or (words and item not in words):
                raise ValueError(f"has {shown(item) if isinstance(item, str) else 'an item that is not a text'}")
        return tuple(value)

    return read_words


def _client_auth(value: object) -> object:
    if value in ("RequestClientCert", "RequireAnyClientCert", "RequireClientCert"):
        raise ValueError("requests a certificate without verifying it, which Python's TLS cannot do")
    return "" if value == "NoClientCert" else _one_of("VerifyClientCertIfGiven", "RequireAndVerifyClientCert")(value)


def _curves(value: object) -> object:
    """Return the curve to select, or none for the whole table: OpenSSL's own list, which starts with X25519."""
    curves = cast("tuple[str, ...]", _some_of(*CURVES)(value))
    if set(curves) == set(CURVES):
        return ()
    if len(curves) > 1:
        raise ValueError("names several, and Python's TLS can select only one")
    for name in curves:
        if name not in selectable_curves():
            raise ValueError(
                f"has {shown(name)}, which Python {platform.python_version()} cannot select as the only curve "
                "(without this key OpenSSL prefers X25519)"
            )
    return curves


def _header(*words: str) -> Key:
    def read_header(value: object) -> object:
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            raise ValueError("cannot be sent in a header")
        return _one_of(*words)(value) if words else value

    return Key(read_header, ", ".join(words) or "one line of text")


_PEM = "PEM, from its first -----BEGIN to its last -----END line"
_TEXT_OF_FILE = "the name of a PEM file"
_VERSION = Key(_one_of(*VERSIONS), ", ".join(VERSIONS))

KEYS: Mapping[str, Key] = {
    "tls_server_config.cert": Key(_text, _PEM),
    "tls_server_config.key": Key(_text, _PEM, secret=True),
    "tls_server_config.client_ca": Key(_text, _PEM),
    "tls_server_config.cert_file": Key(_text, _TEXT_OF_FILE, "file"),
    "tls_server_config.key_file": Key(_text, _TEXT_OF_FILE, "file"),
    "tls_server_config.client_ca_file": Key(_text, _TEXT_OF_FILE, "file"),
    "tls_server_config.client_auth_type": Key(
        _client_auth, "NoClientCert, VerifyClientCertIfGiven, RequireAndVerifyClientCert"
    ),
    "tls_server_config.client_allowed_sans": Key(_some_of(), "a list of names, addresses, e-mails or URIs"),
    "tls_server_config.min_version": _VERSION,
    "tls_server_config.max_version": _VERSION,
    "tls_server_config.cipher_suites": Key(
        _some_of(*CIPHERS, *TLS13_CIPHERS), f"a list of {', '.join((*CIPHERS, *TLS13_CIPHERS))}"
    ),
    "tls_server_config.prefer_server_cipher_suites": Key(_switch, "true, false", "typed"),
    "tls_server_config.curve_preferences": Key(_curves, f"a list with one of {', '.join(CURVES)}, or with all of them"),
    "http_server_config.http2": Key(_switch, "true, false (HTTP/1.1 is spoken either way)", "typed"),
    "http_server_config.headers.Strict-Transport-Security": _header(),
    "http_server_config.headers.X-Content-Type-Options": _header("nosniff"),
    "http_server_config.headers.X-Frame-Options": _header("deny", "sameorigin"),
    "http_server_config.headers.X-XSS-Protection": _header(),
    "http_server_config.headers.Content-Security-Policy": _header(),
    "rate_limit.interval": Key(duration_or_none, "0, or a duration such as 100ms, 1s", "typed"),
    "rate_limit.burst": Key(_number, "a whole number, 0 or more", "typed"),
}
"""Every key with a value; names of users are free."""

SECTIONS = frozenset(key.rpartition(".")[0] for key in KEYS) | {USERS}


def is_hash(value: object) -> bool:
    """Whether this is a password's hash as bcrypt writes it."""
    return isinstance(value, str) and _BCRYPT.fullmatch(value) is not None


def style_of(path: tuple[str, ...]) -> Style:
    """How the plain scalars of a key are taken."""
    key = KEYS.get(".".join(path))
    if key is not None:
        return key.style
    return "text" if path[:1] == (USERS,) else "typed"


def hint(key: str) -> str:
    """Return the hint for an unknown key."""
    known = (*SECTIONS, *KEYS)
    section, _, name = key.rpartition(".")
    siblings = {each.rpartition(".")[2]: each for each in known if each.rpartition(".")[0] == section}
    elsewhere = [each for each in known if each.rpartition(".")[2] == name]
    near = [siblings[each] for each in get_close_matches(name, siblings, 1, 0.6)] or elsewhere
    return f"did you mean {near[0]}?" if near else keys_of(section)


def keys_of(section: str) -> str:
    """Return the hint for a section: its keys."""
    if section == USERS:
        return f"{USERS} has names of users, each with its bcrypt hash"
    prefix = f"{section}." if section else ""
    inside = (each[len(prefix) :] for each in (*sorted(SECTIONS), *KEYS) if each.startswith(prefix))
    return f"{section or 'the file'} has the keys {', '.join(each for each in inside if each and '.' not in each)}"
