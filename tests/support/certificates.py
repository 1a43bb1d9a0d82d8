"""Certificates for tests: authorities, servers and clients, valid and invalid."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def cert_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key_in(serialization.NoEncryption())

    def key_in(self, encryption: serialization.KeySerializationEncryption) -> bytes:
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write `name.crt` and `name.key`."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_bytes(self.cert_pem)
        key.write_bytes(self.key_pem)
        return certificate, key


def make(name: str, issuer: Pair | None = None, *, authority: bool = False, days: int = 30) -> Pair:
    """Make a certificate for `name` and the addresses of this host, signed by `issuer` or by itself.

    With `days` below 0 it ended as long ago.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 60 * DAY)
        .not_valid_after(now + days * DAY)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    # Python 3.13 looks for what RFC 5280 asks for: whose key it is, and whose signed it.
    signer = issuer.key if issuer else key
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
    )
    if authority:
        signs = ("key_cert_sign", "crl_sign")
        other = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
        uses = dict.fromkeys(signs, True) | dict.fromkeys((*other, "encipher_only", "decipher_only"), False)
        builder = builder.add_extension(x509.KeyUsage(**uses), critical=True)
    else:
        names = [
            x509.DNSName(name),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.IPAddress(ipaddress.ip_address("::1")),
            x509.RFC822Name(f"{name}@example.com"),
            x509.UniformResourceIdentifier(f"spiffe://cluster/{name}"),
        ]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Pair(builder.sign(signer, hashes.SHA256()), key)


@dataclass(frozen=True)
class Authority:
    """Files of an authority, of another one, and of a server and a client that the first has signed.

    Attributes:
        server: certificate and key; the certificate is for 127.0.0.1 and ::1.
    """

    ca: Path
    other_ca: Path
    server: tuple[Path, Path]
    client: Path
    client_key: Path

    def server_context(self, *, ask_client: bool = False) -> ssl.SSLContext:
        """Return the context of the server; it can require certificates of clients."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.server)
        if ask_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.ca)
        return context


def make_authority(folder: Path) -> Authority:
    """Write the files of an authority into a folder."""
    authority = make("ca", authority=True)
    ca, _ = authority.write(folder, "ca")
    other_ca, _ = make("other", authority=True).write(folder, "other")
    client, client_key = make("client", authority).write(folder, "client")
    return Authority(ca, other_ca, make("server", authority).write(folder, "server"), client, client_key)
