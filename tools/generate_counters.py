"""Writes the counters files of deploy/dcgm-exporter. Run as `python -m tools.generate_counters`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pulsed.present.counters_file import counters_file
from pulsed.translate.fields import CLASSIC, NEWEST, ExporterVersion

FOLDER = Path(__file__).parents[1] / "deploy" / "dcgm-exporter"

FILES: Mapping[str, ExporterVersion] = {"counters-pulsed.csv": NEWEST, "counters-pulsed-classic.csv": CLASSIC}

if __name__ == "__main__":
    for name, version in FILES.items():
        (FOLDER / name).write_text(counters_file(version))
