"""Requests of commands to daemons: credentials and TLS from files, redirects, and answers of something else."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path

import pytest

from pulsed.apps.daemon_client import ClientSettings, DaemonClient, DaemonUnreachable, RequestRefused, clients_of
from tests.support.certificates import make_authority
from tests.support.daemon import pulsed
from tests.support.http_servers import QuietHandler, running
from tests.support.waiting import returned


class Server(HTTPServer):
    """Answers every request with `{}`, or with a redirect to `location`; keeps the headers Authorization."""

    location = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(QuietHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.seen.append(self.headers["Authorization"])
        self.send_response(302 if self.server.location and self.path == "/" else 200)
        self.send_header("Location", self.server.location)
        self.end_headers()
        self.wfile.write(b"{}")


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    with running(made):
        yield made


def client(url: str, **settings: str) -> DaemonClient:
    return DaemonClient(url, ClientSettings(10.0, **settings))


def basic(login: str) -> str:
    return f"Basic {base64.b64encode(login.encode()).decode()}"


def test_credentials_come_from_files_unless_the_url_has_them(server: Server, tmp_path: Path) -> None:
    password, token = tmp_path / "password", tmp_path / "token"
    password.write_text("s3cret\n")
    token.write_text("abc\n")
    both, name = tmp_path / "both", tmp_path / "name"
    both.write_text("eve:a:b\n")
    name.write_text("eve\n")
    user = {"username": "ops", "password_file": str(password)}
    bearer = {"bearer_token_file": str(token)}
    for login, settings, sent in (
        ("", {}, None),
        ("", user, "ops:s3cret"),
        ("ann@", user, "ann:s3cret"),
        ("ann@", {"password_file": str(password)}, "ann:s3cret"),
        ("ann:own%21@", user, "ann:own!"),
        ("ann:own@", bearer, "ann:own"),
        ("", {"user_file": str(both)}, "eve:a:b"),
        ("", {"user_file": str(name), "password_file": str(password)}, "eve:s3cret"),
        ("ann:own@", {"user_file": str(both)}, "ann:own"),
    ):
        client(server.url.replace("//", f"//{login}"), **settings).json("/")
        assert server.seen.pop() == (None if sent is None else basic(sent))
    client(server.url, **bearer).json("/")
    assert server.seen.pop() == "Bearer abc"
    with pytest.raises(DaemonUnreachable, match=r"user file .* holds no password"):
        client(server.url, user_file=str(name)).json("/")


@pytest.mark.slow
def test_daemons_are_named_in_one_way(server: Server) -> None:
    """Positional URLs, of which a host alone has the usual port, and --nodes; a login on the command line is told."""
    settings, port = ClientSettings(10.0), server.server_port
    for urls, nodes, found in (
        ([], [], {"localhost": "http://localhost:9401"}),
        (["gpu1", "https://gpu2/x"], [], {"gpu1": "http://gpu1:9401", "gpu2": "https://gpu2/x"}),
        (["a:1", "u:p@a:2"], [], {"http://a:1": "http://a:1", "a:2": "http://a:2"}),
        (["https://x:1/p"], ["n1", "n2"], {"n1": "https://n1:1/p", "n2": "https://n2:1/p"}),
        ([], ["n1"], {"n1": "http://n1:9401"}),
    ):
        assert {name: each.address for name, each in clients_of(urls, nodes, settings).items()} == found
    for command, path in ((("health",), "/health/gpus"), (("job",), "/jobs"), (("job", "4711"), "/jobs/4711")):
        for words in ([f"127.0.0.1:{port}"], [f"http://localhost:{port}", "--nodes=127.0.0.1"]):
            done = pulsed(*command, *words)
            assert f"http://127.0.0.1:{port}{path}" in done.stderr, "the path that does not answer as a pulsed does"
    done = pulsed("health", f"http://ann:own@127.0.0.1:{port}")
    assert "the list of processes shows the login of http://***@127.0.0.1" in done.stderr
    assert "own" not in done.stderr.partition("\n")[0].replace("shows", "")
    assert "--nodes needs at most one URL" in pulsed("health", "a", "b", "--nodes=c").stderr


def test_health_of_an_invalid_list_is_unknown() -> None:
    done = pulsed("health", "--nodes", "gpu[1-3")
    assert (done.returncode, "'gpu[1-3' is not a host name" in done.stderr) == (3, True)


def test_a_renewed_password_counts_from_the_next_request_on(server: Server, tmp_path: Path) -> None:
    password = tmp_path / "password"
    one = client(server.url, username="ops", password_file=str(password))
    for text in ("first", "second"):
        password.write_text(text)
        one.json("/")
        assert server.seen.pop() == basic(f"ops:{text}")


@pytest.mark.parametrize("name", ["password_file", "bearer_token_file"])
def test_a_file_that_cannot_be_used_is_named_and_nothing_is_sent(server: Server, tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(b"x" * 100_000)
    for file, reason in (("missing", "No such file"), ("fifo", "not a regular file"), ("large", "larger than")):
        url = server.url.replace("//", "//ops@") if name == "password_file" else server.url
        one = client(url, **{name: str(tmp_path / file)})
        with pytest.raises(DaemonUnreachable, match=f"{file}: {reason}"):
            returned(lambda one=one: one.json("/"))  # type: ignore[misc]
    assert server.seen == []


def test_credentials_do_not_follow_to_another_host(server: Server) -> None:
    other = Server()
    with running(other):
        server.location = f"{other.url}/gpus"
        client(server.url.replace("//", "//ops:s3cret@")).json("/")
    assert (server.seen, other.seen) == ([basic("ops:s3cret")], [None])


def test_credentials_follow_to_another_path(server: Server) -> None:
    server.location = "/gpus"
    client(server.url.replace("//", "//ops:s3cret@")).json("/")
    assert server.seen == [basic("ops:s3cret")] * 2


def test_proxies_of_the_environment_are_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "")
    assert client("http://ops:s3cret@daemon.invalid:9401").json("/") == {}
    assert server.seen == [basic("ops:s3cret")]
    monkeypatch.setenv("no_proxy", ".invalid")
    with pytest.raises(DaemonUnreachable, match="host name that is not known"):
        client("http://daemon.invalid:9401").json("/")


def test_a_client_certificate_that_is_renewed(server: Server, tmp_path: Path) -> None:
    authority = make_authority(tmp_path)
    server.socket = authority.server_context(ask_client=True).wrap_socket(server.socket, server_side=True)
    url = server.url.replace("http:", "https:")
    own = {"cert_file": str(tmp_path / "own.crt"), "key_file": str(tmp_path / "own.key"), "ca_file": str(authority.ca)}
    one = client(url, **own)
    with pytest.raises(
        DaemonUnreachable, match=r"--ca-file .*ca.crt, --cert-file .*own.crt, .* cannot be used: No such"
    ):
        one.json("/")
    (tmp_path / "own.crt").write_bytes(authority.client.read_bytes())
    (tmp_path / "own.key").write_bytes(authority.client_key.read_bytes())
    assert one.json("/") == {}
    with pytest.raises(DaemonUnreachable):
        client(url, ca_file=str(authority.ca)).json("/")


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Send every client the same bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.recv(65536)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 two hundred OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:99999999/\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://[/\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000,
    ],
    ids=lambda answer: answer[:60].decode(errors="replace"),
)
def test_what_is_no_answer_of_a_daemon_is_an_error(answer: bytes) -> None:
    with answering(answer) as url, pytest.raises((DaemonUnreachable, RequestRefused)):
        returned(lambda: client(url).json("/"))


def test_what_something_else_answers_is_no_state_of_health() -> None:
    with answering(b"SSH-2.0-OpenSSH_9.6\r\n") as url:
        done = pulsed("health", url)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (3, "", False)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "code"), [(("health",), 3), (("job",), 2), (("top", "--once"), 2)])
def test_every_command_has_the_options(server: Server, tmp_path: Path, command: tuple[str, ...], code: int) -> None:
    password = tmp_path / "password"
    password.write_text("s3cret\n")
    password.chmod(0o600)
    file = f"--password-file={password}"
    pulsed(*command, server.url, file, "--username=ops")
    assert set(server.seen) == {basic("ops:s3cret")}
    for wrong, words in (
        (["--username=ops"], "--username needs --password-file"),
        ([file], "--password-file needs a user"),
        ([file, "--username=ops", "--bearer-token-file=x"], "--bearer-token-file and a user are given"),
        (["--key-file=x"], "--key-file needs --cert-file"),
    ):
        done = pulsed(*command, server.url, *wrong)
        assert (done.returncode, words in done.stderr, done.stderr.count("\n")) == (code, True, 1)


def test_a_secret_that_all_users_can_read_is_a_warning(server: Server, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("s3cret\n")
    for mode, warning in ((0o644, f"pulsed: all users can read {password}; run chmod o-r on it\n"), (0o640, "")):
        password.chmod(mode)
        done = pulsed("health", server.url, "--username=ops", f"--password-file={password}")
        assert done.stderr.startswith(warning)
        assert ("all users" in done.stderr) == bool(warning)
        assert server.seen.pop() == basic("ops:s3cret")
