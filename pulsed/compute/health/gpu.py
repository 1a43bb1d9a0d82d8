"""Health of one GPU: its readings in, its `Health` out, and the state in between."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, compress
from math import inf
from operator import itemgetter, ne
from typing import NamedTuple

from pulsed.compute.activity import activity_of
from pulsed.compute.health.check import GpuCheck, without_jitter
from pulsed.compute.health.inputs import IN_EXTRAS, INPUT_POSITION, GpuInputs, exporter_facts, pcie_load
from pulsed.compute.health.link_faults import LINK_DOWN, SOME_RACK, LinkDown, is_link_down, link_of
from pulsed.compute.health.reachability import Reachability, Restarts
from pulsed.compute.health.rule_kinds import Duty, Increase
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.health.windows import ERROR_QUANTITIES, ErrorCounters, StateSeconds
from pulsed.compute.health.xid_log import Programs
from pulsed.compute.health.xid_rule import CRITICAL_SECONDS, XidRule
from pulsed.compute.health.xids import FALLEN_OFF_BUS, xid_of
from pulsed.compute.products import is_rack_scale
from pulsed.compute.sample import FIRST, ROUNDING, Freshness, TrackedSample
from pulsed.durations import MINUTE
from pulsed.model.clocks import EPOCH, GPU_START, GpuSeconds, Unix
from pulsed.model.gpu import Device
from pulsed.model.health import NOT_EVALUATED, OTHER_XIDS, CheckState, Health, NvlinkFault, State, XidLast, worst_state
from pulsed.model.raw_tick import Epoch, KernelEvent
from pulsed.model.tick import GpuRow
from pulsed.model.vocabulary import POSITION, Reading, Value

EVALUATION_SECONDS = 1.0
"""The rules are evaluated once in each second of the GPU's clock; samples that are rarer are all evaluated."""


_REASONS, _XID, _MIG_MODE = (POSITION[name] for name in ("clocks_event_reasons", "xid_last_code", "mig_mode"))
_PSTATE = POSITION["performance_state"]
_LINK = tuple([POSITION[f"pcie_link_{name}"] for name in ("width", "generation", "generation_max")])
_WIDTH = _LINK[0]

_IN_EXTRAS: tuple[Value, ...] = (None,) * len(IN_EXTRAS)
_NO_FACTS: tuple[Value, ...] = (None, None, None)


class EnabledChecks:
    """The checks of a configuration, and what follows from them for all GPUs.

    Attributes:
        checks: all enabled ones.
        in_turn: the same in the order of their evaluation.
        critical_xids: codes that are counted from 0 on.
        present: takes from a reading what `inputs_blank_ratio` is about.
        counters: takes from a reading all counters whose increases are observed.
        watched: takes from `GpuInputs.values` all that any check depends on.
        watchers: by value that `watched` takes, the numbers in `in_turn` of the checks that depend on it.
    """

    def __init__(self, settings: HealthSettings) -> None:
        self.settings = settings
        self.checks = settings.checks()
        self.critical_xids = settings.critical_xids()
        rules = [rule for check in self.checks for rule in check.rules if not isinstance(rule, Duty)]
        names = {name for rule in rules for name in rule.uses}
        names |= {name for check in self.checks for name in (*check.unless, check.superseded_by)}
        self.present = itemgetter(_REASONS, _XID, *sorted(POSITION[name] for name in names if name in POSITION))
        increases = [rule for rule in rules if isinstance(rule, Increase)]
        observed = dict.fromkeys([*chain(*ERROR_QUANTITIES.values()), *chain(*[rule.inputs for rule in increases])])
        self.counters = itemgetter(*[POSITION[name] for name in observed])
        # Results of DCGM count where the other checks have no inputs.
        self.in_turn = sorted(self.checks, key=lambda check: check.id == "dcgm_health")
        watchers: dict[int, list[int]] = {_REASONS: [], _XID: []}
        for number, check in enumerate(self.in_turn):
            for name in check.depends_on:
                watchers.setdefault(INPUT_POSITION[name], []).append(number)
        self.watched = itemgetter(*watchers)
        self.watchers = tuple(watchers.values())


class NodeFacts(NamedTuple):
    """Facts of a tick that all its GPUs share.

    Attributes:
        interval: nominal seconds between two samples.
        epoch: of the tick.
        has_peers: whether any GPU of the source answers; if none does the source itself may be silent.
        reads_kernel_log: whether the kernel log is read.
        is_layout_new: whether the set of series changed; absent fields are not blank.
    """

    interval: float
    epoch: Epoch
    has_peers: bool
    reads_kernel_log: bool
    is_layout_new: bool


class GpuHealth:
    """Health of one GPU.

    Events and integrals are taken from every sample; the rules are evaluated on the newest one, at most once a second.

    Attributes:
        checks: all enabled ones.
        health: as of the last evaluation.
        is_due: whether the last sample is to be evaluated.
        is_missing: whether the GPU was missed often enough to be shown without a sample, as of the last evaluation:
            it is lost, or the source no longer lists it.
        changes: checks whose state changed with the last sample: before and after.
        xids: by code, how often it happened since the sample before the last one.
        now: seconds of the GPU's clock, as of the last sample. It starts at 0 and continues over a restart.
        started: seconds of that clock at the GPU's first sample since the start of the daemon.
        time: of the last sample, in Unix seconds.
        restarts: of the GPU, its driver, its node and its source.
        answer: the reading with which it answered last, as delivered; None before that.
        last_reset: of the GPU, its driver or its node, in Unix seconds; None if none was seen.
        latched: grows with every change that must survive a restart.
        seconds: how long it was in each state.
        shown_seconds: the same, as of the last evaluation.

    Args:
        here: the node of a device whose source does not name it.
    """

    def __init__(self, enabled: EnabledChecks, device: Device, here: str) -> None:
        self.device = device
        self.checks: list[GpuCheck] = []
        self.health: Health = NOT_EVALUATED
        self.is_due = self.is_missing = False
        self.changes: list[tuple[CheckState, CheckState]] = []
        self.xids: dict[int, int] = {}
        self.now = self.started = GPU_START
        self.time = EPOCH
        self.reachability = Reachability()
        self.restarts = Restarts(driver_version=device.driver_version)
        self.last_reset: Unix | None = None
        self.latched = 0
        self.seconds = StateSeconds()
        self.shown_seconds: tuple[tuple[State, float], ...] = ()
        self.inputs = GpuInputs(device.model)
        self._here = here
        self._watched: tuple[Value, ...] | None = None  # inputs at the last evaluation; None: evaluate all checks
        self._counters: tuple[Value, ...] | None = None  # as long as they stay the same, there is nothing to observe
        self._awake: set[int] = set()  # the numbers of the checks that do not rest
        self.use(enabled)
        self._programs: Programs = ()  # on the GPU: a fault that follows one of them is not the board's
        self._second: int | None = None  # of the last evaluation, by the GPU's clock
        self._epoch: Epoch | None = None
        self._resumed = -inf  # when the source delivered again, by the GPU's clock
        self._is_fresh = False
        self.answer: Reading | None = None
        self._max_present = 0
        self._xid_events: tuple[tuple[int | str, int], ...] = ()

    def use(self, enabled: EnabledChecks) -> Sequence[GpuCheck]:
        """Evaluate these checks from now on; return the new ones, among them each that differs from before."""
        before, settings = {check.check.id: check for check in self.checks}, enabled.settings
        self._enabled, self.severity_of_xid = enabled, settings.severity_of
        inputs = self.inputs
        inputs.severity_of, inputs.pcie_width_max = settings.severity_of, settings.pcie_width_max
        inputs.xids.critical = enabled.critical_xids
        self.checks = [
            old if (old := before.get(check.id)) is not None and old.check == check else GpuCheck(check)
            for check in enabled.checks
        ]
        self._by_id = {check.check.id: check for check in self.checks}
        self._in_turn = [self._by_id[check.id] for check in enabled.in_turn]
        self._rules = [pair for check in self.checks for pair in check.rules]
        self._increases = [(rule, state) for rule, state in self._rules if isinstance(rule, Increase)]
        self._duties = [
            (number, rule, state)
            for number, check in enumerate(self._in_turn)
            for rule, state in check.rules
            if isinstance(rule, Duty)
        ]
        new = [check for check in self.checks if before.get(check.check.id) is not check]
        for check in new:
            check.suits = check.check.suits(inputs.model, self.device.guest)
            if (old := before.get(check.check.id)) is not None:
                check.events = old.events
        self._counters = None
        self._wake()
        return new

    @property
    def epoch(self) -> Unix:
        """Unix time of 0 s of the GPU's clock, as of the last sample."""
        return Unix(self.time - self.now)

    def record_sample(
        self,
        sample: TrackedSample,
        row: GpuRow,
        delivered: Reading,
        node: NodeFacts,
        kernel_events: tuple[KernelEvent, ...] = (),
    ) -> None:
        """Record a sample; a repeated one changes nothing.

        Which fields the source has is seen in the reading as it was delivered, with its implausible inputs.
        """
        reading, extras = row.reading, row.extras
        self.changes, self.xids, self.is_due = [], {}, False
        decision = FIRST if self._second is None else sample.decision
        if decision.kind == "repeat":
            return
        inputs, freshness = self.inputs, sample.freshness
        previous, last = inputs.xids.begun if self._second is None else self.now, self.now
        self.now, self.time = now, time = GpuSeconds(self.started + sample.now), sample.time
        is_interrupted, is_measured = decision.is_interrupted, not freshness.is_same_measurement
        self.seconds.by_state["unknown" if is_interrupted else self.seconds.state] += max(now - last, 0.0)
        if is_measured:
            inputs.measured_at = now
        inputs.gap_seconds = now - previous if self._second is None else decision.elapsed - decision.covered
        if (extras is None) is not (inputs.extras is None):
            self._wake()
        inputs.extras = extras
        if is_interrupted:
            self._interrupt()
        if self._second is None or sample.device != self.device:
            self._update_device(sample.device)
        if row.is_listed:
            self._programs = tuple(dict.fromkeys([owner.program for owner in row.owners or ()]))
        if kernel_events:
            self._count(inputs.xids.add_kernel_events(kernel_events, self._programs, now, time))
        if node.epoch != self._epoch:
            self._update_epoch(node.epoch, previous)
        answer = self.answer
        self._update_answer(sample, row, delivered, node)
        activity = activity_of(reading)
        is_part_complete = inputs.clock_events.update(reading[_REASONS], bool(activity), decision.covered, now)
        inputs.widest_link = max(inputs.widest_link, reading[_WIDTH] or 0.0)
        has_moved = is_measured and self._enabled.counters(reading) != self._counters
        is_observed = is_part_complete or decision.kind != "next"
        self.is_due = node.interval >= EVALUATION_SECONDS or int(now + ROUNDING) != self._second
        if self.is_due or has_moved or is_observed:
            inputs.values = reading + self._facts(freshness, reading, node, activity)
        if is_measured and (moment := self.restarts.energy.update(reading.energy_joules_total, now)) is not None:
            self._reset(moment)
        self._update_xids(reading[_XID], delivered, answer)
        if extras is not None:
            inputs.nvlinks.update(extras, inputs.model, bool(reading[_MIG_MODE]))
        if has_moved:
            self._observe_counters(reading, now)
        if is_observed:
            for number, duty, state in self._duties:
                duty.observe(state, inputs, now)
                if duty.by(duty, state, inputs) != state.measure:
                    self._awake.add(number)

    def compare_links(self, widest: Collection[float], *, is_virtual: bool) -> None:
        """Compare the lanes with the most that the GPUs of its model on its node have had, one number each.

        A link that is also slower than it can be is not so by design. In a virtual machine, whose GPUs may have
        different slots, the lanes that this GPU alone never had are.
        """
        inputs = self.inputs
        width, generation, fastest = (inputs.values[position] for position in _LINK)
        is_full_speed = generation is None or fastest is None or generation >= fastest
        is_alike = set(widest) == {inputs.widest_link} and is_full_speed
        by_design = width == inputs.widest_link and (is_virtual or is_alike)
        if (by_design, is_virtual) != (inputs.has_lanes_by_design, inputs.is_virtual):
            inputs.has_lanes_by_design, inputs.is_virtual = by_design, is_virtual
            self._wake()

    def change_source(self) -> None:
        """Take another source of the same GPU from the next sample on."""
        self.inputs.xids.change_source()
        self.inputs.errors, self._counters = ErrorCounters(), None
        self.restarts.change_source()

    def evaluate(self, links_down: Sequence[tuple[Unix, LinkDown]] = ()) -> None:
        """Evaluate all checks on the newest sample, in which some GPUs have links that failed."""
        inputs, is_first = self.inputs, self._second is None
        inputs.links_down = tuple(self._of_other_gpus(links_down)) if links_down else ()
        self._second = int(self.now + ROUNDING)
        self.is_missing = self.reachability.is_missing
        if is_first:
            inputs.severities = {check.check.id: check.state.severity for check in self.checks}
            self._xid_events = self._counts_of_xids()
        before: dict[str, CheckState] = {}
        is_changed, due = self._watched is None, self._due()
        for number in due:
            check = self._in_turn[number]
            events, old = check.events, check.evaluate(inputs, self.time, self.now)
            is_changed |= check.events != events
            if old is not None:
                before[old.id] = old
                inputs.severities[old.id] = check.state.severity
        self._awake = {number for number in due if not self._in_turn[number].rests}
        for id_ in self._by_id if before else ():
            old, new = before.get(id_), self._by_id[id_].state
            if old is not None and new.state != old.state:
                self.latched += 1
                if not is_first or new.severity > 0:
                    self.changes.append((old, new))
        if is_changed or before or inputs.xids.records or inputs.extras is not None:
            self.health = self._health()
        self.shown_seconds = tuple(self.seconds.by_state.items())
        self.seconds.state = self.health.state

    def _due(self) -> list[int]:
        """Return the numbers of the checks that may have another state: all that are awake, or whose inputs changed.

        Without it, Compute takes three times as long.
        """
        before, self._watched = self._watched, self._enabled.watched(self.inputs.values)
        if before is None:
            return list(range(len(self._in_turn)))
        changed = compress(self._enabled.watchers, map(ne, before, self._watched))
        return sorted(self._awake.union(*changed))

    def _health(self) -> Health:
        """Return the health by the states of the checks."""
        xids, last = self.inputs.xids, None
        if xids.last is not None:
            record = xids.records[xids.last]
            before = self.health.xid_last.time if self.health.xid_last is not None else None
            time = without_jitter(Unix(self.epoch + record.last), before) if record.dated else None
            last = XidLast(xids.last, time, xid_of(xids.last).description)
        checks = tuple([check.state for check in self.checks])
        state, coverage = worst_state(checks, self._is_fresh)
        return Health(
            state,
            coverage,
            checks,
            events=tuple([(check.check.id, check.events) for check in self.checks]),
            xid_events=self._xid_events,
            xid_last=last,
            last_reset=self.last_reset,
            nvlinks=() if self.inputs.extras is None else self.inputs.nvlinks.shown(self.inputs.extras),
            nvlink_fault=self._nvlink_fault() if xids.records else None,
        )

    def _counts_of_xids(self) -> tuple[tuple[int | str, int], ...]:
        """Return `Health.xid_events`."""
        xids = self.inputs.xids
        counts = dict.fromkeys(xids.critical, 0) | {code: record.count for code, record in xids.records.items()}
        others = () if xids.beyond is None else ((OTHER_XIDS, xids.others + counts.pop(xids.beyond)),)
        return (*sorted(counts.items()), *others)

    def _wake(self) -> None:
        """Evaluate all checks next time, even if their inputs have not changed."""
        self._watched = None

    def _interrupt(self) -> None:
        """Record a gap: no level was reached without a break, and the source may have other fields since."""
        for _, state in self._rules:
            state.reached_since.clear()
        self._max_present = 0
        self.reachability.resume(self.now)
        self._resumed = self.now

    def _update_device(self, device: Device) -> None:
        """Update the description of the GPU."""
        model = device.model or self.inputs.model
        if self._second is None or (model, device.guest) != (self.inputs.model, self.device.guest):
            for check in self.checks:
                check.suits = check.check.suits(model, device.guest)
            self._wake()
        self.device, self.inputs.model = device, model
        if self.restarts.update_driver(device.driver_version):
            self._reset(self.now)

    def _update_epoch(self, epoch: Epoch, previous: GpuSeconds) -> None:
        """Record another epoch; `previous` is when the sample before was, in seconds of the GPU's clock."""
        self._epoch, last = epoch, self.restarts.epoch
        restarted = self.restarts.update_epoch(epoch, previous, self.now, self.time)
        if self.restarts.epoch != last:
            self.latched += 1
        if restarted.gpu is not None:
            self._reset(restarted.gpu)
        if restarted.engine:
            self.inputs.xids.restart_gauge()
        if restarted.exporter:
            self.inputs.xids.restart_totals()

    @property
    def has_fallen_off_bus(self) -> bool:
        """Whether XID 79 is the last that is known of the GPU: it was not reset since, or has not answered since."""
        record = self.inputs.xids.records.get(FALLEN_OFF_BUS)
        if record is None:
            return False
        is_recent = not record.cleared and self.now - record.last < CRITICAL_SECONDS
        return is_recent or self.epoch + record.last + MINUTE >= self.reachability.last_seen

    def _update_answer(self, sample: TrackedSample, row: GpuRow, delivered: Reading, node: NodeFacts) -> None:
        """Update whether the GPU answers, and whether its inputs are fresh."""
        freshness, reachability, reading = sample.freshness, self.reachability, row.reading
        is_evident = row.presence == "lost" or (bool(self.inputs.xids.records) and self.has_fallen_off_bus)
        if row.is_listed:
            reachability.update(
                freshness.state, reading, self.time, self.now, has_peers=node.has_peers, is_evident=is_evident
            )
        else:
            reachability.update_unlisted(self.time, self.now, is_evident=is_evident)
        if self.reachability.polls_missed == 0.0 and freshness.state != "stale":
            self.answer = delivered
            if node.is_layout_new:
                self._max_present = 0
            if reading[_XID] is None and self.restarts.has_no_xid(self.inputs.xids.gauge):
                self.inputs.xids.record_none()
        if (is_fresh := freshness.is_fresh and not reachability.is_unlisted) is not self._is_fresh:
            self._is_fresh = is_fresh
            self._wake()

    def _facts(self, freshness: Freshness, reading: Reading, node: NodeFacts, activity: Value) -> tuple[Value, ...]:
        """Return the values of `FACTS`.

        While the source did not deliver, the GPU did not fail to: that time does not count as age.
        """
        age = freshness.age and min(freshness.age, self.now - self._resumed)
        inputs = self._enabled.present(reading)
        present = len(inputs) - inputs.count(None)
        max_present = self._max_present = max(self._max_present, present)
        return (
            self.reachability.polls_missed,
            self.reachability.polls_unlisted,
            age if not age else 0.0 if freshness.is_fresh else round(age),
            round(1.0 - present / max_present, 2) if max_present else 0.0,
            activity,
            pcie_load(reading[_PSTATE], activity),
            1.0 if node.reads_kernel_log else None,
            *(_NO_FACTS if self.inputs.extras is None else exporter_facts(self.inputs.extras, reading[_REASONS])),
            *_IN_EXTRAS,
        )

    def _reset(self, moment: GpuSeconds) -> None:
        """Record a reset of the GPU, or a restart of its driver or node: it resolves what happened before."""
        self.inputs.xids.clear(moment)
        self.inputs.nvlinks.reset()
        self.inputs.confirmed_xids = frozenset()
        for rule, state in self._rules:
            rule.resolve(state, moment)
        self.last_reset = Unix(self.epoch + moment)
        self._wake()
        self.latched += 1

    def _observe_counters(self, reading: Reading, now: GpuSeconds) -> None:
        """Observe the increases of all counters."""
        inputs = self.inputs
        inputs.errors.update(reading, now)
        for increase, state in self._increases:
            increase.observe(state, inputs, now)
        counters = [*inputs.errors.counters, *chain(*[state.increases.values() for _, state in self._increases])]
        is_quiet = all(counter.is_quiet for counter in counters)
        self._counters = self._enabled.counters(reading) if is_quiet else None

    def _update_xids(self, gauge: Value, delivered: Reading, before: Reading | None) -> None:
        """Record the codes of a sample; `before` was delivered when the GPU answered last."""
        inputs, xids = self.inputs, self.inputs.xids
        if inputs.extras is None and gauge is None:
            return
        records = len(xids.records)
        if xids.is_first(gauge, inputs.extras) and self.restarts.has_other_fields(delivered, before):
            xids.forget_source()
        if gauge is not None:
            self.restarts.absent = 0
        codes = xids.update(gauge, inputs.extras, self._programs, self.now)
        if codes or len(xids.records) != records:
            self._count(codes)

    def _count(self, codes: Mapping[int, int]) -> None:
        """Count XIDs that happened, by code, as events of their checks."""
        for code, count in codes.items():
            self.xids[code] = self.xids.get(code, 0) + count
            severity = self.severity_of_xid(code)
            for check in self.checks:
                for rule in check.check.rules:
                    if isinstance(rule, XidRule) and rule.counts(code, severity):
                        check.events += count
        self._xid_events = self._counts_of_xids()
        self._wake()
        self.latched += 1

    @property
    def link_down(self) -> LinkDown | None:
        """The newest failure of a link of it, from which faults of other GPUs may follow; None for none."""
        record, entity = self.inputs.xids.records.get(LINK_DOWN), self.device.entity
        if record is None or not is_link_down(record):
            return None
        return LinkDown(entity.gpu or entity.uuid, entity.node or self._here, record.began)

    def _nvlink_fault(self) -> NvlinkFault | None:
        """Return the fault that raises the check about them; None for none."""
        check = self._by_id.get("nvlink_fault")
        if check is None or (raised := check.rules[0][1]).severity <= 0 or raised.xid is None:
            return None
        inputs, code = self.inputs, raised.xid
        record = inputs.xids.records[code]
        rack = SOME_RACK if is_rack_scale(inputs.model) else ""
        fabric = self.device.fabric or rack or self.device.entity.node or self._here
        before = self.health.nvlink_fault.time if self.health.nvlink_fault is not None else None
        began = without_jitter(Unix(self.epoch + record.began), before)
        return NvlinkFault(code, link_of(record.fault, inputs.nvlinks.down), began, fabric)

    def _of_other_gpus(self, links_down: Sequence[tuple[Unix, LinkDown]]) -> Iterator[LinkDown]:
        """Yield the links of other GPUs of its node, dated by this GPU's clock."""
        entity = self.device.entity
        for epoch, down in links_down:
            if down.node == (entity.node or self._here) and down.gpu != (entity.gpu or entity.uuid):
                yield down._replace(began=GpuSeconds(epoch + down.began - self.epoch))
