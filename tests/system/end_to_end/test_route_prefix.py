"""The daemon below a path: `--web.external-url` and `--web.route-prefix` as of Prometheus, seen by a real client."""

from __future__ import annotations

import gzip
import re
import urllib.request
from pathlib import Path
from urllib.parse import urljoin

import pytest

from tests.support.daemon import pulsed
from tests.support.nightly import nightly_after
from tests.system.end_to_end.test_web import LOGIN, USERS, ask, starting

PATHS = ("/metrics", "/gpus", "/gpus/0", "/config", "/docs", "/openapi.json")
PROBES = ("/-/healthy", "/-/ready", "/health")


@pytest.mark.parametrize(
    "flags",
    nightly_after(
        1,
        [
            ("--web.external-url=https://example.org/b", "--web.route-prefix=/a/pulsed"),
            ("--web.external-url=https://example.org/a/pulsed/",),
            ("--web.route-prefix=a/pulsed",),
        ],
    ),
)
def test_all_routes_move(tmp_path: Path, flags: tuple[str, ...]) -> None:
    with starting(tmp_path, *flags, "--web.enable-lifecycle") as daemon:
        assert f"http://127.0.0.1:{daemon.port}/a/pulsed/metrics" in daemon.log()
        daemon.wait_for("/a/pulsed/-/ready")
        for path in PATHS:
            assert daemon.get(f"/a/pulsed{path}").status == 200, path
            assert daemon.get(path).status == 404, path
        for path in PROBES:
            assert daemon.get(f"/a/pulsed{path}").status == 200, path
            answer = daemon.get(path)
            assert (answer.status, answer.headers["location"]) == (302, f"/a/pulsed{path}")
            assert urllib.request.urlopen(f"http://{daemon.address}{path}", timeout=5).status == 200
        for path in ("/", "/a/pulsed"):
            answer = daemon.get(path)
            assert (answer.status, answer.headers["location"]) == (302, "/a/pulsed/")
            assert daemon.get(path, method="DELETE").status == 405
        for path in ("/a", "/a/pulsedx", "/a/pulsed/a/pulsed/gpus", "/a/pulsed/nothing"):
            assert daemon.get(path).status == 404, path
        answer = daemon.get("/a/pulsed/gpus/?view=summary", {"Host": "example.net"})
        assert (answer.status, answer.headers["location"]) == (307, "../gpus?view=summary")
        assert daemon.get("/a/pulsed/-/reload", method="POST").status == 200
        assert daemon.get("/-/reload", method="POST").status == 405
        page = daemon.get("/a/pulsed/metrics").text
        assert 'pulsed_http_requests_total{path="/gpus/{gpu}",code="200"} 1' in page
        assert 'pulsed_http_requests_total{path="/-/healthy",code="200"} 2' in page
        done = pulsed("health", f"http://{daemon.address}/a/pulsed", "--format", "json")
        assert '"gpu"' in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("flags", "prefix", "base"),
    [
        ((), "", ""),
        (("--web.route-prefix=/p",), "/p", ""),
        (("--web.external-url=https://example.org/a",), "/a", "/a/"),
        (("--web.external-url=https://example.org/a", "--web.route-prefix=/"), "", "/a/"),
    ],
)
def test_links_lead_to_pages(tmp_path: Path, flags: tuple[str, ...], prefix: str, base: str) -> None:
    with starting(tmp_path, *flags) as daemon:
        daemon.wait_for(f"{prefix}/-/ready")
        landing = daemon.get(f"{prefix}/", {"accept": "text/html"}).text
        assert re.findall(r'<base href="([^"]*)">', landing) == ([base] if base else [])
        outside = base.rstrip("/") or prefix

        def follow(page: str, link: str) -> int:
            """Return the status of a link, through a proxy that serves pulsed below `outside`."""
            path = urljoin(page, link.partition("#")[0])
            assert path.startswith(f"{outside}/"), path
            return daemon.get(prefix + path.removeprefix(outside)).status

        links = re.findall(
            r'(?:<a|<link rel="modulepreload"|<script type="module"|<script) (?:href|src)="([^"]*)"', landing
        )
        assert {"metrics", "gpus", "docs", "config"} < set(links)
        for link in links:
            assert follow(base or f"{outside}/", link) == 200, link
        docs = daemon.get(f"{prefix}/docs").text
        assets = re.findall(r'(?:href|src)="([^"]*)"', docs) + re.findall(r"url: '([^']*)'", docs)
        assert len(assets) == 4
        for asset in assets:
            assert follow(f"{outside}/docs", asset) == 200, asset
        servers = daemon.get(f"{prefix}/openapi.json").json().get("servers", [])
        assert servers == ([{"url": outside}] if outside else [])


def test_users_protect_all_paths(tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text(USERS)
    flags = ("--web.config.file", str(tmp_path / "web.yml"), "--web.route-prefix=/p", "--set=web.open_probes=true")
    with starting(tmp_path, *flags) as daemon:
        for path in ("/", "/p", "/p/", "/p/metrics", "/p/gpus", "/metrics", "/-/reload", "/p/p/-/healthy"):
            assert ask(daemon, path).status == 401, path
        answer = ask(daemon, "/-/healthy")
        assert (answer.status, answer.headers["location"]) == (302, "/p/-/healthy")
        for path in ("/p/-/healthy", "/p/health"):
            assert ask(daemon, path).status == 200, path
        assert ask(daemon, "/p/metrics", headers=LOGIN).status == 200
        assert (
            'pulsed_http_requests_total{path="/metrics",code="401"} 1' in ask(daemon, "/p/metrics", headers=LOGIN).text
        )


def test_json_is_compressed(tmp_path: Path) -> None:
    with starting(tmp_path) as daemon:
        daemon.wait_for("/-/ready")
        answer = daemon.get("/openapi.json", {"Accept-Encoding": "gzip"})
        assert answer.headers["content-encoding"] == "gzip"
        assert gzip.decompress(answer.body) == daemon.get("/openapi.json").body
        head = daemon.get("/openapi.json", {"Accept-Encoding": "gzip"}, method="HEAD")
        assert (head.headers["content-length"], head.body) == (str(len(answer.body)), b"")
