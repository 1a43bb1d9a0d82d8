"""Signs that a GPU was reset or its driver reloaded: counters that start again."""

from __future__ import annotations

from pulsed.translate.vocabulary import POSITION, Reading, Value

RESET_SIGNS = (
    "energy_joules_total",
    "pcie_replays_total",
    "ecc_sbe_volatile_total",
    "ecc_dbe_volatile_total",
)
"""Counters that fall when the GPU is reset or the driver is reloaded. The first changes with every sample."""

RESET_SECONDS = 60.0
"""A counter that is read seldom, and repeated in between, must stay fallen for so long to indicate a reset."""

_POSITIONS = tuple(POSITION[name] for name in RESET_SIGNS)

Fallen = tuple[int, float]
"""Number of samples with a lower counter, and the time of the first."""


class Resets:
    """The signs of one GPU. A counter that falls and returns was misread.

    Attributes:
        highest: of each sign since the last reset; None while it was never there.
        fallen: of each sign that is lower now, since when.
        is_pending: whether any but the first is lower now: then every sample counts.
    """

    __slots__ = ("fallen", "highest", "is_pending")

    def __init__(self) -> None:
        self.highest: list[Value] = [None] * len(RESET_SIGNS)
        self.fallen: list[Fallen | None] = [None] * len(RESET_SIGNS)
        self.is_pending = False

    def follow_energy(self, energy: float, now: float) -> float | None:
        """Take the first sign; return the time of a reset, None for none."""
        last = self.highest[0]
        if last is None or energy >= last:
            self.highest[0] = energy
            if self.fallen[0] is not None:
                self.fallen[0] = None
            return None
        return self._fell(0, energy, now)

    def follow(self, reading: Reading, now: float) -> float | None:
        """Take the other signs; return the time of a reset, None for none."""
        moment: float | None = None
        for sign in range(1, len(RESET_SIGNS)):
            value, last = reading[_POSITIONS[sign]], self.highest[sign]
            if value is None:
                continue
            if last is None or value >= last:
                self.highest[sign], self.fallen[sign] = value, None
            else:
                fell = self._fell(sign, value, now)
                moment = fell if fell is not None else moment
        self.is_pending = any(self.fallen[1:])
        return moment

    def _fell(self, sign: int, value: float, now: float) -> float | None:
        """Take a counter that is lower than it was: a reset, if it stays lower."""
        fallen = self.fallen[sign]
        count, since = (1, now) if fallen is None else (fallen[0] + 1, fallen[1])
        if count < 2 or (sign and now - since < RESET_SECONDS):
            self.fallen[sign] = (count, since)
            return None
        self.highest[sign], self.fallen[sign] = value, None
        return since
