"""Sending by OTLP, against a receiver that refuses, fails, and comes back."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from pulsed.config.configuration import ActiveConfig, Config
from pulsed.daemon.feature import FeatureParts
from pulsed.daemon.otlp_push import OtlpPush
from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import TargetStore
from pulsed.owners.attribution import Attribution
from pulsed.present.otlp.settings import OtlpSettings
from tests.support.certificates import make
from tests.support.http_servers import running
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.waiting import eventually

PAGE = b'# HELP a b\n# TYPE a gauge\na{b="1"} 1\n# HELP c d\n# TYPE c gauge\nc 2\n'
SAMPLES = 3
"""With the one that shows that pulsed sends."""


def config(url: str | None, **settings: object) -> Config:
    """A configuration that sends often."""
    base = Config()
    otlp = OtlpSettings(url, enabled=url is not None, interval=0.05, timeout=5.0)
    return replace(base, publish=replace(base.publish, otlp=replace(otlp, **settings)))  # type: ignore[arg-type]  # keys


@asynccontextmanager
async def pushing(
    url: str | None, page: bytes = PAGE, active: ActiveConfig | None = None, **settings: object
) -> AsyncIterator[OtlpPush]:
    """The feature at work."""

    class Pages:
        async def serve(self, now: float, **wanted: object) -> bytes:
            return page

    active = active or ActiveConfig(config(url, **settings))
    push = OtlpPush(FeatureParts(active, TargetStore("node-1"), Attribution(), cast("Any", Pages()), {}))
    task = asyncio.create_task(push.run())
    try:
        yield push
    finally:
        task.cancel()
        await asyncio.wait([task])


def counted(push: OtlpPush) -> Counter[str]:
    """The samples that are on the page."""
    return Counter({each.name: int(each.value) for family in push.metrics(Monotonic(0.0)) for each in family.samples})


async def test_what_fails_is_sent_again_with_the_credentials() -> None:
    with running(receiver := OtlpReceiver([503])):
        url = receiver.url.replace("//", "//user:secret@") + "/v1/metrics"
        async with pushing(url, headers={"X-Scope-OrgID": "gpus"}) as push:
            await eventually(lambda: len(receiver.requests) >= 1)
            await eventually(lambda: counted(push)["pulsed_push_samples_total"] >= SAMPLES)
            assert counted(push)["pulsed_push_dropped_samples_total"] == 0
    assert {point.name for point in receiver.points()} == {"a", "c", "pulsed.push.up"}
    assert {headers["authorization"] for headers in receiver.headers} == {"Basic dXNlcjpzZWNyZXQ="}
    assert {headers["x-scope-orgid"] for headers in receiver.headers} == {"gpus"}
    assert {headers["content-type"] for headers in receiver.headers} == {"application/x-protobuf"}


async def test_what_the_receiver_refuses_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    with running(receiver := OtlpReceiver([400])):
        async with pushing(receiver.url.replace("//", "//user:secret@")) as push:
            await eventually(lambda: bool(receiver.requests))
            assert counted(push)["pulsed_push_dropped_samples_total"] == SAMPLES
    assert "400" in caplog.text
    assert "secret" not in caplog.text


async def test_a_receiver_that_is_away_is_a_counter_and_a_log_line_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with pushing("http://user:secret@127.0.0.1:1/v1/metrics", timeout=0.1) as push:
        await eventually(lambda: counted(push)["pulsed_push_dropped_samples_total"] >= 2 * SAMPLES)
        assert counted(push)["pulsed_push_samples_total"] == 0
    assert caplog.text
    assert "secret" not in caplog.text


def is_one_of_three_refused(push: OtlpPush) -> bool:
    counts = counted(push)
    sent, dropped = counts["pulsed_push_samples_total"], counts["pulsed_push_dropped_samples_total"]
    return 0 < sent == dropped * (SAMPLES - 1)


async def test_points_that_are_refused_in_an_answer_of_success_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    with running(receiver := OtlpReceiver()):
        receiver.refuses = 1
        async with pushing(receiver.url) as push:
            await eventually(lambda: is_one_of_three_refused(push))
    assert "points are refused" in caplog.text


async def test_a_token_is_read_for_every_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    with running(receiver := OtlpReceiver()):
        async with pushing(receiver.url, bearer_token_file=str(token)):
            await eventually(lambda: bool(receiver.headers))
            token.write_text("second\n")
            await eventually(lambda: receiver.headers[-1]["authorization"] == "Bearer second")
    assert receiver.headers[0]["authorization"] == "Bearer first"


async def test_a_token_that_cannot_be_read_drops_the_samples(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(receiver := OtlpReceiver()):
        async with pushing(receiver.url, bearer_token_file=str(tmp_path / "none")) as push:
            await eventually(lambda: counted(push)["pulsed_push_dropped_samples_total"] >= SAMPLES)
    assert receiver.headers == []
    assert "cannot read the bearer token file" in caplog.text


async def test_a_token_on_a_file_system_that_hangs_leaves_the_default_threads_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of the default executor would delay the end of the event loop."""
    begun, ended, names = threading.Event(), threading.Event(), list[str]()

    def hang(path: str) -> str:
        thread = threading.current_thread()
        names.append("daemon" if thread.daemon else thread.name)
        begun.set()
        ended.wait()
        return "token"

    monkeypatch.setattr("pulsed.http.credentials.read_token", hang)
    with running(receiver := OtlpReceiver()):
        async with pushing(receiver.url, bearer_token_file=str(tmp_path / "token")):
            await eventually(begun.is_set)
        assert receiver.headers == []
    await asyncio.get_running_loop().shutdown_default_executor()
    ended.set()
    assert names == ["daemon"]


async def test_another_receiver_gets_all_from_then_on() -> None:
    with running(first := OtlpReceiver()), running(second := OtlpReceiver()):
        active = ActiveConfig(config(first.url))
        async with pushing(None, active=active):
            await eventually(lambda: bool(first.requests))
            active.config = config(second.url)
            await eventually(lambda: bool(second.requests))
            count = len(first.requests)
            active.config = config(None)
            await asyncio.sleep(0.2)
            silent = len(second.requests)
            await asyncio.sleep(0.2)
            assert (len(first.requests), len(second.requests)) == (count, silent)


async def test_no_receiver_has_no_series() -> None:
    async with pushing(None) as push:
        assert list(push.metrics(Monotonic(0.0))) == []


@pytest.mark.parametrize("is_verified", [True, False])
async def test_the_receiver_gets_a_client_certificate(tmp_path: Path, is_verified: bool) -> None:
    authority = make("authority", authority=True)
    (tmp_path / "ca.crt").write_bytes(authority.cert_pem)
    server_files, (cert, key) = (make(name, authority).write(tmp_path, name) for name in ("localhost", "client"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca.crt"))
    context.load_cert_chain(*server_files)
    context.verify_mode = ssl.CERT_REQUIRED
    receiver = OtlpReceiver()
    receiver.socket = context.wrap_socket(receiver.socket, server_side=True)
    authorities = {"ca_file": str(tmp_path / "ca.crt")} if is_verified else {"insecure_skip_verify": True}
    with running(receiver):
        url = f"https://localhost:{receiver.server_port}/v1/metrics"
        async with pushing(url, cert_file=str(cert), key_file=str(key), **authorities):
            await eventually(lambda: bool(receiver.requests))


def test_keys_of_certificates_are_checked(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("nothing")
    bad = str(tmp_path / "bad.pem")
    assert [key for key, _ in OtlpSettings(key_file=bad).problems()] == ["key_file"]
    settings = OtlpSettings(ca_file=bad, cert_file=bad, bearer_token_file=str(tmp_path / "none"))
    assert [key for key, _ in settings.unusable()] == ["bearer_token_file", "ca_file", "cert_file"]
