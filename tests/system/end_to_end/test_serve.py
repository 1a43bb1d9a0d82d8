"""The real daemon, looked at from outside."""

from __future__ import annotations

import gzip
import re
import signal
import time
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from pulsed import __version__
from pulsed.present.api.documents import GPU, GPUS
from pulsed.present.api.routes.daemon import Version
from pulsed.present.api.routing import Failure
from pulsed.present.api.schema import DocumentModel
from tests.support.daemon import free_port, pulsed, serving
from tests.support.documents import has_shape


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ends_cleanly_within_two_seconds(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path, "--source", "demo") as daemon:
        begun = time.monotonic()
        assert daemon.stop(number) == 0
        assert time.monotonic() - begun < 2, "a promise to the operator, not a benchmark"
        assert "Traceback" not in daemon.log()


def test_the_demo_page_is_served_in_every_format(tmp_path: Path) -> None:
    with serving(tmp_path, "--source", "demo") as daemon:
        text = daemon.get("/metrics")
        assert text.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        families = {family.name: family for family in parse_text(text.text)}
        assert len(families["pulsed_gpu_sm_active_ratio"].samples) == 8
        assert {s.labels["source"] for s in families["pulsed_source_up"].samples} == {"demo"}

        openmetrics = daemon.get("/metrics", {"Accept": "application/openmetrics-text;version=1.0.0"})
        assert openmetrics.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        names = {family.name for family in parse_openmetrics(openmetrics.text)}  # type: ignore[no-untyped-call]
        assert "pulsed_gpu_sm_active_ratio" in names

        packed = daemon.get("/metrics", {"Accept-Encoding": "gzip"})
        assert packed.headers["content-encoding"] == "gzip"
        assert b"pulsed_gpu_sm_active_ratio" in gzip.decompress(packed.body)

        head = daemon.get("/metrics", method="HEAD")
        assert (head.status, head.body) == (200, b"")
        assert daemon.get("/metrics", method="POST").status == 405


def test_the_api_answers(tmp_path: Path) -> None:
    with serving(tmp_path, "--source", "demo") as daemon:
        everything = daemon.get("/gpus").json()
        assert len(everything["gpus"]) == 8
        assert everything["source"]["demo"] is True
        one = daemon.get("/gpus/3").json()
        assert one["gpu"] == "3"
        assert daemon.get(f"/gpus/{one['uuid']}").json()["uuid"] == one["uuid"]
        missing = daemon.get("/gpus/99")
        assert missing.status == 404
        assert "99" in missing.json()["error"]
        assert daemon.get("/version").json()["version"] == __version__
        assert daemon.get("/config").json()["source"]["kind"] == "demo"
        shapes: list[tuple[str, type[DocumentModel]]] = [
            ("/gpus", GPUS),
            ("/gpus/3", GPU),
            ("/version", Version),
            ("/gpus/99", Failure),
            ("/nothing-here", Failure),
        ]
        for path, shape in shapes:
            document = daemon.get(path).json()
            assert has_shape(shape, document)
        for path in ("/-/healthy", "/health", "/-/ready"):
            assert daemon.get(path).status == 200
            assert daemon.get(path, method="HEAD").status == 200
        assert daemon.get("/").headers["content-type"].startswith("text/plain")
        page = daemon.get("/", {"Accept": "text/html"})
        assert page.headers["content-type"].startswith("text/html")
        paths = [path for path in re.findall(r'(?:href|src)="([^"#]+)"', page.text) if path != "/"]
        assert paths
        for path in paths:
            assert daemon.get(f"/{path.removeprefix('/')}").status == 200, path
        docs = daemon.get("/docs").text
        assert "http://" not in docs.replace(f"http://{daemon.address}", "")
        assert "https://" not in docs, "the documentation must work without internet"
        assert "/gpus/{gpu}" in daemon.get("/openapi.json").json()["paths"]
        assert daemon.get("/nothing-here").status == 404


def test_a_source_that_fails_never_takes_the_http_side_down(tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{free_port()}/metrics"
    with serving(
        tmp_path, "--source", "exporter", "--set", f"source.exporter.targets=[{nobody}]", ready=False
    ) as daemon:
        ready = daemon.get("/-/ready")
        assert ready.status == 503
        assert int(ready.headers["retry-after"]) > 0
        page = daemon.get("/metrics")
        assert page.status == 200
        assert f'pulsed_source_up{{source="{nobody}"}} 0' in page.text
        assert "pulsed_gpu_sm_active_ratio" not in page.text


def test_a_taken_port_is_one_clear_line(tmp_path: Path) -> None:
    with serving(tmp_path, "--source", "demo") as daemon:
        second = pulsed("serve", "--source", "demo", "--web.listen-address", daemon.address)
    assert second.returncode == 1
    assert second.stderr.startswith(f"pulsed: cannot listen on {daemon.address}: ")
    assert second.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["serve", "--config", "/nowhere.yml"], 2, "/nowhere.yml"),
        (["serve", "--set", "source.knd=demo"], 2, "source.kind"),
        (["serve", "--no-such-flag"], 2, "--no-such-flag"),
        (["snapshot", "--source", "replay", "--set", "source.replay.path=/nowhere.txt"], 1, "/nowhere.txt"),
        (["check-config", "/nowhere.yml"], 2, "/nowhere.yml"),
        ([], 2, "no command is given"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments: list[str], code: int, words: str) -> None:
    finished = pulsed(*arguments)
    assert (finished.returncode, finished.stdout) == (code, "")
    assert words in finished.stderr
    assert finished.stderr.count("\n") == 1
    assert "Traceback" not in finished.stderr


def test_head_of_the_stream_ends(tmp_path: Path) -> None:
    with serving(tmp_path, "--source", "demo", "--set", "events.max_subscribers=1") as daemon:
        for _ in range(3):
            answer = daemon.get("/events", method="HEAD")
            assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
