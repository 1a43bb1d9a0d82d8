"""The demo's page: a dcgm-exporter 4.x with every useful field switched on, so that it is processed like a real one.

`page.tsv` has a row for each metric, with its value where that is the same on every GPU at all times. All identity is
marked as demo data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from pulsed.model.gpu import DEMO_MARK
from pulsed.model.raw_tick import Labels, Layout, Series
from pulsed.reader.demo.scenes import ROWS, SCENES

_PREFIX = "DCGM_FI_"


class _Metric(NamedTuple):
    """A row of `page.tsv`; `fixed` is empty where the value changes."""

    name: str
    type: str
    fixed: str
    help: str


def _metrics() -> Iterator[_Metric]:
    _, *rows = Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines()
    for row in rows:
        name, type_, fixed, text = row.split("\t")
        yield _Metric(name, type_, fixed, text)


_METRICS = sorted(_metrics(), key=lambda metric: bool(metric.fixed))
"""In the order of the layout: the fixed ones come last."""

FIXED: dict[str, float] = {metric.name: float(metric.fixed) for metric in _METRICS if metric.fixed}
"""The values that never change, by name without `DCGM_FI_`."""

BLANK = 140737488355328.0
"""DCGM's value of a number that it does not have: DCGM_FP64BLANK."""

PROFILED: dict[str, float] = {each.name: BLANK for each in _METRICS if each.name.startswith("PROF_")}
"""The values of a GPU whose profiling counters are in use by a profiler."""

_pick = itemgetter(*(metric.name for metric in _METRICS))

_PCI_BUSES = ("1B", "29", "45", "4E", "9B", "A4", "BA", "C3")


def owner_labels(t: float = 0.0, seed: int = 0) -> tuple[Labels, ...]:
    """Return the labels of pods and jobs at `t` seconds, by row."""
    owners = [(index, SCENES[index].owners[at : at + 1]) for index, at in ROWS]
    return tuple(each[0].labels(t, f"{seed}/{index}") if each else () for index, each in owners)


def demo_layout(node: str, owners: Sequence[Labels]) -> Layout:
    """Name every series of the demo: family by family, row by row."""
    labels = [(*_gpu_labels(index, node), *own) for (index, _), own in zip(ROWS, owners, strict=True)]
    return Layout(
        dialect="exporter",
        series=tuple(Series(_PREFIX + metric.name, own) for metric in _METRICS for own in labels),
        help={_PREFIX + metric.name: metric.help for metric in _METRICS},
        types={_PREFIX + metric.name: metric.type for metric in _METRICS},
    )


def _gpu_labels(index: int, node: str) -> Labels:
    """Labels of a GPU as dcgm-exporter 4.x orders them, which those of its owner follow."""
    return (
        ("gpu", str(index)),
        ("UUID", f"GPU-de300000-0000-4000-8000-{index:012d}"),
        ("pci_bus_id", f"00000000:{_PCI_BUSES[index]}:00.0"),
        ("device", f"nvidia{index}"),
        ("modelName", f"NVIDIA H100 80GB HBM3 {DEMO_MARK}"),
        ("Hostname", node),
        ("DCGM_FI_DRIVER_VERSION", "580.105.08"),
    )


def demo_values(readings: Sequence[Mapping[str, float]]) -> list[float]:
    """Put the readings of the GPUs, by name without `DCGM_FI_`, into the layout's order."""
    columns = [_pick(reading) for reading in readings]
    return [float(value) for value in chain.from_iterable(zip(*(columns[index] for index, _ in ROWS), strict=True))]
