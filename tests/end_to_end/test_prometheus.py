"""A real Prometheus scrapes a running daemon, and its answers are asked for."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from tests.daemon import environment, free_port, serving
from tests.tools import tool

CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: pulsed
    honor_labels: true
    static_configs: [{{targets: ["{address}"]}}]
"""


def ask(port: int, query: str) -> list[dict[str, Any]]:
    url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(url, timeout=10) as response:
        answer = json.load(response)
    assert answer["status"] == "success"
    result: list[dict[str, Any]] = answer["data"]["result"]
    return result


def wait_for(port: int, query: str, seconds: float = 30.0) -> list[dict[str, Any]]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if result := ask(port, query):
                return result
        except OSError:
            pass  # not started yet
        time.sleep(0.2)
    raise AssertionError(f"Prometheus has no answer to {query}")


def test_prometheus_scrapes_the_daemon_and_answers(tmp_path: Path) -> None:
    prometheus = tool("prometheus", "prometheus")
    with serving(tmp_path, "--source", "demo") as daemon:
        port = free_port()
        (tmp_path / "prometheus.yml").write_text(CONFIG.format(address=daemon.address))
        with (tmp_path / "prometheus.log").open("w") as log:
            process = subprocess.Popen(
                [
                    prometheus,
                    f"--config.file={tmp_path / 'prometheus.yml'}",
                    f"--storage.tsdb.path={tmp_path / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=log,
                stderr=log,
                env=environment(),
            )
        try:
            wait_for(port, 'up{job="pulsed"} == 1')
            wait_for(port, 'count(pulsed_gpu_real_utilization_ratio{job="pulsed"}) == 8')
            busy = wait_for(port, 'pulsed_gpu_workload_class{class="fp64_hpc_compute"} == 1')
            assert [series["metric"]["gpu"] for series in busy] == ["2"]
            one_class_each = wait_for(port, "sum by (gpu) (pulsed_gpu_workload_class)")
            assert [series["value"][1] for series in one_class_each] == ["1"] * 8
            assert ask(port, 'scrape_samples_scraped{job="pulsed"}')[0]["value"][1] != "0"
            assert ask(port, 'pulsed_gpu_info{model=~".*demo.*"}'), "demo data must say that it is"
        finally:
            process.terminate()
            process.wait(15)
        process_log = (tmp_path / "prometheus.log").read_text()
    assert "Error on ingesting" not in process_log
