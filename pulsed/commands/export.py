"""`pulsed export`: prints every tick as CSV until all sources have ended."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING, TextIO

from pulsed.commands.command_parser import CommandParser
from pulsed.commands.options import add_gpu_options, configuration

if TYPE_CHECKING:
    from pulsed.configuration import Config
    from pulsed.model.computed_tick import ComputedTick


def add_arguments(parser: CommandParser) -> None:
    """Add the arguments."""
    add_gpu_options(parser)
    parser.add_argument("--columns", default="default", help="default, all, or names with commas")
    parser.add_argument(
        "--schema", choices=["pulsed", "kempnerpulse"], default="pulsed",
        help="columns and units; kempnerpulse implies compute.workload.profile=kempnerpulse",
    )  # fmt: skip


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
    import asyncio
    from dataclasses import replace
    from functools import partial

    from pulsed.collector.pool import collect
    from pulsed.present.csv import kempnerpulse, pulsed_csv

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
