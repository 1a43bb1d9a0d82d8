"""Health of one GPU: its readings in, its `Health` out, and the state in between."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from pulsed.compute.bounds import activity_of
from pulsed.compute.gpu_tracks import GpuTrack
from pulsed.compute.health.inputs import NO_INPUTS, GpuInputs, exporter_facts
from pulsed.compute.health.link_faults import LINK_XIDS
from pulsed.compute.health.link_origins import LinkOrigins, faults_of
from pulsed.compute.health.plan import REASONS, XID, GpuRules, HealthPlan
from pulsed.compute.health.restarts import Restarts
from pulsed.compute.health.summary import health_of
from pulsed.compute.health.xid_log import Programs, XidLog
from pulsed.compute.health.xid_rule import XidRule
from pulsed.compute.sample import FIRST, Freshness, InputState, SampleDecision, has_passed
from pulsed.model.canonical_tick import Extras, LinkCounters
from pulsed.model.gpu import Device
from pulsed.model.health import NOT_EVALUATED, CheckState, Health, Nvlink, NvlinkFault
from pulsed.model.raw_tick import Epoch, KernelEvent
from pulsed.model.vocabulary import NOTHING, POSITION, Reading, Value

LOST_SECONDS = 1.0
"""Two polls of a fast source are too short a time for a lost GPU."""

LOST_POLLS = 2


@dataclass(slots=True, eq=False)
class Reachability:
    """Whether one GPU answers.

    Attributes:
        polls_missed: in a row, no more than two; None for a GPU that never answered.
        missed_since: when it was missed first, in Unix seconds; None while it answers.
        last_seen: when it last answered, in Unix seconds; 0 for never.
    """

    polls_missed: float | None = 0.0
    missed_since: float | None = None
    last_seen: float = 0.0
    _misses: int = 0
    _seen: float = 0.0

    def expect(self, last_seen: float) -> None:
        """Continue with the time in Unix seconds at which it last answered."""
        self.last_seen = last_seen
        self._seen = -LOST_SECONDS

    def resume(self, now: float) -> None:
        """Continue after a time in which the source did not deliver, which proves nothing."""
        self._seen = max(self._seen, now)

    def update(self, state: InputState, reading: Reading, has_peers: bool, time: float, now: float) -> None:
        """Take a sample: its state, its reading (all None for a GPU that is in no sample), and its time in Unix seconds
        and by the GPU's clock.

        Stale inputs are no proof that the GPU is gone. If no other GPU of the source answers, the source itself may be
        silent.
        """
        if state == "stale":
            return
        if state != "blank":
            if self._misses or self.polls_missed is None:
                self._misses, self.missed_since, self.polls_missed = 0, None, 0.0
            self._seen, self.last_seen = now, time
        elif not self.last_seen:
            self.polls_missed = None if reading == NOTHING else 0.0
        elif has_peers or reading == NOTHING:
            if not self._misses:
                self.missed_since = time
            self._misses += 1
            is_long = has_passed(LOST_SECONDS, self._seen, now)
            self.polls_missed = float(min(self._misses, LOST_POLLS)) if is_long else 1.0

    @property
    def is_lost(self) -> bool:
        """Whether it was missed often enough to be lost."""
        return self.polls_missed is not None and self.polls_missed >= LOST_POLLS


_REASONS, _XID = POSITION[REASONS], POSITION[XID]


class NodeFacts(NamedTuple):
    """What a tick has in common for all its GPUs.

    Attributes:
        epoch: of the tick; the same object until it changes.
        has_peers: whether any GPU of the source answers; if none does the source itself may be silent.
        reads_kernel_log: whether the kernel log is read.
        is_layout_new: whether the source has other series than before; what is not among them is not blank.
    """

    epoch: Epoch
    has_peers: bool
    reads_kernel_log: bool
    is_layout_new: bool


class GpuHealth:
    """Health of one GPU.

    Attributes:
        health: now; the same object while nothing in it changes.
        changes: checks whose state changed with the last sample: before and after.
        xids: by code, how often it happened since the sample before the last one.
        now: seconds of the GPU's clock, as of the last sample. It starts at 0 and continues over a restart.
        started: seconds of that clock at the GPU's first sample since the start of the daemon.
        time: of the last sample, in Unix seconds.
        restarts: of the GPU, its driver, its node and its source.
        last_reset: of the GPU, its driver or its node, in Unix seconds; None if none was seen.
        latched: grows with every change that must survive a restart.

    Args:
        origins: the faults of NVLinks of all GPUs; `key` names this one there.
        here: the node of a device whose source does not name it.
    """

    def __init__(self, plan: HealthPlan, device: Device, origins: LinkOrigins, key: str, here: str) -> None:
        self.plan = plan
        self.device = device
        self._here = here
        self.health: Health = NOT_EVALUATED
        self.changes: list[tuple[CheckState, CheckState]] = []
        self.xids: Counter[int] = Counter()
        self.now = self.started = self.time = 0.0
        self.reachability = Reachability()
        self.restarts = Restarts(driver_version=device.driver_version)
        self.last_reset: float | None = None
        self.latched = 0
        self.rules = GpuRules(plan)
        self.inputs = GpuInputs(
            device.model,
            plan.settings.severity_of,
            plan.settings.pcie_width_max,
            self.rules.severity_of,
            origins=origins,
            key=key,
            xids=XidLog(plan.is_critical),
        )
        self._epoch: Epoch | None = None
        self._resumed = -inf  # when the source delivered again, by the GPU's clock
        self._has_news = self._is_fresh = False
        self._is_new_model = True
        self._answer: Reading | None = None

    @property
    def epoch(self) -> float:
        """Unix time of 0 s of the GPU's clock, as of the last sample."""
        return self.time - self.now

    def evaluate(
        self,
        track: GpuTrack,
        sample: SampleDecision,
        reading: Reading,
        node: NodeFacts,
        extras: Extras | None = None,
        kernel_events: tuple[KernelEvent, ...] = (),
    ) -> Health:
        """Evaluate a sample; a repeated one changes nothing. The readings of a missing GPU are all None."""
        if self.health is NOT_EVALUATED:
            sample = FIRST
        elif sample.kind == "repeat":
            return self.health
        plan, rules, inputs, freshness = self.plan, self.rules, self.inputs, track.inputs
        previous = inputs.xids.begun if self.health is NOT_EVALUATED else self.now
        self.now, self.time = now, time = self.started + track.now, track.time
        if not freshness.is_same_measurement:
            inputs.measured_at = now
        inputs.gap_seconds = sample.elapsed - sample.covered
        if self.changes or self.xids:
            self.changes, self.xids = [], Counter()
        if sample.is_interrupted:
            rules.interrupt()
            self.reachability.resume(track.now)
            self._resumed = now
        if track.device is not self.device:
            self._take_device(track.device)
        if kernel_events:
            self._count(inputs.xids.add_kernel_events(kernel_events, _programs(self.device), now, time))
        if node.epoch is not self._epoch:
            self._take_epoch(node.epoch, previous)
        answer = self._answer
        self._take_answer(track, reading, node)
        if extras != inputs.extras:
            self._has_news = self._has_news or _links_of(extras) != _links_of(inputs.extras)
            inputs.extras = extras
            rules.pending |= plan.on_watches | plan.on_links | plan.on_xids
        activity = activity_of(reading)
        is_part = inputs.clock_events.update(reading[_REASONS], bool(activity), sample.covered, now)
        rules.compare(plan.select(reading) + self._facts(freshness, reading, node, activity))
        self._find_reset(reading, freshness)
        if rules.pending & plan.on_xids:
            self._take_xids(reading, answer)
            self._report_faults()
        if is_part:
            rules.take_part(reading, inputs.clock_events.seen, now)
        if rules.pending or self._has_news or now >= rules.due:
            self._evaluate(reading, activity)
        return self.health

    def reconsider(self, reading: Reading) -> Health:
        """Evaluate its faults of NVLinks again: others have reported theirs. `reading` is that of the last sample."""
        if not self.inputs.xids.records.keys() & LINK_XIDS:
            return self.health
        earlier = {old.id: old for old, _ in self.changes}
        self.rules.pending |= self.plan.on_nvlink_xids
        self._evaluate(reading, activity_of(reading))
        last = {new.id: (earlier.get(old.id, old), new) for old, new in self.changes}
        self.changes = [(old, new) for old, new in last.values() if old.state != new.state]
        return self.health

    def _take_device(self, device: Device) -> None:
        """Take another description of the GPU."""
        self.device = device
        if device.model and device.model != self.inputs.model:
            self.inputs.model = device.model
            self.rules.pending |= self.plan.all_rules
            self._is_new_model = True
        if self.restarts.take_driver(device.driver_version):
            self._reset(self.now)

    def _take_epoch(self, epoch: Epoch, previous: float) -> None:
        """Take another epoch; `previous` is when the sample before was, in seconds of the GPU's clock."""
        self._epoch = epoch
        known = self.restarts.epoch
        restarted = self.restarts.take_epoch(epoch, previous, self.now, self.time)
        if self.restarts.epoch != known:
            self.latched += 1
        if restarted.gpu is not None:
            self._reset(restarted.gpu)
        if restarted.engine:
            self.inputs.xids.restart_gauge()
        if restarted.exporter:
            self.inputs.xids.restart_totals()
        if restarted.engine or restarted.exporter:
            self.rules.pending |= self.plan.on_xids

    def _take_answer(self, track: GpuTrack, reading: Reading, node: NodeFacts) -> None:
        """Find out whether the GPU answers, and whether its inputs are fresh."""
        freshness = track.inputs
        self.reachability.update(freshness.state, reading, node.has_peers, self.time, track.now)
        if self.reachability.polls_missed == 0.0 and freshness.state != "stale":
            self._answer = reading
            if node.is_layout_new:
                self.rules.forget_inputs()
            if reading[_XID] is None and self.restarts.has_no_xid(self.inputs.xids.gauge):
                self.inputs.xids.take_none()
        if freshness.is_fresh != self._is_fresh:
            self._is_fresh, self._has_news = freshness.is_fresh, True

    def _facts(self, freshness: Freshness, reading: Reading, node: NodeFacts, activity: Value) -> tuple[Value, ...]:
        """Return the values of `COMPARED_FACTS`.

        While the source did not deliver, the GPU did not fail to: that time does not count as age.
        """
        age = freshness.age and min(freshness.age, self.now - self._resumed)
        return (
            self.reachability.polls_missed,
            age if not age else 0.0 if freshness.is_fresh else round(age),
            1.0 if node.reads_kernel_log else None,
            None if activity is None else float(bisect_left(self.plan.activity_levels, activity)),
            *exporter_facts(self.inputs.extras, reading[_REASONS]),
        )

    def _find_reset(self, reading: Reading, freshness: Freshness) -> None:
        """Find out whether counters show a reset of the GPU."""
        if not freshness.is_same_measurement:
            is_any_changed = bool(self.rules.pending & self.plan.on_resets)
            if (moment := self.restarts.signs.update(reading, self.now, is_any_changed)) is not None:
                self._reset(moment)

    def _reset(self, moment: float) -> None:
        """Take a reset of the GPU, or a restart of its driver or node: it resolves what happened before."""
        self.inputs.xids.clear(moment)
        self.inputs.links_up, self.inputs.uses_nvlink = frozenset(), False
        self.inputs.confirmed_xids = frozenset()
        self.rules.resolve(moment)
        self.last_reset = self.epoch + moment
        self._take_news()

    def _take_xids(self, reading: Reading, before: Reading | None) -> None:
        """Take the codes of a sample; `before` is the last reading with which the GPU answered."""
        inputs, xids, gauge = self.inputs, self.inputs.xids, reading[_XID]
        if inputs.extras is None and gauge is None:
            return
        known = set(xids.records)
        if gauge is not None and self.restarts.has_other_fields(reading, before):
            xids.forget_source()
        codes = xids.update(gauge, inputs.extras, _programs(self.device), self.now)
        if codes or xids.records.keys() != known:
            self._count(codes)

    def _count(self, codes: Mapping[int, int]) -> None:
        """Count XIDs that happened, by code, as events of their checks."""
        self.xids.update(codes)
        for position, _, rule in self.plan.rules:
            if isinstance(rule, XidRule):
                severity_of = self.plan.settings.severity_of
                events = sum(count for code, count in codes.items() if rule.counts(code, severity_of(code)))
                self.rules.checks[position].events += events
        self._take_news()

    def _take_news(self) -> None:
        """XIDs have changed, which must survive a restart."""
        self.rules.pending |= self.plan.on_xids
        self._has_news = True
        self.latched += 1

    def _evaluate(self, reading: Reading, activity: Value) -> None:
        """Evaluate the rules that this sample concerns, then the checks whose rules have another outcome."""
        is_first, down = self.health is NOT_EVALUATED, self.inputs.links_down
        touched = self.rules.evaluate(self.inputs, reading, activity, self.now)
        if self.inputs.links_down != down:
            self._report_faults()
        checks = self.rules.checks
        is_changed, self._has_news = is_first or self._has_news, False
        positions = range(len(checks)) if self._is_new_model else sorted(touched)  # other checks may apply
        self._is_new_model = False
        for position in positions:
            check = checks[position]
            old = check.state
            if self.rules.conclude(position, self.inputs, self.device.guest, self.time, self.now):
                is_changed = True
                if check.state.state != old.state:
                    self.latched += 1
                    if not is_first or check.state.severity > 0:
                        self.changes.append((old, check.state))
        if is_changed:
            self.health = health_of(
                checks,
                self.inputs.xids,
                self.plan.critical_xids,
                epoch=self.epoch,
                before=self.health,
                is_fresh=self._is_fresh,
                last_reset=self.last_reset,
                nvlinks=self._nvlinks(),
                nvlink_fault=self._nvlink_fault(),
            )
        self.inputs.values = NO_INPUTS  # of thousands of GPUs they are much memory

    def _report_faults(self) -> None:
        inputs, device = self.inputs, self.device
        faults = faults_of(inputs.xids.records, self.epoch, device, self._here, inputs.links_down)
        inputs.origins.report(inputs.key, faults)

    def _nvlink_fault(self) -> NvlinkFault | None:
        """Return the fault that raises the check about them; None for none."""
        position = self.plan.position_of.get("nvlink_fault")
        if position is None or (raised := self.rules.states_of(position)[0]).severity <= 0 or raised.xid is None:
            return None
        inputs, code = self.inputs, raised.xid
        record, verdict = inputs.xids.records[code], inputs.origins.verdict(inputs.key, code)
        fabric = self.device.fabric or self.device.entity.node or self._here
        return NvlinkFault(
            code, inputs.link_of(code), self.epoch + record.began, verdict.origin is None, fabric, verdict.followers
        )

    def _nvlinks(self) -> tuple[Nvlink, ...]:
        """Return the links that the source has one by one; the same object while they are the same."""
        all_states, all_counters = _links_of(self.inputs.extras)
        states, counters = dict(all_states), dict(all_counters)
        down, before = self.inputs.links_down, self.health.nvlinks
        links = tuple(
            [
                Nvlink(link, states.get(link), link in down, counters.get(link, ()))
                for link in sorted(states.keys() | counters.keys())
            ]
        )
        return before if links == before else links


def _links_of(extras: Extras | None) -> tuple[tuple[tuple[int, float], ...], LinkCounters]:
    """Return states and counters of links, without those that are unknown."""
    return ((), ()) if extras is None else (extras.nvlink_states or (), extras.nvlink_counters or ())


def _programs(device: Device) -> Programs:
    """Return the programs on a GPU: a fault that follows one of them is not the board's."""
    return tuple(dict.fromkeys([owner.program for owner in device.owners or ()]))
