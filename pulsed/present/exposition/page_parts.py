"""The parts of the metrics page, for daemons that read many targets: by group of targets or by node.

The pages of all groups and the page of the daemon, or those of all nodes and that of the daemon, have every series of
the whole page once, with the same labels. Each is smaller and is rendered alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from pulsed.model.gpu import node_of
from pulsed.model.target_store import Target, TargetStore

GROUP_TARGETS = 64
"""Targets of a group: with 8 GPUs each, a page of some 4 MB, which is rendered in 40 ms."""

REFRESH_SECONDS = 1.0
"""Time after which targets are assigned to nodes again: a tick may have GPUs of another node."""

PartKind = Literal["group", "node"]

DAEMON = "daemon"
"""The name of the part without GPUs."""


@dataclass(frozen=True, slots=True)
class PagePart:
    """What of the page is wanted.

    Attributes:
        name: such as `groups/0`, unique among the parts.
        targets: whose GPUs are on it, all for None.
        daemon: whether the families about pulsed itself, owners, and sums over all GPUs are on it.
    """

    name: str = ""
    targets: Sequence[Target] | None = None
    daemon: bool = True

    @property
    def gpus(self) -> bool:
        """Whether series of GPUs are on it."""
        return self.targets != ()


WHOLE = PagePart()


class PageParts:
    """The targets of each part. A target keeps its group as long as it is configured."""

    def __init__(self, store: TargetStore) -> None:
        self._store = store
        self._groups: dict[str, int] = {}
        self._parts: dict[PartKind, Mapping[str, PagePart]] = {}
        self._targets: Sequence[Target] = ()
        self._until = -inf

    def names(self, by: PartKind, now: float) -> Sequence[str]:
        """Return the names of the parts that have all series together; `now` is monotonic seconds."""
        return [*self._current(by, now), DAEMON]

    def part(self, name: str, now: float) -> PagePart | None:
        """Return the part of a name; None if there is none."""
        if name == DAEMON:
            return PagePart(DAEMON, ())
        return self._current("node" if name.startswith("nodes/") else "group", now).get(name)

    def _current(self, by: PartKind, now: float) -> Mapping[str, PagePart]:
        targets = self._store.targets
        if targets is not self._targets:
            self._targets, self._until = targets, -inf
            self._parts["group"] = _parts("groups", targets, self._grouped(targets))
        if by == "node" and now >= self._until:
            self._until = now + REFRESH_SECONDS
            self._parts["node"] = _parts("nodes", targets, [self._node(target) for target in targets])
        return self._parts[by]

    def _grouped(self, targets: Sequence[Target]) -> Sequence[int]:
        """Return the group of each target; new ones fill the first groups that have room."""
        names = dict.fromkeys(target.name for target in targets)
        groups = {name: self._groups[name] for name in names if name in self._groups}
        sizes, number = Counter(groups.values()), 0
        for name in names:
            if name not in groups:
                while sizes[number] >= GROUP_TARGETS:
                    number += 1
                groups[name] = number
                sizes[number] += 1
        self._groups = groups
        return [groups[target.name] for target in targets]

    def _node(self, target: Target) -> str | None:
        """Return the node of a target's first GPU; None before it had one."""
        return node_of(target.tick.devices[0], self._store.node) if target.tick and target.tick.devices else None


def _parts(kind: str, targets: Sequence[Target], keys: Sequence[object]) -> Mapping[str, PagePart]:
    found: dict[object, list[Target]] = {}
    for target, key in zip(targets, keys, strict=True):
        if key is not None:
            found.setdefault(key, []).append(target)
    return {name: PagePart(name, found[key], daemon=False) for key in found for name in [f"{kind}/{key}"]}
