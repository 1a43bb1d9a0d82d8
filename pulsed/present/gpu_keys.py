"""Which GPU a series or a document is about, told apart across all targets.

Two targets may report the same GPU (an exporter listed under two names, a node's own and a cluster's list). It is shown
once: the target that comes first in the configuration has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pulsed.present.exposition.text_format import label_pairs
from pulsed.translate.tick import Device

Key = tuple[str, str, str, str]
"""Node, UUID, index (only where the source names no UUID) and MIG id: equal keys are the same thing."""


def node_of(device: Device, here: str) -> str:
    """The node that a device is in; `here`, this process's own, when the source does not say."""
    return device.entity.node or here


def key_of(device: Device, here: str) -> Key:
    """What tells a device from all others."""
    entity = device.entity
    return (node_of(device, here), entity.uuid, "" if entity.uuid else entity.gpu, entity.mig_id)


def repeated(claims: Iterable[Sequence[Key]]) -> list[frozenset[int]]:
    """Find what is claimed a second time, in the order of the claims.

    Args:
        claims: the keys of each target, in the order of the configuration.

    Returns:
        For each target the positions of the keys that it, or a target before it, has already claimed.
    """
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


def label_text(device: Device, node: str | None) -> str:
    """Write the labels that every series of a device carries, as they stand between braces.

    Args:
        device: the GPU or MIG instance.
        node: the value of the label `node`; None leaves the label away.
    """
    entity = device.entity
    labels = [("gpu", entity.gpu), ("uuid", entity.uuid)]
    if entity.mig_id:
        labels.append(("mig_id", entity.mig_id))
    if entity.mig_profile:
        labels.append(("mig_profile", entity.mig_profile))
    if node is not None:
        labels.append(("node", node))
    return label_pairs(labels)


def names_of(device: Device) -> tuple[str, ...]:
    """Give what a person may call a device: index or UUID, as `0:7` for an instance of a whole GPU, or its MIG UUID."""
    entity = device.entity
    boards = tuple(filter(None, (entity.gpu, entity.uuid)))
    if not entity.mig_id:
        return boards
    return (*[f"{board}:{entity.mig_id}" for board in boards], *filter(None, (device.mig_uuid,)))
