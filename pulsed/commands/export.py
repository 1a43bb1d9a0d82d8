"""`pulsed export`: prints every tick as CSV until all sources have ended."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from dataclasses import replace
from functools import partial
from typing import TextIO

from pulsed.collector.pool import collect
from pulsed.commands.arguments import configuration
from pulsed.config import Config
from pulsed.model.computed_tick import ComputedTick
from pulsed.present.csv import kempnerpulse, pulsed_csv


def run(options: argparse.Namespace) -> int:
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

    asyncio.run(collect(config, settings, lambda target: not target.up and not target.samples, write))
