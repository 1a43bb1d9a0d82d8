"""Dashboards: all their queries, at 120 or 240 points, on a Prometheus with 1,000 GPUs of 125 nodes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.daemon import free_port, serving
from tests.support.dashboards import Json, Values, Viewer, boards, filled, panels
from tests.support.prometheus import CONFIG, prometheus
from tools.bench.children import Usage, child
from tools.bench.exporters import url
from tools.bench.figure import Bar, Figure
from tools.bench.ticks import GPUS

NODES = 125
INTERVAL, WATCHED, POINTS = 5.0, 150.0, 240


def run() -> Iterator[Figure]:
    port = free_port()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        targets = "".join(f"      - {url(port, node)}\n" for node in range(NODES))
        config = folder / "fleet.yaml"
        config.write_text(f"source:\n  kind: exporter\n  interval: {INTERVAL}\n  exporter:\n    targets:\n{targets}")
        address = f"127.0.0.1:{free_port()}"
        with prometheus(folder, CONFIG.format(interval=f"{INTERVAL:.0f}s", address=address)) as server:
            with (
                child("tools.bench.exporters", port, NODES),
                serving(folder, "--config.file", str(config), "--web.listen-address", address),
            ):
                server.wait_for(f"count(pulsed_gpu_info) == {NODES * GPUS}", 60)
                time.sleep(WATCHED)
                end = time.time()
                yield Figure("series", server.value('count({job="pulsed"})') / (NODES * GPUS), "a GPU")
            viewer, usage = Viewer(server, WATCHED, 4 * INTERVAL, end), Usage(server.pid)
            for name, board in boards().items():
                yield from _measured(name, board, viewer, usage, end)


def _measured(name: str, board: Json, viewer: Viewer, usage: Usage, end: float) -> Iterator[Figure]:
    values = viewer.choose(board)
    found: list[tuple[float, str, int]] = []
    for panel in panels(board):
        for target in panel["targets"]:
            before = usage.cpu_seconds()
            series = _asked(target, values, viewer, end, panel.get("maxDataPoints", POINTS))
            found.append((usage.cpu_seconds() - before, panel["title"], series))
    slowest, most = max(found), max(found, key=lambda each: each[2])
    yield Figure(f"{name}: all {len(found)} queries", sum(seconds for seconds, *_ in found), "s of CPU")
    note = f"{slowest[1]}, {slowest[2]} series"
    yield Figure(f"{name}: most expensive query", slowest[0], "s of CPU", bar=Bar("value", 1), note=note)
    yield Figure(f"{name}: most series of a query", most[2], "series", note=most[1])


def _asked(target: Json, values: Values, viewer: Viewer, end: float, points: int) -> int:
    query = filled(target["expr"], values)
    if target["instant"]:
        return len(viewer.server.ask(query, time=str(end)))
    start, step = str(end - viewer.range), f"{viewer.range / points:.3f}"
    return len(viewer.server.ask(query, "query_range", start=start, end=str(end), step=step))
