"""Findings about jobs, from the counters of their GPUs: a hang is suspected, one GPU is a straggler, memory has leaked.

All are evaluated once a minute of tick time, the first two for GPUs that one owner has alone. Their inputs are means
over that minute; graphics engine, clocks and media, which have no integral, are those of its last sample.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import correlation, median, pstdev
from typing import Literal, NamedTuple

from pulsed.accounting.account import OwnerAccount, OwnerEvent
from pulsed.accounting.accounting import LEAK_SECONDS, NOBODY, OwnedGpu, OwnerAccounting
from pulsed.accounting.counter_vector import CounterVector, increase, observed, total, value
from pulsed.compute.bounds import media_of
from pulsed.compute.class_table import BOTTLENECK_OF
from pulsed.compute.products import c2c_of
from pulsed.model.computed_tick import ComputedTick
from pulsed.model.counters import CounterSnapshot
from pulsed.model.gpu import Device, GpuKey
from pulsed.model.owner import Owner
from pulsed.model.vocabulary import UNKNOWN, WORKLOAD_CLASSES, Value

FindingName = Literal["hang", "straggler", "leaked_memory"]

STEP_SECONDS = 60.0
FINDING_SECONDS = 600.0
"""Observed time for which a condition must hold."""

MAX_UNKNOWN_RATIO = 0.1
"""Share of a step in which an input may be missing."""

TOLERATED_STEPS = 1
"""Steps in a row without the condition that do not end a straggler: a checkpoint interrupts the work of all GPUs."""

HANG_GRAPHICS_ENGINE_RATIO = 0.95
HANG_DRAM_RATIO = 0.02
HANG_BYTES_PER_SECOND = 50e6
HANG_POWER_RATIO = 0.5
HANG_SM_CHANGE = 0.02
HANG_POWER_CHANGE = 0.05
"""A kernel that only spins: no traffic, power at most half of what the job's own peak was on this GPU, no change."""

STRAGGLER_GPUS = 3
STRAGGLER_STEPS = 10
STRAGGLER_CORRELATION = 0.5
STRAGGLER_VARIATION = 0.1
"""GPUs work in step if the same resource limits them, and their real utilization of the last steps, where it varies by
more than this (standard deviation), is correlated with that of their peers."""

STRAGGLER_DIFFERENCE = 0.15
STRAGGLER_RELATIVE = 0.25
STRAGGLER_CLOCK_RATIO = 0.1
STRAGGLER_SPREADS = 3.0
"""It is slower than all its peers, differs from their median by this much, and by so many times what the peers differ
from each other: the stages of a pipeline differ by design, and then all of them do."""

_PCIE = ("pcie_transmit", "pcie_receive")
_NVLINK = ("nvlink_transmit", "nvlink_receive")
_C2C = ("c2c_transmit", "c2c_receive")
_MEANS = ("real_utilization", "sm_active", "dram_active")


class FindingChange(NamedTuple):
    """A finding about a GPU and its owner that begins or ends, at a Unix time."""

    name: FindingName
    is_active: bool
    owner: Owner
    device: Device
    time: float
    message: str


class _Step(NamedTuple):
    """What a GPU did since the step before: the bottleneck of its most frequent class, means over its observed seconds,
    and values of its last sample."""

    seconds: float
    bottleneck: str
    real_utilization: Value
    sm_active: Value
    dram_active: Value
    traffic: Value
    watts: Value
    graphics_engine: Value
    clock: Value
    media: float


@dataclass(slots=True)
class _Watched:
    """A GPU and its owner; `spun` and `strayed` are observed seconds for which a condition has held."""

    account: OwnerAccount
    base: CounterSnapshot
    step: _Step | None = None
    spun: float = 0.0
    can_hang: bool = False
    strayed: float = 0.0
    steps_without: int = 0
    has_peers: bool = False
    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=STRAGGLER_STEPS))


class FindingDetector:
    """Finds hangs and stragglers among the GPUs of owners.

    A finding ends when its condition does, or silently with the owner.
    """

    def __init__(self, accounting: OwnerAccounting) -> None:
        self._accounting = accounting
        self._watched: dict[GpuKey, _Watched] = {}
        self._leaked: dict[GpuKey, OwnedGpu] = {}
        self._due = 0.0

    def add(self, tick: ComputedTick) -> Sequence[FindingChange]:
        """Return the findings that begin or end with a tick that the accounting has already taken."""
        if tick.now < self._due <= tick.now + STEP_SECONDS:
            return ()
        self._due = tick.now + STEP_SECONDS
        return list(self._evaluate(tick.time))

    def states(self, device: Device) -> Mapping[FindingName, bool]:
        """Return which findings a GPU has; those that cannot be evaluated, for want of inputs or peers, are absent."""
        if device.entity.key in self._leaked:
            return {"leaked_memory": True}
        watched = self._watched.get(device.entity.key)
        if watched is None:
            return {}
        found: dict[FindingName, bool] = {"hang": watched.spun >= FINDING_SECONDS} if watched.can_hang else {}
        if watched.has_peers:
            found["straggler"] = watched.strayed >= FINDING_SECONDS
        return found

    def _evaluate(self, now: float) -> Iterator[FindingChange]:
        owned = list(self._accounting.owned())
        yield from self._leaks([each for each in owned if each.account.owner.key == NOBODY.key], now)
        held = [each for each in owned if each.sharers == 1 and each.account.owner.kind != "nobody"]
        before = self._watched
        self._watched = {}
        stepped: dict[OwnerAccount, list[tuple[OwnedGpu, _Watched]]] = {}
        self._accounting.settle({each.account for each in held})
        for each in held:
            key = each.device.entity.key
            watched = before.get(key)
            if watched is None or watched.account is not each.account:
                watched = _Watched(each.account, each.result.counters)
            self._watched[key] = watched
            if (step := _step(watched.base, each)) is not None:
                yield from _hang(watched, step, each, now)
                watched.base, watched.step = each.result.counters, step
                stepped.setdefault(each.account, []).append((each, watched))
        for account, gpus in stepped.items():
            if len(gpus) == len(account.holding):
                yield from _straggler(gpus, now)

    def _leaks(self, gpus: Iterable[OwnedGpu], now: float) -> Iterator[FindingChange]:
        """Yield the changes of `leaked_memory`."""
        before, self._leaked = self._leaked, {each.device.entity.key: each for each in gpus}
        for key, each in self._leaked.items():
            if key not in before:
                yield _changed("leaked_memory", each, now, _leak_text(each))
        for key, each in before.items():
            if key not in self._leaked:
                yield _changed("leaked_memory", each, now, "")


def _leak_text(gpu: OwnedGpu) -> str:
    gibibytes = (gpu.reading.memory_used_bytes or 0.0) / 2**30
    return f"{gibibytes:.1f} GiB in use for {LEAK_SECONDS / 60.0:.0f} min, and no job or pod has the idle GPU"


def _step(base: CounterSnapshot, held: OwnedGpu) -> _Step | None:
    """Return what a GPU did since `base`; None if no time was observed, or its counters began again."""
    if base.created != held.result.counters.created:
        return None
    counters = increase(base, held.result.counters)
    seconds = observed(counters)
    if seconds <= 0.0:
        return None
    utilization, sm, dram = (_mean(value(counters, f"{name}_seconds"), counters, name, seconds) for name in _MEANS)
    watts = _mean(total(counters, "class_energy_joules"), counters, "energy", seconds)
    needed = (*_PCIE, *_C2C) if c2c_of(held.device.model) else _PCIE
    flows = {
        link: _mean(value(counters, f"observed_{link}_bytes"), counters, link, seconds)
        for link in (*_PCIE, *_NVLINK, *_C2C)
    }
    is_known = all(flows[link] is not None for link in needed)
    traffic = sum(flow for flow in flows.values() if flow is not None) if is_known else None
    reading = held.reading
    gr, clock = reading.graphics_engine_active_ratio, reading.sm_clock_hertz
    class_seconds = {name: value(counters, "workload_class_seconds", name) or 0.0 for name in WORKLOAD_CLASSES}
    bottleneck = BOTTLENECK_OF.get(max(class_seconds, key=class_seconds.__getitem__), UNKNOWN)
    media = media_of(reading)
    return _Step(seconds, bottleneck, utilization, sm, dram, traffic, watts, gr, clock, media)


def _mean(integral: Value, counters: CounterVector, word: str, seconds: float) -> Value:
    """Return the mean of a quantity over the time in which it was known; None if that is too little of the time."""
    unknown = value(counters, f"{word}_unknown_seconds") or 0.0
    return None if integral is None or unknown > MAX_UNKNOWN_RATIO * seconds else integral / (seconds - unknown)


def _hang(watched: _Watched, step: _Step, held: OwnedGpu, now: float) -> Iterator[FindingChange]:
    """Yield the change of `hang` that a step causes."""
    gr, dram, traffic, watts = step.graphics_engine, step.dram_active, step.traffic, step.watts
    peak, last = held.account.on(held.device).extremes.power_watts, watched.step
    if gr is None or dram is None or traffic is None or watts is None or peak is None or step.sm_active is None:
        watched.can_hang = False
        return
    was, watched.can_hang = watched.spun >= FINDING_SECONDS, True
    spins = (
        gr >= HANG_GRAPHICS_ENGINE_RATIO
        and dram <= HANG_DRAM_RATIO
        and traffic <= HANG_BYTES_PER_SECOND
        and step.media == 0.0
        and watts <= HANG_POWER_RATIO * peak
        and last is not None
        and last.sm_active is not None
        and last.watts is not None
        and abs(step.sm_active - last.sm_active) <= HANG_SM_CHANGE
        and abs(watts - last.watts) <= HANG_POWER_CHANGE * last.watts
    )
    watched.spun = watched.spun + step.seconds if spins else 0.0
    if (watched.spun >= FINDING_SECONDS) != was:
        message = (
            f"busy for {watched.spun / 60.0:.0f} min without traffic or change: graphics engine {gr:.0%}, "
            f"DRAM {dram:.1%}, {watts:.0f} W of {peak:.0f} W before"
        )
        yield _changed("hang", held, now, "" if was else message)


def _straggler(gpus: Sequence[tuple[OwnedGpu, _Watched]], now: float) -> Iterator[FindingChange]:
    """Yield the changes of `straggler` that a step of all GPUs of an owner causes."""
    steps = [watched.step for _, watched in gpus if watched.step is not None]
    alike = len({held.device.model for held, _ in gpus}) == 1 and len(steps) == len(gpus) >= STRAGGLER_GPUS
    for _, watched in gpus:
        if watched.step is not None and watched.step.real_utilization is not None:
            watched.ratios.append(watched.step.real_utilization)
    outliers = _outliers(steps) if alike and _is_in_step([watched for _, watched in gpus]) else {}
    for at, (held, watched) in enumerate(gpus):
        was, watched.has_peers = watched.strayed >= FINDING_SECONDS, alike
        if at in outliers:
            watched.strayed, watched.steps_without = watched.strayed + steps[at].seconds, 0
        elif watched.strayed:
            watched.steps_without += 1
            if watched.steps_without > TOLERATED_STEPS:
                watched.strayed = 0.0
        if (watched.strayed >= FINDING_SECONDS) != was:
            message = "" if was else f"unlike its peers for 10 min: {outliers[at]}; {_health(held)}"
            yield _changed("straggler", held, now, message)


def _is_in_step(gpus: Sequence[_Watched]) -> bool:
    """Return whether the GPUs of an owner do the same work together; replicas of a service do not, nor does a GPU that
    works alone."""
    bottlenecks = {watched.step.bottleneck for watched in gpus if watched.step is not None}
    if len(bottlenecks) != 1 or bottlenecks <= {"idle", UNKNOWN}:
        return False
    length = min(len(watched.ratios) for watched in gpus)
    histories = [list(watched.ratios)[-length:] for watched in gpus if length > 1]
    for at, own in enumerate(histories):
        peers = [median(values) for values in zip(*histories[:at], *histories[at + 1 :], strict=True)]
        if min(pstdev(own), pstdev(peers)) > STRAGGLER_VARIATION and correlation(own, peers) < STRAGGLER_CORRELATION:
            return False
    return True


def _outliers(steps: Sequence[_Step]) -> Mapping[int, str]:
    """Return the one GPU that is slower than its peers, with the difference in words; empty without one."""
    found: dict[int, str] = {}
    ratios = [step.real_utilization for step in steps if step.real_utilization is not None]
    if len(ratios) == len(steps):
        at, difference, peers = _farthest(ratios)
        if ratios[at] < min(peers) and difference >= max(
            STRAGGLER_DIFFERENCE, STRAGGLER_RELATIVE * max(ratios), STRAGGLER_SPREADS * _spread(peers)
        ):
            found[at] = f"real utilization {ratios[at]:.0%}, theirs {min(peers):.0%} to {max(peers):.0%}"
    clocks = [step.clock for step in steps if step.clock and (step.graphics_engine or 0.0) >= 0.5]
    if len(clocks) == len(steps) and not found:
        at, difference, peers = _farthest(clocks)
        lower = STRAGGLER_CLOCK_RATIO * median(peers)
        if clocks[at] < min(peers) and difference >= max(lower, STRAGGLER_SPREADS * _spread(peers)):
            found[at] = (
                f"SM clock {clocks[at] / 1e6:.0f} MHz, theirs {min(peers) / 1e6:.0f} to {max(peers) / 1e6:.0f} MHz"
            )
    return found


def _farthest(values: Sequence[float]) -> tuple[int, float, Sequence[float]]:
    """Return the position of the value farthest from the median of the others, that distance, and the others."""
    others = [[*values[:at], *values[at + 1 :]] for at in range(len(values))]
    distances = [abs(number - median(rest)) for number, rest in zip(values, others, strict=True)]
    at = max(range(len(values)), key=distances.__getitem__)
    return at, distances[at], others[at]


def _spread(values: Iterable[float]) -> float:
    numbers = list(values)
    return max(numbers) - min(numbers)


def _health(held: OwnedGpu) -> str:
    """Return the health of a GPU: its state, and the checks that are not ok."""
    health = held.result.health
    wrong = [check.id for check in health.checks if check.state not in ("ok", "unknown")]
    return f"its health is {health.state}" + (f": {', '.join(wrong)}" if wrong else "")


def _changed(name: FindingName, held: OwnedGpu, now: float, message: str) -> FindingChange:
    """Return the begin of a finding, or with an empty message its end, added to the events of the account."""
    states = ("ok", "suspected") if message else ("suspected", "ok")
    held.account.on(held.device).add_event(OwnerEvent(now, name, *states, message))
    return FindingChange(name, bool(message), held.account.owner, held.device, now, message)
