"""Signs that a GPU was reset or its driver reloaded: counters that start again."""

from __future__ import annotations

from dataclasses import dataclass, field

from pulsed.model.vocabulary import POSITION, Reading, Value

RESET_SIGNS = (
    "energy_joules_total",
    "pcie_replays_total",
    "ecc_sbe_volatile_total",
    "ecc_dbe_volatile_total",
)
"""Counters that fall when the GPU is reset or the driver is reloaded. The first changes with every sample."""

RESET_SECONDS = 60.0
"""A counter that is read seldom, and repeated in between, must stay fallen for so long to indicate a reset."""

_ENERGY, *_OTHERS = (POSITION[name] for name in RESET_SIGNS)


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
        """Take a sample; return the time of a reset once the value was lower twice and for so many seconds."""
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
    """The signs of one GPU, in the order of `RESET_SIGNS`.

    Attributes:
        is_pending: whether any but the first is lower now: then every sample counts.
    """

    energy: ResetSign = field(default_factory=ResetSign)
    replays: ResetSign = field(default_factory=ResetSign)
    sbe: ResetSign = field(default_factory=ResetSign)
    dbe: ResetSign = field(default_factory=ResetSign)
    is_pending: bool = False

    def update(self, reading: Reading, now: float, is_any_changed: bool) -> float | None:
        """Take a measurement; return the time of the newest reset that it shows, None for none.

        Args:
            reading: not a repeated one.
            now: seconds of the GPU's clock.
            is_any_changed: whether a sign other than the first has changed.
        """
        energy = reading[_ENERGY]
        moment = None if energy is None else self.energy.update(energy, now, 0.0)
        if not (is_any_changed or self.is_pending):
            return moment
        for sign, position in zip((self.replays, self.sbe, self.dbe), _OTHERS, strict=True):
            value = reading[position]
            if value is not None and (fell := sign.update(value, now, RESET_SECONDS)) is not None:
                moment = fell if moment is None else max(moment, fell)
        self.is_pending = bool(self.replays.falls or self.sbe.falls or self.dbe.falls)
        return moment
