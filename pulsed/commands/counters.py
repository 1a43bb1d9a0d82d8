"""`pulsed counters`: prints a counters file for dcgm-exporter. Imports neither configuration nor server."""

from __future__ import annotations

import argparse
import sys

from pulsed.present.counters_file import counters_file


def run(options: argparse.Namespace) -> int:
    """Print the counters file for a version of dcgm-exporter and a model; return the exit code."""
    sys.stdout.write(counters_file(options.exporter_version, options.model))
    return 0
