"""The part of a GPU's health that survives a restart, as plain JSON: events, latched states, counters.

Moments are of the GPU's clock, which continues after the restart. `saved`, `last_seen`, `last_reset` and `states` have
Unix seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf, nextafter
from typing import TYPE_CHECKING, ClassVar, Literal

from pulsed.compute.health.check import HISTORY_SECONDS, MAX_REMEMBERED, GpuCheck
from pulsed.compute.health.gpu import GpuHealth
from pulsed.compute.health.inputs import NvlinkStates
from pulsed.compute.health.reachability import ABSENT_SAMPLES, ResetSign, Restarts
from pulsed.compute.health.rule import Rule, RuleState
from pulsed.compute.health.rule_kinds import Increase
from pulsed.compute.health.windows import CounterIncrease
from pulsed.compute.health.xid_log import XidRecord
from pulsed.model.clocks import GpuSeconds, Unix
from pulsed.model.gpu import Device, Entity
from pulsed.model.health import CheckState, State
from pulsed.model.raw_tick import Epoch
from pulsed.model.vocabulary import NOTHING, POSITION, Value

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter

VERSION: Literal[2] = 2

RaisedUntil = tuple[Literal[1, 2, 3, 4], GpuSeconds]
"""The severity that a rule raises, and until when."""

MAX_NUMBER = 1e21
"""No counter has 70 bits."""

MAX_TOTALS = 256
"""Codes of a GPU whose totals are saved; with more of them, none are."""


@dataclass(frozen=True, slots=True)
class SavedGpuState:
    """One GPU. Rules are named by check, position and measure; those that no longer exist are ignored.

    Attributes:
        saved: when, in Unix seconds.
        now: the same moment by the GPU's clock.
        entity, model, pci_bus_id, fabric, serial, vbios_version: to name the GPU if it does not return.
        increases: by rule and counter, with its last value: growth during a restart is also an event.
        held: by rule, the severity that is raised, and until when at least.
        results: by rule that compares its inputs with earlier ones, what it remembers of each.
        states: by check that is raised: state, since, last event.
        energy: whether its energy counter falls.
        driver, engine, exporter: parts of the epoch, as is `boot_id`.
        latched: by rule, the severity that is raised, and until when it is kept while its inputs are absent.
        history: by check, when it was raised.
        xid_totals: by code, the exporter's total; None without any.
        widest_link: most PCIe lanes since the first sample.
        nvlinks: which have been up.
        confirmed_xids: scopes of the XIDs that other inputs confirmed when they were last there; empty for all.
        state: of the GPU as a whole.
        seconds: by state, how long the GPU was in it.
        gauge: the newest value of the last XID; None if it was never there.
        has_no_xid: whether the source is proven to have none, after that value.
        absent: answers in a row without a last XID, as far as they count.
        answered: quantities of the last answer, if it lacks the last XID.
        missed_since: when it was missed first, in Unix seconds; None while it is not missing.
        evidence: by check that is raised.
    """

    saved: Unix
    now: GpuSeconds
    last_seen: Unix
    entity: Entity
    model: str
    pci_bus_id: str
    boot_id: str
    driver_version: str
    last_reset: Unix | None
    gauge: int | None
    last_xid: int | None
    xids: dict[int, XidRecord]
    increases: dict[str, dict[str, CounterIncrease]]
    held: dict[str, RaisedUntil]
    states: dict[str, tuple[State, Unix | None, Unix | None]]
    energy: ResetSign = field(default_factory=ResetSign)
    other_xids: int = 0
    driver: str = ""
    engine: str = ""
    exporter: str = ""
    xid_totals: dict[int, float] | None = None
    serial: str = ""
    vbios_version: str = ""
    latched: dict[str, RaisedUntil] = field(default_factory=dict)
    history: dict[str, tuple[GpuSeconds, ...]] = field(default_factory=dict)
    fabric: str = ""
    widest_link: float = 0.0
    results: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    nvlinks: NvlinkStates = field(default_factory=NvlinkStates)
    confirmed_xids: frozenset[str] = frozenset()
    state: State = "unknown"
    seconds: dict[State, float] = field(default_factory=dict)
    has_no_xid: bool = False
    absent: int = 0
    answered: tuple[str, ...] = ()
    missed_since: Unix | None = None
    evidence: dict[str, tuple[tuple[str, float], ...]] = field(default_factory=dict)

    @property
    def device(self) -> Device:
        """The GPU as far as it is known before it was seen again."""
        return Device(
            self.entity,
            model=self.model,
            pci_bus_id=self.pci_bus_id,
            fabric=self.fabric,
            serial=self.serial,
            vbios_version=self.vbios_version,
        )


@dataclass(frozen=True, slots=True)
class SavedTarget:
    """All GPUs of a target. Numbers of all its parts are finite, defaults too."""

    __pydantic_config__: ClassVar[ConfigDict] = {"allow_inf_nan": False, "validate_default": True}

    version: Literal[2]
    target: str
    gpus: dict[str, SavedGpuState]


def save(gpu: GpuHealth) -> SavedGpuState:
    """Return the state of a GPU that must survive a restart; it shares parts with the GPU."""
    rules, xids, epoch = _named(gpu.checks), gpu.inputs.xids, gpu.restarts.epoch
    return SavedGpuState(
        saved=gpu.time,
        now=gpu.now,
        last_seen=gpu.reachability.last_seen,
        missed_since=gpu.reachability.missed_since if gpu.reachability.is_missing else None,
        entity=gpu.device.entity,
        model=gpu.inputs.model,
        pci_bus_id=gpu.device.pci_bus_id,
        serial=gpu.device.serial,
        vbios_version=gpu.device.vbios_version,
        boot_id=epoch.boot,
        driver_version=gpu.restarts.driver_version,
        energy=gpu.restarts.energy,
        last_reset=gpu.last_reset,
        gauge=xids.shown,
        has_no_xid=xids.has_none,
        absent=min(gpu.restarts.absent, ABSENT_SAMPLES),
        answered=_answered(gpu) if gpu.restarts.absent else (),
        last_xid=xids.last,
        xids=xids.records,
        increases={
            name: state.increases
            for name, (rule, state) in rules.items()
            if isinstance(rule, Increase) and state.increases
        },
        held={
            name: (state.severity, state.until)  # type: ignore[misc]  # 1..4 by the condition
            for name, (_, state) in rules.items()
            if state.severity > 0 and state.until > gpu.now
        },
        states={
            check.state.id: (check.state.state, check.state.since, check.state.last_event)
            for check in gpu.checks
            if check.state.severity > 0  # others start again
        },
        evidence={check.state.id: check.state.evidence for check in gpu.checks if check.state.severity > 0},
        results={name: state.results for name, (_, state) in rules.items() if state.results},
        other_xids=xids.others,
        driver=epoch.driver,
        engine=epoch.engine,
        exporter=epoch.exporter,
        latched={
            name: (state.severity, until)  # type: ignore[misc]  # 1..4 by the condition
            for name, (rule, state) in rules.items()
            if state.severity > 0
            and (until := rule.latched_until(state, gpu.now) if state.is_covered else state.kept_until) > gpu.now
        },
        history={check.state.id: check.history for check in gpu.checks if check.history},
        fabric=gpu.device.fabric,
        xid_totals=xids.totals if xids.totals is not None and len(xids.totals) <= MAX_TOTALS else None,
        widest_link=gpu.inputs.widest_link,
        nvlinks=gpu.inputs.nvlinks,
        confirmed_xids=gpu.inputs.confirmed_xids,
        state=gpu.seconds.state,
        seconds=gpu.seconds.saved(),
    )


def _answered(gpu: GpuHealth) -> tuple[str, ...]:
    """Return the quantities of the last answer of a GPU."""
    return () if gpu.answer is None else tuple([name for name in POSITION if getattr(gpu.answer, name) is not None])


def restore(gpu: GpuHealth, saved: SavedGpuState, time: Unix) -> None:
    """Set the state of a GPU before its first sample.

    Args:
        gpu: new.
        saved: what `save` returned.
        time: of the first sample, in Unix seconds; if that is before it was saved, no time has passed.
    """
    elapsed = max(time - saved.saved, 0.0)
    gpu.started = gpu.now = GpuSeconds(saved.now + elapsed)
    gpu.seconds.restore(saved.seconds, saved.state, elapsed)
    gpu.reachability.expect(saved.last_seen, saved.missed_since, gpu.now)
    gpu.restarts = Restarts(
        Epoch(saved.boot_id, saved.driver, saved.engine, saved.exporter),
        saved.driver_version or gpu.restarts.driver_version,
        saved.energy,
    )
    gpu.last_reset, inputs, xids = saved.last_reset, gpu.inputs, gpu.inputs.xids
    xids.restore(saved.xids, saved.other_xids, saved.last_xid)
    xids.shown, xids.has_none, xids.totals = saved.gauge, saved.has_no_xid, saved.xid_totals
    if saved.absent:
        gpu.restarts.absent, xids.is_blank = saved.absent, True
        gpu.answer = NOTHING._replace(**{name: 0.0 for name in saved.answered if name in POSITION})
    inputs.widest_link, inputs.nvlinks, inputs.confirmed_xids = saved.widest_link, saved.nvlinks, saved.confirmed_xids
    xids.begun = GpuSeconds(nextafter(saved.now, inf))
    restore_checks(gpu.checks, saved, gpu.now)


def restore_checks(checks: Sequence[GpuCheck], saved: SavedGpuState, now: GpuSeconds) -> None:
    """Set the state of new checks of a GPU, at a moment of its clock."""
    for name, (rule, state) in _named(checks).items():
        if isinstance(rule, Increase) and (saved_increase := saved.increases.get(name)):
            state.increases = {
                counter: replace(increase, seconds=rule.window, lifetime=rule.lifetime)
                for counter, increase in saved_increase.items()
                if counter in rule.inputs
            }
        results = saved.results.get(name, ())
        state.results = results if len(results) == len(rule.inputs) else ()
        held = saved.held.get(name)
        if held is not None and held[1] > now:
            state.severity, state.until = held[0], min(held[1], GpuSeconds(now + rule.hold))
        latched = saved.latched.get(name)
        if latched is not None and latched[1] > now:
            state.severity, state.kept_until = latched[0], min(latched[1], GpuSeconds(now + rule.lasts))
    for check in checks:
        before = [at for at in saved.history.get(check.state.id, ()) if 0.0 <= saved.now - at < HISTORY_SECONDS]
        check.history = tuple(before[-MAX_REMEMBERED:])
        if check.state.id in saved.states:
            id_ = check.state.id
            check.state = CheckState(id_, *saved.states[id_], evidence=saved.evidence.get(id_, ()))


def dumped(target: str, gpus: Mapping[str, SavedGpuState]) -> dict[str, object]:
    """Return the state of a target as JSON."""
    document: dict[str, object] = _adapter().dump_python(SavedTarget(VERSION, target, dict(gpus)), mode="json")
    return document


def validated(document: object) -> SavedTarget:
    """Return a document as the saved state of a target.

    Raises:
        ValueError: it is something else; the message has the place and the value that is wrong.
    """
    from pydantic import ValidationError  # only a state file needs it

    try:
        saved = _adapter().validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"saved state: {place}: {first['msg']}; the value is {first['input']!r:.80}") from error
    _check_numbers(dumped(saved.target, saved.gpus))
    return saved


def _check_numbers(document: object) -> None:
    """Raise ValueError for a number with which results would not stay finite, as in a damaged file."""
    values = [document]
    for value in values:
        if isinstance(value, (dict, list)):
            values += value.values() if isinstance(value, dict) else value
        elif isinstance(value, (int, float)) and not abs(value) <= MAX_NUMBER:
            raise ValueError(f"saved state: a number is larger than {MAX_NUMBER:g} or not finite: {value!r:.80}")


@cache
def _adapter() -> TypeAdapter[SavedTarget]:
    from pydantic import TypeAdapter  # only a state file needs it

    return TypeAdapter(SavedTarget)


def _named(checks: Iterable[GpuCheck]) -> dict[str, tuple[Rule, RuleState]]:
    return {
        f"{check.check.id}/{position}/{rule.name}": (rule, state)
        for check in checks
        for position, (rule, state) in enumerate(check.rules)
    }
