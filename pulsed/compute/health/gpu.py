"""Health of one GPU: its readings in, its `Health` out, and the state in between.

A sample with unchanged inputs and nothing due costs only comparisons.
"""

from __future__ import annotations

from math import inf

from pulsed.compute.health.check import GpuCheck
from pulsed.compute.health.inputs import GpuInputs
from pulsed.compute.health.model import NOT_JUDGED, CheckState, Health
from pulsed.compute.health.plan import REASONS, HealthPlan, InputGroup
from pulsed.compute.health.reachability import Reachability
from pulsed.compute.health.resets import RESET_SIGNS, Resets
from pulsed.compute.health.summary import health_of
from pulsed.compute.health.xid_log import Jobs
from pulsed.compute.health.xid_rule import XidRule
from pulsed.compute.tracker import FIRST, GpuTrack, SampleDecision
from pulsed.reader.tick import KernelEvent
from pulsed.translate.tick import Device, Extras
from pulsed.translate.vocabulary import POSITION, Reading, Value

_ENERGY, _REASONS, _XID = POSITION[RESET_SIGNS[0]], POSITION[REASONS], POSITION["xid_last_code"]
_SLOWED = 0x608
"""Reasons that count only for a busy GPU."""

_ALL = -1
"""All rules, as a bit mask."""


class GpuHealth:
    """Health of one GPU.

    Args:
        plan: the checks.
        device: the GPU.

    Attributes:
        health: now; the same object while nothing in it changes.
        device: as last seen.
        changes: checks whose state changed with the last sample: before and after.
        now: seconds since the first sample, as of the last one.
        time: of the last sample, in Unix seconds.
        checks: all enabled checks.
        inputs: of the rules.
        reachability: whether it answers.
        resets: whether it was reset.
        boot_id: of its node, opaque.
        driver_version: last known.
        last_reset: of the GPU, its driver or its node, in Unix seconds; None if none was seen.
        latched: grows with every change that must survive a restart.
    """

    def __init__(self, plan: HealthPlan, device: Device) -> None:
        self.plan = plan
        self.device = device
        self.health: Health = NOT_JUDGED
        self.changes: list[tuple[CheckState, CheckState]] = []
        self.now = self.time = 0.0
        self.reachability = Reachability()
        self.resets = Resets()
        self.last_reset: float | None = None
        self.latched = 0
        self.checks = [GpuCheck(check) for check in plan.checks]
        self.inputs = GpuInputs(plan.settings, device.model, self._severity_of)
        self.boot_id = ""
        self.driver_version = device.driver_version
        self._rules = [state for check in self.checks for state in check.rules]
        self._moving: tuple[Value, ...] = (None,) * len(plan.moving.users)
        self._settled: tuple[Value, ...] = (None,) * len(plan.settled.users)
        self._sample_facts: tuple[float, Value, bool, Value, bool] | None = None
        self._dues = [-inf] * len(self._rules)
        self._due = -inf
        self._must_conclude = False
        self._has_news = self._is_fresh = False
        self._answer: Reading | None = None
        self._most_present = 0

    def judge(
        self,
        track: GpuTrack,
        sample: SampleDecision,
        reading: Reading,
        extras: Extras | None,
        boot_id: str = "",
        has_peers: bool = True,
        kernel_events: tuple[KernelEvent, ...] | None = None,
        is_layout_new: bool = False,
    ) -> Health:
        """Evaluate a sample; a repeated one changes nothing.

        Args:
            track: identity and time of the GPU.
            sample: what time the sample covers.
            reading: its readings; those of a missing GPU are all None.
            extras: dcgm-exporter's own metrics of the GPU.
            boot_id: of the node, opaque; another one means that it was restarted.
            has_peers: whether another GPU of the source answers; without one the source itself may be silent.
            kernel_events: messages about the GPU in the kernel log; None where the log is not read.
            is_layout_new: whether the source has other series than before; what is not among them is not blank.
        """
        if self.health is NOT_JUDGED:
            sample = FIRST
        elif sample.kind == "repeat":
            return self.health
        now, time = track.now, track.time
        self.now, self.time = now, time
        inputs = self.inputs
        inputs.reading = reading
        if self.changes:
            self.changes = []
        due = resets = 0
        is_same_measurement = track.inputs.is_same_measurement
        if not is_same_measurement:
            inputs.measured_at = now
        inputs.gap_seconds = sample.elapsed if sample.is_interrupted else 0.0
        if sample.is_interrupted:
            due |= self._interrupt()
        if track.device is not self.device:
            due |= self._meet(track.device)
        if kernel_events:
            due |= self._count(self.inputs.xids.add_kernel_events(kernel_events, _jobs(self.device), now, time))
        mask = reading[_REASONS]
        is_busy = mask is not None and bool(int(mask) & _SLOWED) and bool(inputs.activity())
        if inputs.clock_events.follow(mask, is_busy, sample.covered, now):
            due |= self.plan.on_parts
        freshness = track.inputs
        self.reachability.follow(freshness.state, reading, has_peers, time, now)
        answer, is_answering = self._answer, self.reachability.polls_missed == 0.0 and freshness.state != "stale"
        if is_answering:
            self._answer = reading
            if is_layout_new:
                due |= self._forget_inputs()
            if reading[_XID] is None:
                inputs.xids.pass_blank(now)
        polls_missed, has_kernel_log = self.reachability.polls_missed, kernel_events is not None
        sample_facts = (sample.gap_intervals, polls_missed, has_kernel_log, freshness.age, freshness.is_fresh)
        if sample_facts != self._sample_facts:
            self._sample_facts = sample_facts
            due |= self._take_facts(*sample_facts)
        energy = reading[_ENERGY]
        if energy is not None and not is_same_measurement:
            moment = self.resets.follow_energy(energy, now)
            resets = 0 if moment is None else self._reset(moment)
        if boot_id and boot_id != self.boot_id:
            is_restart, self.boot_id = bool(self.boot_id), boot_id
            self.latched += 1
            resets |= self._reset(now) if is_restart else 0
        due |= resets
        moving, settled = self.plan.moving.get(reading), self.plan.settled.get(reading)
        if moving != self._moving:
            before_that, self._moving = self._moving, moving
            due |= self._compare(self.plan.moving, before_that, moving)
        if settled != self._settled or extras != inputs.extras or self.resets.is_pending or resets:
            before_that, self._settled = self._settled, settled
            due |= self._compare(self.plan.settled, before_that, settled)
            if not is_same_measurement and (moment := self.resets.follow(reading, now)) is not None:
                due |= self._reset(moment)
            if extras != inputs.extras:
                due |= self._take_extras(extras)
            due |= self._take_xids(answer, now)
        if due or self._has_news or now >= self._due:
            self._evaluate(due, now)
        return self.health

    def _severity_of(self, check: str) -> int:
        position = self.plan.position_of.get(check)
        return -1 if position is None else self.checks[position].severity(self.inputs)

    def _interrupt(self) -> int:
        """The GPU was not observed for a while, and its source may have other fields since; return what to evaluate."""
        due = self.plan.on_parts
        for number, state in enumerate(self._rules):
            state.reached_since = None
            if state.increases:
                due |= 1 << number
        return due | self._forget_inputs()

    def _forget_inputs(self) -> int:
        """Forget inputs that are not present now: the source has other fields."""
        self._most_present = 0
        return self._set("inputs_blank_ratio", 0.0)

    def _set(self, fact: str, value: Value) -> int:
        """Set an input that is not in the reading; return the rules to evaluate."""
        return self.plan.fact_users[fact] if self.inputs.set(fact, value) else 0

    def _take_facts(
        self, gap_intervals: float, polls_missed: Value, has_kernel_log: bool, age: Value, is_fresh: bool
    ) -> int:
        """Set the facts of a sample that are not in its reading; return the rules to evaluate."""
        if is_fresh != self._is_fresh:
            self._is_fresh, self._has_news = is_fresh, True
        return (
            self._set("sample_gap_intervals", round(gap_intervals, 1))
            | self._set("polls_missed", polls_missed)
            | self._set("kernel_log", 1.0 if has_kernel_log else None)
            | self._set("inputs_age_seconds", age if not age else 0.0 if is_fresh else round(age))
        )

    def _compare(self, group: InputGroup, before: tuple[Value, ...], values: tuple[Value, ...]) -> int:
        """Return the rules that depend on the readings that changed."""
        due, is_presence_changed = 0, False
        for users, witnesses, old, new in zip(group.users, group.witnesses, before, values, strict=True):
            if old != new:
                due |= users
                if old is None or new is None:
                    due |= witnesses
                    is_presence_changed = True
        if is_presence_changed:
            self._must_conclude = True
            present = sum([len(values) - values.count(None) for values in (self._moving, self._settled)])
            self._most_present = max(self._most_present, present)
            due |= self._set("inputs_blank_ratio", round(1.0 - present / max(self._most_present, 1), 2))
        return due

    def _reset(self, moment: float) -> int:
        """The GPU was reset, or the driver or the node restarted: XIDs before that are cleared."""
        self.inputs.xids.clear(moment)
        self.last_reset = self.time - self.now + moment
        self._has_news = True
        self.latched += 1
        return self.plan.on_xids

    def _meet(self, device: Device) -> int:
        known, self.device = self.driver_version, device
        due = 0
        if device.model and device.model != self.inputs.model:
            self.inputs.model, due = device.model, _ALL
        if device.driver_version:
            self.driver_version = device.driver_version
            if known and device.driver_version != known:
                due |= self._reset(self.now)
        return due

    def _take_extras(self, extras: Extras | None) -> int:
        self.inputs.extras = extras
        due = self.plan.on_xids | self.plan.fact_users["health_watches"]
        events = dict(extras.clock_events) if extras is not None and extras.clock_events is not None else None
        for reason in ("hw_thermal", "hw_power_brake"):
            due |= self._set(f"clock_event_{reason}", None if events is None else events.get(reason, 0.0))
        has_counts = extras is not None and (extras.xid_counts is not None or extras.xid_totals is not None)
        return due | self._set("xid_counts", 1.0 if has_counts else None)

    def _take_xids(self, before: Reading | None, now: float) -> int:
        """Take the codes of a sample; `before` is the last reading with which the GPU answered."""
        inputs, xids = self.inputs, self.inputs.xids
        gauge = inputs.reading[_XID]
        if inputs.extras is None and gauge is None:
            return 0
        known = len(xids.records)
        is_source_new = xids.gauge is None and before is not None and _has_new_fields(before, inputs.reading)
        codes = xids.follow(gauge, inputs.extras, _jobs(self.device), now, is_source_new)
        if not codes and len(xids.records) == known:
            return 0
        return self._count(codes)

    def _count(self, codes: list[int]) -> int:
        """Count XIDs that happened as events of their checks; return the rules to evaluate."""
        for position, rule in self.plan.rules:
            if isinstance(rule, XidRule):
                self.checks[position].events += sum(rule.counts(code, self.plan.settings.xids) for code in codes)
        self.latched += 1
        self._has_news = True
        return self.plan.on_xids

    def _evaluate(self, due: int, now: float) -> None:
        """Evaluate rules, then the checks whose rules have another outcome."""
        inputs, rules, dues, time = self.inputs, self.plan.rules, self._dues, self.time
        inputs.refresh()
        is_first = self.health is NOT_JUDGED
        if now >= self._due:
            for number, moment in enumerate(dues):
                if moment <= now:
                    due |= 1 << number
        due = (_ALL if is_first else due) & ((1 << len(dues)) - 1)
        must_conclude, self._must_conclude = self._must_conclude, False
        touched: dict[int, None] = {}
        is_due_moved = False
        while due:
            number = (due & -due).bit_length() - 1
            due &= due - 1
            position, rule = rules[number]
            state = self._rules[number]
            is_changed = rule.evaluate(state, inputs, now)
            if state.due != dues[number]:
                dues[number], is_due_moved = state.due, True
            if is_changed or is_first or (must_conclude and self.plan.checks[position].applicability):
                self.checks[position].events += state.events
                touched[position] = None
        if is_due_moved or is_first:
            self._due = min(dues, default=inf)
        is_changed, self._has_news = is_first or self._has_news, False
        for position in touched:
            check = self.checks[position]
            old = check.state
            if check.conclude(inputs, self.device.guest, time, now):
                is_changed = True
                if check.state.state != old.state:
                    self.latched += 1
                    if not is_first or check.state.severity > 0:
                        self.changes.append((old, check.state))
        if is_changed:
            self.health = health_of(
                *(self.checks, inputs.xids, self.plan.critical_xids, time - now, self.health, self._is_fresh),
                self.last_reset,
            )


def _has_new_fields(before: Reading, reading: Reading) -> bool:
    """Return whether a reading has values that the one before had not, other than the last XID."""
    new = [
        position for position, (old, value) in enumerate(zip(before, reading, strict=True)) if old is None is not value
    ]
    return any(position != _XID for position in new)


def _jobs(device: Device) -> Jobs:
    """Return the names of the jobs on a GPU: a fault that follows one program is not the board's."""
    return tuple([owner.id for owner in device.owners or ()])
