"""The HTTP side's doors, from outside: a real daemon, real clients, a real Prometheus."""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import resource
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import bcrypt
import pytest

from tests.support.certificates import Pair, make
from tests.support.daemon import Answer, Daemon, environment, free_port, pulsed, serving
from tests.support.prometheus import CONFIG, prometheus
from tests.support.waiting import SECONDS, until

PASSWORD = "correct horse battery staple"
HASH = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(5)).decode()
CA = make("test authority", authority=True)
SERVER = make("localhost", CA)
LOGIN = {"Authorization": "Basic " + base64.b64encode(f"alice:{PASSWORD}".encode()).decode()}

USERS = f"basic_auth_users: {{alice: {HASH}}}\n"
MUTUAL = """
tls_server_config:
  cert_file: server.crt
  key_file: server.key
  client_ca_file: ca.crt
  client_auth_type: RequireAndVerifyClientCert
  client_allowed_sans: [prometheus]
"""

SECURE = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: pulsed
    honor_labels: true
    scheme: https
    static_configs: [{{targets: ["localhost:{port}"]}}]
    basic_auth: {{username: alice, password: {password}}}
    tls_config: {{ca_file: ca.crt, cert_file: {client}.crt, key_file: {client}.key}}
"""


@contextlib.contextmanager
def guarded(folder: Path, web: str, *arguments: str) -> Iterator[Daemon]:
    """A daemon with this web configuration; it serves when it says so in its log, as nobody may be let in."""
    file = folder / "web.yml"
    file.write_text(web)
    with starting(folder, "--web.config.file", str(file), *arguments) as daemon:
        yield daemon


@contextlib.contextmanager
def starting(
    folder: Path, *arguments: str, command: Sequence[str] = (sys.executable, "-m", "pulsed")
) -> Iterator[Daemon]:
    port = free_port()
    log_path = folder / "pulsed.log"
    addresses = () if "--web.systemd-socket" in arguments else ("--web.listen-address", f"127.0.0.1:{port}")
    with log_path.open("w") as log:
        process = subprocess.Popen(
            [*command, "serve", "--source", "demo", *addresses, *arguments],
            stderr=log,
            stdout=log,
            text=True,
            env=environment(),
        )
    daemon = Daemon(process, port, log_path)
    try:
        until(lambda: "msg=serving" in daemon.log() or process.poll() is not None)
        assert process.poll() is None, daemon.log()
        yield daemon
        assert PASSWORD not in daemon.log()
        assert LOGIN["Authorization"][6:] not in daemon.log()
        assert HASH not in daemon.log()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(SECONDS)


def ask(
    daemon: Daemon, path: str, context: ssl.SSLContext | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    connection = (
        http.client.HTTPSConnection("localhost", daemon.port, timeout=SECONDS, context=context)
        if context
        else http.client.HTTPConnection("localhost", daemon.port, timeout=SECONDS)
    )
    with contextlib.closing(connection):
        connection.request("GET", path, headers=dict(headers or {}))
        response = connection.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    CA.write(tmp_path, "ca")
    SERVER.write(tmp_path, "server")
    return tmp_path


def client(folder: Path, pair: Pair | None = None, name: str = "client") -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=CA.cert_pem.decode())
    if pair is not None:
        context.load_cert_chain(*pair.write(folder, name))
    return context


def is_refused(daemon: Daemon, context: ssl.SSLContext) -> bool:
    """Whether the connection ends without an answer: in TLS 1.3 a client learns of it when it reads."""
    try:
        ask(daemon, "/metrics", context, LOGIN)
    except (ssl.SSLError, ConnectionError):
        return True
    return False


def test_prometheus_scrapes_by_tls_with_a_certificate_and_a_password(folder: Path) -> None:
    make("prometheus", CA).write(folder, "prometheus")
    with (
        guarded(folder, MUTUAL + USERS) as daemon,
        prometheus(folder, SECURE.format(port=daemon.port, password=PASSWORD, client="prometheus")) as server,
    ):
        server.wait_for('up{job="pulsed"} == 1')
        server.wait_for('count(pulsed_gpu_real_utilization_ratio{job="pulsed"}) == 8')


def test_prometheus_with_a_wrong_password_sees_nothing(folder: Path) -> None:
    make("prometheus", CA).write(folder, "prometheus")
    with (
        guarded(folder, MUTUAL + USERS) as daemon,
        prometheus(folder, SECURE.format(port=daemon.port, password="wrong", client="prometheus")) as server,
    ):
        server.wait_for('up{job="pulsed"} == 0')
        assert server.ask("pulsed_build_info") == []
        assert ask(daemon, "/metrics", client(folder, make("prometheus", CA))).status == 401


def test_certificates_that_are_not_let_in(folder: Path) -> None:
    other = make("another authority", authority=True)
    with guarded(folder, MUTUAL + USERS) as daemon:
        assert ask(daemon, "/metrics", client(folder, make("prometheus", CA)), LOGIN).status == 200
        for reason, pair in {
            "none": None,
            "expired": make("prometheus", CA, days=-1),
            "signed by itself": make("prometheus"),
            "of another authority": make("prometheus", other),
            "without the name": make("somebody", CA),
        }.items():
            assert is_refused(daemon, client(folder, pair)), reason
        assert ask(daemon, "/metrics", client(folder, make("prometheus", CA))).status == 401, "no password"
        old = client(folder, make("prometheus", CA))
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert ask(daemon, "/metrics", old, LOGIN).status == 200
        counted = 'pulsed_http_requests_total{path="/metrics",code="401"} 1'
        until(lambda: counted in ask(daemon, "/metrics", old, LOGIN).text)


def test_every_path_asks_for_the_password_and_none_tells_it(folder: Path) -> None:
    with guarded(folder, USERS) as daemon:
        for path in ("/metrics", "/", "/gpus", "/config", "/docs", "/-/healthy", "/-/ready", "/health", "/nothing"):
            assert ask(daemon, path).status == 401, path
            wrong = {"Authorization": "Basic " + base64.b64encode(b"alice:wrong").decode()}
            assert ask(daemon, path, headers=wrong).status == 401, path
            answer = ask(daemon, path, headers=LOGIN)
            assert answer.status == (404 if path == "/nothing" else 200), path
            assert HASH not in answer.text
            assert PASSWORD not in answer.text
        assert ask(daemon, "/config", headers=LOGIN).json()["web"]["config_file"].endswith("web.yml")
        assert ask(daemon, "/metrics").headers["www-authenticate"].startswith("Basic realm=")


def test_probes_can_be_let_in(folder: Path) -> None:
    with guarded(folder, USERS, "--set", "web.open_probes=true") as daemon:
        statuses = {path: ask(daemon, path).status for path in ("/-/healthy", "/-/ready", "/health", "/metrics")}
        assert statuses == {"/-/healthy": 200, "/-/ready": 200, "/health": 200, "/metrics": 401}


def test_a_certificate_that_is_replaced_is_served_without_a_restart(folder: Path) -> None:
    def serial() -> int:
        with (
            socket.create_connection(("localhost", daemon.port)) as plain,
            client(folder).wrap_socket(plain, server_hostname="localhost") as tls,
        ):
            certificate = tls.getpeercert()
            assert certificate is not None
            return int(str(certificate["serialNumber"]), 16)

    with guarded(folder, "tls_server_config: {cert_file: server.crt, key_file: server.key}") as daemon:
        assert serial() == SERVER.certificate.serial_number
        kept = http.client.HTTPSConnection("localhost", daemon.port, timeout=SECONDS, context=client(folder))
        with contextlib.closing(kept):
            kept.request("GET", "/-/healthy")
            assert kept.getresponse().read() == b"pulsed is healthy\n"

            (folder / "server.crt").write_text("not a certificate")
            until(lambda: "the web configuration is not valid" in daemon.log())
            assert serial() == SERVER.certificate.serial_number, "what was in force stays"

            renewed = make("localhost", CA)
            renewed.write(folder, "server")
            until(lambda: serial() == renewed.certificate.serial_number)

            kept.request("GET", "/-/healthy")
            assert kept.getresponse().status == 200, "connections that are open stay open"
        assert daemon.log().count("the web configuration is not valid") == 1
        assert "not a certificate" not in daemon.log()


def test_a_password_that_is_changed_counts_without_a_restart(folder: Path) -> None:
    with guarded(folder, USERS) as daemon:
        assert ask(daemon, "/metrics", headers=LOGIN).status == 200
        other = bcrypt.hashpw(b"other", bcrypt.gensalt(4)).decode()
        (folder / "web.yml").write_text(f"basic_auth_users: {{alice: {other}}}\n")
        until(lambda: ask(daemon, "/metrics", headers=LOGIN).status == 401)


@pytest.mark.parametrize(
    ("web", "words"),
    [
        ("basic_auth_user: {a: b}", "web.yml:1: basic_auth_user: unknown key; did you mean basic_auth_users?"),
        ("basic_auth_users: {alice: hunter2}", "web.yml:1: basic_auth_users.alice: this value is not a bcrypt hash"),
        ("tls_server_config: {cert_file: no.crt, key_file: server.key}", "no.crt: No such file"),
    ],
)
def test_a_wrong_web_configuration_is_told_at_start(folder: Path, web: str, words: str) -> None:
    file = folder / "web.yml"
    file.write_text(web)
    for command in (("serve", "--source", "demo"), ("check-config",)):
        finished = pulsed(*command, "--web.config.file", str(file))
        assert (finished.returncode, finished.stdout) == (2, "")
        assert words in finished.stderr
        assert finished.stderr.count("\n") == 1
        assert "hunter2" not in finished.stderr


def test_check_config_looks_at_the_web_configuration_too(folder: Path) -> None:
    (folder / "pulsed.yml").write_text("web: {config_file: web.yml}")
    (folder / "web.yml").write_text(MUTUAL + USERS)
    finished = pulsed("check-config", str(folder / "pulsed.yml"))
    assert (finished.returncode, finished.stdout) == (0, f"{folder}/pulsed.yml: valid\n{folder}/web.yml: valid\n")
    (folder / "web.yml").write_text("sauce: 1")
    assert pulsed("check-config", str(folder / "pulsed.yml")).returncode == 2
    assert pulsed("check-config").returncode == 2


def test_several_addresses_and_a_unix_socket(tmp_path: Path) -> None:
    path, port = tmp_path / "pulsed.sock", free_port()
    more = ("--web.listen-address", f"[::1]:{port}", "--web.listen-address", f"unix:{path}")
    with serving(tmp_path, "--source", "demo", *more) as daemon:
        assert path.stat().st_mode & 0o777 == 0o660
        for family, address in ((socket.AF_INET6, ("::1", port)), (socket.AF_UNIX, str(path))):
            with socket.socket(family) as plain:
                plain.connect(address)
                plain.sendall(b"GET /-/ready HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                assert plain.recv(65536).startswith(b"HTTP/1.1 200")
        assert daemon.stop() == 0
        assert not path.exists()


HANDS_OVER = f"""
import os, socket, sys
made = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
for number in range(2):
    os.dup2(made[number].fileno(), 20 + number)
for number in range(2):
    os.dup2(20 + number, 3 + number)
    os.close(20 + number)
os.environ |= {{"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2", "LISTEN_FDNAMES": "http:http"}}
os.execv({sys.executable!r}, [{sys.executable!r}, "-m", "pulsed", *sys.argv[1:]])
"""


@pytest.mark.parametrize("words", [(), ("--web.systemd-socket",)])
def test_sockets_that_systemd_hands_over(tmp_path: Path, words: tuple[str, ...]) -> None:
    """As systemd does it: descriptors from 3 on, and variables that name this very process."""
    with starting(tmp_path, *words, command=(sys.executable, "-c", HANDS_OVER)) as daemon:
        until(lambda: daemon.log().count("msg=serving") == 2)
        lines = [line for line in daemon.log().splitlines() if "msg=serving" in line]
        for line in lines:
            daemon.port = int(line.rpartition(":")[2].removesuffix("/metrics"))
            assert ask(daemon, "/-/healthy").status == 200
        assert daemon.stop() == 0


def test_without_sockets_of_systemd_there_is_one_clear_line() -> None:
    finished = pulsed("serve", "--source", "demo", "--web.systemd-socket")
    assert finished.returncode == 1
    assert finished.stderr.startswith("pulsed: systemd passed no sockets. Start pulsed from a .socket unit")
    assert finished.stderr.count("\n") == 1


def test_a_gigabyte_is_cut_off(tmp_path: Path) -> None:
    with serving(tmp_path, "--source", "demo") as daemon:
        for head in (b"Content-Length: 1073741824", b"Transfer-Encoding: chunked"):
            with socket.create_connection(("127.0.0.1", daemon.port), timeout=SECONDS) as plain:
                plain.sendall(b"POST /gpus HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n\r\n")
                sent = 0
                with contextlib.suppress(OSError):
                    while sent < 2**30:
                        plain.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                        sent += 65536
                assert sent < 2**26, "the rest is what buffers of the kernel took"
                with contextlib.suppress(ConnectionError):
                    assert plain.recv(65536).startswith((b"HTTP/1.1 413", b"HTTP/1.1 405"))
        with socket.create_connection(("127.0.0.1", daemon.port), timeout=SECONDS) as plain:
            plain.sendall(
                b"POST /gpus HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741824\r\nExpect: 100-continue\r\n\r\n"
            )
            assert plain.recv(65536).startswith(b"HTTP/1.1 413 ")
        assert daemon.get("/metrics").status == 200


FEW_DESCRIPTORS = f"""
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
os.execv({sys.executable!r}, [{sys.executable!r}, "-m", "pulsed", *sys.argv[1:]])
"""


def test_without_descriptors_the_idle_make_room(tmp_path: Path) -> None:
    with (
        starting(tmp_path, command=(sys.executable, "-c", FEW_DESCRIPTORS)) as daemon,
        contextlib.ExitStack() as idle,
    ):
        for _ in range(200):
            idle.enter_context(socket.create_connection(("127.0.0.1", daemon.port)))
        for _ in range(3):
            assert ask(daemon, "/metrics").status == 200
        assert daemon.log().count("the limit of connections is reached") == 1
        assert "Traceback" not in daemon.log()


def test_streams_leave_descriptors_for_probes(tmp_path: Path) -> None:
    stream = b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n"
    with (
        starting(tmp_path, command=(sys.executable, "-c", FEW_DESCRIPTORS)) as daemon,
        contextlib.ExitStack() as streams,
    ):
        for _ in range(60):
            said(streams.enter_context(socket.create_connection(("127.0.0.1", daemon.port))), stream)
        for _ in range(20):
            assert ask(daemon, "/-/healthy").status == 200
        assert daemon.log().count("level=warn") == 1
        assert "Traceback" not in daemon.log()


def test_a_reset_of_many_pipelined_requests_is_logged_once_at_most(tmp_path: Path) -> None:
    with starting(tmp_path) as daemon:
        before = len(daemon.log().splitlines())
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", daemon.port)) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close by a reset
                said(client, b"GET /gpus HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
                client.recv(100)
        assert ask(daemon, "/-/healthy").status == 200
        assert len(daemon.log().splitlines()) - before <= 1


@contextlib.contextmanager
def many_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def said(plain: socket.socket, data: bytes) -> bool:
    """Whether it could be sent."""
    try:
        plain.sendall(data)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def dripping(port: int, count: int) -> Iterator[None]:
    """As many clients whose requests never end, a byte at a time, each coming back when it is thrown out."""
    stop = threading.Event()

    def drip() -> None:
        clients: list[socket.socket] = []
        try:
            while not stop.is_set():
                while len(clients) < count:
                    clients.append(socket.create_connection(("127.0.0.1", port)))
                    clients[-1].sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
                for each in [each for each in clients if not said(each, b"x")]:
                    each.close()
                    clients.remove(each)
                stop.wait(0.2)
        finally:
            for each in clients:
                each.close()

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_neither_the_slow_nor_the_idle_stop_a_scrape(tmp_path: Path) -> None:
    with (
        many_descriptors(),
        serving(tmp_path, "--source", "demo", "--set", "web.request_timeout=2s") as daemon,
        prometheus(tmp_path, CONFIG.format(interval="1s", address=daemon.address)) as server,
        contextlib.ExitStack() as idle,
    ):
        server.wait_for("up == 1")
        begun = server.value("vector(time())")
        with dripping(daemon.port, 200):
            for _ in range(1000):
                idle.enter_context(socket.create_connection(("127.0.0.1", daemon.port)))
            server.wait_for(f"timestamp(up) > {begun + 12}")
            assert server.value("min_over_time(up[10s])") == 1
            assert daemon.get("/metrics").status == 200
            assert len(os.listdir(f"/proc/{daemon.process.pid}/fd")) < 600
        assert daemon.log().count("the limit of connections is reached") == 1
