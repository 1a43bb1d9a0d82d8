from __future__ import annotations

import contextlib
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.errors import ConfigError
from pulsed.server.web_config import SCHEMA, Pem, WebSettings, read
from tests.support.examples import examples
from tools.generate_docs import ROOT

HASH = "$2y$10$DuRG1NdsgvFJTmyzBNGKUOXZFEFlqcXN0qOuj9qPrbPhXfuWGkQsq"

EVERYTHING = f"""
tls_server_config:
  cert_file: server.crt
  key_file: /etc/keys/server.key
  client_ca_file: ca.pem
  client_auth_type: RequireAndVerifyClientCert
  client_allowed_sans: [prometheus.example.com, 10.0.0.1]
  min_version: TLS12
  max_version: TLS13
  cipher_suites:
  - TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
  - TLS_AES_128_GCM_SHA256
  prefer_server_cipher_suites: false
  curve_preferences: [CurveP256]
http_server_config:
  http2: true
  headers:
    Strict-Transport-Security: max-age=31536000
    X-Content-Type-Options: nosniff
    X-Frame-Options: deny
    X-XSS-Protection: 1
    Content-Security-Policy: default-src 'self'
basic_auth_users:
  alice: {HASH}
  007: {HASH}
  a.b: {HASH}
rate_limit:
  interval: 100ms
  burst: 20
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "web.yml"
    file.write_text(text)
    return file


def test_every_key_is_read(tmp_path: Path) -> None:
    file = written(tmp_path, EVERYTHING)
    found = read(file)
    document = asdict(found.settings)
    document["http_server_config"]["headers"] = dict(found.settings.http_server_config.headers.items())
    for name in ("key", "configured_keys"):
        del document["tls_server_config"][name]
    assert document == {
        "tls_server_config": {
            "cert": "",
            "client_ca": "",
            "cert_file": str(tmp_path / "server.crt"),
            "key_file": "/etc/keys/server.key",
            "client_ca_file": str(tmp_path / "ca.pem"),
            "client_auth_type": "RequireAndVerifyClientCert",
            "client_allowed_sans": ("prometheus.example.com", "10.0.0.1"),
            "min_version": "TLS12",
            "max_version": "TLS13",
            "cipher_suites": ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
            "prefer_server_cipher_suites": False,
            "curve_preferences": ("CurveP256",),
        },
        "http_server_config": {
            "http2": True,
            "headers": {
                "Strict-Transport-Security": "max-age=31536000",
                "X-Content-Type-Options": "nosniff",
                "X-Frame-Options": "deny",
                "X-XSS-Protection": "1",
                "Content-Security-Policy": "default-src 'self'",
            },
        },
        "basic_auth_users": {"alice": HASH, "007": HASH, "a.b": HASH},
        "rate_limit": {"interval": 0.1, "burst": 20},
    }
    assert [found.pem(name) for name in ("cert", "key", "client_ca")] == [
        Pem(f"{file}:3: tls_server_config.cert_file", file=str(tmp_path / "server.crt")),
        Pem(f"{file}:4: tls_server_config.key_file", file="/etc/keys/server.key"),
        Pem(f"{file}:5: tls_server_config.client_ca_file", file=str(tmp_path / "ca.pem")),
    ]
    assert HASH not in repr(found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "tls_server_config:\n",
        "basic_auth_users:\nrate_limit: {interval: 0, burst: 5}\n",
        "rate_limit: {interval: 0s}",
    ],
)
def test_an_empty_file_is_plain_http_without_authentication(tmp_path: Path, text: str) -> None:
    found = read(written(tmp_path, text)).settings
    assert not found.rate_limit.interval
    assert replace(found, rate_limit=WebSettings().rate_limit) == WebSettings()


def test_the_example_of_the_manual_is_right(tmp_path: Path) -> None:
    example = re.search(
        r"A complete example:\n\n```yml\n(.*?)```", (ROOT / "docs/security.md").read_text("utf-8"), re.DOTALL
    )
    assert example is not None
    found = read(written(tmp_path, example[1]))
    assert found.files()
    assert list(found.settings.basic_auth_users) == ["prometheus"]


def test_a_file_goes_before_what_is_written_in_place(tmp_path: Path) -> None:
    text = "tls_server_config: {cert: CERT, cert_file: a.crt, key: KEY}"
    found = read(written(tmp_path, text))
    cert, key = found.pem("cert"), found.pem("key")
    assert cert is not None
    assert key is not None
    assert (cert.file, cert.text, key.text) == (str(tmp_path / "a.crt"), "", "KEY")


PAIR = "cert_file: a.crt, key_file: a.key"
BAD = {
    "tls_server_config: {cert_fle: a}": ":1: tls_server_config.cert_fle: unknown key; did you mean "
    "tls_server_config.cert_file?",
    "cert_file: a": ":1: cert_file: unknown key; did you mean tls_server_config.cert_file?",
    "sauce: 1": ":1: sauce: unknown key; the configuration has the keys tls_server_config, http_server_config, "
    "basic_auth_users, rate_limit",
    "sauce:": ":1: sauce: unknown key",
    "tls_server_config: 1": ":1: tls_server_config: 1 is not allowed; tls_server_config has the keys cert, "
    "key, client_ca",
    "- 1": ":1: the file must hold keys with values, as in 'tls_server_config",
    "a: {": "not valid YAML",
    "rate_limit: {}\nrate_limit: {}": ":2: rate_limit: is given twice, first at FILE:1; leave one of them out",
    f"tls_server_config: {{{PAIR}, min_version: TLS14}}": ":1: tls_server_config.min_version: 'TLS14' is not allowed; "
    "allowed: TLS10, TLS11, TLS12, TLS13",
    f"tls_server_config: {{{PAIR}, min_version: TLS13, max_version: TLS12}}": "tls_server_config.max_version: is "
    "TLS12, which is older than min_version, TLS13",
    f"tls_server_config: {{{PAIR}, cipher_suites: [RC4]}}": "cipher_suites[0]: 'RC4' is not a cipher suite; "
    "allowed: a list of TLS_RSA",
    f"tls_server_config: {{{PAIR}, cipher_suites: TLS_AES_128_GCM_SHA256}}": "'TLS_AES_128_GCM_SHA256' is not allowed; "
    "allowed: a list of",
    f"tls_server_config: {{{PAIR}, curve_preferences: [X25519, CurveP256]}}": "names several",
    f"tls_server_config: {{{PAIR}, prefer_server_cipher_suites: 1}}": "1 is not allowed; allowed: true, false",
    f"tls_server_config: {{{PAIR}, client_auth_type: RequestClientCert}}": "which Python's TLS cannot do",
    f"tls_server_config: {{{PAIR}, client_auth_type: Sometimes}}": "'Sometimes' is not allowed; allowed: NoClientCert",
    f"tls_server_config: {{{PAIR}, client_auth_type: RequireAndVerifyClientCert}}": "set client_ca_file",
    f"tls_server_config: {{{PAIR}, client_ca_file: ca}}": ":1: tls_server_config.client_ca_file: has no effect without "
    "client_auth_type",
    f"tls_server_config: {{{PAIR}, client_allowed_sans: [a]}}": "client_allowed_sans: needs certificates of clients",
    "tls_server_config: {cert_file: a}": ":1: tls_server_config.key_file: is missing",
    "tls_server_config: {key_file: a}": ":1: tls_server_config.cert_file: is missing",
    "tls_server_config: {client_ca_file: a}": "tls_server_config.cert_file: is missing",
    "tls_server_config: {min_version: TLS13}": "min_version: needs a certificate too; set cert_file and key_file",
    "http_server_config: {headers: {X-Frame-Option: x}}": ":1: http_server_config.headers.X-Frame-Option: unknown key; "
    "did you mean http_server_config.headers.X-Frame-Options?",
    "http_server_config: {headers: {Server: x}}": ":1: http_server_config.headers.Server: unknown key; ",
    "http_server_config: {headers: {X-Frame-Options: DENY}}": "'DENY' is not allowed; allowed: deny, sameorigin",
    'http_server_config: {headers: {Content-Security-Policy: "a\\r\\nSet-Cookie: b"}}': "cannot be sent in a header",
    "http_server_config: {http2: maybe}": "'maybe' is not allowed; allowed: true, false",
    "basic_auth_users: {alice: hunter2}": ":1: basic_auth_users.alice: this value is not a bcrypt hash; allowed: name: "
    "hash, the hash as `htpasswd -nBC 10 USER` prints",
    "basic_auth_users: {alice: }": ":1: basic_auth_users.alice: this value is not allowed",
    "basic_auth_users: {'alice:hunter2': x}": ":1: basic_auth_users: this name is empty, or has a colon",
    "basic_auth_users: {alice: $2y$99$DuRG1NdsgvFJTmyzBNGKUOXZFEFlqcXN0qOuj9qPrbPhXfuWGkQsq}": "is not a bcrypt hash",
    "rate_limit: {interval: 5 parsecs}": "'5 parsecs' is not a duration; allowed: seconds as a number, 0 or more",
    "rate_limit: {interval: 1s, burst: -1}": "burst: -1 is not allowed; allowed: a whole number, 0 or more",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_a_wrong_value_is_refused_with_place_and_allowed_values(tmp_path: Path, text: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read(file)
    message = str(caught.value)
    assert caught.value.exit_code == 2
    assert message.startswith(str(file))
    assert BAD[text].replace("FILE", str(file)) in message
    assert "hunter2" not in message


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    text = "tls_server_config: {min_version: x, max_version: y}\nsauce: 1\nbasic_auth_users: {a: b, c: d}\n"
    with pytest.raises(ConfigError) as caught:
        read(written(tmp_path, text))
    assert len(str(caught.value).splitlines()) == 5


@pytest.mark.parametrize(("name", "words"), [("missing.yml", "No such file"), ("", "not a regular file")])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(tmp_path / name)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "web.yml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read(file)


SCALARS = st.sampled_from(["", "1", "true", "x", "[a, b]", "{a: b}", "TLS12", "deny", "'hunter2'", "[[]]", "1s"])


@examples(100)
@given(
    st.lists(st.tuples(st.sampled_from([*SCHEMA.keys, "basic_auth_users.a", "x.y", "rate_limit"]), SCALARS), max_size=6)
)
def test_nothing_that_is_written_is_a_crash(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[str, str]]
) -> None:
    text = ""
    for key, value in lines:
        parts = key.split(".")
        text += "".join(f"{' ' * depth}{part}:\n" for depth, part in enumerate(parts[:-1]))
        text += f"{' ' * (len(parts) - 1)}{parts[-1]}: {value}\n"
    file = tmp_path_factory.mktemp("web") / "web.yml"
    file.write_text(text)
    with contextlib.suppress(ConfigError):
        read(file)
