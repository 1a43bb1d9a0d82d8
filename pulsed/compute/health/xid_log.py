"""The XIDs of one GPU as events.

DCGM keeps the last code for ever: this finds out whether it is new, happened again, or is older than the first sample.
dcgm-exporter's own metrics, where enabled, give more detail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import inf

from pulsed.compute.health.xids import FOLLOWER
from pulsed.model.canonical_tick import Extras
from pulsed.model.raw_tick import KernelEvent

BURST_GAP = 180.0
"""Seconds after which the same code is another burst (gpud, NVSentinel merge closer ones)."""

REPEAT_WINDOW = 86400.0

BLANK_SAMPLES = 2
"""Samples without the gauge, of a GPU that answers, that prove that it has no code: sources omit it until the first."""

MOST_CODES = 40
"""Codes of a GPU that are counted one by one besides the critical ones; in no real case are there so many."""

_MOST_BURSTS = 64

Jobs = tuple[str, ...]


@dataclass(slots=True)
class XidRecord:
    """One code.

    Attributes:
        last: when it happened last; when it was first seen if `dated` is false.
        dated: whether the time when it happened is known.
        cleared: whether the GPU was reset since.
        count: number of events.
        source: the input that reported it last. The same code from another input soon after is the same event.
        bursts: when bursts of it began within the last day, and the jobs on the GPU.
    """

    last: float
    dated: bool
    cleared: bool = False
    count: int = 0
    source: str = ""
    bursts: list[tuple[float, Jobs]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class XidLog:
    """The XIDs of one GPU.

    Attributes:
        critical: codes that are always kept. Of the others the first `MOST_CODES` are.
        records: by code, with the newest of the codes beyond those.
        beyond: the newest code beyond those; None for none.
        others: number of events of the codes before it, which are not kept.
        last: the code that happened last, or was there first; None for none. 45 replaces no other code.
        gauge: the last value of the gauge; None while it was never there.
        begun: seconds of the GPU's clock; messages of the kernel from before were added in an earlier run, if at all.
    """

    critical: Set[int] = frozenset()
    records: dict[int, XidRecord] = field(default_factory=dict)
    beyond: int | None = None
    others: int = 0
    last: int | None = None
    gauge: int | None = None
    begun: float = 0.0
    _counts: frozenset[int] | None = None
    _totals: dict[int, float] | None = None
    _blanks: int = 0
    _gone_at: float = -inf
    _is_reset: bool = False
    _older: dict[int, float] = field(default_factory=dict)
    """By code, when the kernel logged it before the first sample."""

    def restore(self, records: Mapping[int, XidRecord], others: int, last: int | None, gauge: int | None) -> None:
        """Continue from an earlier run."""
        self.records, self.beyond, self.others, self.gauge = {}, None, others, gauge
        for code, record in records.items():
            self._keep(code, record)
        self.last = last if last in self.records else None

    def pass_blank(self, now: float) -> None:
        """Take a sample of a GPU that answers, without the gauge."""
        self._blanks += 1
        if self._blanks >= BLANK_SAMPLES:
            self._gone_at = now
            if self._is_reset:
                self.gauge = 0

    def update(
        self, gauge: float | None, extras: Extras | None, jobs: Jobs, now: float, is_source_new: bool = False
    ) -> list[int]:
        """Return the codes that happened since the sample before, the follower 45 included.

        Args:
            gauge: the last code, 0 for none; None if blank or absent.
            extras: dcgm-exporter's own metrics of the GPU.
            jobs: on the GPU.
            now: seconds of the GPU's clock.
            is_source_new: whether fields appear that were not there before: the source was started again with another
                list of fields, and a code may be old if its field was not there before.
        """
        events: dict[int, str] = {}
        sticky: dict[int, None] = {}
        is_none_before = self.gauge is None and self._blanks >= BLANK_SAMPLES and not is_source_new
        if gauge is not None:
            code, before = int(gauge), 0 if is_none_before else self.gauge
            self.gauge, self._blanks = code, 0
            if code and code != before:
                if before is None:
                    sticky[code] = None
                else:
                    events[code] = "gauge"
        if extras is not None:
            if is_none_before:
                self._counts, self._totals = self._counts or frozenset(), self._totals or {}
            self._update_counts(extras, events, sticky)
            self._update_totals(extras, events, sticky)
        for code in sticky:
            if code not in self.records and code not in events:
                record = self._record(code, now)
                record.last, record.dated = self._older.get(code, now), code in self._older
                self._name_last(code)
        return [code for code, source in events.items() if self._add(code, source, jobs, now)]

    def add_kernel_events(self, events: Sequence[KernelEvent], jobs: Jobs, now: float, time: float) -> list[int]:
        """Add messages of the kernel log about this GPU; return the codes that happened since the first sample.

        The log has every occurrence with its time, where a gauge has only the last code. Messages from before the first
        sample date codes of unknown age; by themselves they are no evidence, because the GPU may have been reset since.
        `now` and `time` are the same moment, by the GPU's clock and in Unix seconds.
        """
        happened = []
        for event in events:
            moment = now - (time - event.time)
            record = self.records.get(event.code)
            if moment >= self.begun:
                if self._add(event.code, "kernel_log", jobs, moment):
                    happened.append(event.code)
                self.records[event.code].source = "kernel_log"  # later messages are other events
            elif record is not None and not record.dated:
                record.last, record.dated = moment, True
            else:
                self._older[event.code] = moment
                if len(self._older) > MOST_CODES:
                    del self._older[next(iter(self._older))]
        return happened

    def clear(self, moment: float) -> None:
        """Mark the codes before a reset of the GPU as cleared; a code after a blank gauge is a new event."""
        for record in self.records.values():
            if record.last < moment:
                record.cleared = True
        self._is_reset = True
        if self._gone_at >= moment:
            self.gauge = 0

    def repeated(self, now: float) -> int | None:
        """Return the code that keeps coming back; None for none."""
        for code, record in self.records.items():
            bursts = record.bursts
            while bursts and now - bursts[0][0] >= REPEAT_WINDOW:
                del bursts[0]
            jobs = {job for _, names in bursts for job in names}
            if code != FOLLOWER and (len(bursts) >= 5 or (code == 31 and len(bursts) >= 3 and len(jobs) >= 2)):
                return code
        return None

    def _update_counts(self, extras: Extras, events: dict[int, str], sticky: dict[int, None]) -> None:
        """Add codes that enter the exporter's window, but for one that the gauge has kept since the start."""
        if extras.xid_counts is None:
            return
        counts = frozenset(code for code, count in extras.xid_counts if count > 0)
        for code in counts - (self._counts or frozenset()):
            record = self.records.get(code)
            if self._counts is None:
                sticky[code] = None
            elif record is None or record.dated or code != self.gauge:
                events.setdefault(code, "counts")
        self._counts = counts

    def _update_totals(self, extras: Extras, events: dict[int, str], sticky: dict[int, None]) -> None:
        if extras.xid_totals is None:
            return
        totals = dict(extras.xid_totals)
        before = self._totals
        for code, total in totals.items():
            if before is None:
                if total > 0:
                    sticky[code] = None
            elif total > before.get(code, 0.0):
                events.setdefault(code, "totals")
        self._totals = totals

    def _add(self, code: int, source: str, jobs: Jobs, now: float) -> bool:
        record = self._record(code, now)
        if record.dated and source != record.source and now - record.last < BURST_GAP:
            return False
        if not record.bursts or now - record.last >= BURST_GAP:
            record.bursts = [*record.bursts[1 - _MOST_BURSTS :], (now, jobs)]
        record.last, record.dated, record.cleared, record.source = now, True, False, source
        record.count += 1
        self._is_reset = False
        self._name_last(code)
        return True

    def _record(self, code: int, now: float) -> XidRecord:
        """Return the record of a code."""
        record = self.records.get(code)
        if record is None:
            record = XidRecord(now, dated=False)
            self._keep(code, record)
        return record

    def _keep(self, code: int, record: XidRecord) -> None:
        """Add a record; if there are too many codes, in place of the newest of those beyond."""
        if code not in self.critical and len(self.records.keys() - self.critical - {self.beyond}) >= MOST_CODES:
            if self.beyond is not None:
                self.others += self.records.pop(self.beyond).count
                self.last = code if self.last == self.beyond else self.last
            self.beyond = code
        self.records[code] = record

    def _name_last(self, code: int) -> None:
        if code != FOLLOWER or self.last is None:
            self.last = code
