"""A made-up certificate authority, for tests that speak TLS."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass
class Authority:
    """A made-up certificate authority and what it signed, as PEM files."""

    ca: Path
    other_ca: Path
    server: Path
    client: Path
    client_key: Path


def make_authority(folder: Path) -> Authority:
    """Write its files into a folder. The server's certificate is for 127.0.0.1."""
    now = datetime.now(timezone.utc)

    def named(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

    def key_usage(authority: bool) -> x509.KeyUsage:
        return x509.KeyUsage(not authority, False, False, False, False, authority, authority, False, False)

    def certificate(
        name: str, key: ec.EllipticCurvePrivateKey, issuer: str, signer: ec.EllipticCurvePrivateKey
    ) -> x509.Certificate:
        return (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named(issuer))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=name == issuer, path_length=None), critical=True)
            # Python 3.13 asks for these two and for the use of an authority's key (RFC 5280, 4.2.1).
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False)
            .add_extension(key_usage(name == issuer), True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
            .sign(signer, hashes.SHA256())
        )

    def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
        return key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def written(name: str, *parts: bytes) -> Path:
        path = folder / name
        path.write_bytes(b"".join(parts))
        return path

    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("ca", "other", "server", "client")}
    signed = {name: certificate(name, keys[name], "ca", keys["ca"]) for name in ("ca", "server", "client")}
    signed["other"] = certificate("other", keys["other"], "other", keys["other"])
    public = {name: one.public_bytes(serialization.Encoding.PEM) for name, one in signed.items()}
    return Authority(
        written("ca.pem", public["ca"]),
        written("other.pem", public["other"]),
        written("server.pem", public["server"], pem(keys["server"])),
        written("client.pem", public["client"]),
        written("client.key", pem(keys["client"])),
    )


def server_context(authority: Authority, ask_client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.server)
    if ask_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.ca)
    return context
