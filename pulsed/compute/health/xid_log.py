"""The XIDs of one GPU as events.

DCGM keeps the last code for ever: this finds out whether it is new, happened again, or is older than the first sample.
dcgm-exporter's own metrics, where enabled, give more detail. Several inputs report the same events: within a burst an
event counts once, and the input with the most of them decides how many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from pulsed.compute.health.xids import FOLLOWER, xid_of
from pulsed.model.clocks import GPU_NEVER, GPU_START, GpuSeconds, Unix
from pulsed.model.raw_tick import KernelEvent, LinkFault
from pulsed.model.tick import Extras

BURST_GAP = 180.0
"""Seconds after which the same code is another burst (gpud, NVSentinel merge closer ones)."""

REPEAT_WINDOW = 86400.0

MAX_CODES = 40
"""Codes of a GPU that are counted one by one in addition to the critical ones; real GPUs have fewer."""

MAX_TOTAL = 2.0**53
"""No counter of events is larger."""

_MAX_BURSTS = 64

Programs = tuple[str, ...]
"""The programs that had a GPU, as `Owner.program` names them."""


@dataclass(slots=True)
class XidRecord:
    """One code.

    Attributes:
        last: when it happened last; when it was first seen if `dated` is false.
        dated: whether the time when it happened is known.
        cleared: whether the GPU was reset since.
        count: number of events.
        bursts: when bursts of it began within the last day, and the programs on the GPU.
        fault: details of the newest burst, of an XID about an NVLink: the worst of them.
        cause: the XID that it is caused by, as the driver stated it last.
        action: the recovery action that the driver requested last, of XID 154; None while no message named one.
        places: when a message named a place on the chip within the last day, and the place.
    """

    last: GpuSeconds
    dated: bool
    cleared: bool = False
    count: int = 0
    bursts: list[tuple[GpuSeconds, Programs]] = field(default_factory=list)
    fault: LinkFault | None = None
    cause: int | None = None
    action: int | None = None
    places: list[tuple[GpuSeconds, str]] = field(default_factory=list)

    @property
    def began(self) -> GpuSeconds:
        """When the newest burst began."""
        return self.bursts[-1][0] if self.bursts else self.last

    def describe(self, event: KernelEvent, moment: GpuSeconds) -> None:
        """Add the details of a message of the kernel, which a gauge may have announced before."""
        if self.dated and moment < self.last - BURST_GAP:
            return
        if event.place:
            self.places = [*self.places[1 - _MAX_BURSTS :], (moment, event.place)]
        self.cause = event.cause or self.cause
        self.action = event.action if event.action is not None else self.action
        if self.bursts and abs(moment - self.began) < BURST_GAP:
            self.bursts[-1] = (min(moment, self.began), self.bursts[-1][1])
        if event.fault is not None and (
            self.fault is None or moment - self.last >= BURST_GAP or _rank(event.fault) >= _rank(self.fault)
        ):
            self.fault = event.fault

    def burst_places(self) -> list[str]:
        """Return the place of each burst, the first that a message named; empty where none did."""
        begins = [begin for begin, _ in self.bursts]
        return [
            next((place for at, place in self.places if begin - BURST_GAP < at and (end is None or at < end)), "")
            for begin, end in zip(begins, [*begins[1:], None], strict=True)
        ]


SAME_PLACE = 3
"""Bursts at one place that are not chance: a chip has some 70 pairs of GPC and TPC."""


def _by_place(code: int, programs: Programs, places: Sequence[str]) -> RepeatedXid:
    """Return what a code means that was at these places, one for each burst."""
    if not all(places):
        return RepeatedXid(code, programs)
    near = Counter(place.partition(", SM")[0] for place in places)  # a TPC has two SMs
    ((tpc, number),) = near.most_common(1)
    if number < min(SAME_PLACE, len(places)):
        return RepeatedXid(code, programs, is_of_programs=True)
    (place, _), *_ = Counter(place for place in places if place.partition(", SM")[0] == tpc).most_common(1)
    return RepeatedXid(code, (), place)


def _rank(fault: LinkFault) -> tuple[bool, bool]:
    return not fault.is_injected, fault.is_fatal


class RepeatedXid(NamedTuple):
    """A code that keeps coming back.

    Attributes:
        programs: the suspects, which had the GPU each time; empty: none, or the GPU.
        place: on the chip, where it was most often; empty if it is not known each time, or was never the same.
        is_of_programs: whether it was at different places: programs cause it.
    """

    code: int
    programs: Programs = ()
    place: str = ""
    is_of_programs: bool = False


class _Burst(NamedTuple):
    """When an event of a code was reported last, and by input, how many it has reported in the burst."""

    reported: GpuSeconds
    counts: dict[str, int]


@dataclass(slots=True, eq=False)
class XidLog:
    """The XIDs of one GPU.

    Attributes:
        critical: codes that are always kept. Of the others the first `MAX_CODES` are.
        records: by code, with the newest of the codes beyond those.
        beyond: the newest code beyond those; None for none.
        others: number of events of the codes before it, which are not kept.
        last: the code that happened last, or was there first; None for none. 45 replaces no other code.
        totals: by code, the newest value of the exporter's counter; None while there was none.
        begun: seconds of the GPU's clock; messages of the kernel from before were added in an earlier run, if at all.
        shown: the newest code of the gauge, 0 for none; None while it was never there.
        has_none: whether the source is proven to have no code, after the newest of the gauge.
        is_blank: whether the gauge is absent from the newest sample.
    """

    critical: Set[int] = frozenset()
    records: dict[int, XidRecord] = field(default_factory=dict)
    beyond: int | None = None
    others: int = 0
    last: int | None = None
    begun: GpuSeconds = GPU_START
    totals: dict[int, float] | None = None
    shown: int | None = None
    has_none: bool = False
    is_blank: bool = False
    _counts: frozenset[int] | None = None
    _bursts: dict[int, _Burst] = field(default_factory=dict)
    _cleared_at: GpuSeconds = GPU_NEVER
    _older: dict[int, tuple[GpuSeconds, KernelEvent]] = field(default_factory=dict)
    """By code, when the kernel logged it before the first sample, and the message."""

    @property
    def gauge(self) -> int | None:
        """The last code of the source, 0 for none; None while that is not known."""
        return 0 if self.has_none else self.shown

    def restore(self, records: Mapping[int, XidRecord], others: int, last: int | None) -> None:
        """Continue with the codes of an earlier run."""
        self.records, self.beyond, self.others = {}, None, others
        for code, record in records.items():
            self._keep(code, record)
        self.last = last if last in self.records else None

    def restart_gauge(self) -> None:
        """Record a restart of the host engine: it has no code from before."""
        self.has_none = True

    def restart_totals(self) -> None:
        """Record a restart of the exporter: its counters begin at 0, and its window has samples of the last code."""
        self.totals, self._counts = {}, None

    def record_none(self) -> None:
        """Record the proof that the source has no code so far."""
        self.has_none, self.totals, self._counts = True, self.totals or {}, self._counts or frozenset()

    def is_first(self, gauge: float | None, extras: Extras | None) -> bool:
        """Return whether an input has a code that may be its first one."""
        if gauge is not None or extras is None:
            return gauge is not None
        has_counts = not self._counts and any(count > 0 for _, count in extras.xid_counts or ())
        return has_counts or bool(extras.xid_totals and not self.totals)

    def forget_source(self) -> None:
        """Record another list of fields: its present values may be old."""
        self.has_none, self.totals, self._counts = False, self.totals or None, self._counts or None

    def change_source(self) -> None:
        """Take another source of the same GPU: its present values are not new, and it has counts of its own."""
        self.shown, self.has_none, self.totals, self._counts = None, False, None, None

    def update(
        self, gauge: float | None, extras: Extras | None, programs: Programs, now: GpuSeconds
    ) -> Mapping[int, int]:
        """Return the codes that happened since the sample before, the follower 45 included, and how often.

        Args:
            gauge: the last code, 0 for none; None if blank or absent.
            extras: dcgm-exporter's own metrics of the GPU.
            programs: on the GPU.
            now: seconds of the GPU's clock.
        """
        events: list[tuple[str, int, int]] = []
        sticky: dict[int, None] = {}
        was_blank, self.is_blank = self.is_blank, gauge is None
        if gauge is not None:
            code, before = int(gauge), self.gauge
            self.shown, self.has_none = code, False
            is_counted = was_blank and self.totals is not None and extras is not None and extras.xid_totals is not None
            if code and code != before:
                if before is None:
                    sticky[code] = None
                elif not is_counted:  # totals also have what happened while the gauge was blank
                    events.append(("gauge", code, 1))
        if extras is not None:
            events += self._update_counts(extras, sticky)
            events += self._update_totals(extras, sticky)
        if not events and not sticky:
            return {}
        happened = {code for _, code, _ in events}
        for code in sticky:
            if code not in self.records and code not in happened:
                record = self._record(code, now)
                if code in self._older:
                    record.last, record.dated = self._older[code][0], True
                    record.describe(self._older[code][1], record.last)
                self._name_last(code)
        added: Counter[int] = Counter()
        for source, code, count in events:
            added[code] += self._add(code, source, count, programs, now, now)
        return +added

    def add_kernel_events(
        self, events: Sequence[KernelEvent], programs: Programs, now: GpuSeconds, time: Unix
    ) -> Mapping[int, int]:
        """Add messages of the kernel log about this GPU; return the codes that happened since the first sample, and how
        often.

        The log has every occurrence with its time, where a gauge has only the last code. Messages from before the first
        sample date codes of unknown age; alone they are not evidence, because the GPU may have been reset since.
        `now` and `time` are the same moment, by the GPU's clock and in Unix seconds.
        """
        happened: Counter[int] = Counter()
        for event in events:
            moment = GpuSeconds(now - (time - event.time))
            record = self.records.get(event.code)
            if record is not None:
                record.describe(event, moment)
            if moment >= self.begun:
                happened[event.code] += self._add(event.code, event.kind, 1, programs, moment, now)
                if record is None:
                    self.records[event.code].describe(event, moment)
            elif record is not None and not record.dated:
                record.last, record.dated = moment, True
            else:
                self._older[event.code] = (moment, event)
                if len(self._older) > MAX_CODES:
                    del self._older[next(iter(self._older))]
        return +happened

    def clear(self, moment: GpuSeconds) -> None:
        """Mark the codes before a reset of the GPU as cleared."""
        self._cleared_at = moment
        for record in self.records.values():
            if record.last < moment:
                record.cleared = True

    def repeated(self, now: GpuSeconds) -> RepeatedXid | None:
        """Return the code that keeps coming back, the one of a board first; None for none.

        The place on the chip decides where messages named it each time: the same one again is the board's, different
        ones are of programs. Otherwise, of codes that programs cause, those that had the GPU each time are the
        suspects, and without any it is the GPU.
        """
        repeats: list[RepeatedXid] = []
        for code, record in self.records.items():
            bursts = record.bursts = [burst for burst in record.bursts if now - burst[0] < REPEAT_WINDOW]
            owned = [set(programs) for _, programs in bursts if programs]
            common = set.intersection(*owned) if owned else set[str]()
            is_across = len(owned) >= 2 and not common
            if code != FOLLOWER and (len(bursts) >= 5 or (code == 31 and len(bursts) >= 3 and is_across)):
                programs = tuple(sorted(common)) if xid_of(code).scope == "app" else ()
                repeats.append(_by_place(code, programs, record.burst_places()))
        return min(repeats, key=lambda repeat: bool(repeat.programs) or repeat.is_of_programs, default=None)

    def _update_counts(self, extras: Extras, sticky: dict[int, None]) -> Iterator[tuple[str, int, int]]:
        """Yield codes that enter the exporter's window, except one that the gauge has kept since the start."""
        if extras.xid_counts is None:
            return
        before, self._counts = self._counts, frozenset(code for code, count in extras.xid_counts if count > 0)
        for code in self._counts - (before or frozenset()):
            record = self.records.get(code)
            if before is None:
                sticky[code] = None
            elif record is None or record.dated or code != self.gauge:
                yield "counts", code, 1

    def _update_totals(self, extras: Extras, sticky: dict[int, None]) -> Iterator[tuple[str, int, int]]:
        """Yield the increases of the exporter's counters; one that falls shows that all began at 0."""
        if extras.xid_totals is None:
            return
        before, self.totals = self.totals, {code: min(total, MAX_TOTAL) for code, total in extras.xid_totals}
        if before is None:
            sticky.update((code, None) for code, total in self.totals.items() if total > 0)
            return
        if any(total < before.get(code, 0.0) for code, total in self.totals.items()):
            before = {}
        for code, total in self.totals.items():
            if total > before.get(code, 0.0):
                yield "totals", code, max(1, int(total - before.get(code, 0.0)))
        self.totals = before | self.totals

    def _add(self, code: int, source: str, count: int, programs: Programs, moment: GpuSeconds, now: GpuSeconds) -> int:
        """Add events that an input reports now and that happened at a moment; return how many of them are new."""
        record, burst = self._record(code, now), self._bursts.get(code)
        counts = burst.counts if burst is not None and now - burst.reported < BURST_GAP else {}
        reported = max(counts.values(), default=0)
        counts[source] = counts.get(source, 0) + count
        self._bursts[code] = _Burst(now, counts)
        new = counts[source] - reported
        if new <= 0:
            return 0
        if not record.bursts or moment - record.last >= BURST_GAP:
            record.bursts = [*record.bursts[1 - _MAX_BURSTS :], (moment, programs)]
        record.last = max(record.last, moment) if record.dated else moment
        record.dated, record.cleared = True, record.last < self._cleared_at
        record.count += new
        self._name_last(code)
        return new

    def _record(self, code: int, now: GpuSeconds) -> XidRecord:
        if code not in self.records:
            self._keep(code, XidRecord(now, dated=False))
        return self.records[code]

    def _keep(self, code: int, record: XidRecord) -> None:
        """Add a record; if there are too many codes, in place of the newest of those beyond."""
        if code not in self.critical and len(self.records.keys() - self.critical - {self.beyond}) >= MAX_CODES:
            if self.beyond is not None:
                self.others += self.records.pop(self.beyond).count
                self._bursts.pop(self.beyond, None)
                self.last = code if self.last == self.beyond else self.last
            self.beyond = code
        self.records[code] = record

    def _name_last(self, code: int) -> None:
        if code != FOLLOWER or self.last is None:
            self.last = code
