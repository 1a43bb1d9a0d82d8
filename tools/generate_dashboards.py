"""Write the Grafana dashboards, for import and into the chart.

Run as `python -m tools.generate_dashboards`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tools.dashboards.fleet import FLEET
from tools.dashboards.gpu import GPU
from tools.dashboards.grafana import document
from tools.dashboards.owners import OWNERS

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "deploy" / "grafana"
FOLDERS = (FOLDER, ROOT / "helm" / "pulsed" / "files" / "dashboards")
DASHBOARDS = {"fleet.json": FLEET, "gpu.json": GPU, "owners.json": OWNERS}


def files() -> Mapping[Path, str]:
    """Return the text of each dashboard's file."""
    return {folder / name: document(board) for folder in FOLDERS for name, board in DASHBOARDS.items()}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
