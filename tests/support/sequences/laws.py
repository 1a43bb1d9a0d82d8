"""Replays a random sequence through Translate, Compute and the accounting, and yields the laws that were broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.plausibility_rules import DEFAULT_PLAUSIBILITY
from pulsed.compute.sample import VITAL
from pulsed.errors import NoGpus
from pulsed.model.clocks import Monotonic
from pulsed.model.counters import COUNTER_POSITION, CounterSnapshot
from pulsed.model.gpu import GpuKey
from pulsed.model.health import RAISED_STATES
from pulsed.model.owner import Owner
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.tick import Tick
from pulsed.owners.accounting import OwnerAccounting
from pulsed.owners.accounting.account import FREE, OwnerAccount
from pulsed.owners.accounting.counter_vector import EMPTY, CounterVector, added, increase, observed, scaled
from tests.support.sequences.world import Step, World, raw_tick
from tests.support.ticks import missing_in, readings_of, results_of

STEPS = 25
"""Moments of a sequence."""

DAY = 1767225600.0
"""2026-01-01T00:00:00Z"""

TOLERANCE = 1e-9
"""Relative, of sums of counters."""

FROZEN = DEFAULT_PLAUSIBILITY
"""From when on values that repeat are old."""

MAX_LOST_INTERVALS = 3.0
"""Of time that no target counts when another one takes over."""

Clock = Callable[[float], float]
"""Unix time by the clock of the ticks."""


@dataclass(slots=True)
class Replay:
    """What came of a sequence.

    Attributes:
        ticks: of each step, by target.
        ended: accounts in the order in which they ended.
    """

    ticks: list[dict[str, Tick]] = field(default_factory=list)
    ended: list[OwnerAccount] = field(default_factory=list)
    running: Sequence[OwnerAccount] = ()


def replay(steps: Sequence[Step], interval: float, wall_clock: Clock) -> Replay:
    """Return the results of a sequence at a time of day."""
    done = Replay()
    accounting = OwnerAccounting(on_end=done.ended.append, on_return=done.ended.remove)
    pipelines: dict[str, Pipeline] = {}
    table, store = GpuTable(), TargetStore("node-1")
    for step in steps:
        ticks: dict[str, Tick] = {}
        for target, shown in step.shown.items():
            if target not in pipelines:
                pipelines[target] = Pipeline(table, "node-1")
                store.targets.append(Target("exporter", target, interval, 10.0 * interval))
            raw = raw_tick(target, shown, step.clock, wall_clock(step.clock), interval)
            of_target = next(one for one in store.targets if one.name == target)
            try:
                ticks[target] = pipelines[target].process(raw)
            except NoGpus as error:
                of_target.fail(error.reason, str(error))
                continue
            accounting.add(ticks[target])
            of_target.accept(ticks[target], Monotonic(step.clock))
        done.ticks.append(ticks)
    done.running = accounting.unfinished
    return done


def broken_laws(seed: int, steps: int = STEPS) -> Iterator[str]:
    """Yield what is wrong with the results of a random sequence, each with its seed and step."""
    world = World(seed)
    sequence = list(world.steps(steps))
    done = replay(sequence, world.interval, lambda clock: DAY + clock)
    for law in LAWS:
        for at, complaint in law(sequence, done):
            yield f"seed {seed}, step {at}: {law.__name__.strip('_')}: {complaint}"
    if len(world.exporters) == 1 and seed % 2:
        yield from _through_two_targets(seed, world, sequence, done)
        return
    clocks = _other_clocks(sequence)
    name = list(clocks)[seed // 2 % len(clocks)]
    for at, complaint in _same_results(done, replay(sequence, world.interval, clocks[name])):
        yield f"seed {seed}, step {at}: {name}: {complaint}"


def _other_clocks(sequence: Sequence[Step]) -> dict[str, Clock]:
    middle = sequence[len(sequence) // 2].clock
    return {
        "another time of day": lambda clock: DAY + 40_000_000.0 + clock,
        "the wall clock steps by an hour": lambda clock: DAY + clock + (3600.0 if clock > middle else 0.0),
        "the wall clock steps back by a year": lambda clock: DAY + clock - (31_536_000.0 if clock > middle else 0.0),
    }


def _through_two_targets(seed: int, world: World, sequence: Sequence[Step], done: Replay) -> Iterator[str]:
    """The same samples through two targets count alike; a target that takes over may cost what the first is late."""
    first, second = world.exporters[0].target, "http://second:9400/metrics"
    half = len(sequence) // 2
    both = [
        replace(step, shown=dict.fromkeys((first, second), step.shown[first]) if step.shown else {})
        for step in sequence
    ]
    turns = [
        replace(step, shown={first if at < half else second: step.shown[first]} if step.shown else {})
        for at, step in enumerate(sequence)
    ]
    ways = ("both", both, 0.0), ("one after another", turns, MAX_LOST_INTERVALS * world.interval)
    for name, steps, lost in ways[seed // 2 % 2 :][:1]:
        counted = _totals(replay(steps, world.interval, lambda clock: DAY + clock))
        for uuid, counters in _totals(done).items():
            pairs = list(zip(COUNTER_POSITION, counters, counted.get(uuid, ()), strict=False))
            for counter, wanted, got in pairs[:1] if lost else pairs:
                if abs((wanted or 0.0) - (got or 0.0)) > lost + TOLERANCE * max(1.0, wanted or 0.0):
                    yield f"seed {seed}: targets, {name}: {counter} of {uuid} is {got}, not {wanted}"


def _totals(done: Replay) -> dict[str, CounterVector]:
    """Return the last counters of every GPU."""
    return {
        device.entity.uuid: result.counters.values
        for ticks in done.ticks
        for tick in ticks.values()
        for device, result in zip(tick.devices, results_of(tick), strict=True)
    }


def _counters_never_fall(sequence: Sequence[Step], done: Replay) -> Iterator[tuple[int, str]]:
    highest: dict[str, CounterVector] = {}
    names = list(COUNTER_POSITION)
    for at, ticks in enumerate(done.ticks):
        for tick in ticks.values():
            for device, result in zip(tick.devices, results_of(tick), strict=True):
                key = device.entity.uuid
                before, now = highest.get(key), result.counters.values
                for name, old, new in zip(names, before or (), now, strict=False):
                    if old is not None and (new is None or new < old):
                        yield at, f"{name} of {device.entity.uuid} falls from {old} to {new}"
                highest[key] = now


def _seconds_by_state_add_up(sequence: Sequence[Step], done: Replay) -> Iterator[tuple[int, str]]:
    """The seconds in all states are the time since the first sample, and none of them falls."""
    started: dict[str, float] = {}
    highest: dict[str, dict[str, float]] = {}
    for at, ticks in enumerate(done.ticks):
        for tick in ticks.values():
            for device, result in zip(tick.devices, results_of(tick), strict=True):
                key, now = device.entity.uuid, dict[str, float](result.health_seconds)
                if not now or device.entity.kind != "gpu":
                    continue
                for state, seconds in highest.get(key, {}).items():
                    if now[state] < seconds:
                        yield at, f"seconds in {state} of {key} fall from {seconds} to {now[state]}"
                elapsed = tick.now - started.setdefault(key, tick.now)
                if abs(sum(now.values()) - elapsed) > 1.0 + TOLERANCE * elapsed:
                    yield at, f"{elapsed:g} seconds of {key} have passed, but the states add up to {sum(now.values())}"
                highest[key] = now


def _states_have_evidence(sequence: Sequence[Step], done: Replay) -> Iterator[tuple[int, str]]:
    for at, ticks in enumerate(done.ticks):
        for tick in ticks.values():
            for result in results_of(tick):
                for check in result.health.checks:
                    if check.state in RAISED_STATES and not (check.message and check.remedy and check.evidence):
                        yield at, f"{check.id} is {check.state} without message, remedy or evidence: {check}"


def _states_have_causes(sequence: Sequence[Step], done: Replay) -> Iterator[tuple[int, str]]:
    for at, (step, ticks) in enumerate(zip(sequence, done.ticks, strict=True)):
        for tick in ticks.values():
            for device, result in zip(tick.devices, results_of(tick), strict=True):
                gpu = step.gpus.get(device.entity.uuid)
                for check in result.health.checks:
                    if gpu is not None and check.severity > 1 and check.id not in gpu.faults | {"telemetry"}:
                        yield at, f"{check.id} of {device.entity.uuid} is {check.state}: {check.message}"


def _used_is_sound(sequence: Sequence[Step], done: Replay) -> Iterator[tuple[int, str]]:
    """Whatever else is hidden, a GPU that works is never unused, and an idle one never used.

    Without a value of the media engines they count as idle: most sources never have any.
    """
    for at, (step, ticks) in enumerate(zip(sequence, done.ticks, strict=True)):
        for target, tick in ticks.items():
            if step.shown[target].is_repeated:
                continue
            for position, (device, result) in enumerate(zip(tick.devices, results_of(tick), strict=True)):
                if position not in missing_in(tick) and (gpu := step.gpus.get(device.entity.uuid)) is not None:
                    used, works = result.workload.used, gpu.work != "idle"
                    if gpu.work == "transcode" and tick.gpus[position].reading.encoder_utilization_ratio is None:
                        continue
                    if used is not None and used != works:
                        yield at, f"used is {used} of {device.entity.uuid}, whose work is {gpu.work}"


def _xids_are_counted(sequence: Sequence[Step], done: Replay) -> Iterator[tuple[int, str]]:
    """No XID is counted that did not happen; where pages have exact totals since their start, none is lost."""
    for at, (step, ticks) in enumerate(zip(sequence, done.ticks, strict=True)):
        for target, tick in ticks.items():
            for device, result in zip(tick.devices, results_of(tick), strict=True):
                if (gpu := step.gpus.get(device.entity.uuid)) is None:
                    continue
                for code, counted in result.health.xid_events:
                    if isinstance(code, int) and counted > gpu.xids.count(code):
                        yield at, f"{target}: {counted} XID {code}, and {gpu.xids.count(code)} happened"


def _ok_needs_vitals(sequence: Sequence[Step], done: Replay) -> Iterator[tuple[int, str]]:
    """Repeated values are certainly old only with power and an energy counter that has moved before. A GPU that another
    target updates is ok by the values of that one; those of a target that takes it over may be old from then on."""
    fresh_at: dict[tuple[str, str], float] = {}
    updated_by: dict[str, str] = {}
    measured: Counter[tuple[str, str]] = Counter()
    for at, (step, ticks) in enumerate(zip(sequence, done.ticks, strict=True)):
        for target, tick in ticks.items():
            for device, result, reading in zip(tick.devices, results_of(tick), readings_of(tick), strict=True):
                key = (target, device.entity.uuid)
                has_values = any(getattr(reading, name) is not None for name in VITAL)
                if has_values and updated_by.get(device.entity.uuid) != target:
                    updated_by[device.entity.uuid], fresh_at[key] = target, step.clock
                has_proof = bool(reading.energy_joules_total) and reading.power_watts is not None
                if device.entity.uuid in step.shown[target].fresh:
                    fresh_at[key] = step.clock
                    measured[key] += has_proof
                if step.shown[target].is_repeated and not has_proof:
                    if has_values:
                        fresh_at[key] = step.clock  # for all that can be known
                    continue
                if measured[key] < 2:
                    continue
                age = step.clock - fresh_at.get(key, step.clock)
                if result.health.state == "ok" and age > max(
                    FROZEN.frozen_seconds, (FROZEN.frozen_samples + 1) * tick.interval
                ):
                    yield at, f"{device.entity.uuid} is ok, its vital values are {age:g} s old"


def _latched_until_resolved(sequence: Sequence[Step], done: Replay) -> Iterator[tuple[int, str]]:
    """Until a reset; one that the energy counter shows late, because it was blank, may have come after the event."""
    raised: dict[tuple[str, str], tuple[float, int, bool]] = {}
    visible: Counter[tuple[tuple[str, str], int]] = Counter()
    for at, (step, ticks) in enumerate(zip(sequence, done.ticks, strict=True)):
        for target, tick in ticks.items():
            for device, result, reading in zip(tick.devices, results_of(tick), readings_of(tick), strict=True):
                key = (target, device.entity.uuid)
                gpu = step.gpus.get(device.entity.uuid)
                resets = gpu.resets if gpu is not None else -1
                visible[key, resets] += bool(reading.energy_joules_total) and not step.shown[target].is_repeated
                state = result.health.check("xid_critical").state
                since = raised.get(key)
                if state == "crit":
                    raised.setdefault(key, (step.clock, resets, not resets or visible[key, resets] > 2))
                elif since is not None:
                    if since[2] and resets == since[1] and step.clock - since[0] < 86_000.0:
                        yield at, f"xid_critical of {device.entity.uuid} is {state} after crit without a reset"
                    del raised[key]


def _owners_and_free_time_are_all_time(sequence: Sequence[Step], done: Replay) -> Iterator[tuple[int, str]]:
    """All observed time of a GPU is in the estimates of its owners, or that of no owner; of a GPU that is kept without
    being listed or named at the end, the last part waits for what it shows next."""
    if len({target for ticks in done.ticks for target in ticks}) != 1:
        return
    whole: dict[GpuKey, float] = {}
    last: dict[GpuKey, CounterSnapshot] = {}
    waiting = set[GpuKey]()
    for tick in (tick for ticks in done.ticks for tick in ticks.values()):
        for row in tick.gpus:
            key, now = row.device.entity.key, row.result.counters
            (waiting.discard if row.is_listed and row.owners is not None else waiting.add)(key)
            if row.is_listed and not row.is_split:
                if key in last and last[key].created == now.created:
                    whole[key] = whole.get(key, 0.0) + observed(increase(last[key], now))
                last[key] = now
    counted = dict.fromkeys(whole, 0.0)
    for account in [*done.ended, *done.running]:
        for key, on_gpu in account.gpus.items():
            counted[key] = counted.get(key, 0.0) + observed(on_gpu.estimate)
    for key in counted:
        missing, slack = whole.get(key, 0.0) - counted[key], TOLERANCE * max(1.0, counted[key])
        if missing < -slack or (missing > slack and key not in waiting):
            yield len(done.ticks), f"{key}: owners and free time have {counted[key]:g} s of {whole.get(key, 0.0):g} s"


def _owners_and_nobody_add_up(sequence: Sequence[Step], done: Replay) -> Iterator[tuple[int, str]]:
    """Of an increase, those who have the GPU at both ends get equal shares of all who have it at one of them, less what
    may be of an owner before, which is in their upper bound.

    Owners whose labels are missing may have the GPU, and owners of a target that was silent for long have ended with
    its last tick.
    """
    if len({target for ticks in done.ticks for target in ticks}) != 1:
        return
    least, most = _both_ends(done, skip_unnamed=False), _both_ends(done, skip_unnamed=True)
    counted: dict[GpuKey, CounterVector] = {}
    bounds: dict[GpuKey, CounterVector] = {}
    for account in [each for each in (*done.ended, *done.running) if each.owner.key != FREE.key]:
        for key, on_gpu in account.gpus.items():
            counted[key] = added(counted.get(key, EMPTY), on_gpu.estimate)
            bounds[key] = added(bounds.get(key, EMPTY), on_gpu.upper)
    for key in most.keys() | counted.keys():
        rows = (each.get(key, EMPTY) for each in (least, counted, most, bounds))
        for name, low, got, high, bound in zip(COUNTER_POSITION, *rows, strict=True):
            slack = TOLERANCE * max(1.0, high or 0.0)
            if (got or 0.0) > (high or 0.0) + slack or (low or 0.0) > (bound or 0.0) + slack:
                yield len(done.ticks), f"{name} of {key}: owners have {got}, at most {bound}, not {low} to {high}"


def _both_ends(done: Replay, *, skip_unnamed: bool) -> dict[GpuKey, CounterVector]:
    """Return by GPU the increases between two samples, as far as the same owners have it at both ends."""
    expected: dict[GpuKey, CounterVector] = {}
    last: dict[GpuKey, tuple[CounterSnapshot, frozenset[Owner]]] = {}
    for ticks in done.ticks:
        for tick in ticks.values():
            for row in tick.gpus:
                key = row.device.entity.key
                if not row.is_listed or (skip_unnamed and row.owners is None):
                    continue
                now, owners = row.result.counters, frozenset(row.owners or ())
                if key in last and last[key][0].created == now.created and (either := owners | last[key][1]):
                    share = len(owners & last[key][1]) / len(either)
                    if share:
                        gained = scaled(increase(last[key][0], now), share)
                        expected[key] = added(expected.get(key, EMPTY), gained)
                last[key] = (now, owners)
    return expected


def _owners_end_with_a_source(sequence: Sequence[Step], done: Replay) -> Iterator[tuple[int, str]]:
    """An owner has not ended while no source has listed a GPU of it since it was seen last."""
    listed: dict[str, float] = {}
    for ticks in done.ticks:
        for tick in ticks.values():
            for position, device in enumerate(tick.devices):
                if position not in missing_in(tick):
                    listed[device.entity.uuid] = tick.now
    for account in done.ended:
        boards = {on_gpu.device.entity.uuid for on_gpu in account.gpus.values()}
        if max([listed.get(uuid, 0.0) for uuid in boards], default=0.0) < account.now - TOLERANCE:
            yield len(done.ticks), f"{account.owner.id} has ended, and no source has listed {sorted(boards)} since"


def _same_results(done: Replay, other: Replay) -> Iterator[tuple[int, str]]:
    for at, (ticks, others) in enumerate(zip(done.ticks, other.ticks, strict=True)):
        for target, tick in ticks.items():
            for device, result, twin in zip(tick.devices, results_of(tick), results_of(others[target]), strict=True):
                if result.counters.values != twin.counters.values:
                    yield at, f"counters of {device.entity.uuid} differ"
                if result.shown_class.workload_class != twin.shown_class.workload_class:
                    yield at, f"class {result.shown_class.workload_class}, not {twin.shown_class.workload_class}"
                states, twins = ([(check.id, check.state) for check in one.health.checks] for one in (result, twin))
                if states != twins:
                    yield at, f"health {sorted(set(states) ^ set(twins))}"
    first, second = (_accounts(one) for one in (done, other))
    for key in sorted(first.keys() | second.keys()):
        if first.get(key) != second.get(key):
            yield len(done.ticks), f"account {key}: {first.get(key)}, not {second.get(key)}"


def _accounts(done: Replay) -> dict[tuple[object, ...], tuple[float, float]]:
    """Return held and observed seconds of every account, by owner, GPU, and which of the owner's accounts it is."""
    found: dict[tuple[object, ...], tuple[float, float]] = {}
    numbers: dict[tuple[str, str], int] = {}
    for account in [*done.ended, *done.running]:
        number = numbers[account.owner.key] = numbers.get(account.owner.key, 0) + 1
        for key, on_gpu in account.gpus.items():
            name = (*account.owner.key, number, key)
            found[name] = (round(on_gpu.held_seconds(account.now), 3), round(on_gpu.observed, 6))
    return found


LAWS = (
    _counters_never_fall,
    _seconds_by_state_add_up,
    _states_have_evidence,
    _states_have_causes,
    _used_is_sound,
    _xids_are_counted,
    _ok_needs_vitals,
    _latched_until_resolved,
    _owners_and_nobody_add_up,
    _owners_and_free_time_are_all_time,
    _owners_end_with_a_source,
)
