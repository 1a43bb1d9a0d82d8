"""Nonsense over HTTP: whatever is sent, the daemon lives, and nothing is answered with a 5xx that is not meant."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.support.daemon import Daemon, environment, serving
from tests.support.examples import examples
from tests.support.waiting import SECONDS


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with serving(tmp_path_factory.mktemp("fuzz"), "--source", "demo") as daemon:
        yield daemon
        assert daemon.get("/metrics").status == 200
        assert "Traceback" not in daemon.log()
        assert daemon.stop() == 0


def send(daemon: Daemon, request: bytes) -> bytes:
    """Send bytes and take what comes until the daemon closes; a connection that is cut gives what came before."""
    received = b""
    with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", daemon.port), SECONDS) as client:
        client.sendall(request)
        while chunk := client.recv(65536):
            received += chunk
    return received


def statuses(answer: bytes) -> list[int]:
    """The status codes in what came, of pipelined answers all."""
    return [int(code) for code in re.findall(rb"^HTTP/1\.1 (\d{3}) ", answer, re.MULTILINE)]


def request(path: bytes, method: bytes = b"GET", *headers: bytes) -> bytes:
    lines = [method + b" " + path + b" HTTP/1.1", b"Host: x", b"Connection: close", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


STATUSES = """
[[operations]]
include-path = "/history"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "404"]
"""
"""GPUs, points and fields that are too many only together are answered 400; no schema can describe that.
"""


@pytest.mark.slow
def test_schemathesis(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(STATUSES)
    finished = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"),
            "run",
            f"http://{daemon.address}/openapi.json",
            "--checks=all",
            "--phases=examples,coverage,fuzzing",
            "--max-examples=10",
            "--continue-on-failure",
            "--exclude-path=/events",  # it has no end
        ],
        cwd=tmp_path,  # where it leaves its files
        env=environment(PYTHONWARNINGS="default"),
        capture_output=True,
        text=True,
        timeout=5 * SECONDS,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout
    described = sum(len(path) for path in daemon.get("/openapi.json").json()["paths"].values())
    assert f"{described - 1} selected / {described} total" in finished.stdout


ODD = {
    "long query": request(b"/gpus/0?node=" + b"a" * 30_000),
    "zero byte": request(b"/gpus/\0"),
    "quoted zero byte": request(b"/gpus/%00"),
    "quoted half": request(b"/gpus/%f"),
    "quoted no utf-8": request(b"/gpus/%ff%fe"),
    "quoted surrogate": request(b"/gpus/%ed%a0%80"),
    "raw utf-8": request("/gpus/GPU-ü-🙂".encode()),
    "query no utf-8": request(b"/gpus/0?node=%ff&node=%00&node"),
    "up and up": request(b"/gpus/../../../../etc/passwd"),
    "up and up quoted": request(b"/static-offline-docs/..%2f..%2f..%2f..%2f..%2fetc/passwd"),
    "strange header": request(b"/metrics", b"GET", b"Accept: \xff\xfe\x80;q=\xb2", b"Accept-Encoding: \xf0;q=1e9,,;;="),
    "pipelined": b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20 + request(b"/gpus"),
}
"""Requests that reach the application; what the server refuses is in `tests/server` and in the fuzzer, against h11."""


def test_odd_requests(daemon: Daemon) -> None:
    for name, odd in ODD.items():
        answer = send(daemon, odd)
        codes = statuses(answer)
        assert len(codes) == (21 if name == "pipelined" else 1), (name, answer)
        assert all(code < 500 for code in codes), (name, answer)
        assert b"root:" not in answer, name
    assert daemon.get("/-/healthy").status == 200


_TOKENS = st.sampled_from(
    ["text/plain", "application/openmetrics-text", "*/*", "gzip", "identity", "*", "q", "version", "0.0.4", "1.0.0",
     "=", ";", ",", " ", "\t", "0", "1", "0.5", "-1", "1e999", "nan", '"', "\\", "text", "/", "charset=utf-8",
     "x" * 300]
)  # fmt: skip
_HEADER = st.lists(_TOKENS | st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=5)).map(
    "".join
)


@given(accept=_HEADER, encoding=_HEADER)
@examples(150, [HealthCheck.function_scoped_fixture])
def test_a_scrape_succeeds_whatever_it_accepts(daemon: Daemon, accept: str, encoding: str) -> None:
    answer = send(
        daemon,
        request(
            b"/metrics",
            b"GET",
            b"Accept: " + accept.encode("latin-1"),
            b"Accept-Encoding: " + encoding.encode("latin-1"),
        ),
    )
    # the parser refuses control characters in a header.
    assert statuses(answer) in ([200], [400]), answer[:200]
    if statuses(answer) == [400]:
        assert re.search(r"[\x00-\x08\x0a-\x1f\x7f]", accept + encoding)


@given(path=st.binary(max_size=200))
@examples(150)
def test_no_path_is_an_error_of_ours(daemon: Daemon, path: bytes) -> None:
    for prefix in (b"/", b"/gpus/", b"/gpus/0?node=", b""):
        codes = statuses(send(daemon, request(prefix + path)))
        assert {code < 500 for code in codes} == {True}, (path, codes)


@contextlib.contextmanager
def never_reading(daemon: Daemon) -> Iterator[None]:
    """A client that asks for pages until no more is taken from it, and never reads."""
    with socket.create_connection(("127.0.0.1", daemon.port), SECONDS) as client:
        client.setblocking(False)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            for _ in range(2000):
                client.send(request(b"/metrics"))
        yield


def test_clients_that_do_not_read_take_no_request_from_others(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--source", "demo", "--web.max-requests=1") as daemon,
        never_reading(daemon),
        never_reading(daemon),
    ):
        for path in ("/metrics", "/-/healthy", "/gpus"):
            assert daemon.get(path).status == 200
