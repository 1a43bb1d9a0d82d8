"""A real Alertmanager in a process of its own, and the state of its alerts."""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.daemon import environment, free_port
from tests.support.tools import tool
from tests.support.waiting import SECONDS, until


@dataclass(frozen=True)
class Alertmanager:
    """A running Alertmanager."""

    port: int

    def alerts(self) -> list[dict[str, Any]]:
        """Return all alerts with labels, annotations and `status` (`inhibitedBy`)."""
        found: list[dict[str, Any]] = json.loads(self._request("/api/v2/alerts"))
        return found

    def send(self, labels: Sequence[dict[str, str]]) -> None:
        """Raise alerts with these labels."""
        self._request("/api/v2/alerts", json.dumps([{"labels": each} for each in labels]).encode())

    def is_ready(self) -> bool:
        try:
            self._request("/-/ready")
        except OSError:
            return False
        return True

    def _request(self, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            answer: bytes = response.read()
            return answer


@contextlib.contextmanager
def alertmanager(folder: Path, config: Path) -> Iterator[Alertmanager]:
    """Run Alertmanager with this configuration until the block ends; everything is kept in `folder`."""
    binary = tool("prometheus-alertmanager", "prometheus-alertmanager")
    port = free_port()
    with (folder / "alertmanager.log").open("w") as log:
        process = subprocess.Popen(
            [
                binary,
                f"--config.file={config}",
                f"--storage.path={folder / 'alertmanager'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--cluster.listen-address=",
            ],
            stdout=log,
            stderr=log,
            env=environment(),
        )
        try:
            running = Alertmanager(port)
            until(running.is_ready)
            yield running
        finally:
            process.terminate()
            process.wait(SECONDS)
