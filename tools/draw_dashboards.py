"""Draws deploy/grafana/pictures from the dashboards' files, with a real Prometheus on the demo.

Run as `python -m tools.draw_dashboards [MINUTES]`; it watches that long (10), which is a cycle of the demo and some.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.daemon import serving
from tests.support.dashboards import Values, Viewer, boards, demo_with_users, filled, unfolded
from tests.support.prometheus import Prometheus, prometheus
from tools.dashboards.picture import picture
from tools.generate_dashboards import FOLDER

PICTURES = FOLDER / "pictures"
POINTS = 80
SCRAPE = """
global: {{scrape_interval: {interval}}}
scrape_configs:
  - job_name: pulsed
    honor_labels: true
    static_configs: [{{targets: [{addresses}]}}]
"""
NODES = ("gpu01", "gpu02", "gpu03")
CHOSEN = {"gpu.json": {"node": NODES[0], "gpu": "7"}}
"""Of the demo's GPUs, the one that is hot and has errors."""


def draw(server: Prometheus, start: float, end: float, folder: Path = PICTURES) -> None:
    """Draw all dashboards."""
    step = (end - start) / POINTS
    viewer = Viewer(server, end - start, max(step, 8))
    folder.mkdir(exist_ok=True)
    for name, board in boards().items():
        values = viewer.choose(board, **CHOSEN.get(name, {}))

        def ask(query: str, instant: bool, values: Values = values) -> list[dict[str, Any]]:
            if instant:
                return server.ask(filled(query, values), time=str(end))
            return server.ask(filled(query, values), "query_range", start=str(start), end=str(end), step=f"{step:.3f}")

        shown = [{**panel, "title": filled(panel["title"], values).strip()} for panel in unfolded(board)]
        drawn = picture({**board, "panels": shown}, ask, start, end)
        (folder / name).with_suffix(".svg").write_text(drawn)


def main(minutes: float) -> None:
    """Watch the demo, then draw."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with contextlib.ExitStack() as stack:
            daemons = [
                stack.enter_context(serving(folder, "--source", "demo", "--set", f"node={node}")) for node in NODES[:-1]
            ]
            daemons.append(stack.enter_context(demo_with_users(folder, NODES[-1])))
            addresses = ", ".join(f'"{daemon.address}"' for daemon in daemons)
            server = stack.enter_context(prometheus(folder, SCRAPE.format(interval="2s", addresses=addresses)))
            server.wait_for(f"sum(up) == {len(NODES)}")
            start = time.time() + 10  # rates need a few scrapes
            time.sleep(60 * minutes)
            draw(server, start, time.time())


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
