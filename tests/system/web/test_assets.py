"""The files of the page, and how they are served."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

import pytest
import yaml

from pulsed.present.web import FOLDER, Assets
from tests.server.test_users import hashed
from tests.support.daemon import Daemon, serving

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def test_vendored_files_are_those_of_their_packages() -> None:
    vendor = FOLDER / "vendor"
    pins = yaml.safe_load((vendor / "vendor.yaml").read_text())
    for name, pin in pins.items():
        folder = vendor / f"{name}-{pin['version']}"
        assert {path.name for path in folder.iterdir()} == {Path(each).name for each in pin["files"]}
        for each, expected in pin["files"].items():
            assert hashlib.sha512((folder / Path(each).name).read_bytes()).hexdigest() == expected, each
        assert pin["licence"] in (folder / "LICENSE").read_text()


def test_no_file_interprets_strings_as_markup_or_code() -> None:
    banned = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser")
    ours = [path for path in FOLDER.rglob("*.js") if "vendor" not in path.parts]
    assert ours
    assert [path.name for path in ours if banned.search(path.read_text())] == []


def test_the_page_is_small() -> None:
    assets = Assets.load()
    page = assets.page("1", "/metrics", None)
    names = [name for name in assets.files if not name.endswith("LICENSE")]
    assert len(page.compressed) + sum(len(assets.files[name].compressed) for name in names) < 130_000


def test_headers_of_the_page_and_its_files(demo: Daemon) -> None:
    page = demo.get("/", HTML)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache"
    assert page.headers["x-content-type-options"] == "nosniff"
    policy = page.headers["content-security-policy"]
    for part in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "require-trusted-types-for 'script'"):
        assert part in policy
    assert "unsafe" not in policy
    assert demo.get("/", HTML | {"if-none-match": page.headers["etag"]}).status == 304

    (script,) = re.findall(r'<script type="module" src="([^"]+)"', page.text)
    found = demo.get(f"/{script}")
    assert found.headers["cache-control"] == "private, max-age=31536000, immutable"
    assert found.headers["content-type"] == "text/javascript; charset=utf-8"
    packed = demo.get(f"/{script}", {"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == found.body
    assert demo.get(f"/{script}".replace("main.js", "nothing.js")).status == 404
    assert demo.get(re.sub("static/[0-9a-f]+", "/static/0", script)).status == 404
    assert demo.get("/gpus").headers["cache-control"] == "no-store"


def test_all_links_of_the_page_are_relative_and_exist(demo: Daemon) -> None:
    links = re.findall(r'(?:href|src)="([^"]+)"', demo.get("/", HTML).text)
    assert len(links) > 20
    for link in links:
        if not link.startswith("#"):
            assert "//" not in link
            assert demo.get(f"/{link}").status == 200, link


def test_other_clients_get_a_table_of_text(demo: Daemon) -> None:
    found = demo.get("/", {"accept": "*/*"})
    assert found.headers["content-type"] == "text/plain; charset=utf-8"
    assert "REAL UTIL" in found.text
    assert "/metrics" in found.text


@pytest.mark.slow
def test_headers_of_the_web_configuration_replace_those_of_the_page(tmp_path: Path) -> None:
    web = tmp_path / "web.yml"
    web.write_text("http_server_config: {headers: {Content-Security-Policy: \"default-src 'self'\"}}\n")
    with serving(tmp_path, "--source", "demo", "--web.config.file", str(web)) as daemon:
        assert daemon.get("/", HTML).headers["content-security-policy"] == "default-src 'self'"


def test_users_protect_the_page_its_files_and_streams(tmp_path: Path) -> None:
    web = tmp_path / "web.yml"
    web.write_text(yaml.safe_dump({"basic_auth_users": {"alice": hashed(b"hunter2")}}))
    assets = Assets.load()
    with serving(
        tmp_path, "--source", "demo", "--web.config.file", str(web), "--set", "web.open_probes=true"
    ) as daemon:
        for path in ("/", f"/static/{assets.version}/core/main.js", "/events", "/catalog", "/gpus"):
            assert daemon.get(path, HTML).status == 401, path


def test_the_page_costs_nothing_until_it_is_requested(demo: Daemon, tmp_path: Path) -> None:
    with serving(tmp_path, "--source", "demo") as daemon:
        daemon.get("/metrics")
        maps = Path(f"/proc/{daemon.process.pid}/maps").read_text()
        assert "pydantic_core" in maps  # the configuration
        before = memory_bytes(daemon)
        daemon.get("/", HTML)
        daemon.get("/gpus")
        assert memory_bytes(daemon) > before


def memory_bytes(daemon: Daemon) -> int:
    pages = Path(f"/proc/{daemon.process.pid}/statm").read_text().split()[1]
    return 4096 * int(pages)
