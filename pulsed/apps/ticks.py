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
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TextIO

from pulsed.cli.arguments import configuration
from pulsed.collector.collector import Collector, Pipeline, PipelineSettings
from pulsed.collector.source_factory import found_sources, target_of
from pulsed.collector.this_host import node_name, node_of_source, selection_of
from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.settings import ComputeSettings
from pulsed.config.configuration import Config
from pulsed.errors import GpuNotFound, NothingRead
from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.tick import Tick
from pulsed.present.api import documents
from pulsed.present.csv import kempnerpulse, pulsed_csv
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.present.table import WIDTH, table
from pulsed.printable import clean_lines
from pulsed.reader.source import Source

MAX_TICKS = 4
"""Ticks of a target after which the last one is printed, even if it is empty: profiling counters need two samples."""

PENDING_SECONDS = 20.0
"""Time that a target has to deliver every field once."""


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
    store = asyncio.run(collect(config, settings, _is_done, is_logged=False, awaits_all=True))
    for target in store.targets:
        if not target.samples:
            logging.getLogger(__name__).warning("source failed", extra={"target": target.name, "error": target.error})
    has_gpus = any(target.tick is not None and target.tick.gpus for target in store.targets)
    if not has_gpus and selection_of(config, os.environ).everything:
        read = ", ".join(target.name for target in store.targets if target.samples)
        raise NothingRead(f"{read}: there is no GPU", "`pulsed doctor` shows what works here")
    now = Monotonic(time.monotonic())
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

    def write(tick: Tick) -> None:
        write_rows(tick)
        out.flush()

    asyncio.run(collect(config, settings, lambda target: not target.up and not target.samples, write))


async def collect(
    config: Config,
    settings: ComputeSettings,
    until: Callable[[Target], bool],
    on_tick: Callable[[Tick], None] = lambda tick: None,
    *,
    is_logged: bool = True,
    awaits_all: bool = False,
) -> TargetStore:
    """Read all sources for a command, as fast as they deliver, and return the targets with their last ticks.

    Args:
        until: evaluated for a target after every attempt; true ends its collector.
        is_logged: whether failures and ends of sources are logged as they occur.
        awaits_all: whether a target also continues until it has delivered every field once, for `PENDING_SECONDS`.

    Raises:
        NothingRead: no source delivered a tick.
        GpuNotFound: `gpus` names a GPU that is not there.
        ConfigError: a source cannot be made.
    """
    sources = await found_sources(config)
    store = TargetStore(node_name(config), [target_of(source, config) for source in sources])
    selection = selection_of(config, os.environ)
    table = GpuTable(settings)
    pipelines = [
        Pipeline(
            table,
            node_of_source(source, config),
            settings=PipelineSettings(selection, config.source.max_gpus, config.attribution.exporter_pods),
        )
        for source in sources
    ]

    def missing() -> tuple[str, ...]:
        """Return what `gpus` names and no target has; nothing while a target without a tick may have it."""
        if not named or not all(target.samples for target in store.targets):
            return ()
        return selection.unmatched([gpu for pipeline in pipelines for gpu in pipeline.candidates])

    def is_done(source: Source, target: Target) -> bool:
        if config.source.kind != "replay" and bool(missing()):  # a recording may have it later
            return True
        if not until(target):
            return False
        is_late = time.monotonic() - begun >= PENDING_SECONDS
        if awaits_all and target.up and source.pending and not is_late:
            return False
        if awaits_all and target.up and source.pending:
            extra = {"target": target.name, "seconds": PENDING_SECONDS, "fields": " ".join(map(str, source.pending))}
            logging.getLogger(__name__).warning("some DCGM fields were not answered in time", extra=extra)
        return True

    begun = time.monotonic()
    named = config.gpus is not None and not selection.everything
    await asyncio.gather(
        *(
            Collector(source, pipeline, target, on_tick, partial(is_done, source), is_logged=is_logged).run()
            for source, pipeline, target in zip(sources, pipelines, store.targets, strict=True)
        )
    )
    if not any(target.samples for target in store.targets):
        raise NothingRead("; ".join(dict.fromkeys(target.error for target in store.targets)))
    if absent := missing():
        there = sorted({gpu.name for pipeline in pipelines for gpu in pipeline.candidates}, key=_in_order)
        raise GpuNotFound(f"gpus: there is no GPU {', '.join(absent)}", f"There are: {', '.join(there) or 'none'}")
    return store


def _in_order(name: str) -> tuple[int, ...]:
    numbers = name.split(":")
    return tuple(map(int, numbers)) if all(number.isdecimal() for number in numbers) else (1 << 31,)


def _is_done(target: Target) -> bool:
    """Return whether the next tick of a target would have no more than this one, or the source has failed."""
    if target.tick is None or not target.up or target.samples >= MAX_TICKS:
        return True
    if target.kind == "dcgmi":  # a live dcgmi has activity from its second or third tick on
        return any(row.result.real_utilization.ratio.value is not None for row in target.tick.gpus)
    if target.kind == "exporter" and not target.tick.gpus:
        return True
    if target.kind == "nvml":  # profiling counters are differences of two samples
        return target.samples > 1
    return any(any(value is not None for value in row.reading) for row in target.tick.gpus)
