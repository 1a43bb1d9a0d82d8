"""The numbers of health events and XIDs of a GPU above all targets that show it.

Each target counts what it sees. The total grows with the target whose samples are counted, so that an event that two
targets see counts once, and the total does not fall when another one goes on. What a target that was away, or whose
input was blank, sees when it returns is new as far as it is more than the others have counted meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from pulsed.model.health import Health

_Key = tuple[str, str | int]
_Counts = Mapping[_Key, int]
_XID_CHECKS: Set[_Key] = {("check", check) for check in ("xid_critical", "xid_warning", "xid_repeat")}
"""Checks whose inputs are those of XIDs."""


class EventTotals:
    """The totals of one GPU.

    Sources are identified by anything that can be a key.
    """

    def __init__(self) -> None:
        self._first: object = None
        self._total: _Counts = {}
        self._last: dict[object, tuple[_Counts, _Counts]] = {}
        """By source, its own counts and the total in its newest sample that was new and had the inputs of the count."""
        self._shown: dict[object, tuple[Health, _Counts, Health]] = {}
        self._health: Health | None = None

    def apply(self, source: object, health: Health, *, is_counted: bool, is_new: bool = True) -> Health:
        """Return the health of a GPU in a source with the totals of events; the same object while nothing changes.

        Args:
            is_counted: whether the samples of the source are counted.
            is_new: whether its newest sample differs from the one before: a page may be kept, and its events late.
        """
        if self._first in (None, source) and is_counted and not self._last:
            self._first, self._health = source, health  # no other source has ever shown it
            return health
        shown = self._shown.get(source)
        if shown is not None and shown[0] is health and shown[1] is self._total is self._last[source][1]:
            return shown[2]
        if self._health is not None:
            self._total = _counts(self._health)
            self._last[self._first], self._health = (self._total, self._total), None
        own = _counts(health)
        before, since = self._last.get(source, (own, self._total) if self._total else ({}, {}))
        if is_counted:
            # What it has counted since its newest sample, others may have counted, too.
            grown = {key: since.get(key, 0) + count - before.get(key, 0) for key, count in own.items()}
            total = {key: max(grown.get(key, 0), self._total.get(key, 0)) for key in {**self._total, **grown}}
            self._total = self._total if total == self._total else total
        if is_new or source not in self._last:
            blank = _without_inputs(health, self._total)
            kept = {key: since.get(key, 0) for key in blank if since.get(key, 0) != self._total.get(key, 0)}
            self._last[source] = (own, {**self._total, **kept} if kept else self._total)
        return self._with_totals(source, health)

    def _with_totals(self, source: object, health: Health) -> Health:
        shown = self._shown.get(source)
        if shown is None or shown[0] is not health or shown[1] is not self._total:
            checks = tuple([(str(key), count) for (kind, key), count in self._total.items() if kind == "check"])
            xids = tuple([(key, count) for (kind, key), count in self._total.items() if kind == "xid"])
            shown = (health, self._total, replace(health, events=checks, xid_events=xids))
            self._shown = {one: known for one, known in self._shown.items() if one in self._last}
            self._shown[source] = shown
        return shown[2]


def _counts(health: Health) -> _Counts:
    found: dict[_Key, int] = {("check", check): count for check, count in health.events}
    return found | {("xid", code): count for code, count in health.xid_events}


def _without_inputs(health: Health, counts: _Counts) -> Set[_Key]:
    """Return which of these counts cannot grow at present."""
    found: set[_Key] = {("check", check.id) for check in health.checks if not check.covered}
    if not found.isdisjoint(_XID_CHECKS):
        found.update(key for key in counts if key[0] == "xid")
    return found
