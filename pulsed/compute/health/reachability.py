"""Whether one GPU answers, and restarts of it, of its driver and node, and of the processes that keep its counters.

A source that no longer lists a GPU is not evidence that the GPU is lost: exporters list only claimed GPUs, and a GPU
may have been given to a virtual machine. This is the one place where epochs are compared. Where a source does not
deliver its epoch signs replace it: another version of the driver, counters that fall, and a last XID that is absent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pulsed.compute.sample import InputState, has_passed
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
    missed_since: float | None = None
    last_seen: float = 0.0
    _seen: float = 0.0

    def expect(self, last_seen: float) -> None:
        """Continue with the time in Unix seconds at which it last answered."""
        self.last_seen = last_seen
        self._seen = -LOST_SECONDS

    def resume(self, now: float) -> None:
        """Continue after a time in which the source did not deliver, which proves nothing."""
        self._seen = max(self._seen, now)

    def update(
        self, state: InputState, reading: Reading, time: float, now: float, *, has_peers: bool, is_evident: bool
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

    def update_unlisted(self, time: float, now: float, *, is_evident: bool) -> None:
        """Record a sample without the GPU; one that was lost before stays lost."""
        if not self.last_seen and not is_evident:
            self.polls_missed = None
            return
        polls = self._count_poll(time, now)
        if is_evident or self.is_lost:
            self.polls_missed, self.polls_unlisted = polls, 0.0
        else:
            self.polls_missed, self.polls_unlisted = None, polls

    def _count_poll(self, time: float, now: float) -> float:
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


_SIGNS = [
    POSITION[name]
    for name in ("energy_joules_total", "pcie_replays_total", "ecc_sbe_volatile_total", "ecc_dbe_volatile_total")
]
"""Counters that fall when the GPU is reset or the driver is reloaded. The first changes with every sample."""

RESET_SECONDS = 60.0
"""A counter that is read seldom, and repeated in between, must stay fallen for this time to indicate a reset."""

ABSENT_SAMPLES = 2
"""Samples of a GPU that answers, without the last XID, that prove that the host engine has had none since its start.

DCGM 4.5 and newer omit it until the first one. An engine that has one never omits it.
"""

_XID = POSITION["xid_last_code"]


@dataclass(slots=True)
class ResetSign:
    """A counter that starts again with a reset. One that falls and returns was misread.

    Attributes:
        highest: since the last reset; None while it was never there.
        falls: number of samples in a row with a lower value.
        since: time of the first of them.
    """

    highest: Value = None
    falls: int = 0
    since: float = 0.0

    def update(self, value: float, now: float, seconds: float) -> float | None:
        """Return the time of a reset, once the value was lower twice and for this number of seconds."""
        if self.highest is None or value >= self.highest:
            self.highest, self.falls = value, 0
            return None
        self.since = self.since if self.falls else now
        self.falls += 1
        if self.falls < 2 or now - self.since < seconds:
            return None
        self.highest, self.falls = value, 0
        return self.since


@dataclass(slots=True)
class Resets:
    """The signs of one GPU, by counter."""

    energy: ResetSign = field(default_factory=ResetSign)
    replays: ResetSign = field(default_factory=ResetSign)
    sbe: ResetSign = field(default_factory=ResetSign)
    dbe: ResetSign = field(default_factory=ResetSign)

    def update(self, reading: Reading, now: float) -> float | None:
        """Return the time of the newest reset that a measurement shows, None for none; repeated ones do not count."""
        moments: list[float] = []
        for sign, position in zip((self.energy, self.replays, self.sbe, self.dbe), _SIGNS, strict=True):
            value = reading[position]
            seconds = 0.0 if sign is self.energy else RESET_SECONDS
            if value is not None and (fell := sign.update(value, now, seconds)) is not None:
                moments.append(fell)
        return max(moments, default=None)


class Restarted(NamedTuple):
    """What a new epoch shows to be restarted.

    Attributes:
        gpu: when the GPU was, with its driver or node, in seconds of its clock; None: it was not.
        engine: whether the host engine was.
        exporter: whether the exporter was.
    """

    gpu: float | None
    engine: bool
    exporter: bool


@dataclass(slots=True, eq=False)
class Restarts:
    """The restarts of one GPU, its driver, its node and its source.

    Attributes:
        epoch: the newest known value of each part.
        driver_version: last known.
        signs: counters that fall with a reset.
        absent: number of samples in a row with which the GPU answered without a last XID.
    """

    epoch: Epoch = UNKNOWN_EPOCH
    driver_version: str = ""
    signs: Resets = field(default_factory=Resets)
    absent: int = 0

    def change_source(self) -> None:
        """Take another source of the same GPU: it has its own engine and exporter, and may be some time behind."""
        self.epoch, self.signs, self.absent = self.epoch._replace(engine="", exporter=""), Resets(), 0

    def update_epoch(self, epoch: Epoch, previous: float, now: float, time: float) -> Restarted:
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
            self.signs = Resets()  # its counters begin again
        if is_booted:
            booted = now - (time - epoch.booted) if epoch.booted else now
            return Restarted(min(max(booted, previous), now), engine=True, exporter=True)
        engine, exporter = is_another(epoch.engine, before.engine), is_another(epoch.exporter, before.exporter)
        return Restarted(now if is_loaded else None, engine, exporter)

    def update_driver(self, version: str) -> bool:
        """Return whether the version of the driver is another one than before."""
        is_new = is_another(version, self.driver_version)
        self.driver_version = version or self.driver_version
        if is_new:
            self.signs = Resets()
        return is_new

    def has_no_xid(self, gauge: int | None) -> bool:
        """Return whether another sample with which the GPU answers without a last XID proves that the engine has none.

        Args:
            gauge: the last XID before; None for none so far. Of an engine whose epoch is known it is only unread now.
        """
        self.absent += 1
        return self.absent >= ABSENT_SAMPLES and (gauge is None or not self.epoch.engine)

    def has_other_fields(self, reading: Reading, before: Reading | None) -> bool:
        """Return whether the last XID comes back together with other fields that were not there before.

        Then the source has another list of fields, and the code may be old.

        Args:
            reading: the newest one as delivered, with a last XID.
            before: the last one with which the GPU answered, as delivered.
        """
        absent, self.absent = self.absent, 0
        return (
            absent >= ABSENT_SAMPLES
            and before is not None
            and any(
                old is None is not value and position != _XID
                for position, (old, value) in enumerate(zip(before, reading, strict=True))
            )
        )
