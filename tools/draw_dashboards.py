"""Draws deploy/grafana/pictures from the dashboards' files, with a real Prometheus on the demo.

Run as `python -m tools.draw_dashboards [MINUTES]`; it watches that long (10), which is a cycle of the demo and some.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.daemon import serving
from tests.prometheus import Prometheus, prometheus
from tools.dashboards.picture import picture
from tools.generate_dashboards import DASHBOARDS, FOLDERS

PICTURES = FOLDERS[0] / "pictures"
POINTS = 80
SCRAPE = """
global: {{scrape_interval: 2s}}
scrape_configs:
  - job_name: pulsed
    honor_labels: true
    static_configs: [{{targets: ["{address}"]}}]
"""
CHOSEN = {"node": "demo", "uuid": "GPU-de300000-0000-4000-8000-000000000007", "mig_id": ""}


def draw(server: Prometheus, start: float, end: float, folder: Path = PICTURES) -> None:
    """Draw all dashboards."""
    step = (end - start) / POINTS
    values = CHOSEN | {"__rate_interval": f"{max(step, 8):.0f}s", "__range": f"{end - start:.0f}s"}

    def ask(query: str, instant: bool) -> list[dict[str, Any]]:
        for name, value in values.items():
            query = query.replace(f"${name}", value)
        if instant:
            return server.ask(query, time=str(end))
        return server.ask(query, "query_range", start=str(start), end=str(end), step=f"{step:.3f}")

    folder.mkdir(exist_ok=True)
    for name in DASHBOARDS:
        board = json.loads((FOLDERS[0] / name).read_text())
        (folder / name).with_suffix(".svg").write_text(picture(board, ask, start, end))


def main(minutes: float) -> None:
    """Watch the demo, then draw."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            serving(folder, "--source", "demo", "--set", "node=demo") as it,
            prometheus(folder, SCRAPE.format(address=it.address)) as server,
        ):
            server.wait_for('up{job="pulsed"} == 1')
            start = time.time() + 10  # rates need a few scrapes
            time.sleep(60 * minutes)
            draw(server, start, time.time())


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
