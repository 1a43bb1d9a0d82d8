"""Families over all GPUs of this process, published once instead of once per GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from operator import add, gt, is_, itemgetter, sub
from typing import NamedTuple
from weakref import ref

from pulsed.compute.peaks import LINKS, RESOURCES, Peaks
from pulsed.compute.products import DEFAULT, architecture_of
from pulsed.model.computed_tick import ComputedTick, gpu_samples
from pulsed.model.counters import Distribution
from pulsed.model.gpu import GpuKey, key_of
from pulsed.model.health import Health
from pulsed.model.vocabulary import POSITION
from pulsed.present.exposition.series_memory import without_gone
from pulsed.present.exposition.text_format import MetricType, header, label_pairs

Bucket = tuple[tuple[float, ...], list[int], float]
"""Bounds, counts per bucket, and the sum of a distribution."""

Values = tuple[str, ...]
"""Of the labels of a series."""

Row = tuple[Values, float]
"""The labels of a sample, and its number."""


class Summary(NamedTuple):
    """A family over all GPUs; the name is that of its samples."""

    name: str
    type: MetricType
    help: str
    labels: tuple[str, ...]


DISTRIBUTION = Summary(
    "pulsed_real_utilization_distribution_ratio",
    "histogram",
    "Distribution of real utilization over the observed time of all GPUs, by node and model",
    ("node", "model", "le"),
)
CHECKS = Summary("pulsed_health_checks", "gauge", "GPUs by check and its state, if that is not ok", ("check", "state"))
QUANTITIES = Summary(
    "pulsed_quantity_gpus",
    "gauge",
    "GPUs with a reading of a quantity whose series end while it is 0",
    ("quantity",),
)
PEAKS = Summary(
    "pulsed_resource_peak_ratio",
    "gauge",
    "Practical peak of the activity of a resource: activity over peak is its saturation",
    ("model", "resource"),
)
SUMMARIES = (DISTRIBUTION, CHECKS, QUANTITIES, PEAKS)


class TargetCounts:
    """Counts over the GPUs of one target, kept as long as its tick is the same.

    Args:
        here: node of GPUs whose source does not name one.
        quantities: those that are counted.

    Attributes:
        checks: GPUs by check and state, if that is not ok.
        quantities: GPUs by quantity.
        models: product names.
    """

    def __init__(self, here: str, quantities: Sequence[str]) -> None:
        self._here = here
        self.checks: Counter[Values] = Counter()
        self.quantities: Counter[Values] = Counter()
        self.models: frozenset[str] = frozenset()
        self._pick = itemgetter(*(POSITION[name] for name in quantities))
        self._labels = [(name,) for name in quantities]
        self._tick: Callable[[], ComputedTick | None] = lambda: None  # it need not outlive the next one
        self._health: Sequence[Health] = ()
        self._not_ok: Sequence[Sequence[Values]] = ()

    def update(self, tick: ComputedTick, distributions: Distributions) -> TargetCounts:
        """Count the GPUs of a tick; return these counts."""
        if tick is self._tick():
            return self
        self._tick = ref(tick)
        shown = gpu_samples(tick)
        self.models = frozenset([sample.device.model for sample in shown])
        columns = zip(*[self._pick(sample.reading) for sample in shown], strict=True)
        counts = {label: len(shown) - column.count(None) for label, column in zip(self._labels, columns, strict=False)}
        self.quantities = Counter({label: count for label, count in counts.items() if count})
        health = [sample.result.health for sample in shown if sample.device.entity.kind == "gpu"]
        if len(health) != len(self._health) or not all(map(is_, health, self._health)):
            known = dict(zip(map(id, self._health), self._not_ok, strict=True))
            self._not_ok = [known.get(id(each)) or _not_ok(each) for each in health]
            self._health = health
            self.checks = Counter(chain.from_iterable(self._not_ok))
        for sample in shown:
            if sample.result.counters.distribution is not None:
                key = key_of(sample.device, self._here)
                distributions.add(key, sample.device.model, sample.result.counters.distribution)
        return self


def _not_ok(health: Health) -> Sequence[Values]:
    return [(check.id, check.state) for check in health.checks if check.state != "ok" and check.applies]


class Distributions:
    """The distribution of real utilization by node and model. It never decreases, also when a GPU is gone."""

    def __init__(self) -> None:
        self.sums: dict[tuple[str, str], Bucket] = {}
        self._seen: dict[GpuKey, Distribution] = {}

    def add(self, key: GpuKey, model: str, now: Distribution) -> None:
        """Add what is new in the distribution of one GPU."""
        before = self._seen.get(key)
        if before is now:
            return
        self._seen[key] = now
        bounds, counts, total = self.sums.get((key[0], model), (now.bounds, [0] * len(now.counts), 0.0))
        if bounds != now.bounds:  # the configuration has changed
            bounds, counts, total = now.bounds, [0] * len(now.counts), 0.0
        if before is None or before.bounds != now.bounds or any(map(gt, before.counts, now.counts)):
            before = Distribution(now.bounds, (0,) * len(now.counts), 0.0)
        counts = list(map(add, counts, map(sub, now.counts, before.counts)))
        self.sums[key[0], model] = (bounds, counts, total + now.sum - before.sum)

    def forget_others(self, keys: set[GpuKey]) -> None:
        """Forget what was seen of GPUs that are gone; what was counted of them stays."""
        self._seen = without_gone(self._seen, keys)


def summary_lines(
    names: frozenset[str],
    targets: Sequence[TargetCounts],
    distributions: Distributions,
    peaks: Mapping[str, Peaks],
    openmetrics: bool,
) -> Iterator[str]:
    """Yield the lines of the families of these names that have samples."""
    makers: Mapping[Summary, Callable[[], Iterable[str]]] = {
        DISTRIBUTION: lambda: _distribution(distributions),
        CHECKS: lambda: _lines(CHECKS, _sum([target.checks for target in targets])),
        QUANTITIES: lambda: _lines(QUANTITIES, _sum([target.quantities for target in targets])),
        PEAKS: lambda: _lines(PEAKS, _peaks(frozenset().union(*[target.models for target in targets]), peaks)),
    }
    for summary, lines in makers.items():
        if summary.name in names:
            found = iter(lines())
            for first in found:
                yield header(summary.name, summary.type, summary.help, openmetrics) + first
                yield from found


def _lines(summary: Summary, rows: Iterable[Row]) -> Iterator[str]:
    for values, number in rows:
        yield f"{summary.name}{{{label_pairs(zip(summary.labels, values, strict=True))}}} {number!r}\n"


def _sum(counters: Sequence[Counter[Values]]) -> Iterator[Row]:
    total = counters[0] if len(counters) == 1 else Counter[Values]()
    for counter in counters[1:] and counters:
        total.update(counter)
    return iter(sorted(total.items()))


def _distribution(distributions: Distributions) -> Iterator[str]:
    name = DISTRIBUTION.name
    for place, (bounds, counts, total) in sorted(distributions.sums.items()):
        labels = label_pairs(zip(DISTRIBUTION.labels, place, strict=False))
        below = list(accumulate(counts))
        for bound, number in zip((*map(repr, map(float, bounds)), "+Inf"), below, strict=True):
            yield f'{name}_bucket{{{labels},le="{bound}"}} {number!r}\n'
        yield f"{name}_count{{{labels}}} {below[-1]!r}\n"
        yield f"{name}_sum{{{labels}}} {total!r}\n"


def _peaks(models: frozenset[str], peaks: Mapping[str, Peaks]) -> Iterator[Row]:
    for model in sorted(models):
        row = peaks.get(architecture_of(model), peaks[DEFAULT])
        for resource in RESOURCES:
            if resource not in LINKS:
                yield (model, resource), getattr(row, resource)
