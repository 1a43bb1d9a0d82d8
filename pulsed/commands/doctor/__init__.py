"""`pulsed doctor`: which sources work here, what can be derived from them, and how to get what is missing."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from typing import TextIO

from pulsed.commands.arguments import configuration
from pulsed.commands.doctor.render import render
from pulsed.commands.doctor.report import examine
from pulsed.configuration import Config
from pulsed.translate.fields import ExporterVersion


def run(options: argparse.Namespace) -> int:
    """Print the report; return the exit code."""
    return doctor(configuration(options), options.format, sys.stdout, options.exporter_version)


def doctor(config: Config, format: str, out: TextIO, exporter: ExporterVersion | None = None) -> int:
    """Print the report; return the exit code: 0 if any GPU can be served, else 1.

    Args:
        format: `table` or `json`.
        exporter: version of the dcgm-exporters; None to conclude it from their pages.
    """

    logger = logging.getLogger("pulsed")
    before = logger.level
    if config.log.level != "debug":
        logger.setLevel(logging.ERROR)  # the report has the warnings
    try:
        report = examine(config, exporter)
    finally:
        logger.setLevel(before)
    if format == "json":
        json.dump(report, out, indent=2)
        out.write("\n")
    else:
        out.writelines(f"{line}\n" for line in render(report))
    return 0 if report["can_serve"] else 1
