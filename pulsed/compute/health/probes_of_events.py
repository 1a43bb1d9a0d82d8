"""Probes that look at what others report: the driver's XIDs, DCGM's watches."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from pulsed.compute.health.model import SEVERITY
from pulsed.compute.health.probe import SOON, Probe, View
from pulsed.compute.health.rule import Events, Watches
from pulsed.compute.health.xids import FOLLOWER, XIDS, xid_of


class EventsProbe(Probe[Events]):
    """XIDs. The log is kept by the GPU; this only picks from it."""

    __slots__ = ("code", "count")

    may_change_quietly = True

    def __init__(self, rule: Events) -> None:
        super().__init__(rule)
        self.code: int | None = None
        self.count = 0

    @property
    def counts_events(self) -> bool:
        """Codes that were there before anybody looked are not counted; of repeats, how often they were raised."""
        return self.rule.choose != "repeated"

    def ask(self, view: View, now: float) -> int:
        """Work out the severity now; -1 for unknown."""
        self.due = inf
        self.code, self.count = None, 0
        severity = self._severity(view, now)
        self.is_covered = view.value("xid_last_code") is not None or view.value("xid_counts") is not None
        self.measure = None if self.code is None else float(self.code)
        self.gate.held = severity if severity > 0 or self.is_covered else -1
        return self.gate.held

    def is_mine(self, code: int, severities: Mapping[int, str]) -> bool:
        """Tell whether an event of a code counts for this rule."""
        choose = self.rule.choose
        if isinstance(choose, int):
            return code == choose
        severity = severity_of(code, severities)
        if choose == "critical":
            return severity == "crit"
        return choose == "warning" and severity in ("info", "warn") and code != FOLLOWER

    def evidence(self, view: View) -> tuple[tuple[str, float], ...]:
        """Give the code, how often it was seen to happen, and whether it is known when."""
        if self.code is None:
            return super().evidence(view)
        record = view.xids.records[self.code]
        return (
            ("xid", float(self.code)),
            ("events", float(record.count)),
            ("bursts", float(len(record.bursts))),
            ("time_known", float(record.dated)),
        )

    def _severity(self, view: View, now: float) -> int:
        if self.rule.choose == "repeated":
            repeated = view.xids.repeats(now)
            if repeated is None:
                return 0
            self.code, self.count = repeated
            record = view.xids.records[self.code]
            self.event_at, self.due = record.last, record.bursts[0][0] + 86400.0
            return SEVERITY["warn"]
        worst, newest = 0, -inf
        is_corroborated = _is_corroborated(view)
        for code, record in view.xids.records.items():
            state = self._state(code, record.dated, record.cleared, is_corroborated, view.severities)
            keep = self.rule.keep.get(state) if state else None  # type: ignore[call-overload]
            if keep is None:
                continue
            if now - record.last >= keep:
                continue
            self.due = min(self.due, record.last + keep)
            if (SEVERITY[state], record.last) > (worst, newest):  # type: ignore[index]
                worst, newest = SEVERITY[state], record.last  # type: ignore[index]
                self.code, self.count = code, record.count
                self.event_at = record.last if record.dated else None
        return worst

    def _state(
        self, code: int, is_dated: bool, is_cleared: bool, is_corroborated: bool, severities: Mapping[int, str]
    ) -> str | None:
        """Give the state that a code stands for in this rule; None for none."""
        choose = self.rule.choose
        if isinstance(choose, int):
            return self.rule.states[0] if code == choose and is_dated else None
        severity = severity_of(code, severities)
        known = XIDS.get(code)
        if severity == "warn" and known is not None and known.corroborable and is_corroborated:
            severity = "crit"
        is_critical = severity == "crit" and (is_dated or is_corroborated)
        if choose == "critical":
            return "crit" if is_critical and not is_cleared else None
        if is_critical or code == FOLLOWER:
            return None
        return {"crit": "warn", "warn": "warn", "info": "info"}.get(severity)


def severity_of(code: int, severities: Mapping[int, str]) -> str:
    """Give the severity of a code: the configuration's, else the catalogue's."""
    return severities.get(code) or xid_of(code).severity


def _is_corroborated(view: View) -> bool:
    """Tell whether something besides an XID says that the GPU needs help."""
    return any(
        (view.value(name) or 0.0) > 0
        for name in ("recovery_action", "ecc_dbe_volatile_total", "nvlink_link_recoveries_failed_total")
    )


class WatchesProbe(Probe[Watches]):
    """DCGM's own watches, where we cannot judge ourselves."""

    __slots__ = ()

    def _measure(self, view: View, now: float) -> float | None:
        if view.extras is None or view.extras.health_watches is None:
            return None
        self.due = now + SOON  # which checks have their inputs is no input of this one
        worst = 0.0
        for watch, result in view.extras.health_watches:
            ours = self.rule.ours.get(watch.upper(), ())
            if any(view.is_covered(check) for check in ours):
                continue
            worst = max(worst, min(result, 5.0) if watch.upper() in self.rule.mild and result < 20 else result)
        return worst
