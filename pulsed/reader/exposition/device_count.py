"""Count the devices on an exporter's page before it is parsed, to reject a page with too many of them at little cost.

A device that is parsed, translated and evaluated costs a thousand times as much as one that is counted.
"""

from __future__ import annotations

import re

from pulsed.errors import TooManyGpus

_IDENTITY = re.compile(
    r'(UUID|uuid|gpu|GPU_I_ID|Hostname|hostname|instance|nvlink|nvswitch|cpu|cpucore)="([^"]*)"'
)  # the labels that `translate.identity` identifies a device by; a test holds both equal on all samples
_BLOCK = re.compile(r"\{(.{0,16384})\} ")  # rows with longer labels are rejected
_NOT_A_GPU = frozenset({"nvlink", "nvswitch", "cpu", "cpucore"})
_MOST_BLOCKS = 32_768


def count_devices(text: str) -> int:
    """Return the number of distinct GPUs and MIG instances that the rows of a page name by their labels."""
    blocks: set[int] = set()  # hashes: the texts of a page of 16 MiB would take as much memory again
    devices: set[int] = set()
    for row in _BLOCK.finditer(text):
        key = hash(row[1])
        if key in blocks:
            continue
        if len(blocks) < _MOST_BLOCKS:  # it only saves time
            blocks.add(key)
        labels = dict(_IDENTITY.findall(row[1]))
        uuid = labels.get("UUID") or labels.get("uuid")
        if (uuid or labels.get("gpu")) and _NOT_A_GPU.isdisjoint(labels):
            node = labels.get("Hostname") or labels.get("hostname") or labels.get("instance")
            devices.add(hash((node, uuid or f"gpu {labels['gpu']}", labels.get("GPU_I_ID"))))
    return len(devices)


def refuse_too_many(text: str, max_gpus: int) -> None:
    """Raise `TooManyGpus` for a page with more than `max_gpus` GPUs and MIG instances."""
    if text.count("{") <= max_gpus:  # a device has a row at least: most pages need no closer look
        return
    found = count_devices(text)
    if found > max_gpus:
        raise TooManyGpus(
            f"The page has {found} GPUs and MIG instances, more than the {max_gpus} that are allowed",
            "Check what serves this URL, or increase source.exporter.max_gpus",
        )
