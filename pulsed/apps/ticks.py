"""`pulsed snapshot` and `pulsed export`: print one tick of every target, or all of them."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import shutil
import sys
import time
from dataclasses import replace
from functools import partial
from typing import TextIO

from pulsed.cli.arguments import configuration
from pulsed.collector.pool import collect
from pulsed.collector.this_host import selection_of
from pulsed.config.configuration import Config
from pulsed.errors import NothingRead
from pulsed.model.computed_tick import ComputedTick
from pulsed.model.target_store import Target
from pulsed.present.api import documents
from pulsed.present.csv import kempnerpulse, pulsed_csv
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.present.table import WIDTH, table
from pulsed.printable import clean_lines

MAX_TICKS = 4
"""Ticks of a target after which the last one is printed, even if it is empty: profiling counters need two samples."""


def run_snapshot(options: argparse.Namespace) -> int:
    """Print one tick of every target; return the exit code.

    Raises:
        NothingRead: no target delivered a tick, or none has a GPU.
        UsageError: a column is unknown.
    """

    format, out = options.format, sys.stdout
    if options.columns is not None and format != "csv":
        options.parser.error("--columns needs --format csv")
    config = configuration(options)
    names = pulsed_csv.columns(options.columns or "all")
    settings = config.compute_settings()
    settings = replace(settings, workload=replace(settings.workload, hold=0.0))  # a class of one tick is not debounced
    store = asyncio.run(collect(config, settings, _is_done, is_logged=False))
    for target in store.targets:
        if not target.samples:
            logging.getLogger(__name__).warning("source failed", extra={"target": target.name, "error": target.error})
    has_gpus = any(target.tick is not None and target.tick.devices for target in store.targets)
    if not has_gpus and selection_of(config, os.environ).everything:
        read = ", ".join(target.name for target in store.targets if target.samples)
        raise NothingRead(f"{read}: there is no GPU", "`pulsed doctor` shows what works here")
    now = time.monotonic()
    if format == "table":
        out.write(table(store, now, shutil.get_terminal_size((WIDTH, 24)).columns))
    elif format == "json":
        json.dump(documents.gpus_document(store, now, time.time(), settings.real_utilization.preset), out, indent=2)
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


def run_export(options: argparse.Namespace) -> int:
    """Print ticks until the sources end or an interrupt; return the exit code."""
    with contextlib.suppress(KeyboardInterrupt):
        export(configuration(options), options.columns, sys.stdout, options.schema)
    return 0


def export(config: Config, columns: str, out: TextIO, schema: str = "pulsed") -> None:
    """Print every tick as CSV rows until all sources have ended. One that fails after its first tick is retried.

    Args:
        columns: `default`, `all`, or names with commas between them.
        schema: `pulsed` or `kempnerpulse`; the latter implies the workload profile of that name.

    Raises:
        NothingRead: no source delivered a tick.
        UsageError: a column is unknown.
    """

    settings = config.compute_settings()
    if schema == "kempnerpulse":
        names = kempnerpulse.columns(columns)
        write_rows = kempnerpulse.Writer(out, names, settings.real_utilization.chosen_weights()).write
        settings = replace(settings, workload=replace(settings.workload, profile="kempnerpulse"))
    else:
        names = pulsed_csv.columns(columns)
        write_rows = partial(pulsed_csv.write_tick, out, names)
    pulsed_csv.write_header(out, names)
    out.flush()

    def write(tick: ComputedTick) -> None:
        write_rows(tick)
        out.flush()

    asyncio.run(collect(config, settings, lambda target: not target.up and not target.samples, write))


def _is_done(target: Target) -> bool:
    """Return whether the next tick of a target would have no more than this one, or the source has failed."""
    if target.tick is None or not target.up or target.samples >= MAX_TICKS:
        return True
    if target.kind == "dcgmi":  # a live dcgmi has activity from its second or third tick on
        return any(result.real_utilization.ratio is not None for result in target.tick.results)
    if target.kind == "exporter" and not target.tick.devices:
        return True
    if target.kind == "nvml":  # profiling counters are differences of two samples
        return target.samples > 1
    return any(any(value is not None for value in reading) for reading in target.tick.readings)
