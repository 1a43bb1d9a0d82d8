"""Findings about jobs, from the counters of their GPUs: a hang is suspected, one GPU is a straggler, memory has leaked.

All are evaluated once a minute of tick time, the first two for GPUs that one owner has alone. Their inputs are means
over that minute; graphics engine, clocks and media, which have no integral, come from its last sample. If the inputs
do not decide a finding, it is not judged, and its `FindingVerdict` names the missing ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, NamedTuple

from pulsed.compute.sample import GAP_INTERVALS
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.counters import CounterSnapshot
from pulsed.model.gpu import Device, GpuKey
from pulsed.model.owner import Owner
from pulsed.model.tick import Tick
from pulsed.owners.accounting import LEAK_SECONDS, OwnedGpu, OwnerAccounting
from pulsed.owners.accounting.account import FindingVerdict, GpuAccount, OwnerAccount, OwnerEvent
from pulsed.owners.findings.hangs import (
    MissingInput,
    StallState,
    first_text,
    name_of,
    stall_limit,
    stall_state,
    stall_text,
    stop_of,
    waits_by_design,
)
from pulsed.owners.findings.steps import PEERS, GpuStep, is_blank, step_of, straggler

FindingName = Literal["hang", "straggler", "leaked_memory"]

STEP_SECONDS = 60.0
MAX_NAMES = 8
"""GPUs of a set of slow ones that are named."""

STRAGGLER_SECONDS = 600.0
"""Observed time for which a GPU must be slower than its peers."""

TOLERATED_STEPS = 1
"""Steps in a row without the condition that do not end a straggler: a checkpoint interrupts the work of all GPUs."""


class FindingChange(NamedTuple):
    """A finding about a GPU and its owner that begins or ends, at a Unix time."""

    name: FindingName
    is_active: bool
    owner: Owner
    device: Device
    time: Unix
    message: str


@dataclass(slots=True, eq=False)
class _Watched:
    """A GPU and its owner; `stalled` and `strayed` are observed seconds for which a condition has held."""

    held: OwnedGpu
    base: CounterSnapshot
    step: GpuStep | None = None
    before: GpuStep | None = None
    stalled: float = 0.0
    strayed: float = 0.0
    steps_without: int = 0

    @property
    def name(self) -> str:
        """The name of the GPU, with its node."""
        return name_of(self.held.device)

    @property
    def account(self) -> GpuAccount:
        """The account of the owner on the GPU."""
        return self.held.account.on(self.held.device)

    def is_silent(self, now: Monotonic) -> bool:
        """Return whether its target has not delivered for so long that a sample is missing, or its reading is blank."""
        tick, reading = self.held.tick, self.held.reading
        return now - tick.now > max(STEP_SECONDS, GAP_INTERVALS * tick.interval) or is_blank(reading)

    def leave_unjudged(self, missing: str) -> None:
        """Set that nothing is judged about it."""
        self.step = self.before = None
        self.account.findings["hang"] = FindingVerdict(None, missing)
        if len(self.held.account.holding) > PEERS:
            self.account.findings["straggler"] = FindingVerdict(None, missing)

    def judge(self, name: FindingName, verdict: FindingVerdict, message: str, time: Unix) -> Iterator[FindingChange]:
        """Set a verdict; yield the change if the finding begins or ends. A finding that is not judged does not end."""
        self.account.findings[name] = verdict
        if verdict.holds is not None and verdict.holds != _is_open(self.account, name):
            message = message if verdict.holds else ""
            yield _changed(name, self.held, time, is_active=verdict.holds, message=message)


class FindingDetector:
    """Finds hangs and stragglers among the GPUs of owners, and sets the verdicts of their accounts.

    A finding ends when its condition does, or silently with the owner.

    Args:
        exempt: returns why there are no findings about the work of an owner; empty if there are.
    """

    def __init__(self, accounting: OwnerAccounting, exempt: Callable[[Owner], str] = lambda owner: "") -> None:
        self._accounting, self._exempt = accounting, exempt
        self._watched: dict[GpuKey, _Watched] = {}
        self._leaked: dict[GpuKey, OwnedGpu] = {}
        self._due = 0.0

    def add(self, tick: Tick) -> Sequence[FindingChange]:
        """Return the findings that begin or end with a tick that the accounting has already taken."""
        if tick.now < self._due <= tick.now + STEP_SECONDS:
            return ()
        self._due = tick.now + STEP_SECONDS
        return list(self._evaluate(tick))

    def _evaluate(self, tick: Tick) -> Iterator[FindingChange]:
        owned = list(self._accounting.owned())
        yield from self._leaks([each for each in owned if each.account.is_of_leaked_memory], tick.time)
        held = [each for each in owned if each.account.owner.is_known]
        self._accounting.settle({each.account for each in held})
        before, self._watched = self._watched, {}
        by_account: dict[OwnerAccount, list[_Watched]] = {}
        for each in held:
            key, counters = each.device.entity.key, each.result.counters
            watched = before.get(key)
            is_same = watched is not None and watched.held.account is each.account
            if watched is None or not is_same or watched.base.created != counters.created:
                watched = _new_watched(each)
            watched.held = each
            if each.sharers == 1:
                self._watched[key] = watched
            by_account.setdefault(each.account, []).append(watched)
        for account, gpus in by_account.items():
            yield from self._judge(account, gpus, tick)

    def _judge(self, account: OwnerAccount, gpus: Sequence[_Watched], tick: Tick) -> Iterator[FindingChange]:
        """Yield the changes of the findings about one owner; none while all of its GPUs are silent."""
        account.exempt = self._exempt(account.owner)
        reason = "it shares GPUs with others" if any(each.held.sharers > 1 for each in gpus) else ""
        if account.exempt:
            reason = f"exempt: {account.exempt}"
        if reason:
            for each in gpus:
                each.leave_unjudged(reason)
            return
        silent = [each for each in gpus if each.is_silent(tick.now)]
        seen = [each for each in gpus if each not in silent]
        steps = [step_of(each.base, each.held) for each in seen]
        if not seen or None in steps:
            return
        for each in silent:
            each.leave_unjudged("no samples")
        for each, step in zip(seen, steps, strict=True):
            each.base, each.before, each.step = each.held.result.counters, each.step, step
        absent = [each.held.device for each in silent] + list(self._accounting.unlisted(account))
        yield from _hang(account, seen, absent, tick.time)
        yield from _straggler(seen, absent, tick.time)

    def _leaks(self, gpus: Iterable[OwnedGpu], time: Unix) -> Iterator[FindingChange]:
        """Yield the changes of `leaked_memory`."""
        before, self._leaked = self._leaked, {each.device.entity.key: each for each in gpus}
        for key, each in self._leaked.items():
            if key not in before:
                each.account.on(each.device).findings["leaked_memory"] = FindingVerdict(holds=True)
                yield _changed("leaked_memory", each, time, is_active=True, message=_leak_text(each))
        for key, each in before.items():
            if key not in self._leaked:
                yield _changed("leaked_memory", each, time, is_active=False)


def _leak_text(gpu: OwnedGpu) -> str:
    gibibytes = (gpu.reading.memory_used_bytes or 0.0) / 2**30
    return f"{gibibytes:.1f} GiB in use for {LEAK_SECONDS / 60.0:.0f} min, and no job or pod has the idle GPU"


def _hang(
    account: OwnerAccount, seen: Sequence[_Watched], absent: Sequence[Device], time: Unix
) -> Iterator[FindingChange]:
    """Yield the changes of `hang` that a step of the GPUs of an owner causes; of absent GPUs nothing is known."""
    steps = [(each, each.step) for each in seen if each.step is not None]
    results = [stall_state(step, each.before, each.account.extremes) for each, step in steps]
    states: list[StallState] = [state for state in results if not isinstance(state, MissingInput)]
    missing = {
        each.name: state.name
        for (each, _), state in zip(steps, results, strict=True)
        if isinstance(state, MissingInput)
    }
    extremes = [each.account.extremes for each in seen]
    reason = _missing_text(missing, len(seen)) if missing else waits_by_design(account.owner, extremes)
    stalled = min(each.stalled for each in seen)
    if absent and "works" not in states and any(_is_open(each.account, "hang") for each in seen):
        reason = reason or ("" if "spins" in states else f"no samples of GPU {name_of(absent[0])}")
    elif "works" in states or not (missing or "spins" in states):
        stalled, reason = 0.0, ""
    elif not missing:
        stalled += max(step.seconds for _, step in steps)
    verdict = FindingVerdict(None, reason) if reason else FindingVerdict(stalled >= stall_limit(extremes))
    first = ""
    if verdict.holds:
        stops = [stop_of(each.account, state) for each, state in zip(seen, states, strict=True)]
        stops += [stop_of(account.on(device), "silent") for device in absent]
        first = first_text(stops)
    for at, (each, step) in enumerate(steps):
        each.stalled = stalled
        text = stall_text(states[at], step, each.account.extremes, stalled) if verdict.holds else ""
        yield from each.judge("hang", verdict, text + first, time)


def _missing_text(missing: Mapping[str, str], gpus: int) -> str:
    """Return the first missing input, and its GPU if others of these have the input."""
    gpu, name = next(iter(missing.items()))
    return f"no {name}" + (f" of GPU {gpu}" if len(missing) < gpus else "")


def _straggler(seen: Sequence[_Watched], absent: Sequence[Device], time: Unix) -> Iterator[FindingChange]:
    """Yield the changes of `straggler` that a step of the GPUs of an owner causes; arguments as for `_hang`."""
    if len(seen) + len(absent) <= PEERS:
        return
    steps = [each.step for each in seen if each.step is not None]
    if absent:
        result: tuple[frozenset[int], str] | str = f"no samples of GPU {name_of(absent[0])}"
    elif len({each.held.device.model for each in seen}) > 1:
        result = "its GPUs are of different models"
    else:
        result = straggler(steps, [each.name for each in seen])
    slow, text = result if isinstance(result, tuple) else (frozenset[int](), "")
    if len(slow) > 1:
        text += f"; so are {len(slow)} GPUs: {', '.join(sorted(seen[at].name for at in slow)[:MAX_NAMES])}"
    for at, each in enumerate(seen):
        if at in slow:
            each.strayed, each.steps_without = each.strayed + steps[at].seconds, 0
        elif each.strayed:
            each.steps_without += 1
            if each.steps_without > TOLERATED_STEPS:
                each.strayed = 0.0
        strays = each.strayed >= STRAGGLER_SECONDS
        verdict = (
            FindingVerdict(None, result)
            if isinstance(result, str) and result and not strays
            else FindingVerdict(strays)
        )
        minutes = f"{STRAGGLER_SECONDS / 60.0:.0f} min"
        message = f"slower than its peers for {minutes}, with the same work: {text}; {_health(each.held)}"
        yield from each.judge("straggler", verdict, message, time)


def _new_watched(held: OwnedGpu) -> _Watched:
    """Return a GPU with an owner; one from before a restart of pulsed keeps its findings."""
    account = held.account.on(held.device)
    stalled, strayed = (inf if _is_open(account, name) else 0.0 for name in ("hang", "straggler"))
    return _Watched(held, held.result.counters, stalled=stalled, strayed=strayed)


def _is_open(account: GpuAccount, name: str) -> bool:
    condition = account.conditions.get(name)
    return condition is not None and condition.until is None


def _health(held: OwnedGpu) -> str:
    """Return the health of a GPU: its state, and the checks that are not ok."""
    health = held.result.health
    wrong = [check.id for check in health.checks if check.state not in ("ok", "unknown")]
    return f"its health is {health.state}" + (f": {', '.join(wrong)}" if wrong else "")


def _changed(name: FindingName, held: OwnedGpu, time: Unix, *, is_active: bool, message: str = "") -> FindingChange:
    """Return the begin or end of a finding, added to the events of the account."""
    states = ("ok", "suspected") if is_active else ("suspected", "ok")
    held.account.on(held.device).add_event(OwnerEvent(time, name, *states, message))
    return FindingChange(name, is_active, held.account.owner, held.device, time, message)
