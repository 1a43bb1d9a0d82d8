"""The GPUs on a page, with what all families of one need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pulsed.model.computed_tick import ComputedTick, GpuSample, gpu_samples
from pulsed.model.gpu import GpuKey, gpu_labels, key_of
from pulsed.model.vocabulary import Value
from pulsed.present.exposition.owner_families import owner_label_text
from pulsed.present.exposition.published import Published, PublishedGpu
from pulsed.present.exposition.text_format import label_pairs


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
