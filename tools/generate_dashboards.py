"""Writes the Grafana dashboards: those to import, and the same ones for chart and mixin, which read only their own.

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
FOLDERS = (
    ROOT / "deploy" / "grafana",
    ROOT / "helm" / "pulsed" / "files" / "dashboards",
    ROOT / "deploy" / "mixin" / "dashboards",
)
DASHBOARDS = {"fleet.json": FLEET, "gpu.json": GPU, "owners.json": OWNERS}


def files() -> Mapping[Path, str]:
    """What is to stand in which file."""
    return {folder / name: document(board) for folder in FOLDERS for name, board in DASHBOARDS.items()}


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
