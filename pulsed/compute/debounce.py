"""Debouncing of the workload class: a change counts once the samples of the new class cover some seconds.

A sample that is an average over 15 s thus counts at once, and a flicker of 100 ms does not. `unknown` is a class like
any other here.
"""

from __future__ import annotations

from pulsed.compute.tick import NOT_HELD, HeldWorkload, Workload

ROUNDING = 1e-9
"""Relative tolerance of the hold: twenty samples of 0.1 s may add up to 1.9999999999999998."""


class ClassDebouncer:
    """The held class of one GPU.

    Args:
        seconds: how long a new class must last; 0 takes every change at once.

    Attributes:
        held: the class now; the same object as long as nothing of it changes.
    """

    __slots__ = ("_candidate", "_covered", "_enough", "_since", "held")

    def __init__(self, seconds: float) -> None:
        self.held = NOT_HELD
        self.reconfigure(seconds)
        self._candidate = ""
        self._since = self._covered = 0.0

    def reconfigure(self, seconds: float) -> None:
        """Apply another hold from now on."""
        self._enough = seconds * (1 - ROUNDING)

    def reset(self, workload: Workload, time: float) -> None:
        """Set the class at once: of the first sample, or of the first after a long gap."""
        self._take(workload, time)

    def update(self, workload: Workload, seconds: float, time: float) -> None:
        """Take the next sample.

        Args:
            workload: of the sample alone.
            seconds: time that it covers.
            time: when it was taken, in Unix seconds.
        """
        held, raw_class = self.held, workload.raw_class
        if raw_class == held.workload_class:
            self._candidate = ""
            if workload.bottleneck != held.bottleneck:
                self.held = HeldWorkload(raw_class, workload.bottleneck, held.since, held.changes)
            return
        if raw_class != self._candidate:
            self._candidate, self._since, self._covered = raw_class, time, 0.0
        self._covered += seconds
        if self._covered >= self._enough:
            self._take(workload, self._since)

    def _take(self, workload: Workload, since: float) -> None:
        held = self.held
        is_change = held.since is not None and workload.raw_class != held.workload_class
        self.held = HeldWorkload(workload.raw_class, workload.bottleneck, since, held.changes + is_change)
        self._candidate = ""
