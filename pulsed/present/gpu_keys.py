"""Identity of GPUs across all targets: keys, labels and names.

Two targets may report the same GPU (an exporter under two names, or in a node's and in a cluster's list). It is shown
once, for the target that comes first in the configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pulsed.model.canonical_tick import Device
from pulsed.present.exposition.text_format import label_pairs

Key = tuple[str, str, str, str]
"""Node, UUID, index (only without a UUID) and MIG id."""


def node_of(device: Device, here: str) -> str:
    """Return the node of a device; `here`, this process's own, if the source does not name it."""
    return device.entity.node or here


def key_of(device: Device, here: str) -> Key:
    """Return the key of a device."""
    entity = device.entity
    return (node_of(device, here), entity.uuid, "" if entity.uuid else entity.gpu, entity.mig_id)


def repeated(claims: Iterable[Sequence[Key]]) -> list[frozenset[int]]:
    """Return for each target the positions of keys that it or an earlier target has already claimed."""
    owned: set[Key] = set()
    found: list[frozenset[int]] = []
    for keys in claims:
        if owned.isdisjoint(keys) and len(set(keys)) == len(keys):
            owned.update(keys)
            found.append(frozenset())
            continue
        again = set()
        for position, key in enumerate(keys):
            if key in owned:
                again.add(position)
            owned.add(key)
        found.append(frozenset(again))
    return found


def gpu_labels(device: Device, here: str) -> list[tuple[str, str]]:
    """Return the labels of every series of a device, as pairs."""
    entity = device.entity
    labels = [("node", node_of(device, here)), ("gpu", entity.gpu), ("uuid", entity.uuid)]
    if entity.mig_id:
        labels.append(("mig_id", entity.mig_id))
    if entity.mig_profile:
        labels.append(("mig_profile", entity.mig_profile))
    return labels


def label_text(device: Device, here: str) -> str:
    """Return the labels of every series of a device, without braces."""
    return label_pairs(gpu_labels(device, here))


def board_names(device: Device) -> tuple[str, ...]:
    """Return the names of the GPU that a device is, or is a MIG instance of: index and UUID."""
    return tuple(filter(None, (device.entity.gpu, device.entity.uuid)))


def names_of(device: Device) -> tuple[str, ...]:
    """Return all names of a device: index, UUID, for an instance both with its MIG id as in `0:7`, and its MIG UUID."""
    entity, boards = device.entity, board_names(device)
    if not entity.mig_id:
        return boards
    return (*[f"{board}:{entity.mig_id}" for board in boards], *filter(None, (device.mig_uuid,)))
