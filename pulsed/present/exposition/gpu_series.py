"""The GPUs on a page, and the sample lines of their families. Both text formats have the same ones.

Earlier pages decide when sparse series of a GPU appear and end. PromQL's `increase()` counts from the
first sample of a series. So a counter that appears is published at 0 first, until a scrape took that; then nothing of
it is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf, isfinite
from operator import add, gt, sub
from typing import NamedTuple

from pulsed.compute.peaks import LINKS, RESOURCES, Peaks
from pulsed.compute.products import DEFAULT, architecture_of
from pulsed.model.clocks import Monotonic
from pulsed.model.counters import Distribution
from pulsed.model.gpu import GpuKey, gpu_labels, node_of
from pulsed.model.tick import GpuRow, Tick, shown_rows
from pulsed.model.vocabulary import POSITION, Value
from pulsed.present.exposition.catalog import (
    CHECKS,
    DISTRIBUTION,
    PEAKS,
    QUANTITIES,
    RECENT_QUANTITIES,
    Catalog,
    PageColumn,
    PageDerived,
)
from pulsed.present.exposition.families import COUNTER_FORMS, Family, Form
from pulsed.present.exposition.owner_families import owner_label_text
from pulsed.present.exposition.text_format import escape, header, label_pairs


class PageGpu(NamedTuple):
    """A GPU on the page: `values` are its reading and its counters, `labels` the end of each line up to its value."""

    key: GpuKey
    node: str
    sample: GpuRow
    values: tuple[Value, ...]
    labels: str
    published: PublishedGpu


def page_gpus(ticks: Sequence[Tick], here: str, published: Published, *, owner_labels: bool) -> Sequence[PageGpu]:
    """Return the GPUs of ticks, each once; `here` is the node of those that name none."""
    gpus = []
    for key, row in shown_rows(ticks, here):
        device = row.device
        labels = label_pairs(gpu_labels(device, here)) + (owner_label_text(row.owners) if owner_labels else "")
        values = (*row.reading, *row.result.counters.values)
        gpus.append(PageGpu(key, node_of(device, here), row, values, labels + "} ", published.gpu(key)))
    return gpus


def gpu_lines(gpus: Sequence[PageGpu], catalog: Catalog, published: Published, openmetrics: bool) -> list[str]:
    """Return the families of GPUs that have samples."""
    page: list[str] = []
    before: Family | None = None
    for column in catalog.columns:
        if lines := _column(column, gpus, published):
            family = column.family
            if family is not before:
                page.append(header(family.name, family.type, family.help, openmetrics))
                before = family
            page += lines
    for derived in catalog.derived:
        if lines := _derived(derived, gpus, published):
            family = derived.family
            page.append(header(family.name, family.type, family.help, openmetrics))
            page += lines
    return page


def _column(column: PageColumn, gpus: Sequence[PageGpu], published: Published) -> list[str]:
    """Return the lines of one quantity or counter.

    Only finite numbers are readings, and OpenMetrics refuses a page with a negative counter.
    """
    _, source, prefix, least, form = column
    lines = []
    for gpu in gpus:
        value = gpu.values[source]
        if value is not None and least <= value < inf:
            if form == "recent":
                value = published.gauge(gpu.published, prefix, value, gpu.sample.time)
            elif form != "every":
                value = published.counter(gpu.published, prefix, value, form)
            if value is not None:
                lines.append(f"{prefix}{gpu.labels}{value!r}\n")
    return lines


def _derived(derived: PageDerived, gpus: Sequence[PageGpu], published: Published) -> list[str]:
    """Return the lines of one derived family."""
    family, form, samples = derived
    is_sparse = form in COUNTER_FORMS
    lines = []
    for gpu in gpus:
        if family.of_boards and gpu.sample.device.entity.kind != "gpu":
            continue
        for own, number in samples(gpu.sample):
            value: Value = number
            if is_sparse:
                value = published.counter(gpu.published, (family.name, own), number, form)
            if value is not None and isfinite(value):
                name, texts = (family.name + own[0], own[1:]) if family.type == "histogram" else (family.name, own)
                pairs = zip(family.labels, texts, strict=True)
                labels = "".join([f'{label}="{escape(text)}",' for label, text in pairs if text])
                lines.append(f"{name}{{{labels}{gpu.labels}{value!r}\n")
    return lines


MIN_HOLD_SECONDS, MAX_HOLD_SECONDS = 30.0, 120.0
"""Limits of the time for which a new counter stays at 0."""

RECENT_SECONDS = 600.0
"""Time for which a gauge that became 0 is still published."""

_SPARE = 64


@dataclass(slots=True)
class PublishedGpu:
    """The publication state of one GPU; times of pages are in monotonic seconds.

    Attributes:
        first_configured: time of its first page with the forms in force; None before.
        counters: by sparse series, when it was published first, at 0; -inf once it has its value.
        gauges: by sparse series, Unix time since when it is 0; inf while it is not.
        distribution: as counted in the sum over all GPUs.
    """

    first_page: float
    first_configured: float | None = None
    counters: dict[Hashable, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    distribution: Distribution | None = None


class Published:
    """The sparse series of all GPUs. It outlives targets and configurations.

    Attributes:
        now: time of the page, in monotonic seconds.
        hold: time for which a new counter stays at 0.
        distributions: of real utilization, by node and model; also of GPUs that are gone.
    """

    def __init__(self) -> None:
        self.now = -inf
        self.hold = MIN_HOLD_SECONDS
        self.distributions: dict[tuple[str, str], Distribution] = {}
        self._interval = 0.0
        self._changed_until = -inf
        self._gpus: dict[GpuKey, PublishedGpu] = {}

    def begin_page(self, now: Monotonic) -> None:
        """Begin a page that is requested at this time.

        A new counter is held at 0 for twice the interval between requests, because there may be two scrapers.
        """
        if -inf < self.now < now:
            self._interval = max(now - self.now, self._interval / 2.0)
            self.hold = min(max(2.0 * self._interval, MIN_HOLD_SECONDS), MAX_HOLD_SECONDS)
        self.now = now
        self._changed_until = min(self._changed_until, now + MAX_HOLD_SECONDS)

    def change_forms(self) -> None:
        """Publish the counters of each GPU on its next page at once: pages of the forms before may have had them."""
        if self.now != -inf:
            self._changed_until = inf
            for gpu in self._gpus.values():
                gpu.first_configured = None

    def gpu(self, key: GpuKey) -> PublishedGpu:
        """Return what was published of a GPU that is on this page."""
        gpu = self._gpus.get(key)
        if gpu is None:
            gpu = self._gpus[key] = PublishedGpu(self.now)
        if gpu.first_configured is None:
            gpu.first_configured = self.now
        return gpu

    def counter(self, gpu: PublishedGpu, series: Hashable, value: float, form: Form) -> float | None:
        """Return what to publish of a counter, None for nothing.

        On the first page of a GPU, `counted` has its value at once, as the counters that every page has: quotients of
        both stay exact.
        """
        now = self.now
        since = gpu.counters.get(series)
        if since is None:
            if not value and form != "zero_first":
                return None
            is_known = gpu.first_configured == now < self._changed_until
            is_whole = form == "counted" and gpu.first_page == now
            since = gpu.counters[series] = -inf if is_known or is_whole else now
        if now - since < self.hold:
            return 0
        gpu.counters[series] = -inf
        return value

    def gauge(self, gpu: PublishedGpu, series: str, value: float, time: float) -> float | None:
        """Return what to publish of a gauge at this Unix time, None if it was 0 for long."""
        if value:
            gpu.gauges[series] = inf
            return value
        since = gpu.gauges.get(series, -inf)
        if since == inf:
            since = gpu.gauges[series] = time
        return value if time - since <= RECENT_SECONDS else None

    def add_distribution(self, gpu: PublishedGpu, place: tuple[str, str], now: Distribution) -> None:
        """Add what is new in the distribution of one GPU to the sum of its node and model, which never decreases."""
        before, gpu.distribution = gpu.distribution, now
        if before == now:
            return
        nothing = Distribution(now.bounds, (0,) * len(now.counts), 0.0)
        if before is None or before.bounds != now.bounds or any(map(gt, before.counts, now.counts)):
            before = nothing
        sums = self.distributions.get(place, nothing)
        if sums.bounds != now.bounds:  # the configuration has changed
            sums = nothing
        counts = tuple(map(add, sums.counts, map(sub, now.counts, before.counts)))
        self.distributions[place] = Distribution(now.bounds, counts, sums.sum + (now.sum - before.sum))

    def forget_others(self, keys: set[GpuKey]) -> None:
        """Forget GPUs that are gone, once most of them are; those that return until then continue."""
        if len(self._gpus) > 2 * len(keys) + _SPARE:
            self._gpus = {key: gpu for key, gpu in self._gpus.items() if key in keys}


Row = tuple[str, tuple[str, ...], float]
"""Of a sample: the end of its name, the values of its labels, and its number."""


def summary_lines(
    names: frozenset[str],
    gpus: Sequence[PageGpu],
    published: Published,
    peaks: Mapping[str, Peaks],
    openmetrics: bool,
) -> Iterator[str]:
    """Yield the lines of the families of these names that have samples."""
    for summary, rows in (
        (DISTRIBUTION, _distribution(gpus, published)),
        (CHECKS, _checks(gpus)),
        (QUANTITIES, _quantities(gpus)),
        (PEAKS, _peaks(gpus, peaks)),
    ):
        if summary.name not in names:
            continue
        lines = [
            f"{summary.name}{end}{{{label_pairs(zip(summary.labels, values, strict=False))}}} {number!r}\n"
            for end, values, number in rows
        ]
        if lines:
            yield header(summary.name, summary.type, summary.help, openmetrics)
            yield from lines


def _checks(gpus: Iterable[PageGpu]) -> Iterator[Row]:
    """Yield the number of GPUs by check and state, if that is not ok."""
    boards = [gpu.sample for gpu in gpus if gpu.sample.device.entity.kind == "gpu"]
    counts = Counter(
        (check.id, check.state)
        for sample in boards
        for check in sample.result.health.checks
        if check.state != "ok" and check.applies
    )
    for values, count in sorted(counts.items()):
        yield "", values, count


def _quantities(gpus: Iterable[PageGpu]) -> Iterator[Row]:
    for name in sorted(RECENT_QUANTITIES):
        position = POSITION[name]
        if count := sum(gpu.values[position] is not None for gpu in gpus):
            yield "", (name,), count


def _distribution(gpus: Iterable[PageGpu], published: Published) -> Iterator[Row]:
    for gpu in gpus:
        if (distribution := gpu.sample.result.counters.distribution) is not None:
            published.add_distribution(gpu.published, (gpu.node, gpu.sample.device.model), distribution)
    for place, (bounds, counts, total) in sorted(published.distributions.items()):
        below = list(accumulate(counts))
        for bound, number in zip((*map(repr, map(float, bounds)), "+Inf"), below, strict=True):
            yield "_bucket", (*place, bound), number
        yield "_count", place, below[-1]
        yield "_sum", place, total


def _peaks(gpus: Iterable[PageGpu], peaks: Mapping[str, Peaks]) -> Iterator[Row]:
    for model in sorted({gpu.sample.device.model for gpu in gpus}):
        row = peaks.get(architecture_of(model), peaks[DEFAULT])
        for resource in RESOURCES:
            if resource not in LINKS:
                yield "", (model, resource), getattr(row, resource)
