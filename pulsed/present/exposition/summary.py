"""Families over all GPUs of this process: what lean pages publish once instead of once per GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

from prometheus_client import Metric

from pulsed.compute.counters.catalog import Distribution
from pulsed.compute.peaks import DEFAULT, RESOURCES, Peaks, architecture_of
from pulsed.compute.tick import ComputedTick
from pulsed.present.exposition.text_format import MetricType
from pulsed.present.gpu_keys import Key
from pulsed.translate.vocabulary import POSITION

Bucket = tuple[tuple[float, ...], list[int], float]
"""Bounds, counts per bucket, and the sum of a distribution."""


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
    """Counts over the GPUs of one target, kept as long as its tick is the same; `quantities` are counted."""

    def __init__(self, quantities: Sequence[str]) -> None:
        self.checks: Counter[tuple[str, ...]] = Counter()
        self.quantities: Counter[tuple[str, ...]] = Counter()
        self.models: frozenset[str] = frozenset()
        self._pick = itemgetter(*(POSITION[name] for name in quantities))
        self._labels = [(name,) for name in quantities]
        self._tick: ComputedTick | None = None

    def update(
        self, tick: ComputedTick, keys: Sequence[Key], hidden: frozenset[int], distribution: Distributions
    ) -> None:
        """Count the GPUs of a tick, without those at the positions `hidden`."""
        if tick is self._tick:
            return
        self._tick = tick
        self.checks.clear()
        self.models = frozenset(device.model for device in tick.devices)
        shown = [position for position in range(len(tick.devices)) if position not in hidden]
        columns = zip(*[self._pick(tick.readings[position]) for position in shown], strict=True)
        counts = {label: len(shown) - column.count(None) for label, column in zip(self._labels, columns, strict=False)}
        self.quantities = Counter({label: count for label, count in counts.items() if count})
        for position in shown:
            device, result = tick.devices[position], tick.results[position]
            if device.entity.kind == "gpu":
                self.checks.update(
                    [(check.id, check.state) for check in result.health.checks if check.state != "ok" and check.applies]
                )
            if result.account.distribution is not None:
                distribution.add(keys[position], device.model, result.account.distribution)


class Distributions:
    """The distribution of real utilization by node and model. It never decreases, also when a GPU is gone."""

    def __init__(self) -> None:
        self.sums: dict[tuple[str, str], Bucket] = {}
        self._seen: dict[Key, Distribution] = {}

    def add(self, key: Key, model: str, now: Distribution) -> None:
        """Add what is new in the distribution of one GPU."""
        before = self._seen.get(key)
        if before is now:
            return
        self._seen[key] = now
        bounds, counts, total = self.sums.get((key[0], model), (now.bounds, [0] * len(now.counts), 0.0))
        if bounds != now.bounds:  # the configuration has changed
            bounds, counts, total = now.bounds, [0] * len(now.counts), 0.0
        if before is None or before.bounds != now.bounds or any(map(int.__gt__, before.counts, now.counts)):
            before = Distribution(now.bounds, (0,) * len(now.counts), 0.0)
        counts = [sum + new - old for sum, new, old in zip(counts, now.counts, before.counts, strict=True)]
        self.sums[key[0], model] = (bounds, counts, total + now.sum - before.sum)


def summary_families(
    names: frozenset[str], targets: Sequence[TargetCounts], distributions: Distributions, peaks: Mapping[str, Peaks]
) -> Iterator[Metric]:
    """Yield the families of these names that have samples."""
    makers: Mapping[Summary, Callable[[Metric], None]] = {
        DISTRIBUTION: lambda family: _distribution(family, distributions),
        CHECKS: lambda family: _counts(family, CHECKS.labels, [target.checks for target in targets]),
        QUANTITIES: lambda family: _counts(family, QUANTITIES.labels, [target.quantities for target in targets]),
        PEAKS: lambda family: _peaks(family, frozenset().union(*(target.models for target in targets)), peaks),
    }
    for summary, fill in makers.items():
        if summary.name in names:
            family = Metric(summary.name, summary.help, summary.type)
            fill(family)
            yield family


def _counts(family: Metric, labels: Sequence[str], counters: Sequence[Counter[tuple[str, ...]]]) -> None:
    total: Counter[tuple[str, ...]] = Counter()
    for counter in counters:
        total.update(counter)
    for values, number in sorted(total.items()):
        family.add_sample(family.name, dict(zip(labels, values, strict=True)), number)


def _distribution(family: Metric, distributions: Distributions) -> None:
    for (node, model), (bounds, counts, total) in sorted(distributions.sums.items()):
        labels = {"node": node, "model": model}
        below = list(accumulate(counts))
        for bound, number in zip((*map(repr, map(float, bounds)), "+Inf"), below, strict=True):
            family.add_sample(family.name + "_bucket", {**labels, "le": bound}, number)
        family.add_sample(family.name + "_count", labels, below[-1])
        family.add_sample(family.name + "_sum", labels, total)


def _peaks(family: Metric, models: frozenset[str], peaks: Mapping[str, Peaks]) -> None:
    for model in sorted(models):
        row = peaks.get(architecture_of(model), peaks[DEFAULT])
        for resource in RESOURCES:
            if resource not in ("pcie", "nvlink"):
                family.add_sample(family.name, {"model": model, "resource": resource}, getattr(row, resource))
