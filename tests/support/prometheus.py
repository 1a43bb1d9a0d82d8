"""A real Prometheus in a process of its own, and what it answers."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.daemon import environment, free_port
from tests.support.tools import tool
from tests.support.waiting import SECONDS

CONFIG = """
global: {{scrape_interval: {interval}}}
scrape_configs:
  - job_name: pulsed
    honor_labels: true
    static_configs: [{{targets: ["{address}"]}}]
"""


@dataclass
class Prometheus:
    """A running Prometheus."""

    port: int
    log_path: Path
    pid: int = 0

    def ask(self, query: str, path: str = "query", **parameters: str) -> list[dict[str, Any]]:
        """Evaluate a query; an error in it fails the test."""
        asked = urllib.parse.urlencode({"query": query, **parameters})
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{asked}", timeout=SECONDS) as response:
            answer = json.load(response)
        assert answer["status"] == "success"
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def value(self, query: str) -> float:
        """Evaluate a query that has one answer."""
        (series,) = self.ask(query)
        return float(series["value"][1])

    def wait_for(self, query: str, seconds: float = SECONDS) -> list[dict[str, Any]]:
        """Ask until there is an answer."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):  # not started yet
                if result := self.ask(query):
                    return result
            time.sleep(0.2)
        raise AssertionError(f"Prometheus has no answer to {query}")


@contextlib.contextmanager
def prometheus(folder: Path, config: str, *options: str) -> Iterator[Prometheus]:
    """Run Prometheus with this configuration until the block ends; everything is kept in `folder`."""
    binary = tool("prometheus", "prometheus")
    port = free_port()
    (folder / "prometheus.yml").write_text(config)
    log_path = folder / "prometheus.log"
    with log_path.open("w") as log:
        process = subprocess.Popen(
            [
                binary,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                *options,
            ],
            stdout=log,
            stderr=log,
            env=environment(),
        )
        try:
            yield Prometheus(port, log_path, process.pid)
        finally:
            process.terminate()
            process.wait(SECONDS)


@contextlib.contextmanager
def victoria_metrics(folder: Path) -> Iterator[Prometheus]:
    """Run VictoriaMetrics, which answers as Prometheus does, until the block ends."""
    binary = tool("victoria-metrics", "victoria-metrics")
    port = free_port()
    log_path = folder / "victoria-metrics.log"
    with log_path.open("w") as log:
        options = [f"-storageDataPath={folder / 'victoria'}", f"-httpListenAddr=127.0.0.1:{port}"]
        process = subprocess.Popen(
            [binary, *options, "-search.latencyOffset=0s", "-memory.allowedBytes=100MB"],
            stdout=log,
            stderr=log,
            env=environment(),
        )
        try:
            yield Prometheus(port, log_path, process.pid)
        finally:
            process.terminate()
            process.wait(SECONDS)
