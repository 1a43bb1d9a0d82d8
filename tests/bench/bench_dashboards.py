"""Dashboards: every query of the shipped dashboards on a Prometheus with 1,000 GPUs of 125 nodes, at 240 points."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.children import child
from tests.bench.exporters import url
from tests.bench.figure import Bar, Figure
from tests.bench.ticks import GPUS
from tests.daemon import free_port, serving
from tests.dashboards import Json, Values, Viewer, boards, filled, panels
from tests.prometheus import CONFIG, prometheus

NODES = 125
INTERVAL, WATCHED, POINTS = 5.0, 150.0, 240
ROUNDS = 3


def run() -> Iterator[Figure]:
    port = free_port()
    with tempfile.TemporaryDirectory() as name, child("tests.bench.exporters", port, NODES):
        folder = Path(name)
        targets = "".join(f"      - {url(port, node)}\n" for node in range(NODES))
        config = folder / "fleet.yaml"
        config.write_text(f"source:\n  kind: exporter\n  interval: {INTERVAL}\n  exporter:\n    targets:\n{targets}")
        with (
            serving(folder, "--config.file", str(config)) as daemon,
            prometheus(folder, CONFIG.format(interval=f"{INTERVAL:.0f}s", address=daemon.address)) as server,
        ):
            server.wait_for(f"count(pulsed_gpu_info) == {NODES * GPUS}", 60)
            time.sleep(WATCHED)
            yield Figure("series", server.value("count({job='pulsed'})") / (NODES * GPUS), "a GPU")
            viewer = Viewer(server, WATCHED, 4 * INTERVAL)
            for name, board in boards().items():
                yield from _measured(name, board, viewer)


def _measured(name: str, board: Json, viewer: Viewer) -> Iterator[Figure]:
    values = viewer.choose(board)
    seconds: list[tuple[float, str, int]] = []
    for panel in panels(board):
        for target in panel["targets"]:
            taken, series = min(_timed(target, values, viewer) for _ in range(ROUNDS))
            seconds.append((taken, panel["title"], series))
    slowest = max(seconds)
    yield Figure(f"{name}: all {len(seconds)} queries", sum(taken for taken, *_ in seconds), "s")
    yield Figure(
        f"{name}: slowest query", slowest[0], "s", bar=Bar("value", 1), note=f"{slowest[1]}, {slowest[2]} series"
    )
    most = max(seconds, key=lambda each: each[2])
    yield Figure(f"{name}: most series of a query", most[2], "series", note=most[1])


def _timed(target: Json, values: Values, viewer: Viewer) -> tuple[float, int]:
    query, end = filled(target["expr"], values), time.time()
    begin = time.perf_counter()
    if target["instant"]:
        found = viewer.server.ask(query)
    else:
        start, step = str(end - viewer.range), f"{viewer.range / POINTS:.3f}"
        found = viewer.server.ask(query, "query_range", start=start, end=str(end), step=step)
    return time.perf_counter() - begin, len(found)
