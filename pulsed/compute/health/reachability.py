"""Whether one GPU answers, and restarts of it, of its driver and node, and of the processes that keep its counters.

A source that no longer lists a GPU is not evidence that the GPU is lost: exporters list only claimed GPUs, and a GPU
may have been given to a virtual machine. This is the one place where epochs are compared. Where a source does not
deliver its epoch signs replace it: another version of the driver, an energy counter that falls, and a last XID that is
absent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pulsed.compute.sample import InputState, has_passed
from pulsed.model.clocks import EPOCH, GPU_START, GpuSeconds, Unix
from pulsed.model.raw_tick import UNKNOWN_EPOCH, Epoch, is_another
from pulsed.model.vocabulary import NOTHING, POSITION, Reading, Value

LOST_SECONDS = 1.0
"""Two polls of a fast source are too short a time for a lost GPU."""

LOST_POLLS = 2


@dataclass(slots=True, eq=False)
class Reachability:
    """Whether one GPU answers.

    Attributes:
        polls_missed: in a row without an answer although the source lists the GPU, or with other evidence that it is
            lost; no more than two; None for a GPU that never answered, or whose loss is not known.
        polls_unlisted: in a row in which the source does not list it, without such evidence; no more than two.
        missed_since: when it was missed first, in Unix seconds; None while it answers.
        last_seen: when it last answered, in Unix seconds; 0 for never.
    """

    polls_missed: float | None = 0.0
    polls_unlisted: float = 0.0
    missed_since: Unix | None = None
    last_seen: Unix = EPOCH
    _seen: GpuSeconds = GPU_START

    def expect(self, last_seen: Unix, missed_since: Unix | None, now: GpuSeconds) -> None:
        """Continue now, with Unix seconds: when it last answered, and since when it is missing; None: it is not."""
        self.last_seen, self.missed_since = last_seen, missed_since
        self._seen = GpuSeconds(now - LOST_SECONDS)

    def resume(self, now: GpuSeconds) -> None:
        """Continue after a time in which the source did not deliver, which proves nothing."""
        self._seen = max(self._seen, now)

    def update(
        self, state: InputState, reading: Reading, time: Unix, now: GpuSeconds, *, has_peers: bool, is_evident: bool
    ) -> None:
        """Record a sample of a GPU that the source lists: its state, its reading, and its time in Unix seconds and by
        the GPU's clock.

        Stale inputs do not prove that the GPU is gone. If no other GPU of the source answers, the source itself may be
        silent.

        Args:
            has_peers: whether any GPU of the source answers.
            is_evident: whether something else shows that the GPU is lost.
        """
        if state == "stale":
            return
        self.polls_unlisted = 0.0
        if state != "blank":
            self.polls_missed, self.missed_since = 0.0, None
            self._seen, self.last_seen = now, time
        elif not self.last_seen:
            self.polls_missed = None if reading == NOTHING else 0.0
        elif has_peers or is_evident:
            self.polls_missed = self._count_poll(time, now)

    def update_unlisted(self, time: Unix, now: GpuSeconds, *, is_evident: bool) -> None:
        """Record a sample without the GPU; one that was lost before stays lost."""
        if not self.last_seen and not is_evident:
            self.polls_missed = None
            return
        polls = self._count_poll(time, now)
        if is_evident or self.is_lost:
            self.polls_missed, self.polls_unlisted = polls, 0.0
        else:
            self.polls_missed, self.polls_unlisted = None, polls

    def _count_poll(self, time: Unix, now: GpuSeconds) -> float:
        """Return how many polls have missed it with this one: two once that is long enough."""
        is_long = self.missed_since is not None and has_passed(LOST_SECONDS, self._seen, now)
        self.missed_since = time if self.missed_since is None else self.missed_since
        return float(LOST_POLLS) if is_long else 1.0

    @property
    def is_lost(self) -> bool:
        """Whether it was missed often enough to be lost."""
        return self.polls_missed == LOST_POLLS

    @property
    def is_unlisted(self) -> bool:
        """Whether the source has not listed it for long enough, and nothing shows that it is lost."""
        return self.polls_unlisted == LOST_POLLS

    @property
    def is_missing(self) -> bool:
        """Whether it is lost, or the source no longer lists it."""
        return LOST_POLLS in (self.polls_missed, self.polls_unlisted)


ABSENT_SAMPLES = 2
"""Samples of a GPU that answers, without the last XID, that prove that the host engine has had none since its start.

DCGM 4.5 and newer omit it until the first one. An engine that has one never omits it.
"""

_XID = POSITION["xid_last_code"]


@dataclass(slots=True)
class ResetSign:
    """The energy counter of a GPU, which starts again with a reset; one that falls and returns was misread.

    Nothing else shows a reset: `nvidia-smi -p 0` clears the volatile ECC counters of a GPU that needs one.

    Attributes:
        highest: since the last reset; None while it was never there.
        since: time of the first sample with less; None without one.
    """

    highest: Value = None
    since: GpuSeconds | None = None

    def update(self, value: Value, now: GpuSeconds) -> GpuSeconds | None:
        """Return the time of a reset, once a second measurement confirms it; None for none."""
        if value is None:
            return None
        if self.highest is None or value >= self.highest:
            self.highest, self.since = value, None
            return None
        if self.since is None:
            self.since = now
            return None
        moment, self.highest, self.since = self.since, value, None
        return moment


class Restarted(NamedTuple):
    """The restarted parts that a new epoch reveals.

    Attributes:
        gpu: when the GPU was, with its driver or node, in seconds of its clock; None: it was not.
        engine: whether the host engine was.
        exporter: whether the exporter was.
    """

    gpu: GpuSeconds | None
    engine: bool
    exporter: bool


@dataclass(slots=True, eq=False)
class Restarts:
    """The restarts of one GPU, its driver, its node and its source.

    Attributes:
        epoch: the newest known value of each part.
        driver_version: last known.
        energy: whether its energy counter falls.
        absent: number of samples in a row with which the GPU answered without a last XID.
    """

    epoch: Epoch = UNKNOWN_EPOCH
    driver_version: str = ""
    energy: ResetSign = field(default_factory=ResetSign)
    absent: int = 0

    def change_source(self) -> None:
        """Take another source of the same GPU: it has its own engine and exporter, and may be some time behind."""
        self.epoch, self.energy, self.absent = self.epoch._replace(engine="", exporter=""), ResetSign(), 0

    def update_epoch(self, epoch: Epoch, previous: GpuSeconds, now: GpuSeconds, time: Unix) -> Restarted:
        """Return what another epoch shows.

        Args:
            epoch: of the newest tick.
            previous: when the sample before was, in seconds of the GPU's clock.
            now: of the newest one, in the same clock.
            time: the same in Unix seconds.
        """
        before = self.epoch
        self.epoch = Epoch._make(new or old for new, old in zip(epoch, before, strict=True))
        is_booted, is_loaded = is_another(epoch.boot, before.boot), is_another(epoch.driver, before.driver)
        if is_booted or is_loaded:
            self.energy = ResetSign()  # its counters begin again
        if is_booted:
            booted = GpuSeconds(now - (time - epoch.booted)) if epoch.booted else now
            return Restarted(min(max(booted, previous), now), engine=True, exporter=True)
        engine, exporter = is_another(epoch.engine, before.engine), is_another(epoch.exporter, before.exporter)
        return Restarted(now if is_loaded else None, engine, exporter)

    def update_driver(self, version: str) -> bool:
        """Return whether the version of the driver is another one than before."""
        is_new = is_another(version, self.driver_version)
        self.driver_version = version or self.driver_version
        if is_new:
            self.energy = ResetSign()
        return is_new

    def has_no_xid(self, gauge: int | None) -> bool:
        """Return whether another sample with which the GPU answers without a last XID proves that the engine has none.

        Args:
            gauge: the last XID before; None for none so far. Of an engine whose epoch is known it is only unread now.
        """
        self.absent += 1
        return self.absent >= ABSENT_SAMPLES and (gauge is None or not self.epoch.engine)

    def has_other_fields(self, reading: Reading, before: Reading | None) -> bool:
        """Return whether XIDs come, after samples without a last XID, together with other fields that were absent too.

        Then the source has another list of fields, and the codes may be old.

        Args:
            reading: the newest one as delivered, with XIDs.
            before: the last one with which the GPU answered, as delivered.
        """
        return (
            self.absent >= ABSENT_SAMPLES
            and before is not None
            and any(
                old is None is not value and position != _XID
                for position, (old, value) in enumerate(zip(before, reading, strict=True))
            )
        )
