"""All that is remembered of one GPU between samples.

This module must not depend on the table of all GPUs, nor on targets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pulsed.compute.accumulator import Accumulator
from pulsed.compute.cycle_ratios import CycleRatios
from pulsed.compute.health.gpu import GpuHealth
from pulsed.compute.plausibility_filter import PlausibilityFilter
from pulsed.compute.sample import FIRST, NEVER, Freshness, Moment, SampleDecision, TrackedSample
from pulsed.compute.workload import ClassDebouncer
from pulsed.model.gpu import Device

GpuStatus = Literal["new", "present", "back", "gone"]


@dataclass(slots=True, eq=False)
class GpuState:
    """One GPU, MIG instance or vGPU: all that is remembered of it between samples, and the only place for it.

    Attributes:
        key: identifies it among the GPUs of all targets, also after a restart of the daemon.
        other_keys: keys under which it may have been saved: before its UUID was known, or without its MIG profile.
        device: as last seen.
        node: its host.
        started: when it was first seen, in seconds of the clock of the ticks.
        plausibility, debouncer, health, counters: the stages that keep state; `health` is None for a part of a board,
            and `counters` before the first sample.
        owner: the target whose samples update it; None if that target is gone.
        rank: of that target: of two targets with current values, the one with the lower rank updates the GPU.
        claimed_until: when that target is late, in seconds of the clock of the ticks.
        status: `new`: this is its first sample; `present`; `back`: it was absent from the tick before; `gone`: it is
            absent from the newest tick of its owner.
        decision: of its newest sample.
        inputs: freshness of its inputs.
        cycles: its cycle counters.
        is_page_old: whether the owner took it over with values that it had shown before, and has shown no others since.
        now: seconds since its first sample; never decreases, and grows while the GPU is absent, too.
        time: of the newest tick of its owner, in Unix seconds.
        interval: nominal seconds between two samples of its owner.
        last_sample: the tick of its newest sample, up to date while it is absent.
        gone_at: when it became absent, in seconds of the clock of the ticks; `inf` for a board that is there by its
            parts.
        last_seen: when an absent GPU was in a tick last, in Unix seconds; 0 if it was in none before.
        missed_since: the first tick without an absent GPU, in seconds of the clock of the ticks.
    """

    key: str
    other_keys: tuple[str, ...]
    device: Device
    node: str
    started: float
    plausibility: PlausibilityFilter
    debouncer: ClassDebouncer
    owner: object | None = None
    rank: int = 0
    health: GpuHealth | None = None
    counters: Accumulator | None = None
    claimed_until: float = 0.0
    status: GpuStatus = "new"
    decision: SampleDecision = FIRST
    inputs: Freshness = field(default_factory=Freshness)
    cycles: CycleRatios = field(default_factory=CycleRatios)
    is_page_old: bool = False
    now: float = 0.0
    time: float = 0.0
    interval: float = 0.0
    last_sample: Moment = NEVER
    gone_at: float = 0.0
    last_seen: float = 0.0
    missed_since: float = 0.0

    def sample(self, decision: SampleDecision) -> TrackedSample:
        """Return the newest sample, with a decision about it."""
        return TrackedSample(self.device, decision, self.inputs, self.now, self.time)

    def change_owner(self, owner: object, rank: int, device: Device, inputs: Freshness) -> None:
        """Continue with the samples of another target, whose inputs so far had this freshness."""
        inputs.continue_from(self.inputs)
        self.is_page_old = inputs.state != "present"
        self.owner, self.rank, self.device, self.inputs = owner, rank, device, inputs
        if self.health is not None:
            self.health.change_source()

    def end_old_page(self) -> None:
        """Take the first values that the target has not shown before: what else is new in them may have happened while
        another target updated the GPU."""
        self.is_page_old = False
        if self.health is not None:
            self.health.change_source()

    def is_free(self, now: float) -> bool:
        """Return whether another target may update it from this moment of the clock of the ticks on."""
        return self.owner is None or self.status == "gone" or self.counters is None or now > self.claimed_until
