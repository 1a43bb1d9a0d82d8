"""The commands that need no server: `snapshot` prints one tick, `export` prints every tick as CSV."""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import replace
from functools import partial
from typing import TextIO

from pulsed.collector.collector import Collector, Pipeline
from pulsed.collector.source_factory import node_name, open_sources, selection_of, target_of
from pulsed.collector.target_store import Target, TargetStore
from pulsed.compute.tick import ComputedTick
from pulsed.config import Config
from pulsed.errors import PulsedError, SourceEnded, SourceError
from pulsed.present.api import documents
from pulsed.present.csv import kempnerpulse, pulsed_csv
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.present.table import table
from pulsed.reader.tick import Source

EMPTY_TICKS = 3
"""Ticks without any reading that `snapshot` lets pass: profiling counters need a baseline of one or two samples."""


class NoSource(PulsedError):
    """No source delivered anything."""


def snapshot(config: Config, format: str, columns: str, out: TextIO) -> int:
    """Print one tick of every target; returns the exit code.

    Args:
        config: says what to read.
        format: `table`, `json`, `csv` or `prometheus`.
        columns: which ones, for `csv`.
        out: where to print.

    Raises:
        NoSource: no target delivered a tick.
    """
    names = pulsed_csv.columns(columns)
    board = asyncio.run(_read_once(config))
    now = time.monotonic()
    if not any(target.tick for target in board.targets):
        raise NoSource("; ".join(target.error for target in board.targets))
    if format == "table":
        out.write(table(board, now))
    elif format == "json":
        json.dump(
            documents.gpus_document(board, now, time.time(), config.compute_settings().preset_name), out, indent=2
        )
        out.write("\n")
    elif format == "csv":
        pulsed_csv.write_header(out, names)
        for target in board.targets:
            if target.tick is not None:
                pulsed_csv.write_tick(out, names, target.tick)
    else:
        pages = Pages(board, Telemetry(board), passthrough=config.publish.passthrough)
        out.write(pages.page(now, openmetrics=False, gzip=False).decode())
    return 0


async def _read_once(config: Config) -> TargetStore:
    sources = open_sources(config, hurried=True)
    board = TargetStore(node_name(config), [target_of(source, config) for source in sources])
    settings = replace(config.compute_settings(), hold=0.0)  # no class is held before the one tick that is shown
    selection = selection_of(config, os.environ)
    pipelines = [Pipeline(settings, board.node, selection=selection) for _ in sources]
    await asyncio.gather(*(_first_tick(*three) for three in zip(sources, pipelines, board.targets, strict=True)))
    return board


async def _first_tick(source: Source, pipeline: Pipeline, target: Target) -> None:
    """Read until something is said, or there is nothing more to hear."""
    try:
        for _ in range(EMPTY_TICKS + 1):
            tick = pipeline.process(await source.read())
            target.follow(source.kind, source.target, source.interval)
            target.accept(tick, time.monotonic())
            if _says_enough(tick, source.kind):
                return
    except SourceEnded as end:
        if target.tick is None:
            target.fail(end.reason, str(end))
    except SourceError as error:
        target.fail(error.reason, str(error))
    finally:
        await source.close()


def _says_enough(tick: ComputedTick, kind: str) -> bool:
    """Whether it is no use to wait for the next tick: a live dcgmi gives activity from its second or third one on."""
    if kind == "dcgmi":
        return any(result.real_utilization.ratio is not None for result in tick.results)
    return any(any(value is not None for value in reading) for reading in tick.canonical.readings)


def export(config: Config, columns: str, out: TextIO, schema: str = "pulsed") -> None:
    """Print every tick as CSV rows until all sources have ended. One that fails after its first tick is tried again.

    Args:
        config: says what to read.
        columns: which ones.
        out: where to print.
        schema: whose columns, `pulsed` or `kempnerpulse`; the latter implies the workload profile of that name.

    Raises:
        NoSource: no source delivered a tick.
        UsageError: a column is unknown.
    """
    settings = config.compute_settings()
    if schema == "kempnerpulse":
        names = kempnerpulse.columns(columns)
        write_rows = kempnerpulse.Writer(out, names, settings.weights).write
        settings = replace(settings, profile="kempnerpulse")
    else:
        names = pulsed_csv.columns(columns)
        write_rows = partial(pulsed_csv.write_tick, out, names)
    pulsed_csv.write_header(out, names)
    out.flush()

    def write(tick: ComputedTick) -> None:
        write_rows(tick)
        out.flush()

    async def run() -> TargetStore:
        sources = open_sources(config, hurried=True)
        board = TargetStore(node_name(config), [target_of(source, config) for source in sources])
        selection = selection_of(config, os.environ)
        feeds = [
            Collector(
                source,
                Pipeline(settings, board.node, selection=selection),
                target,
                write,
                patient=False,
            )
            for source, target in zip(sources, board.targets, strict=True)
        ]
        await asyncio.gather(*(feed.run() for feed in feeds))
        return board

    board = asyncio.run(run())
    if not any(target.samples for target in board.targets):
        raise NoSource("; ".join(target.error for target in board.targets))
