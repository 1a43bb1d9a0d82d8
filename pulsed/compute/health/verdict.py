"""From severities to what is shown: states of checks with their words and numbers, and the health of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

from pulsed.compute.health.model import STATES, CheckState, Health, XidLast
from pulsed.compute.health.probe import Probe, View
from pulsed.compute.health.probes_of_events import EventsProbe
from pulsed.compute.health.rule import Check, Rule
from pulsed.compute.health.xid_log import XidLog
from pulsed.compute.health.xids import ADVICE, xid_of

_Counts = TypeVar("_Counts", bound=tuple[tuple[object, int], ...])


def check_state(
    check: Check,
    probe: Probe[Rule],
    view: View,
    old: CheckState,
    severity: int,
    covered: bool,
    applies: bool,
    last_event: float | None,
    time: float,
) -> CheckState:
    """Give the state of a check.

    Args:
        check: which.
        probe: the rule that decides.
        view: of the GPU.
        old: the state before.
        severity: -1 unknown to 4 crit.
        covered: whether the inputs are there.
        applies: whether the check makes sense for this GPU.
        last_event: when the last event was, in Unix seconds.
        time: of the sample, in Unix seconds.
    """
    state, is_raised = STATES[severity + 1], severity > 0
    evidence = probe.evidence(view) if severity >= 0 else ()
    if state == old.state and old.evidence and not (is_raised and covered):
        evidence = old.evidence  # of the time when it was entered
    return CheckState(
        id=check.id,
        state=state,
        since=old.since if state == old.state else time,
        last_event=last_event,
        message=_message(check, probe) if is_raised else "",
        evidence=evidence,
        remedy=_remedy(check, probe, evidence) if is_raised else "",
        covered=covered,
        applies=applies,
    )


def health_of(
    states: Sequence[CheckState],
    events: tuple[tuple[str, int], ...],
    xids: XidLog,
    critical_xids: Sequence[int],
    epoch: float,
    before: Health,
) -> Health:
    """Give the health of a GPU: the worst of the checks that apply and are known.

    Args:
        states: of all checks.
        events: by check, how many there were.
        xids: of the GPU.
        critical_xids: codes to count from 0 on.
        epoch: what the clock of `xids` counts from, in Unix seconds.
        before: the health so far; counts that have not changed stay the same objects, so that nobody writes them anew.
            GPUs without any have the same ones.
    """
    applying = [state.severity for state in states if state.applies]
    severity = max(applying, default=-1)
    counts = dict.fromkeys(critical_xids, 0)
    counts |= {code: record.count for code, record in xids.records.items()}
    xid_events = tuple(sorted(counts.items()))
    return Health(
        state=STATES[severity + 1],
        severity=severity,
        coverage=sum(one >= 0 for one in applying) / len(applying) if applying else 0.0,
        checks=tuple(states),
        events=before.events if events == before.events else _shared(events),
        xid_events=before.xid_events if xid_events == before.xid_events else _shared(xid_events),
        xid_last=_xid_last(xids, epoch),
    )


@lru_cache(maxsize=64)
def _shared(counts: _Counts) -> _Counts:
    return counts


def _xid_last(xids: XidLog, epoch: float) -> XidLast | None:
    code = xids.last
    if code is None:
        return None
    record = xids.records[code]
    return XidLast(code, epoch + record.last if record.dated else None, xid_of(code).description)


def _message(check: Check, probe: Probe[Rule]) -> str:
    if isinstance(probe, EventsProbe) and probe.code is not None:
        return f"{check.title}: XID {probe.code}, {xid_of(probe.code).description}"
    return check.title


def _remedy(check: Check, probe: Probe[Rule], evidence: tuple[tuple[str, float], ...]) -> str:
    numbers: dict[str, float | str] = dict(evidence)
    if isinstance(probe, EventsProbe) and probe.code is not None:
        numbers["advice"] = ADVICE[xid_of(probe.code).action]
    try:
        return check.remedy.format_map(numbers)
    except KeyError:  # it is kept by its hold alone, after its inputs are gone
        return f"{check.title}: look at the GPU again, its readings are gone."
