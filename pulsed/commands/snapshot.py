"""`pulsed snapshot`: prints one tick of every target."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pulsed.commands.command_parser import CommandParser
from pulsed.commands.options import add_gpu_options, configuration

if TYPE_CHECKING:
    from pulsed.model.target_store import Target

MOST_TICKS = 4
"""Ticks of a target after which the last one is printed, even if it is empty: profiling counters need two samples."""


def add_arguments(parser: CommandParser) -> None:
    """Add the arguments."""
    add_gpu_options(parser)
    parser.add_argument("--format", choices=["table", "json", "csv", "prometheus"], default="table")
    parser.add_argument("--columns", help="columns of --format csv: default, all (default), or names with commas")


def run(options: argparse.Namespace) -> int:
    """Print one tick of every target; return the exit code.

    Raises:
        NothingRead: no target delivered a tick.
        UsageError: a column is unknown.
    """
    import asyncio
    import json
    import logging
    import time
    from dataclasses import replace

    from pulsed.collector.pool import collect
    from pulsed.present.api import documents
    from pulsed.present.csv import pulsed_csv
    from pulsed.present.exposition.page import Pages
    from pulsed.present.exposition.telemetry import Telemetry
    from pulsed.present.table import table
    from pulsed.printable import clean_lines

    format, out = options.format, sys.stdout
    if options.columns is not None and format != "csv":
        options.parser.error("--columns needs --format csv")
    config = configuration(options)
    names = pulsed_csv.columns(options.columns or "all")
    settings = replace(config.compute_settings(), hold=0.0)  # one tick: its class is not debounced
    store = asyncio.run(collect(config, settings, _is_done, is_logged=False))
    for target in store.targets:
        if not target.samples:
            logging.getLogger(__name__).warning("source failed", extra={"target": target.name, "error": target.error})
    now = time.monotonic()
    if format == "table":
        out.write(table(store, now))
    elif format == "json":
        json.dump(documents.gpus_document(store, now, time.time(), settings.preset_name), out, indent=2)
        out.write("\n")
    elif format == "csv":
        pulsed_csv.write_header(out, names)
        for target in store.targets:
            if target.tick is not None:
                pulsed_csv.write_tick(out, names, target.tick)
    else:
        pages = Pages(store, Telemetry(store), config.page_settings())
        page = pages.page(now, openmetrics=False, gzip=False).decode()
        out.write(clean_lines(page) if out.isatty() else page)
    return 0


def _is_done(target: Target) -> bool:
    """Return whether the next tick of a target would have no more than this one, or the source has failed."""
    if target.tick is None or not target.up or target.samples >= MOST_TICKS:
        return True
    if target.kind == "dcgmi":  # a live dcgmi has activity from its second or third tick on
        return any(result.real_utilization.ratio is not None for result in target.tick.results)
    if target.kind == "nvml":  # profiling counters are differences of two samples
        return target.samples > 1
    return any(any(value is not None for value in reading) for reading in target.tick.readings)
