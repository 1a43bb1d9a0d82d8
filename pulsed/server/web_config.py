"""The web configuration file: its keys, as sections of the configuration language.

Keys and meanings follow Prometheus' exporter-toolkit (docs/web-configuration.md), so that one file serves all
exporters of a node. The files that it names are read by `tls_context`.
"""

from __future__ import annotations

import functools
import platform
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import model_validator

from pulsed.config.schema import Schema, files_with_secrets, shown
from pulsed.config.settings import NOT_ALLOWED, Kind, ListKind, Problem, Settings, TableKind, keys_of, setting
from pulsed.config.values import Count, DurationOrNone, Secret, matching, one_of
from pulsed.config.yaml import LocatedValue

CIPHERS: Mapping[str, str] = {
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
}
"""Suites of TLS 1.2 and older, by Go's name."""

TLS13_CIPHERS = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""Suites of TLS 1.3, which is always free to choose among them: in Go too they may be listed, without effect."""

CURVES: Mapping[str, str] = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}

VERSIONS: Mapping[str, ssl.TLSVersion] = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}


@functools.cache
def selectable_curves() -> frozenset[str]:
    """Return the curves that this Python can select as the only one.

    Python 3.11, as Debian 12 has it, selects curves through an older function of OpenSSL, for which X25519 is
    an unknown group (python/cpython#77063).
    """
    return frozenset(name for name, openssl_name in CURVES.items() if _is_selectable(openssl_name))


def _is_selectable(curve: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ecdh_curve(curve)
    except (ssl.SSLError, ValueError):
        return False
    return True


_PEM = "PEM, from its first -----BEGIN to its last -----END line"


def _curves(value: tuple[str, ...]) -> tuple[str, ...]:
    """Return the curve to select, or none for the whole table: OpenSSL's own list, which starts with X25519."""
    if set(value) == set(CURVES):
        return ()
    if len(value) > 1:
        raise ValueError("names several, and Python's TLS can select only one")
    for name in value:
        if name in CURVES and name not in selectable_curves():
            raise ValueError(
                f"has {shown(name)}, which Python {platform.python_version()} cannot select as the only curve "
                "(without this key OpenSSL prefers X25519)"
            )
        if name not in CURVES:
            raise ValueError(f"has {shown(name)}")
    return value


def _exact_switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(NOT_ALLOWED)
    return value


def _client_auth(value: str) -> str:
    if value in ("RequestClientCert", "RequireAnyClientCert", "RequireClientCert"):
        raise ValueError("requests a certificate without verifying it, which Python's TLS cannot do")
    if value not in ("NoClientCert", *_VERIFYING):
        raise ValueError("is not allowed")
    return value


_user = matching(  # RFC 7617: the first colon ends the name
    r"[^:\0-\x1f\ud800-\udfff]+", "is empty, or has a colon or a control character"
)
_hash = matching(r"\$2[abxy]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}", "is not a bcrypt hash")
_header_value = matching(r"[\t -~\x80-\xff]+", "cannot be sent in a header")
_cipher = one_of((*CIPHERS, *TLS13_CIPHERS), "is not a cipher suite")
_VERIFYING = ("VerifyClientCertIfGiven", "RequireAndVerifyClientCert")

ExactSwitch = Annotated[bool, Kind("boolean", "true, false", _exact_switch)]
PemText = Annotated[str, Kind("pem", _PEM, str, "text")]
PemFile = Annotated[str, Kind("filename", "the name of a PEM file", str, "file")]
KeyFile = Annotated[str, Kind("filename", "the name of a PEM file", str, "file", secret_file=True)]
Version = Literal["TLS10", "TLS11", "TLS12", "TLS13"]
ClientAuth = Annotated[str, Kind("auth", ", ".join(("NoClientCert", *_VERIFYING)), _client_auth, "text")]
Sans = Annotated[
    tuple[str, ...], ListKind("sans", "a list of names, addresses, e-mails or URIs", str, "text", single=False)
]
Ciphers = Annotated[
    tuple[str, ...],
    ListKind("ciphers", f"a list of {', '.join((*CIPHERS, *TLS13_CIPHERS))}", _cipher, "text", single=False),
]
Curves = Annotated[
    tuple[str, ...],
    ListKind(
        "curves",
        f"a list with one of {', '.join(CURVES)}, or with all of them",
        str,
        "text",
        single=False,
        check=_curves,
    ),
]
HeaderText = Annotated[str, Kind("header", "one line of text", _header_value, "text")]
UserHashes = Annotated[
    Mapping[str, str],
    TableKind(
        "users",
        "name: hash, the hash as `htpasswd -nBC 10 USER` prints it after the colon, such as $2y$10$…",
        _hash,
        "text",
        secret=True,
        parse_name=_user,
    ),
]


@dataclass(frozen=True, slots=True)
class TlsServerSection(Settings):
    """TLS. It is on if a certificate is given; a key with `_file` goes before the one without."""

    cert: PemText = setting("")
    key: Secret | None = setting(None, hidden=True)
    client_ca: PemText = setting("")
    cert_file: PemFile = setting("")
    key_file: KeyFile = setting("")
    client_ca_file: PemFile = setting("")
    client_auth_type: ClientAuth = setting("NoClientCert")
    client_allowed_sans: Sans = setting(())
    min_version: Version = setting("TLS12")
    max_version: Version = setting("TLS13")
    cipher_suites: Ciphers = setting(())
    prefer_server_cipher_suites: ExactSwitch = setting(True)
    curve_preferences: Curves = setting(())
    configured_keys: frozenset[str] = field(default=frozenset(), repr=False, compare=False)

    @model_validator(mode="before")
    @classmethod
    def name_configured_keys(cls, section: Any) -> Any:
        """Add the names of the keys that the file has."""
        return {**section, "configured_keys": frozenset(section)} if isinstance(section, dict) else section

    @property
    def verifies_clients(self) -> bool:
        """Whether certificates of clients are verified."""
        return self.client_auth_type in _VERIFYING

    def inline(self, name: str) -> str:
        """Return the PEM text of `cert`, `key` or `client_ca`."""
        return str(getattr(self, name) or "")

    def problems(self) -> Iterator[Problem]:
        """Yield contradictions between certificate, key, authorities and versions."""
        has_cert, has_key, has_ca = (
            bool(self.inline(name) or getattr(self, f"{name}_file")) for name in ("cert", "key", "client_ca")
        )
        verifies = self.verifies_clients
        if not has_cert and (has_key or has_ca or verifies):
            yield "cert_file", "is missing; TLS needs a certificate and its key"
        if not has_key and (has_cert or has_ca or verifies):
            yield "key_file", "is missing; TLS needs a certificate and its key"
        if not (has_cert or has_key or has_ca or verifies):
            for name in sorted(self.configured_keys):
                if name == "key" or getattr(self, name) not in ("", "NoClientCert"):
                    yield name, "needs a certificate too; set cert_file and key_file"
        if has_ca and not verifies:
            name = "client_ca_file" if self.client_ca_file else "client_ca"
            yield name, f"has no effect without client_auth_type; set it to {' or '.join(_VERIFYING)}"
        if verifies and not has_ca:
            yield "client_auth_type", f"is {self.client_auth_type}, which needs authorities; set client_ca_file"
        if self.client_allowed_sans and not verifies:
            yield (
                "client_allowed_sans",
                "needs certificates of clients; set client_auth_type to RequireAndVerifyClientCert",
            )
        if self.min_version > self.max_version:
            yield "max_version", f"is {self.max_version}, which is older than min_version, {self.min_version}"


@dataclass(frozen=True, slots=True)
class HeadersSection(Settings):
    """Headers of every response."""

    hsts: HeaderText | None = setting(None, key="Strict-Transport-Security")
    content_type: Literal["nosniff"] | None = setting(None, key="X-Content-Type-Options")
    frame: Literal["deny", "sameorigin"] | None = setting(None, key="X-Frame-Options")
    xss: HeaderText | None = setting(None, key="X-XSS-Protection")
    csp: HeaderText | None = setting(None, key="Content-Security-Policy")

    def items(self) -> list[tuple[str, str]]:
        """Return the names and values of the headers that are set."""
        values = [(name, getattr(self, key.attribute)) for name, key in keys_of(HeadersSection).items()]
        return [(name, value) for name, value in values if value is not None]


@dataclass(frozen=True, slots=True)
class HttpServerSection(Settings):
    """HTTP. `http2` is accepted without effect: HTTP/1.1 is spoken."""

    http2: ExactSwitch = setting(True)
    headers: HeadersSection = setting(HeadersSection())


@dataclass(frozen=True, slots=True)
class RateLimitSection(Settings):
    """At most one request per `interval` seconds in the long run, and `burst` at once; interval 0: no limit."""

    interval: DurationOrNone = setting(0.0)
    burst: Count = setting(0)


@dataclass(frozen=True, slots=True)
class WebSettings(Settings):
    """The whole file. Users have bcrypt hashes by name; without users there is no authentication."""

    tls_server_config: TlsServerSection = setting(TlsServerSection())
    http_server_config: HttpServerSection = setting(HttpServerSection())
    basic_auth_users: UserHashes = setting({}, hidden=True)
    rate_limit: RateLimitSection = setting(RateLimitSection())


SCHEMA = Schema(WebSettings, "tls_server_config: {cert_file: server.crt, key_file: server.key}")


@dataclass(frozen=True, slots=True)
class Pem:
    """Certificates or a key: in a file, or in the configuration itself.

    Attributes:
        key: the key that gave it, with its place.
        file: name of the file; empty: `text` holds it.
    """

    key: str
    file: str = ""
    text: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class WebConfig:
    """A valid web configuration file.

    Attributes:
        document: the same with their places.
    """

    settings: WebSettings
    document: LocatedValue = field(repr=False)

    def pem(self, name: str) -> Pem | None:
        """Return what is given as `cert`, `key` or `client_ca`."""
        tls = self.settings.tls_server_config
        file, text = str(getattr(tls, f"{name}_file")), tls.inline(name)
        if not file and not text:
            return None
        name = f"{name}_file" if file else name
        where = f"{self.document.at(('tls_server_config', name)).origin}: tls_server_config.{name}"
        return Pem(where, file) if file else Pem(where, text=text)

    def files(self) -> tuple[str, ...]:
        """Return the names of the files that TLS reads."""
        return tuple(pem.file for name in ("cert", "key", "client_ca") if (pem := self.pem(name)) and pem.file)

    def secret_files(self, file: Path) -> Iterator[Path]:
        """Return the files with keys or hashes of passwords; `file` is the file of this configuration."""
        return files_with_secrets(self.settings, file)


def read(file: Path) -> WebConfig:
    """Read a web configuration file. An empty one means plain HTTP without authentication.

    Raises:
        ConfigError: with all problems, one per line: place, key, given value, and allowed values.
    """
    problems: list[str] = []
    document = SCHEMA.read(file, problems)
    return WebConfig(SCHEMA.validate(document, problems), document)
