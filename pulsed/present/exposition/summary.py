"""Families over all GPUs of this process, published once instead of once per GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from pulsed.compute.peaks import LINKS, RESOURCES, Peaks
from pulsed.compute.products import DEFAULT, architecture_of
from pulsed.model.vocabulary import POSITION
from pulsed.present.exposition.catalog import CHECKS, DISTRIBUTION, PEAKS, QUANTITIES, RECENT_QUANTITIES, Summary
from pulsed.present.exposition.gpu_series import PageGpu, Published
from pulsed.present.exposition.text_format import header, label_pairs

Values = tuple[str, ...]
"""Of the labels of a series."""

Row = tuple[Values, float]
"""The labels of a sample, and its number."""


def summary_lines(
    names: frozenset[str],
    gpus: Sequence[PageGpu],
    published: Published,
    peaks: Mapping[str, Peaks],
    openmetrics: bool,
) -> Iterator[str]:
    """Yield the lines of the families of these names that have samples."""
    makers: Mapping[Summary, Callable[[], Iterable[str]]] = {
        DISTRIBUTION: lambda: _distribution(gpus, published),
        CHECKS: lambda: _lines(CHECKS, _checks(gpus)),
        QUANTITIES: lambda: _lines(QUANTITIES, _quantities(gpus)),
        PEAKS: lambda: _lines(PEAKS, _peaks(gpus, peaks)),
    }
    for summary, lines in makers.items():
        if summary.name in names and (samples := list(lines())):
            yield header(summary.name, summary.type, summary.help, openmetrics)
            yield from samples


def _lines(summary: Summary, rows: Iterable[Row]) -> Iterator[str]:
    for values, number in rows:
        yield f"{summary.name}{{{label_pairs(zip(summary.labels, values, strict=True))}}} {number!r}\n"


def _checks(gpus: Iterable[PageGpu]) -> Iterable[Row]:
    """Return the number of GPUs by check and state, if that is not ok."""
    boards = [gpu.sample for gpu in gpus if gpu.sample.device.entity.kind == "gpu"]
    counts = Counter(
        (check.id, check.state)
        for sample in boards
        for check in sample.result.health.checks
        if check.state != "ok" and check.applies
    )
    return sorted(counts.items())


def _quantities(gpus: Iterable[PageGpu]) -> Iterator[Row]:
    for name in sorted(RECENT_QUANTITIES):
        position = POSITION[name]
        if count := sum(gpu.values[position] is not None for gpu in gpus):
            yield (name,), count


def _distribution(gpus: Iterable[PageGpu], published: Published) -> Iterator[str]:
    for gpu in gpus:
        if (distribution := gpu.sample.result.counters.distribution) is not None:
            published.add_distribution(gpu.key, gpu.sample.device.model, distribution)
    name = DISTRIBUTION.name
    for place, (bounds, counts, total) in sorted(published.distributions.items()):
        labels = label_pairs(zip(DISTRIBUTION.labels, place, strict=False))
        below = list(accumulate(counts))
        for bound, number in zip((*map(repr, map(float, bounds)), "+Inf"), below, strict=True):
            yield f'{name}_bucket{{{labels},le="{bound}"}} {number!r}\n'
        yield f"{name}_count{{{labels}}} {below[-1]!r}\n"
        yield f"{name}_sum{{{labels}}} {total!r}\n"


def _peaks(gpus: Iterable[PageGpu], peaks: Mapping[str, Peaks]) -> Iterator[Row]:
    for model in sorted({gpu.sample.device.model for gpu in gpus}):
        row = peaks.get(architecture_of(model), peaks[DEFAULT])
        for resource in RESOURCES:
            if resource not in LINKS:
                yield (model, resource), getattr(row, resource)
