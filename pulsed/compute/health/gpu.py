"""Health of one GPU: its readings in, its `Health` out, and the state in between.

A sample with unchanged inputs and nothing due costs only comparisons.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import compress
from math import inf
from operator import ne
from typing import NamedTuple

from pulsed.compute.health.check import GpuCheck
from pulsed.compute.health.inputs import GpuInputs, activity_of, exporter_facts
from pulsed.compute.health.model import NOT_EVALUATED, SEVERITY, CheckState, Health
from pulsed.compute.health.plan import MOVING, REASONS, XID, HealthPlan
from pulsed.compute.health.reachability import Reachability
from pulsed.compute.health.resets import RESET_SIGNS, Resets
from pulsed.compute.health.rule import Rule
from pulsed.compute.health.summary import health_of
from pulsed.compute.health.xid_log import Jobs
from pulsed.compute.health.xid_rule import XidRule
from pulsed.compute.sample_decision import FIRST, SampleDecision
from pulsed.compute.tracker import GpuTrack
from pulsed.reader.tick import KernelEvent
from pulsed.translate.tick import Device, Extras
from pulsed.translate.vocabulary import POSITION, Reading, Value

_ENERGY, _REASONS, _XID = POSITION[RESET_SIGNS[0]], POSITION[REASONS], POSITION[XID]


class NodeFacts(NamedTuple):
    """What a tick has in common for all its GPUs.

    Attributes:
        boot_id: of the node, opaque; another one than before means that it was restarted. Empty if unknown.
        has_peers: whether any GPU of the source answers; if none does the source itself may be silent.
        reads_kernel_log: whether the kernel log is read.
        is_layout_new: whether the source has other series than before; what is not among them is not blank.
    """

    boot_id: str
    has_peers: bool
    reads_kernel_log: bool
    is_layout_new: bool


class GpuHealth:
    """Health of one GPU.

    Args:
        plan: the checks.
        device: the GPU.

    Attributes:
        health: now; the same object while nothing in it changes.
        device: as last seen.
        changes: checks whose state changed with the last sample: before and after.
        xids: codes that happened since the sample before the last one.
        now: seconds of the GPU's clock, as of the last sample. It starts at 0 and continues over a restart.
        started: seconds of that clock at the GPU's first sample since the start of the daemon.
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
        self.health: Health = NOT_EVALUATED
        self.changes: list[tuple[CheckState, CheckState]] = []
        self.xids: list[int] = []
        self.now = self.started = self.time = 0.0
        self.reachability = Reachability()
        self.resets = Resets()
        self.last_reset: float | None = None
        self.latched = 0
        self.checks = [GpuCheck(check) for check in plan.checks]
        self.inputs = GpuInputs(plan.settings, device.model, partial(_severity_of, plan.position_of, self.checks))
        self.boot_id = ""
        self.driver_version = device.driver_version
        self._rules = [state for check in self.checks for state in check.rules]
        self._compared: tuple[Value, ...] = (None,) * len(plan.users)
        self._due = -inf
        self._has_news = self._is_fresh = self._is_presence_changed = False
        self._answer: Reading | None = None
        self._most_present = 1
        self._blank_ratio = 0.0

    def evaluate(
        self,
        track: GpuTrack,
        sample: SampleDecision,
        reading: Reading,
        node: NodeFacts,
        extras: Extras | None = None,
        kernel_events: tuple[KernelEvent, ...] = (),
    ) -> Health:
        """Evaluate a sample; a repeated one changes nothing.

        Args:
            track: identity and time of the GPU.
            sample: what time the sample covers.
            reading: its readings; those of a missing GPU are all None.
            node: of the tick.
            extras: dcgm-exporter's own metrics of the GPU.
            kernel_events: messages about the GPU in the kernel log.
        """
        if self.health is NOT_EVALUATED:
            sample = FIRST
        elif sample.kind == "repeat":
            return self.health
        plan, inputs, freshness = self.plan, self.inputs, track.inputs
        self.now, self.time = now, time = self.started + track.now, track.time
        is_same_measurement = freshness.is_same_measurement
        if not is_same_measurement:
            inputs.measured_at = now
        if self.changes or self.xids:
            self.changes, self.xids = [], []
        inputs.gap_seconds = sample.elapsed - sample.covered
        due = self._interrupt() if sample.is_interrupted else 0
        if track.device is not self.device:
            due |= self._take_device(track.device)
        if kernel_events:
            due |= self._count(inputs.xids.add_kernel_events(kernel_events, _jobs(self.device), now, time))
        mask = reading[_REASONS]
        activity = activity_of(reading)
        if inputs.clock_events.update(mask, bool(activity), sample.covered, now):
            due |= plan.on_parts
        self.reachability.update(freshness.state, reading, node.has_peers, time, track.now)
        answer, polls_missed, age = self._answer, self.reachability.polls_missed, freshness.age
        if polls_missed == 0.0 and freshness.state != "stale":
            self._answer = reading
            if node.is_layout_new:
                due |= self._forget_inputs()
            if reading[_XID] is None:
                inputs.xids.pass_blank(now)
        if freshness.is_fresh != self._is_fresh:
            self._is_fresh, self._has_news = freshness.is_fresh, True
        if extras != inputs.extras:
            inputs.extras = extras
            due |= plan.on_watches | plan.on_xids
        energy = reading[_ENERGY]
        if energy is not None and not is_same_measurement:
            moment = self.resets.energy.update(energy, now, 0.0)
            if moment is not None:
                due |= self._reset(moment)
        if node.boot_id and node.boot_id != self.boot_id:
            is_restart, self.boot_id = bool(self.boot_id), node.boot_id
            self.latched += 1
            if is_restart:
                due |= self._reset(now)
        facts = (
            sample.gap_intervals and round(sample.gap_intervals, 1),
            polls_missed,
            age if not age else 0.0 if freshness.is_fresh else round(age),
            1.0 if node.reads_kernel_log else None,
            None if activity is None else float(bisect_left(plan.activity_levels, activity)),
        )
        compared = plan.select(reading) + facts + exporter_facts(extras, mask)
        if compared != self._compared:
            due |= self._compare(compared)
        is_sign_possible = due & plan.on_resets or self.resets.is_pending
        if is_sign_possible and not is_same_measurement and (moment := self.resets.update(reading, now)) is not None:
            due |= self._reset(moment)
        if due & plan.on_xids:
            due |= self._take_xids(reading, answer, now)
        if due or self._has_news or now >= self._due:
            self._evaluate(due & plan.all_rules, reading, (self._blank_ratio, activity, None), now)
        return self.health

    def _interrupt(self) -> int:
        """The GPU was not observed for a while, and its source may have other fields since; return what to evaluate."""
        due = self.plan.on_parts
        for number, state in enumerate(self._rules):
            state.reached_since = None
            if state.increases:
                due |= 1 << number
        return due | self._forget_inputs()

    def _forget_inputs(self) -> int:
        """Forget inputs that are not present now: the source has other fields; return the rules to evaluate."""
        self._most_present = 1
        return self._set_blank_ratio(0.0)

    def _set_blank_ratio(self, ratio: float) -> int:
        is_changed, self._blank_ratio = ratio != self._blank_ratio, ratio
        return self.plan.on_blanks if is_changed else 0

    def _compare(self, values: tuple[Value, ...]) -> int:
        """Return the rules that depend on what changed: all rules if inputs have appeared or disappeared.

        Shares of time then change only if that is so for the reasons themselves.
        """
        plan, before, self._compared = self.plan, self._compared, values
        is_settled = values[len(MOVING) :] == before[len(MOVING) :]
        changed = list(map(ne, before[: len(MOVING)], values) if is_settled else map(ne, before, values))
        due = 0
        for rules in compress(plan.users, changed):
            due |= rules
        del changed[plan.readings :]
        if None in compress(before, changed) or None in compress(values, changed):
            self._is_presence_changed = True
            present = plan.readings - values[: plan.readings].count(None)
            self._most_present = max(self._most_present, present)
            due |= plan.all_rules & ~plan.on_parts
            due |= self._set_blank_ratio(round(1.0 - present / self._most_present, 2))
            if (before[plan.reasons] is None) is not (values[plan.reasons] is None):
                due |= plan.on_parts
        return due

    def _reset(self, moment: float) -> int:
        """The GPU was reset, or the driver or the node restarted: XIDs before that are cleared."""
        self.inputs.xids.clear(moment)
        self.last_reset = self.time - self.now + moment
        self._has_news = True
        self.latched += 1
        return self.plan.on_xids

    def _take_device(self, device: Device) -> int:
        """Take another description of the GPU; return the rules to evaluate."""
        known, self.device = self.driver_version, device
        due = 0
        if device.model and device.model != self.inputs.model:
            self.inputs.model, due = device.model, self.plan.all_rules
        if device.driver_version:
            self.driver_version = device.driver_version
            if known and device.driver_version != known:
                due |= self._reset(self.now)
        return due

    def _take_xids(self, reading: Reading, before: Reading | None, now: float) -> int:
        """Take the codes of a sample; `before` is the last reading with which the GPU answered."""
        inputs, xids, gauge = self.inputs, self.inputs.xids, reading[_XID]
        if inputs.extras is None and gauge is None:
            return 0
        known = len(xids.records)
        is_source_new = xids.gauge is None and before is not None and _has_new_fields(before, reading)
        codes = xids.update(gauge, inputs.extras, _jobs(self.device), now, is_source_new)
        return self._count(codes) if codes or len(xids.records) > known else 0

    def _count(self, codes: list[int]) -> int:
        """Count XIDs that happened as events of their checks; return the rules to evaluate."""
        self.xids += codes
        for position, rule in self.plan.rules:
            if isinstance(rule, XidRule):
                self.checks[position].events += sum(rule.counts(code, self.plan.settings.xids) for code in codes)
        self.latched += 1
        self._has_news = True
        return self.plan.on_xids

    def _evaluate(self, due: int, reading: Reading, facts: tuple[Value, ...], now: float) -> None:
        """Evaluate rules, then the checks whose rules have another outcome; `facts` are the last ones of the inputs."""
        plan, inputs, states = self.plan, self.inputs, self._rules
        inputs.values = reading + self._compared[plan.readings :] + facts
        is_first = self.health is NOT_EVALUATED
        is_due = now >= self._due
        if is_due:
            for number, state in enumerate(states):
                if state.due <= now:
                    due |= 1 << number
        touched: set[int] = set()
        self._run(plan.selected(due), touched, now)
        if touched:  # results of watches count unless another check is raised
            self._run(plan.selected(plan.on_watches), touched, now)
        self._is_presence_changed = False
        if is_due:
            self._due = min([state.due for state in states], default=inf)
        is_changed, self._has_news = is_first or self._has_news, False
        for position in sorted(touched):
            check = self.checks[position]
            old = check.state
            if check.conclude(inputs, self.device.guest, self.time, now):
                is_changed = True
                if check.state.state != old.state:
                    self.latched += 1
                    if not is_first or check.state.severity > 0:
                        self.changes.append((old, check.state))
        if is_changed:
            self.health = health_of(
                *(self.checks, inputs.xids, plan.critical_xids, self.time - now, self.health, self._is_fresh),
                self.last_reset,
            )

    def _run(self, rules: tuple[tuple[int, int, Rule], ...], touched: set[int], now: float) -> None:
        """Evaluate rules; add the checks to conclude."""
        is_first, checks = self.health is NOT_EVALUATED, self.checks
        for number, position, rule in rules:
            state = self._rules[number]
            is_changed = rule.evaluate(state, self.inputs, now)
            self._due = min(self._due, state.due)
            if is_changed or is_first or (self._is_presence_changed and checks[position].check.applicability):
                checks[position].events += state.events
                touched.add(position)


def _severity_of(position_of: Mapping[str, int], checks: Sequence[GpuCheck], check: str, inputs: GpuInputs) -> int:
    """Return the severity of a check; -1 while it is unknown or disabled."""
    position = position_of.get(check)
    return SEVERITY["unknown"] if position is None else checks[position].severity(inputs)


def _has_new_fields(before: Reading, reading: Reading) -> bool:
    """Return whether a reading has values that the one before had not, other than the last XID."""
    return any(
        old is None is not value and position != _XID
        for position, (old, value) in enumerate(zip(before, reading, strict=True))
    )


def _jobs(device: Device) -> Jobs:
    """Return the names of the jobs on a GPU: a fault that follows one program is not the board's."""
    return tuple([owner.id for owner in device.owners or ()])
