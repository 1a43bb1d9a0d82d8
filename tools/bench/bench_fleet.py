"""Fleet: 1,000 GPUs of 125 exporters in one process, 8 GPUs x 40 fields each, from a list, every 15 s."""

from __future__ import annotations

import contextlib
import http.client
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.daemon import Daemon, free_port, serving
from tools.bench.children import Usage, child
from tools.bench.exporters import address
from tools.bench.figure import Bar, Figure
from tools.bench.ticks import GPUS

TARGETS = 125
INTERVAL, PROBE_SECONDS = 15.0, 0.05
WARM_UP, CYCLES = 4, 4


def run() -> Iterator[Figure]:
    port = free_port()
    with tempfile.TemporaryDirectory() as name, child("tools.bench.exporters", port, TARGETS):
        folder = Path(name)
        settings = {
            "source.kind": "exporter",
            "source.interval": f"{INTERVAL:g}s",
            "source.exporter.targets": json.dumps(
                [f"http://{address(node)}:{port}/metrics" for node in range(TARGETS)]
            ),
        }
        options = [f"--set={key}={value}" for key, value in settings.items()]
        with serving(folder, *options, ready=False) as daemon:
            yield from _measured(daemon)


def _measured(daemon: Daemon) -> Iterator[Figure]:
    with _asking(daemon, "/metrics", INTERVAL) as pages:
        time.sleep(WARM_UP * INTERVAL)
        if (gpus := daemon.get("/metrics").text.count("\npulsed_gpu_info{")) != TARGETS * GPUS:
            raise RuntimeError(f"{gpus} GPUs on the page instead of {TARGETS * GPUS}:\n{daemon.log()[-2000:]}")
        pages.clear()
        usage = Usage(daemon.process.pid)
        time.sleep(CYCLES * INTERVAL)
        yield Figure("CPU, with a scrape each 15 s", usage.cpu_percent(), "% of a core", bar=Bar("value", 10))
        with _asking(daemon, "/-/healthy", PROBE_SECONDS) as probes:  # not part of what the CPU is used for
            time.sleep(CYCLES * INTERVAL)
        yield Figure("longest answer: /-/healthy", 1000 * max(probes), "ms", bar=Bar("value", 100))
        yield Figure("longest answer: the page", 1000 * max(pages), "ms", bar=Bar("value", 1000))
        size = len(daemon.get("/metrics").body)
        yield Figure("memory", usage.resident_megabytes(), "MB", note=f"a page has {size / 1e6:.1f} MB")


@contextlib.contextmanager
def _asking(daemon: Daemon, path: str, interval: float) -> Iterator[list[float]]:
    """Request a path at an interval, on one connection; yield the seconds of the answers."""
    stop, answers = threading.Event(), list[float]()

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", daemon.port)
        while not stop.is_set():
            begun = time.monotonic()
            connection.request("GET", path)
            connection.getresponse().read()
            answers.append(time.monotonic() - begun)
            stop.wait(interval)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answers
    finally:
        stop.set()
        thread.join()
