from __future__ import annotations

import contextlib
import json
import os
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from pulsed.errors import ConfigError
from pulsed.server.tls_context import is_allowed, make_context
from pulsed.server.web_config import CIPHERS, CURVES, read, selectable_curves
from tests.support.certificates import Pair, make

SERVER = make("localhost")
AUTHORITY = make("test authority", authority=True)


def context_of(folder: Path, text: str) -> ssl.SSLContext:
    file = folder / "web.yml"
    file.write_text(f"tls_server_config: {{{text}}}")
    context = make_context(read(file))
    assert context is not None
    return context


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    SERVER.write(tmp_path, "server")
    AUTHORITY.write(tmp_path, "ca")
    return tmp_path


PAIR = "cert_file: server.crt, key_file: server.key"


def test_what_is_asked_for_is_what_the_context_does(folder: Path) -> None:
    context = context_of(
        folder, f"{PAIR}, client_ca_file: ca.crt, client_auth_type: RequireAndVerifyClientCert, min_version: TLS13"
    )
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert len(context.get_ca_certs()) == 1
    assert context.options & ssl.OP_NO_RENEGOTIATION
    plain = context_of(folder, PAIR)
    assert plain.verify_mode is ssl.CERT_NONE
    assert plain.minimum_version is ssl.TLSVersion.TLSv1_2
    assert plain.options & ssl.OP_CIPHER_SERVER_PREFERENCE
    free = context_of(folder, f"{PAIR}, prefer_server_cipher_suites: false")
    assert not free.options & ssl.OP_CIPHER_SERVER_PREFERENCE
    if_given = context_of(folder, f"{PAIR}, client_ca_file: ca.crt, client_auth_type: VerifyClientCertIfGiven")
    assert if_given.verify_mode is ssl.CERT_OPTIONAL


@pytest.mark.parametrize("name", CIPHERS)
def test_openssl_knows_every_cipher(folder: Path, name: str) -> None:
    context = context_of(folder, f"{PAIR}, cipher_suites: [{name}]")
    assert [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"] == [CIPHERS[name]]


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Shake hands in memory; raises ssl.SSLError if they do not come to terms."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(4):
        for end in ends.copy():
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
                ends.remove(end)
    assert ends == []


def client_of(curve: str = "") -> ssl.SSLContext:
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    if curve:
        client.set_ecdh_curve(curve)
    return client


def test_elliptic_curves_are_always_selectable() -> None:
    assert selectable_curves() >= {"CurveP256", "CurveP384", "CurveP521"}


@pytest.mark.parametrize("name", CURVES)
def test_a_curve_is_the_only_one_or_refused_with_a_way_out(folder: Path, name: str) -> None:
    text = f"{PAIR}, curve_preferences: [{name}]"
    if name in selectable_curves():
        server = context_of(folder, text)
        shake_hands(server, client_of())
        shake_hands(server, client_of(CURVES[name]))
        with pytest.raises(ssl.SSLError):
            shake_hands(server, client_of("secp384r1" if name == "CurveP256" else "prime256v1"))
    else:  # as on Debian 12
        assert name == "X25519"
        with pytest.raises(ConfigError) as caught:
            context_of(folder, text)
        assert "web.yml:1: tls_server_config.curve_preferences: a list has 'X25519', which Python" in str(caught.value)
        assert "cannot select as the only curve (without this key OpenSSL prefers X25519)" in str(caught.value)


def test_all_curves_are_openssls_own_list(folder: Path) -> None:
    server = context_of(folder, f"{PAIR}, curve_preferences: [{', '.join(CURVES)}]")
    for name in selectable_curves():
        shake_hands(server, client_of(CURVES[name]))


@pytest.mark.parametrize("refused", [ssl.SSLError("unknown group"), ValueError("unknown elliptic curve name")])
def test_a_python_that_cannot_select_a_curve_is_recognized(monkeypatch: pytest.MonkeyPatch, refused: Exception) -> None:
    def refuse(_: ssl.SSLContext, name: str) -> None:
        if name == "X25519":
            raise refused

    monkeypatch.setattr(ssl.SSLContext, "set_ecdh_curve", refuse)
    selectable_curves.cache_clear()
    try:
        assert selectable_curves() == {"CurveP256", "CurveP384", "CurveP521"}
    finally:
        monkeypatch.undo()
        selectable_curves.cache_clear()


@pytest.mark.parametrize("name", ["TLS10", "TLS11", "TLS12", "TLS13"])
def test_every_version_can_be_asked_for(folder: Path, name: str) -> None:
    context_of(folder, f"{PAIR}, min_version: {name}")


def in_place(pair: Pair) -> str:
    """Return the keys of a certificate, its key and an authority in place."""
    pems = {"cert": pair.cert_pem, "key": pair.key_pem, "client_ca": AUTHORITY.cert_pem}
    texts = (f"{name}: {json.dumps(pem.decode())}" for name, pem in pems.items())
    return ", ".join((*texts, "client_auth_type: RequireAndVerifyClientCert"))


def test_certificate_key_and_authority_may_stand_in_the_file_itself(tmp_path: Path) -> None:
    assert context_of(tmp_path, in_place(SERVER)).get_ca_certs()


def test_what_is_wrong_with_a_file_names_it(folder: Path) -> None:
    (folder / "empty").write_text("")
    os.mkfifo(folder / "fifo")
    (folder / "broken.crt").write_bytes(SERVER.cert_pem.replace(b"MII", b"???"))
    (folder / "locked.key").write_bytes(SERVER.key_in(serialization.BestAvailableEncryption(b"hunter2")))
    place = f"{folder}/web.yml:1: tls_server_config"
    for text, message in {
        "cert_file: no.crt, key_file: server.key": f"{place}.cert_file: cannot read {folder}/no.crt: No such file",
        "cert_file: server.crt, key_file: no.key": f"{place}.key_file: cannot read {folder}/no.key: No such file",
        "cert_file: fifo, key_file: server.key": f"{place}.cert_file: cannot read {folder}/fifo: not a regular file",
        "cert_file: empty, key_file: server.key": f"{place}.cert_file: {folder}/empty holds no certificate in PEM",
        "cert_file: server.crt, key_file: server.crt": f"{folder}/server.crt holds no private key in PEM",
        "cert_file: ca.crt, key_file: server.key": f"{folder}/server.key is not the key of the certificate",
        "cert_file: broken.crt, key_file: server.key": f"{folder}/broken.crt and its key cannot be used",
        "cert_file: server.crt, key_file: locked.key": f"{folder}/locked.key is encrypted",
        f"{PAIR}, client_auth_type: VerifyClientCertIfGiven, client_ca_file: broken.crt": "broken.crt cannot be used",
    }.items():
        with pytest.raises(ConfigError) as caught:
            context_of(folder, text)
        assert message in str(caught.value)


def test_a_key_in_the_wrong_place_is_not_repeated(folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        context_of(folder, f"cert_file: server.crt, key_file: {json.dumps(SERVER.key_pem.decode())}")
    assert "key_file: holds PEM instead of the name of a file" in str(caught.value)
    assert "PRIVATE" not in str(caught.value)


CERTIFICATE = {
    "subjectAltName": (
        ("DNS", "prometheus.example.com"),
        ("IP Address", "10.0.0.1"),
        ("IP Address", "0:0:0:0:0:0:0:1"),
        ("email", "ops@example.com"),
        ("URI", "spiffe://cluster/prometheus"),
    )
}


@pytest.mark.parametrize(
    "san",
    ["prometheus.example.com", "10.0.0.1", "::1", "0:0:0:0:0:0:0:1", "ops@example.com", "spiffe://cluster/prometheus"],
)
def test_a_name_of_any_kind_lets_in(san: str) -> None:
    assert is_allowed(CERTIFICATE, frozenset(("other", san)))  # type: ignore[arg-type] # as getpeercert() gives it


@pytest.mark.parametrize("san", ["example.com", "*.example.com", "PROMETHEUS.example.com", "10.0.0.10", ""])
def test_no_other_name_does(san: str) -> None:
    assert not is_allowed(CERTIFICATE, frozenset((san,)))  # type: ignore[arg-type]
    assert not is_allowed({"subject": ()}, frozenset((san,)))


def test_without_names_every_certificate_does() -> None:
    assert is_allowed({"subject": ()}, frozenset())
