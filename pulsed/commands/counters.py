"""`pulsed counters`: prints a counters file for dcgm-exporter."""

from __future__ import annotations

from typing import TextIO

from pulsed.present.counters_file import counters_file
from pulsed.translate.exporter_versions import ExporterVersion


def counters(version: ExporterVersion, model: str, out: TextIO) -> int:
    """Print the counters file for a version of dcgm-exporter and a model; return the exit code.

    Args:
        model: product name as nvidia-smi prints it; empty for all models.
    """
    out.write(counters_file(version, model))
    return 0
