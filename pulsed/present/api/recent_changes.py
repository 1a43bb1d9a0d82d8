"""The last changes of every kind, in memory: for `/events/recent`. A restart clears them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import merge
from itertools import islice
from typing import NamedTuple

from pulsed.model.gpu import names_of
from pulsed.present.api.event_documents import CHANGE_KINDS, Change, Document, change_document

MAX_CHANGES = 1000
"""Changes of each kind, some 1 kB each: frequent ones displace only their own kind."""


class NumberedChange(NamedTuple):
    """A change with its number in the order of all events."""

    number: int
    change: Change

    def document(self, here: str) -> Document:
        """Return it as JSON; `here` is this process's node, for GPUs whose source does not name one."""
        return {"id": self.number, "event": self.change.kind, **change_document(self.change, here)}


class RecentChanges:
    """The newest changes of each kind, at most `max_changes` of each."""

    def __init__(self, max_changes: int = MAX_CHANGES) -> None:
        self._kept = {kind: deque[NumberedChange](maxlen=max_changes) for kind in CHANGE_KINDS}

    def add(self, number: int, change: Change) -> None:
        """Keep a change; its number is greater than all before."""
        self._kept[change.kind].append(NumberedChange(number, change))

    def find(self, kinds: Iterable[str], gpu: str | None, since: float, limit: int) -> list[NumberedChange]:
        """Return some changes, the newest first.

        Args:
            gpu: only of this GPU, by any of its names.
            since: Unix time; older changes are left out.
        """
        newest_first = merge(*[reversed(self._kept[kind]) for kind in set(kinds)], key=_age)
        wanted = (
            each
            for each in newest_first
            if each.change.time >= since and (gpu is None or gpu in names_of(each.change.device))
        )
        return list(islice(wanted, limit))


def _age(each: NumberedChange) -> int:
    return -each.number
