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

from pulsed.model.computed_tick import ComputedTick
from pulsed.model.counters import CounterSnapshot
from pulsed.model.gpu import Device, GpuKey
from pulsed.model.owner import Owner
from pulsed.model.vocabulary import UNKNOWN
from pulsed.owners.accounting.account import OwnerAccount, OwnerEvent
from pulsed.owners.accounting.accounting import LEAK_SECONDS, OwnedGpu, OwnerAccounting
from pulsed.owners.accounting.extremes import Extremes
from pulsed.owners.findings.hangs import FINDING_SECONDS, first_text, stall_limit, stall_state, stall_text, stop_of
from pulsed.owners.findings.steps import GpuStep, step_of

FindingName = Literal["hang", "straggler", "leaked_memory"]

STEP_SECONDS = 60.0
TOLERATED_STEPS = 1
"""Steps in a row without the condition that do not end a straggler: a checkpoint interrupts the work of all GPUs."""

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


class FindingChange(NamedTuple):
    """A finding about a GPU and its owner that begins or ends, at a Unix time."""

    name: FindingName
    is_active: bool
    owner: Owner
    device: Device
    time: float
    message: str


@dataclass(slots=True)
class _Watched:
    """A GPU and its owner; `stalled` and `strayed` are observed seconds for which a condition has held."""

    account: OwnerAccount
    base: CounterSnapshot
    step: GpuStep | None = None
    before: GpuStep | None = None
    stalled: float = 0.0
    can_hang: bool = False
    hangs: bool = False
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
        found: dict[FindingName, bool] = {"hang": watched.hangs} if watched.can_hang else {}
        if watched.has_peers:
            found["straggler"] = watched.strayed >= FINDING_SECONDS
        return found

    def _evaluate(self, now: float) -> Iterator[FindingChange]:
        owned = list(self._accounting.owned())
        yield from self._leaks([each for each in owned if each.account.is_of_leaked_memory], now)
        held = [each for each in owned if each.sharers == 1 and each.account.owner.is_known]
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
            if (step := step_of(watched.base, each)) is not None:
                watched.base, watched.before, watched.step = each.result.counters, watched.step, step
                stepped.setdefault(each.account, []).append((each, watched))
        for account, gpus in stepped.items():
            if len(gpus) == len(account.holding):
                yield from _hang(gpus, now)
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


def _hang(gpus: Sequence[tuple[OwnedGpu, _Watched]], now: float) -> Iterator[FindingChange]:
    """Yield the changes of `hang` that a step of all GPUs of an owner causes."""
    states = [stall_state(watched.step, watched.before, _extremes(held)) for held, watched in gpus]
    limit = stall_limit([_extremes(held) for held, _ in gpus])
    for _, watched in gpus:
        watched.can_hang = limit is not None and None not in states
    if None in states:
        return
    seconds = max(watched.step.seconds for _, watched in gpus if watched.step is not None)
    is_stalled = "spins" in states and "works" not in states
    stalled = min(watched.stalled for _, watched in gpus) + seconds if is_stalled else 0.0
    hangs = limit is not None and stalled >= limit
    stops = [
        stop_of(held.account.on(held.device), now, spins=state == "spins")
        for (held, _), state in zip(gpus, states, strict=True)
    ]
    for (held, watched), state in zip(gpus, states, strict=True):
        was, watched.stalled, watched.hangs = watched.hangs, stalled, hangs
        if hangs != was:
            text = stall_text(state, watched.step, _extremes(held).power_watts, stalled) if hangs else ""
            yield _changed("hang", held, now, text and text + first_text(stops))


def _extremes(held: OwnedGpu) -> Extremes:
    return held.account.on(held.device).extremes


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


def _outliers(steps: Sequence[GpuStep]) -> Mapping[int, str]:
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
