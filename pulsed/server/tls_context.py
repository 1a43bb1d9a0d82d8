"""Makes a TLS context from the settings: certificates, trusted authorities, versions, ciphers.

The files' bytes are read first and OpenSSL gets them through memory: its own messages name no file, and it would prompt
the terminal for the passphrase of an encrypted key.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import ssl
import warnings
from collections.abc import Collection, Iterator
from typing import TypeAlias

from pulsed.errors import ConfigError
from pulsed.regular_file import read_regular
from pulsed.server.web_config import CIPHERS, CURVES, VERSIONS, Pem, TlsServerSection, WebConfig

Certificate: TypeAlias = "ssl._PeerCertRetDictType"
"""A certificate that TLS has verified, as `getpeercert` returns it."""

_MAX_BYTES = 16 * 2**20


def make_context(web: WebConfig) -> ssl.SSLContext | None:
    """Return the context for new connections; None for plain HTTP.

    Raises `ConfigError` if a file cannot be read or is of another kind, or key and certificate do not match.
    """
    cert, key = web.pem("cert"), web.pem("key")
    if cert is None or key is None:
        return None
    try:
        return _make(web.settings.tls_server_config, cert, key, web.pem("client_ca"))
    except (OSError, ValueError) as error:  # an OpenSSL with fewer ciphers, or one of FIPS; no descriptors left
        raise ConfigError(
            f"{cert.key.partition(': ')[0]}: tls_server_config: TLS cannot be set up: {_reason(error)}",
            "Leave out what this machine's OpenSSL does not offer",
        ) from None


def _make(tls: TlsServerSection, cert: Pem, key: Pem, client_ca: Pem | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of versions before 1.2, which are explicit
        context.minimum_version, context.maximum_version = VERSIONS[tls.min_version], VERSIONS[tls.max_version]
    context.options |= ssl.OP_NO_RENEGOTIATION
    if not tls.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if ciphers := [CIPHERS[name] for name in tls.cipher_suites if name in CIPHERS]:  # TLS 1.3's are always on
        context.set_ciphers(":".join(ciphers))
    for curve in tls.curve_preferences:
        context.set_ecdh_curve(CURVES[curve])
    context.set_alpn_protocols(["http/1.1"])
    _load_chain(context, cert, key)
    if client_ca is not None:
        _load_authorities(context, client_ca)
        is_required = tls.client_auth_type == "RequireAndVerifyClientCert"
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    return context


def is_allowed(certificate: Certificate, sans: Collection[str]) -> bool:
    """Return whether a client's verified certificate has one of the names; an empty list allows any."""
    return not sans or any(
        _comparable(str(value)) in {_comparable(san) for san in sans} for _, value in _names_of(certificate)
    )


def common_names(certificate: Certificate) -> frozenset[str]:
    """Return the common names of a certificate."""
    subject: tuple[tuple[tuple[str, str], ...], ...] = certificate.get("subject", ())  # type: ignore[assignment] # as below
    return frozenset(value for part in subject for key, value in part if key == "commonName")


def _names_of(certificate: Certificate) -> tuple[tuple[str, str], ...]:
    return certificate.get("subjectAltName", ())  # type: ignore[return-value] # typeshed: a mixture of all fields


def _comparable(name: str) -> str:
    """Return a name with IP addresses in one spelling: Python writes `0:0:0:0:0:0:0:1` for certificates."""
    try:
        return str(ipaddress.ip_address(name.strip()))
    except ValueError:
        return name


def _load_chain(context: ssl.SSLContext, cert: Pem, key: Pem) -> None:
    chain, secret = _bytes_of(cert, b"CERTIFICATE-----"), _bytes_of(key, b"PRIVATE KEY-----")
    if b"ENCRYPTED" in secret:
        raise ConfigError(f"{_place(key)} is encrypted", "Remove the passphrase: openssl pkey -in KEY -out NEW")
    try:
        with _in_memory(chain) as chain_file, _in_memory(secret) as key_file:
            context.load_cert_chain(chain_file, key_file, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            raise ConfigError(f"{_place(key)} is not the key of the certificate", "Give both of one pair") from None
        raise ConfigError(
            f"{_place(cert)} and its key cannot be used: {_reason(error)}", "Give a chain and its key, both in PEM"
        ) from None


def _load_authorities(context: ssl.SSLContext, ca: Pem) -> None:
    try:
        context.load_verify_locations(cadata=_bytes_of(ca, b"CERTIFICATE-----").decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{_place(ca)} cannot be used: {_reason(error)}", "Give certificates in PEM") from None


def _bytes_of(pem: Pem, mark: bytes) -> bytes:
    if "-----BEGIN" in pem.file:  # not to be repeated: it may be the key
        raise ConfigError(f"{pem.key}: holds PEM instead of the name of a file", "Use the key without _file for that")
    try:
        content = read_regular(pem.file, _MAX_BYTES) if pem.file else pem.text.encode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(
            f"{pem.key}: cannot read {pem.file}: {reason}", "Name a file that pulsed's user may read"
        ) from None
    if mark not in content:
        what = mark.decode().rstrip("-").lower()
        raise ConfigError(f"{_place(pem)} holds no {what} in PEM", f"Its lines begin with -----BEGIN … {mark.decode()}")
    return content


def _place(pem: Pem) -> str:
    return f"{pem.key}: {pem.file}" if pem.file else f"{pem.key}: this value"


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error).lower().replace("_", " ")


@contextlib.contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """Yield a file without a place on any disk: OpenSSL takes certificates and keys from files only."""
    descriptor = os.memfd_create("pulsed-pem")
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
