"""Health of one GPU: its readings in, its `Health` out, and all that has to be remembered in between.

A sample that changes nothing costs a comparison of its inputs. Time is counted from sample to sample, so that it never
goes back, whatever the clock of the source does.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from pulsed.compute.health.clock_events import ClockEvents
from pulsed.compute.health.gpu_check import GpuCheck
from pulsed.compute.health.model import NOT_JUDGED, CheckState, Health
from pulsed.compute.health.plan import HealthPlan
from pulsed.compute.health.presence import Presence
from pulsed.compute.health.probes_of_events import EventsProbe
from pulsed.compute.health.resets import RESET_SIGNS, Resets
from pulsed.compute.health.rule import ACTIVITY
from pulsed.compute.health.verdict import health_of
from pulsed.compute.health.xid_log import Jobs, XidLog
from pulsed.compute.tracker import FIRST, GpuTrack, SampleDecision
from pulsed.translate.tick import Device, Extras
from pulsed.translate.vocabulary import NOTHING, POSITION, Reading, Value

_ENERGY = POSITION[RESET_SIGNS[0]]
_REASONS = POSITION["clocks_event_reasons"]
_XID = POSITION["xid_last_code"]
_ENGINE = POSITION["graphics_engine_active_ratio"]
_UTILIZATION = POSITION["gpu_utilization_ratio"]
_SLOWED = 0x608
"""Reasons that count only for a busy GPU."""


class GpuHealth:
    """Health of one GPU.

    Args:
        plan: the checks.
        device: which GPU.

    Attributes:
        health: now; the same object while nothing of it changes.
        device: as last seen.
        changes: of the last sample: checks whose state changed, as they were and as they are.
        now: seconds since the first sample.
        time: of the last sample, in Unix seconds.
        presence: whether it answers.
        resets: whether it was reset.
        latched: grows whenever something changes that is worth keeping over a restart.
    """

    def __init__(self, plan: HealthPlan, device: Device) -> None:
        self.plan = plan
        self.device = device
        self.health: Health = NOT_JUDGED
        self.changes: list[tuple[CheckState, CheckState]] = []
        self.now = 0.0
        self.time = 0.0
        self.presence = Presence()
        self.resets = Resets()
        self.latched = 0
        self.checks = [GpuCheck(check) for check in plan.checks]
        self.probes = [probe for check in self.checks for probe in check.probes]
        self.clock_events = ClockEvents()
        self.xids = XidLog()
        self.severities: Mapping[int, str] = plan.settings.xids
        self.pcie_width_max = plan.settings.pcie_width_max
        self.model = device.model
        self.extras: Extras | None = None
        self.reading: Reading = NOTHING
        self.boot_id = ""
        self.driver_version = device.driver_version
        self._key: tuple[Value, ...] = (None,) * plan.size
        self._moving: tuple[Value, ...] = (None,) * len(plan.moving)
        self._facts: dict[str, float | None] = {
            "sample_gap_intervals": 0.0,
            "inputs_blank_ratio": 0.0,
            "polls_missed": 0.0,
        }
        self._dues = [-inf] * len(self.probes)
        self._due = -inf
        self._has_news = False
        self._is_blind = True
        self._most = 0

    # What probes see.

    def value(self, name: str) -> float | None:
        """Give a reading, or another input, by name."""
        position = POSITION.get(name)
        if position is not None:
            return self.reading[position]
        if name == ACTIVITY:
            engine, utilization = self.reading[_ENGINE], self.reading[_UTILIZATION]
            if engine is None or utilization is None:
                return utilization if engine is None else engine
            return max(engine, utilization)
        return self._facts.get(name)

    def is_covered(self, check: str) -> bool:
        """Tell whether a check has its inputs."""
        position = self.plan.position_of.get(check)
        return position is not None and self.checks[position].is_covered

    # A sample.

    def judge(
        self,
        track: GpuTrack,
        sample: SampleDecision,
        reading: Reading,
        extras: Extras | None,
        boot_id: str = "",
        has_peers: bool = True,
    ) -> Health:
        """Evaluate a sample; a repeated one changes nothing.

        Args:
            track: identity and time of the GPU.
            sample: what time the sample covers.
            reading: its readings; those of a missing GPU are all None.
            extras: dcgm-exporter's own metrics of the GPU.
            boot_id: of the node, opaque; another one means that it was restarted.
            has_peers: whether another GPU of the source answers; without one, silence may be the source's.
        """
        if self.health is NOT_JUDGED:
            sample = FIRST
        elif sample.kind == "repeat":
            return self.health
        now, time = track.now, track.time
        self.now, self.time, self.reading = now, time, reading
        if self.changes:
            self.changes = []
        due = 0
        if sample.is_interrupted:
            due |= self._interrupt(sample.gap_intervals)
        elif self._facts["sample_gap_intervals"]:
            due |= self._tell("sample_gap_intervals", 0.0)
        if track.device is not self.device:
            due |= self._meet(track.device)
        mask = reading[_REASONS]
        is_busy = mask is not None and bool(int(mask) & _SLOWED) and bool(self.value(ACTIVITY))
        if self.clock_events.follow(mask, is_busy, sample.covered, now):
            due |= self._part_is_over()
        presence = self.presence
        presence.follow(reading, has_peers, time, now)
        if presence.polls_missed != self._facts["polls_missed"]:
            due |= self._tell("polls_missed", presence.polls_missed)
        energy = reading[_ENERGY]
        if energy is not None and (moment := self.resets.follow_energy(energy, now)) is not None:
            due |= self._reset(moment)
        if boot_id and boot_id != self.boot_id:
            due |= self._boot(boot_id)
        moving, before_that = self.plan.get_moving(reading), self._moving
        if moving != before_that:
            self._moving = moving
            due |= self._move(before_that, moving)
        key = self.plan.get(reading)
        if key != self._key or extras != self.extras or self.resets.is_pending:
            due |= self._take(key, extras, now)
        if due or self._has_news or now >= self._due:
            self._ask(due, time, now)
        return self.health

    def _interrupt(self, gap: float) -> int:
        for probe in self.probes:
            probe.gate.interrupt()
        return self._tell("sample_gap_intervals", round(gap, 1)) | self.plan.on_parts

    def _tell(self, name: str, value: float | None) -> int:
        """Set an input that is no reading; give the rules to ask."""
        if self._facts.get(name) == value:
            return 0
        self._facts[name] = value
        return self.plan.fact_users.get(name, 0)

    def _meet(self, device: Device) -> int:
        known, self.device = self.driver_version, device
        due = 0
        if device.model and device.model != self.model:
            self.model, due = device.model, -1  # all rules
        if device.driver_version:
            self.driver_version = device.driver_version
            if known and device.driver_version != known:
                due |= self._reset(self.now)
        return due

    def _boot(self, boot_id: str) -> int:
        known, self.boot_id = self.boot_id, boot_id
        self.latched += 1
        return self._reset(self.now) if known else 0

    def _reset(self, moment: float) -> int:
        """The GPU was reset, or the driver or the node restarted: what asked for that before is done."""
        self.xids.clear(moment)
        self.latched += 1
        return self.plan.on_xids

    def _take(self, key: tuple[Value, ...], extras: Extras | None, now: float) -> int:
        """Take inputs that are not all as they were; give the rules to ask."""
        due = 0
        for users, old, new in zip(self.plan.users, self._key, key, strict=True):
            if old != new:
                due |= users
        if (self.reading[_REASONS] is None) is not self._is_blind:
            self._is_blind = not self._is_blind
            due |= self.plan.on_parts
        self._key = key
        moment = self.resets.follow(self.reading, now)
        if moment is not None:
            due |= self._reset(moment)
        due |= self._tell_blank()
        if extras != self.extras:
            self.extras = extras
            due |= self._take_extras(extras)
        return due | self._take_xids(now)

    def _part_is_over(self) -> int:
        """A part of the clock events' window is complete; give the rules to ask: not those that would see 0 again."""
        due, reading, seen = 0, self.reading, self.clock_events.seen
        for number, bits, counters in self.plan.duties:
            probe = self.probes[number]
            if bits & seen or not probe.rests or any(reading[position] is not None for position in counters):
                due |= 1 << number
        return due

    def _move(self, before: tuple[Value, ...], moving: tuple[Value, ...]) -> int:
        """Take temperatures; give the rules to ask: not those for which nothing can come of it."""
        due, probes = 0, self.probes
        for (followers, others, witnesses), old, new in zip(self.plan.moving, before, moving, strict=True):
            if old == new:
                continue
            due |= others
            if old is None or new is None:
                due |= witnesses | self._tell_blank()
            for number, sign in followers:
                if old is None or new is None or not sign * old < probes[number].calm > sign * new:
                    due |= 1 << number
        return due

    def _tell_blank(self) -> int:
        present = len(self._key) + len(self._moving) - self._key.count(None) - self._moving.count(None)
        self._most = max(self._most, present)
        blank = 1.0 - present / self._most if self._most else 0.0
        return self._tell("inputs_blank_ratio", round(blank, 2))

    def _take_extras(self, extras: Extras | None) -> int:
        due = self.plan.on_xids | self.plan.fact_users.get("health_watches", 0)
        events = dict(extras.clock_events) if extras is not None and extras.clock_events is not None else None
        for reason in ("hw_thermal", "hw_power_brake"):
            count = None if events is None else events.get(reason, 0.0)
            due |= self._tell(f"clock_event_{reason}", count)
        counts = extras is not None and (extras.xid_counts is not None or extras.xid_totals is not None)
        return due | self._tell("xid_counts", 1.0 if counts else None)

    def _take_xids(self, now: float) -> int:
        gauge = self.reading[_XID]
        if self.extras is None and (gauge is None or gauge == self.xids.gauge):
            return 0
        was_known = len(self.xids.records)
        codes = self.xids.follow(gauge, self.extras, _jobs(self.device), now)
        for code in codes:
            for check in self.checks:
                for probe in check.probes:
                    if isinstance(probe, EventsProbe) and probe.is_mine(code, self.severities):
                        check.events += 1
        if codes or len(self.xids.records) != was_known:
            self.latched += 1
            self._has_news = True
            return self.plan.on_xids
        return 0

    # What follows from it.

    def _ask(self, due: int, time: float, now: float) -> None:
        touched: dict[int, None] = {}
        is_first = self.health is NOT_JUDGED
        dues, probes, rules = self._dues, self.probes, self.plan.rules
        if is_first:
            due = -1
        if now >= self._due:
            for number, moment in enumerate(dues):
                if moment <= now:
                    due |= 1 << number
        due &= (1 << len(probes)) - 1
        while due:
            lowest = due & -due
            due ^= lowest
            number = lowest.bit_length() - 1
            probe = probes[number]
            before = (probe.gate.held, probe.is_covered, probe.event_at, probe.events)
            probe.ask(self, now)
            dues[number] = probe.due
            position = rules[number][0]
            if before != (probe.gate.held, probe.is_covered, probe.event_at, probe.events):
                self.checks[position].events += probe.events - before[3]
                touched[position] = None
            elif probe.may_change_quietly or position in self.plan.conditional or is_first:
                touched[position] = None
        self._due = min(dues, default=inf)
        is_changed, self._has_news = is_first or self._has_news, False
        for position in touched:
            check = self.checks[position]
            before_that = check.state
            if not check.conclude(self, self.device.guest, time, now):
                continue
            is_changed = True
            if check.state.state != before_that.state:
                self.latched += 1
                if not is_first or check.state.severity > 0:
                    self.changes.append((before_that, check.state))
        if is_changed:
            self._sum_up()

    def _sum_up(self) -> None:
        self.health = health_of(
            [check.state for check in self.checks],
            tuple([(check.state.id, check.events) for check in self.checks]),
            self.xids,
            self.plan.critical_xids,
            self.time - self.now,
            self.health,
        )


def _jobs(device: Device) -> Jobs:
    """Give the names of who uses a GPU: a fault that follows one program is not the board's."""
    attribution = device.attribution
    return (*attribution.slurm_jobs, *(f"{pod.namespace}/{pod.pod}" for pod in attribution.pods))
