"""Ticks as CSV: one row per GPU and tick; a missing value is an empty cell.

Numbers are written without loss of precision; `replay` can play an export.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import TextIO

from pulsed.compute.derived_results import ordered
from pulsed.errors import UsageError, did_you_mean
from pulsed.json_text import rfc3339
from pulsed.model.tick import GpuRow, Tick
from pulsed.model.vocabulary import POSITION
from pulsed.present.api.sample_fields import NUMBERS, WORDS, getter
from pulsed.printable import text_cell

Cell = Callable[[GpuRow], str | float | None]


def _cell(name: str) -> Cell:
    get = getter(name)
    return lambda sample: get(sample.reading, sample.result)


FIRST = (
    "real_utilization_ratio",
    "real_utilization_lower_ratio",
    "real_utilization_upper_ratio",
    "real_utilization_coverage_ratio",
    "workload_class",
    "raw_class",
    "bottleneck",
    "health_state",
    "saturation_ratio",
    "limiting_resource",
)
"""Derived columns whose order is fixed; later ones follow in the order of their table."""

COLUMNS: Mapping[str, Cell] = {
    "time": lambda sample: rfc3339(sample.time),
    "node": lambda sample: sample.device.entity.node,
    "gpu": lambda sample: sample.device.entity.gpu,
    "uuid": lambda sample: sample.device.entity.uuid,
    "mig_id": lambda sample: sample.device.entity.mig_id,
    "mig_profile": lambda sample: sample.device.entity.mig_profile,
    "model": lambda sample: sample.device.model,
    **{name: _cell(name) for name in ordered([*(name for name, word in WORDS.items() if word.csv), *NUMBERS], FIRST)},
    **{name: _cell(name) for name in POSITION},
}
"""All columns in their order."""

DEFAULT = (
    "time",
    "node",
    "gpu",
    "model",
    "gpu_utilization_ratio",
    "memory_used_bytes",
    "real_utilization_ratio",
    "real_utilization_lower_ratio",
    "real_utilization_upper_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "workload_class",
)
"""The columns of `--columns default`."""


def columns(text: str) -> tuple[str, ...]:
    """Return the columns of the value of `--columns`, as `choose` does."""
    return choose(text, tuple(COLUMNS), DEFAULT)


def choose(text: str, allowed: tuple[str, ...], default: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of the value of `--columns` for a schema: `default`, `all`, or names with commas between them.

    Raises:
        UsageError: a column is unknown; the message names the nearest.
    """
    if text == "default":
        return default
    if text == "all":
        return allowed
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in allowed:
            remedy = did_you_mean(name, allowed, "--columns all prints all columns")
            raise UsageError(f"unknown column {name!r} in --columns", remedy)
    return names


def write_header(out: TextIO, names: Sequence[str]) -> None:
    """Write the first line."""
    csv.writer(out, lineterminator="\n").writerow(names)


def write_tick(out: TextIO, names: Sequence[str], tick: Tick) -> None:
    """Write one row per GPU of the tick; a file is opened with `newline=""`."""
    cells = [COLUMNS[name] for name in names]
    rows = csv.writer(out, lineterminator="\n")
    rows.writerows([[_text(cell(sample)) for cell in cells] for sample in tick.gpus if sample.is_listed])


def _text(value: str | float | None) -> str:
    if isinstance(value, str):
        return text_cell(value)
    return "" if value is None or not isfinite(value) else repr(value)
