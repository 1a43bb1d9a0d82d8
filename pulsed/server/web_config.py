"""Parses the web configuration file.

Reads the file alone: certificates and keys that it names are `context`'s business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from pulsed.config.values import shown
from pulsed.config.yaml import BadYaml, Given, YamlText
from pulsed.errors import ConfigError
from pulsed.server.tls_names import CIPHERS, CURVES, VERSIONS
from pulsed.server.web_config_keys import KEYS, SECTIONS, USERS, hint, is_hash, keys_of, style_of

_T = TypeVar("_T")


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
class Tls:
    """How to speak TLS.

    Attributes:
        client_ca: whom a client's certificate must come from; None: no certificate is asked for.
        client_required: a client without a certificate is refused.
        sans: names of which a client's certificate must have one; empty: any will do.
        versions: oldest and newest version, as the file names them.
        ciphers: names of OpenSSL, for versions before 1.3; empty: OpenSSL's choice.
        curve: the only curve for the key exchange, as OpenSSL names it; empty: OpenSSL's choice.
    """

    cert: Pem
    key: Pem
    client_ca: Pem | None
    client_required: bool
    sans: frozenset[str]
    versions: tuple[str, str]
    ciphers: tuple[str, ...]
    server_order: bool
    curve: str


@dataclass(frozen=True, slots=True)
class Rate:
    """At most one request per `interval` seconds in the long run, and `burst` at once."""

    interval: float
    burst: int


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The settings of a web configuration file.

    Attributes:
        tls: None: plain HTTP.
        headers: sent with every answer.
        users: bcrypt hashes by name; empty: everybody may come in.
        rate: None: no limit.
    """

    tls: Tls | None = None
    headers: tuple[tuple[str, str], ...] = ()
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    rate: Rate | None = None

    def files(self) -> tuple[str, ...]:
        """Name the files that the file names."""
        if self.tls is None:
            return ()
        return tuple(pem.file for pem in (self.tls.cert, self.tls.key, self.tls.client_ca) if pem and pem.file)


def read(file: Path) -> WebSettings:
    """Read a web configuration file. An empty one means plain HTTP for everybody.

    Raises:
        ConfigError: with all problems, a line each: where, which key, what was given, and what is allowed.
    """
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(
            f"{file}: cannot be read: {error.strerror}", "Name a web configuration file that pulsed's user may read"
        ) from None
    except ValueError as error:
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise ConfigError(f"{file}: cannot be read: {reason}", "Name a YAML file") from None
    yaml = YamlText(text, str(file), style_of, file=True)
    try:
        given = yaml.read()
    except BadYaml as error:
        raise ConfigError(str(error)) from None
    form = _Form(yaml.problems)
    if isinstance(given.value, dict):
        form.take(given.value, ())
    elif given.value is not None:
        yaml.problems.append(f"{given.origin}: the file must hold keys with values, such as tls_server_config")
    settings = form.settings()
    if form.problems:
        raise ConfigError("\n".join(form.problems))
    return settings


class _Form:
    """The values of the keys that were given, and what is wrong with them."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        self._values: dict[str, object] = {}
        self._origins: dict[str, str] = {}
        self._users: dict[str, str] = {}

    def take(self, mapping: Mapping[str, Given], path: tuple[str, ...]) -> None:
        for name, given in mapping.items():
            key = ".".join((*path, name))
            self._origins[key] = given.origin
            if path == (USERS,):
                self._take_user(name, given)
            elif key in KEYS:
                self._take_value(key, given)
            elif key not in SECTIONS:
                self.problems.append(f"{given.origin}: {key}: unknown key; {hint(key)}")
            elif isinstance(given.value, dict):
                self.take(given.value, (*path, name))
            elif given.value is not None:
                self.problems.append(f"{given.origin}: {key}: holds no keys; {keys_of(key)}")

    def _take_value(self, key: str, given: Given) -> None:
        if given.value is None:  # `min_version:` is the default
            return
        plain = [item.value for item in given.value] if isinstance(given.value, list) else given.value
        try:
            self._values[key] = KEYS[key].read(plain)
        except ValueError as error:
            plural = isinstance(plain, (list, dict))
            written = "this value" if plural or KEYS[key].secret else shown(plain)
            self.problems.append(f"{given.origin}: {key}: {written} {error}; allowed: {KEYS[key].allowed}")

    def _take_user(self, name: str, given: Given) -> None:
        if not re.fullmatch(r"[^:\0-\x1f\ud800-\udfff]+", name):  # RFC 7617: the first colon ends the name
            self.problems.append(
                f"{given.origin}: {USERS}: a name is empty, or has a colon or a control character; allowed: name: hash"
            )
        elif not is_hash(given.value):
            self.problems.append(
                f"{given.origin}: {USERS}.{name}: this value is not a bcrypt hash; "
                "allowed: what `htpasswd -nBC 10 USER` prints after the colon, such as $2y$10$…"
            )
        else:
            self._users[name] = str(given.value)

    def settings(self) -> WebSettings:
        headers = tuple(
            (key.rpartition(".")[2], str(value))
            for key, value in self._values.items()
            if key.startswith("http_server_config.headers.")
        )
        interval = self._get("rate_limit.interval", 0.0)
        rate = Rate(interval, self._get("rate_limit.burst", 0)) if interval else None
        return WebSettings(self._tls(), headers, self._users, rate)

    def _tls(self) -> Tls | None:
        cert, key, ca = (self._pem(name) for name in ("cert", "key", "client_ca"))
        auth = self._get("tls_server_config.client_auth_type", "")
        before = len(self.problems)
        self.problems += self._contradictions(cert, key, ca, auth)
        if len(self.problems) > before or cert is None or key is None:
            return None
        suites: tuple[str, ...] = self._get("tls_server_config.cipher_suites", ())
        sans: tuple[str, ...] = self._get("tls_server_config.client_allowed_sans", ())
        curves: tuple[str, ...] = self._get("tls_server_config.curve_preferences", ())
        return Tls(
            cert=cert,
            key=key,
            client_ca=ca,
            client_required=auth == "RequireAndVerifyClientCert",
            sans=frozenset(sans),
            versions=self._versions(),
            ciphers=tuple(CIPHERS[name] for name in suites if name in CIPHERS),
            server_order=self._get("tls_server_config.prefer_server_cipher_suites", True),
            curve="".join(CURVES[name] for name in curves),
        )

    def _contradictions(self, cert: Pem | None, key: Pem | None, ca: Pem | None, auth: str) -> Iterator[str]:
        tls = self._origins.get("tls_server_config", "")
        verifies = auth in ("VerifyClientCertIfGiven", "RequireAndVerifyClientCert")
        if (key or ca or auth) and cert is None:
            yield f"{tls}: tls_server_config: has no certificate; set cert_file"
        if (cert or ca or auth) and key is None:
            yield f"{tls}: tls_server_config: has no key; set key_file"
        if cert is None and key is None and not ca and not auth:
            for name in self._values:  # without a certificate there is no TLS
                if name.startswith("tls_server_config."):
                    yield f"{self._origins[name]}: {name}: needs a certificate too; set cert_file and key_file"
        if ca is not None and not verifies:
            yield (
                f"{ca.key}: is of no use without client_auth_type; "
                "set it to RequireAndVerifyClientCert or VerifyClientCertIfGiven"
            )
        if verifies and ca is None:
            origin = self._origins["tls_server_config.client_auth_type"]
            yield f"{origin}: tls_server_config.client_auth_type: {auth} needs whom to trust; set client_ca_file"
        if "tls_server_config.client_allowed_sans" in self._values and not verifies:
            origin = self._origins["tls_server_config.client_allowed_sans"]
            yield (
                f"{origin}: tls_server_config.client_allowed_sans: needs certificates of clients; "
                "set client_auth_type to RequireAndVerifyClientCert"
            )
        oldest, newest = self._versions()
        if VERSIONS[oldest] > VERSIONS[newest]:
            origin = self._origins.get("tls_server_config.max_version", tls)
            yield f"{origin}: tls_server_config.max_version: {newest} is older than min_version, which is {oldest}"

    def _versions(self) -> tuple[str, str]:
        oldest, newest = (self._get(f"tls_server_config.{end}_version", "") for end in ("min", "max"))
        return oldest or "TLS12", newest or "TLS13"

    def _pem(self, name: str) -> Pem | None:
        for key in (f"tls_server_config.{name}_file", f"tls_server_config.{name}"):  # the file wins
            if value := self._get(key, ""):
                where = f"{self._origins[key]}: {key}"
                return Pem(where, file=value) if key.endswith("_file") else Pem(where, text=value)
        return None

    def _get(self, key: str, default: _T) -> _T:
        return cast("_T", self._values.get(key, default))
