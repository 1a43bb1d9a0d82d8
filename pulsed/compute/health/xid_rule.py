"""Rules about XIDs. The measure is the code that decides; the log of codes is kept by the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal

from pulsed.compute.health.inputs import XID_INPUTS, GpuInputs
from pulsed.compute.health.link_faults import (
    LINK_DOWN,
    LINK_XIDS,
    WINDOW,
    down_reason,
    fault_text,
    link_name,
    link_of,
    link_severity,
)
from pulsed.compute.health.rule import Rule, RuleState
from pulsed.compute.health.xid_log import XidRecord
from pulsed.compute.health.xids import CORROBORABLE, ENDED_BY, FOLLOWER, XidSeverity, advice_on, xid_of
from pulsed.durations import DAY, in_words
from pulsed.model.clocks import GpuSeconds
from pulsed.model.health import SEVERITY, STATES, State

MANY_LINKS = 3
"""GPUs of a node whose links go down together: their switch is more likely than each of them."""

DIAGNOSE = "run a diagnostic before it gets new jobs"
"""What to do about a GPU whose XIDs repeat, as the end of a sentence."""

CRITICAL_SECONDS = DAY
"""Seconds for which a critical XID is critical. Without a reset it is a warning from then on."""


@dataclass(frozen=True, kw_only=True)
class XidRule(Rule):
    """Events of XIDs.

    Attributes:
        choose: the codes that count: `critical` and `warning` by severity, `nvlink`, which those two leave out,
            `repeated` ones, or one code.
        keep: seconds for which an event counts, by the state that it raises.
    """

    name: str = "xid"
    inputs: tuple[str, ...] = XID_INPUTS
    choose: Literal["critical", "warning", "nvlink", "repeated"] | int
    keep: Mapping[State, float]
    has_events: ClassVar = True
    needs_all: ClassVar = False

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise, the mildest first."""
        return tuple(self.keep)

    @property
    def counts_events(self) -> bool:
        """Whether events are counted as codes happen; of repeats, each time that they are raised is one."""
        return self.choose != "repeated"

    def counts(self, code: int, severity: XidSeverity) -> bool:
        """Return whether a code of this severity that happened is an event of this rule."""
        if isinstance(self.choose, int):
            return code == self.choose
        if code in LINK_XIDS or self.choose == "nvlink":
            return self.choose == "nvlink" and code in LINK_XIDS and severity != "ok"
        if self.choose == "critical":
            return severity == "crit"
        return self.choose == "warning" and severity in ("info", "warn") and code != FOLLOWER

    def evaluate(self, state: RuleState, inputs: GpuInputs, now: GpuSeconds) -> None:
        """Update the state for one GPU."""
        inputs.update_xids()
        state.xid, state.suspects, state.detail, state.advice, severity = None, (), "", "", 0
        if inputs.xids.records:
            severity = (self._repeated if self.choose == "repeated" else self._worst)(state, inputs, now)
        state.measure = None if state.xid is None else float(state.xid)
        state.is_covered = inputs.reads_xids
        state.severity = severity if severity > 0 or state.is_covered else SEVERITY["unknown"]

    def rests(self, state: RuleState, inputs: GpuInputs) -> bool:
        """Return whether its state stays as it is until an XID happens."""
        return not inputs.xids.records

    def evidence(self, state: RuleState, inputs: GpuInputs) -> tuple[tuple[str, float], ...]:
        """Return the code, how often it happened, and whether its time is known."""
        if state.xid is None:
            return Rule.evidence(self, state, inputs)
        record = inputs.xids.records[state.xid]
        link = link_of(record.fault, inputs.nvlinks.down) if self.choose == "nvlink" else None
        return (
            ("xid", float(state.xid)),
            *((("link", float(link)),) if link is not None else ()),
            ("events", float(record.count)),
            ("bursts", float(len(record.bursts))),
            ("time_known", float(record.dated)),
        )

    def _repeated(self, state: RuleState, inputs: GpuInputs, now: GpuSeconds) -> int:
        repeated = inputs.xids.repeated(now)
        if repeated is None:
            return 0
        state.xid, state.suspects = repeated.code, repeated.programs
        state.event_at = inputs.xids.records[state.xid].last
        state.advice = DIAGNOSE
        meaning = f"XID {state.xid}, {xid_of(state.xid).description}"
        if repeated.place:
            state.detail = f"{meaning}; at the same place of the chip: {repeated.place}"
            state.advice = f"{DIAGNOSE}, or run the program on another GPU"
        elif repeated.is_of_programs and not state.suspects:
            state.detail = f"{meaning}; at different places of the chip, errors of several programs"
            state.advice = "look for the errors in the logs of these programs"
        return SEVERITY["info" if state.suspects or repeated.is_of_programs else "warn"]

    def _worst(self, state: RuleState, inputs: GpuInputs, now: GpuSeconds) -> int:
        worst, newest = 0, -inf
        for code, record in inputs.xids.records.items():
            raised = self._raised(code, record, inputs, now)
            if raised is not None and (SEVERITY[raised], record.last) > (worst, newest):
                worst, newest, state.xid = SEVERITY[raised], record.last, code
                state.event_at = record.last if record.dated else None
        if self.choose == "nvlink" and state.xid is not None:
            _describe(state, state.xid, inputs, STATES[worst + 1])
        return worst

    def _raised(self, code: int, record: XidRecord, inputs: GpuInputs, now: GpuSeconds) -> State | None:
        """Return the state that a code means in this rule; None for none."""
        if isinstance(self.choose, int):
            return self._kept(self.states[0] if code == self.choose and record.dated else None, record, now)
        is_of_link = code in LINK_XIDS
        if is_of_link is not (self.choose == "nvlink"):
            return None
        severity = inputs.severity_of(code)
        is_corroborated = "" in inputs.confirmed_xids or xid_of(code).scope in inputs.confirmed_xids
        if is_of_link:
            severity = link_severity(code, severity, record.fault)
            is_corroborated |= code == LINK_DOWN and bool(inputs.nvlinks.down)
        if severity == "warn" and code in CORROBORABLE and is_corroborated and record.fault is None:
            severity = "crit"
        is_critical = severity == "crit" and (record.dated or is_corroborated)
        if is_critical and self.choose != "critical" and (now >= record.last + CRITICAL_SECONDS or not is_of_link):
            # Another rule raises it for a day; without a reset its cause remains.
            is_over = record.cleared or inputs.xids.gauge == 0 or now < record.last + CRITICAL_SECONDS
            return None if is_over else "warn"
        if self.choose == "critical" and not is_critical:
            return None
        if self.choose == "warning" and record.action is not None:
            return None  # `recovery_action` is about it
        if (
            _is_taken_back(code, record, inputs)
            or record.cleared
            or severity == "ok"
            or (code == FOLLOWER and not is_critical)
        ):
            return None
        return self._kept("crit" if is_critical else "info" if severity == "info" else "warn", record, now)

    def _kept(self, state: State | None, record: XidRecord, now: GpuSeconds) -> State | None:
        """Return a state; None once it has ended."""
        return state if state is not None and now < record.last + self.keep[state] else None

    def _condition(self) -> str:
        states = [f"{state} for {in_words(seconds)}" for state, seconds in self.keep.items()]
        return f"{', '.join(states)} {self.text}"


def _is_taken_back(code: int, record: XidRecord, inputs: GpuInputs) -> bool:
    """Return whether a code came after this one that ends it."""
    end = inputs.xids.records.get(ENDED_BY.get(code, 0))
    return end is not None and end.last >= record.last


def _describe(state: RuleState, code: int, inputs: GpuInputs, raised: State) -> None:
    """Set what message and remedy name of an XID about an NVLink, in addition to its description."""
    record = inputs.xids.records[code]
    fault = record.fault
    link = link_of(fault, inputs.nvlinks.down)
    reason = down_reason(code, fault)
    state.detail = fault_text(code, fault, link)
    if (cause := next((down for down in inputs.links_down if down.precedes(code, record.began)), None)) is not None:
        state.detail += f"; it follows {cause}"
        state.advice = f"see to {cause} first"
        return
    near = {down.gpu for down in inputs.links_down if code == LINK_DOWN and abs(down.began - record.began) <= WINDOW}
    if len(near) + 1 >= MANY_LINKS:
        state.detail += f"; links of {len(near) + 1} GPUs of this node went down within a minute"
        state.advice = "check the NVSwitch or NVLink switch that their links share"
        return
    if reason is not None:
        reset = "" if reason.is_harmless else f"{advice_on(code, raised)}, then "
        state.advice = f"{reset}{reason.advice}" + (f" ({link_name(link)})" if link is not None else "")
