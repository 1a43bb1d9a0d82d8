"""One check of one GPU: its rules at work, and the state that follows from them."""

from __future__ import annotations

from pulsed.compute.health.model import CheckState
from pulsed.compute.health.probe import Probe, View
from pulsed.compute.health.probes import probe_of
from pulsed.compute.health.probes_of_events import EventsProbe
from pulsed.compute.health.rule import Check, Rule
from pulsed.compute.health.verdict import check_state

JITTER = 0.5
"""The wall clock may say so many seconds more or less about the same event."""

_NOBODY: tuple[Probe[Rule] | None, float | None] = (None, None)
"""What decides a check that is not raised."""


class GpuCheck:
    """A check at work.

    Attributes:
        check: which.
        probes: its rules, in their order; whoever asks one says so by `conclude`.
        state: now; the same object while nothing of it changes.
        events: how many events it has seen.
    """

    __slots__ = ("_decider", "check", "events", "probes", "state")

    def __init__(self, check: Check) -> None:
        self.check = check
        self.probes: tuple[Probe[Rule], ...] = tuple([probe_of(rule) for rule in check.rules])
        self.state = CheckState(check.id, "unknown")
        self.events = 0
        self._decider = _NOBODY

    @property
    def is_covered(self) -> bool:
        """Whether it has its inputs: those of one of its rules."""
        return any(probe.is_covered for probe in self.probes)

    def conclude(self, view: View, is_guest: bool, time: float, now: float) -> bool:
        """Work out the state from the rules; tell whether anything of it changed.

        Args:
            view: of the GPU.
            is_guest: whether it is a share of a board, as a vGPU guest sees it.
            time: of the sample, in Unix seconds.
            now: of the sample, by the GPU's clock.
        """
        check, old = self.check, self.state
        covered = self.is_covered
        worst = max(self.probes, key=lambda probe: probe.gate.held)
        severity = worst.gate.held
        applies = covered or self._applies(view, is_guest)
        if check.superseded_by and view.value(check.superseded_by) is not None:
            severity, covered, applies = -1, False, False
        decider = (worst, worst.measure if isinstance(worst, EventsProbe) else None) if severity > 0 else _NOBODY
        last_event = self._last_event(time, now)
        if (severity, covered, applies, last_event) == (old.severity, old.covered, old.applies, old.last_event) and (
            decider == self._decider
        ):
            return False
        if severity > 0 >= old.severity and not worst.counts_events:
            self.events += 1
        self._decider = decider
        self.state = check_state(check, worst, view, old, severity, covered, applies, last_event, time)
        return True

    def _last_event(self, time: float, now: float) -> float | None:
        moments = [moment for probe in self.probes if (moment := probe.event_at) is not None]
        if not moments:
            return None
        before, last_event = self.state.last_event, time - (now - max(moments))
        return before if before is not None and abs(last_event - before) < JITTER else last_event

    def _applies(self, view: View, is_guest: bool) -> bool:
        if self.check.optional or (is_guest and not self.check.guest):
            return False
        return not any(view.value(name) is not None for name in self.check.unless)
