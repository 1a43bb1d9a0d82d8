from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from pulsed.server.auth import AuthMiddleware, Bucket
from pulsed.server.reloader import WebConfigReloader
from pulsed.server.web_config import RateLimitSection

PASSWORD = b"hunter2"
RIGHT = b"Basic " + base64.b64encode(b"alice:" + PASSWORD)
WRONG = b"Basic " + base64.b64encode(b"alice:wrong")


class Asked:
    """A guard with an application behind it that says yes."""

    def __init__(self, folder: Path, text: str, **arguments: Any) -> None:
        file = folder / "web.yml"
        file.write_text(text)
        self.reached: list[str] = []
        self.counted: list[tuple[str, int]] = []
        self.guard = AuthMiddleware(
            self._app,
            WebConfigReloader(file),
            lambda path, status: self.counted.append((path, status)),
            named=frozenset(("/metrics", "/-/healthy")),
            **arguments,
        )

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        self.reached.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"yes"})

    async def ask(
        self, path: str = "/metrics", *headers: tuple[bytes, bytes], method: str = "GET"
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        said: list[Any] = []

        async def send(message: Any) -> None:
            said.append(message)

        async def receive() -> Any:
            raise AssertionError("nobody reads a body here")

        scope = {"type": "http", "path": path, "method": method, "headers": list(headers)}
        await self.guard(scope, receive, send)
        start, body = said
        return start["status"], dict(start["headers"]), body["body"]


@pytest.fixture(scope="module")
def users() -> str:
    return f"basic_auth_users: {{alice: {bcrypt.hashpw(PASSWORD, bcrypt.gensalt(4)).decode()}}}\n"


async def test_no_path_is_open_without_a_password(tmp_path: Path, users: str) -> None:
    asked = Asked(tmp_path, users)
    for path in ("/metrics", "/-/healthy", "/-/ready", "/health", "/", "/docs", "/config", "/nothing"):
        for headers in ((), ((b"authorization", WRONG),), ((b"authorization", b"Bearer x"),)):
            status, answered, body = await asked.ask(path, *headers)
            assert (status, body) == (401, b"Unauthorized\n")
            assert answered[b"www-authenticate"] == b'Basic realm="pulsed", charset="UTF-8"'
            assert answered[b"content-length"] == b"13"
    assert asked.reached == []
    assert set(asked.counted) == {("/metrics", 401), ("/-/healthy", 401), ("other", 401)}
    assert (await asked.ask(method="HEAD"))[2] == b""


async def test_the_right_password_is_accepted_on_every_path(tmp_path: Path, users: str) -> None:
    asked = Asked(tmp_path, users)
    for path in ("/metrics", "/metrics", "/-/healthy", "/gpus"):
        assert (await asked.ask(path, (b"accept", b"*/*"), (b"authorization", RIGHT)))[0] == 200
    assert asked.reached == ["/metrics", "/metrics", "/-/healthy", "/gpus"]
    assert asked.counted == []


async def test_of_two_logins_the_first_counts(tmp_path: Path, users: str) -> None:
    asked = Asked(tmp_path, users)
    assert (await asked.ask("/metrics", (b"authorization", WRONG), (b"authorization", RIGHT)))[0] == 401


async def test_probes_can_be_opened(tmp_path: Path, users: str) -> None:
    asked = Asked(tmp_path, users, open_paths=frozenset(("/-/healthy",)))
    assert (await asked.ask("/-/healthy"))[0] == 200
    assert (await asked.ask("/metrics"))[0] == 401


async def test_the_rate_limit_comes_before_the_password(tmp_path: Path, users: str) -> None:
    asked = Asked(tmp_path, users + "rate_limit: {interval: 1h, burst: 2}\n")
    header = (b"authorization", RIGHT)
    statuses = [(await asked.ask("/metrics", header))[0] for _ in range(4)]
    assert statuses == [200, 200, 429, 429]
    assert asked.counted == [("/metrics", 429)] * 2


def test_the_bucket_fills_again_and_no_further() -> None:
    bucket = Bucket(RateLimitSection(interval=0.5, burst=2), now=100.0)
    assert [bucket.consume_token(100.0) for _ in range(3)] == [True, True, False]
    assert [bucket.consume_token(100.4), bucket.consume_token(100.5), bucket.consume_token(100.6)] == [
        False,
        True,
        False,
    ]
    assert [bucket.consume_token(200.0) for _ in range(3)] == [True, True, False]


def test_a_bucket_of_nothing_refuses_everything() -> None:
    bucket = Bucket(RateLimitSection(interval=1.0, burst=0), now=0.0)
    assert not any(bucket.consume_token(float(second)) for second in range(0, 100, 10))
