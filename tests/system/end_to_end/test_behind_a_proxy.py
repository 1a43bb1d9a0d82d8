"""docs/behind-a-proxy.md in front of a daemon, with a real nginx."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from urllib.parse import urljoin

import pytest

from tests.support.daemon import Daemon, free_port
from tests.support.tools import tool
from tests.system.end_to_end.test_web import starting
from tools.generate_docs import ROOT

TEXT = (ROOT / "docs/behind-a-proxy.md").read_text(encoding="utf-8")
WAYS = dict(
    zip(
        ("strip", "prefix"),
        re.findall(r"```yaml\n(.*?)```.*?```nginx\n(.*?)```", TEXT, re.DOTALL),
        strict=True,
    )
)
SERVER = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    server {{
        listen 127.0.0.1:{port};
        {location}
    }}
}}
"""


@pytest.mark.parametrize("way", WAYS)
def test_page_links_json_and_events_through_nginx(way: str, tmp_path: Path) -> None:
    nginx = tool("nginx", "nginx-light")
    configuration, location = WAYS[way]
    file, port = tmp_path / "pulsed.yaml", free_port()
    file.write_text(configuration)
    with starting(tmp_path, "--config.file", str(file)) as daemon:
        daemon.wait_for("/-/ready" if way == "strip" else "/node1/-/ready")
        own = SERVER.format(folder=tmp_path, port=port, location=location.replace("127.0.0.1:9401", daemon.address))
        (tmp_path / "nginx.conf").write_text(own)
        process = subprocess.Popen([nginx, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")], text=True)
        try:
            proxy = Daemon(process, port, tmp_path / "error.log")
            proxy.wait_for("/node1/")
            page = proxy.get("/node1/", {"accept": "text/html"}).text
            links = re.findall(
                r'(?:<a|<link rel="modulepreload"|<script type="module"|<script) (?:href|src)="(.*?)"', page
            )
            assert {"metrics", "gpus", "docs"} < set(links)
            for link in links:
                assert proxy.get(urljoin("/node1/", link.partition("#")[0])).status == 200, link
            assert len(proxy.get("/node1/gpus").json()["gpus"]) == 8
            assert _first_event(f"http://127.0.0.1:{port}/node1/events")
        finally:
            process.terminate()
            process.wait(20)


def _first_event(url: str) -> str:
    """Return the first event of a stream that does not end."""
    with subprocess.Popen([tool("curl", "curl"), "-sN", url], stdout=subprocess.PIPE, text=True) as stream:
        assert stream.stdout is not None
        try:
            return next(line for line in stream.stdout if line.startswith("event:"))
        finally:
            stream.kill()
