"""The GPUs on a page, and the sample lines of their families. Both text formats have the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from typing import NamedTuple

from pulsed.model.computed_tick import ComputedTick, GpuSample, gpu_samples
from pulsed.model.gpu import GpuKey, gpu_labels, key_of
from pulsed.model.vocabulary import Value
from pulsed.present.exposition.catalog import Catalog, PageColumn, PageDerived
from pulsed.present.exposition.family_types import COUNTER_FORMS, DerivedFamily, Family
from pulsed.present.exposition.owner_families import owner_label_text
from pulsed.present.exposition.published import Published, PublishedGpu
from pulsed.present.exposition.text_format import escape, header, label_pairs


class PageGpu(NamedTuple):
    """A GPU on the page.

    Attributes:
        values: its reading and its counters.
        labels: the end of its labels, up to the value of a sample.
        published: what was published of it before.
    """

    key: GpuKey
    sample: GpuSample
    values: tuple[Value, ...]
    labels: str
    published: PublishedGpu


def page_gpus(
    ticks: Sequence[ComputedTick], here: str, published: Published, *, owner_labels: bool
) -> Sequence[PageGpu]:
    """Return the GPUs of ticks, none of which has a GPU of another one.

    Args:
        ticks: of the targets.
        here: node of GPUs whose source does not name one.
        published: what was published of all GPUs.
        owner_labels: whether series have the labels of the owners of their GPU.
    """
    gpus = []
    for tick in ticks:
        for sample in gpu_samples(tick):
            device = sample.device
            labels = label_pairs(gpu_labels(device, here)) + (owner_label_text(device) if owner_labels else "")
            key = key_of(device, here)
            values = (*sample.reading, *sample.result.counters.values)
            gpus.append(PageGpu(key, sample, values, labels + "} ", published.gpu(key)))
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
        for own, number in samples(gpu.sample):
            value: Value = number
            if is_sparse:
                value = published.counter(gpu.published, (family.name, own), number, form)
            if value is not None and isfinite(value):
                lines.append(f"{_start(family, own)}{gpu.labels}{value!r}\n")
    return lines


def _start(family: DerivedFamily, own: tuple[str, ...]) -> str:
    """Return the beginning of a line, up to the labels of the GPU."""
    name = family.name
    if family.type == "histogram":
        name, own = name + own[0], own[1:]
    pairs = [f'{label}="{escape(text)}",' for label, text in zip(family.labels, own, strict=True) if text]
    return f"{name}{{{''.join(pairs)}"
