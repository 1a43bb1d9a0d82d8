"""The part of a GPU's health that survives a restart, as plain JSON: events, latched states, counters.

Times are Unix seconds, since no other clock survives.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Literal

from typing_extensions import NotRequired, TypedDict  # pydantic needs this one before Python 3.12

from pulsed.compute.health.counter_increase import CounterIncrease, Increase
from pulsed.compute.health.gpu import GpuHealth
from pulsed.compute.health.model import CheckState, State
from pulsed.compute.health.rule import Rule, RuleState
from pulsed.compute.health.xid_log import XidRecord
from pulsed.translate.tick import Device, Entity, EntityKind
from pulsed.translate.vocabulary import Value

if TYPE_CHECKING:
    from pydantic import TypeAdapter

LONG = 3600.0
"""Windows of at least so many seconds are saved; shorter ones fill again soon."""


class SavedXid(TypedDict):
    """An XID, as `XidRecord`."""

    code: int
    last: float
    dated: bool
    cleared: bool
    count: int
    source: str
    bursts: list[tuple[float, list[str]]]


class SavedIncrease(TypedDict):
    """The increase of a counter, as `CounterIncrease`."""

    last: Value
    peak: float
    parts: list[tuple[float, float]]


class SavedIdentity(TypedDict):
    """The device, to name it if it does not return."""

    kind: EntityKind
    gpu: str
    uuid: str
    node: str
    model: str
    pci_bus_id: str


SavedFall = tuple[int, float] | None


class SavedGpuState(TypedDict):
    """One GPU. Rules are named by check, position and measure; those that no longer exist are ignored."""

    saved: float
    last_seen: float
    identity: SavedIdentity
    boot_id: str
    driver_version: str
    signs: tuple[Value, Value, Value, Value]
    fallen: tuple[SavedFall, SavedFall, SavedFall, SavedFall]
    last_reset: NotRequired[float | None]
    gauge: int | None
    last_xid: int | None
    xids: list[SavedXid]
    windows: dict[str, dict[str, SavedIncrease]]
    gates: dict[str, tuple[Literal[1, 2, 3, 4], float]]
    states: dict[str, tuple[State, float | None, float | None]]


class SavedTarget(TypedDict):
    """All GPUs of a target."""

    version: Literal[1]
    target: str
    saved: float
    gpus: dict[str, SavedGpuState]


def save(gpu: GpuHealth) -> SavedGpuState:
    """Return the state of a GPU that must survive a restart."""
    offset = gpu.time - gpu.now
    xids, entity, resets = gpu.inputs.xids, gpu.device.entity, gpu.resets
    fallen = [fall and (fall[0], fall[1] + offset) for fall in resets.fallen]
    return SavedGpuState(
        saved=gpu.time,
        last_seen=gpu.reachability.last_seen,
        identity=SavedIdentity(
            kind=entity.kind,
            gpu=entity.gpu,
            uuid=entity.uuid,
            node=entity.node,
            model=gpu.inputs.model,
            pci_bus_id=gpu.device.pci_bus_id,
        ),
        boot_id=gpu.boot_id,
        driver_version=gpu.driver_version,
        signs=(resets.highest[0], resets.highest[1], resets.highest[2], resets.highest[3]),
        fallen=(fallen[0], fallen[1], fallen[2], fallen[3]),
        last_reset=gpu.last_reset,
        gauge=xids.gauge,
        last_xid=xids.last,
        xids=[
            SavedXid(
                code=code,
                last=record.last + offset,
                dated=record.dated,
                cleared=record.cleared,
                count=record.count,
                source=record.source,
                bursts=[(when + offset, list(jobs)) for when, jobs in record.bursts],
            )
            for code, record in xids.records.items()
        ],
        windows={
            name: {
                counter: SavedIncrease(
                    last=increase.last,
                    peak=increase.peak,
                    parts=[(when + offset, amount) for when, amount in increase.parts],
                )
                for counter, increase in (state.increases or {}).items()
            }
            for name, (rule, state) in _named(gpu).items()
            if isinstance(rule, Increase) and rule.window >= LONG
        },
        gates={
            name: (state.held, state.until + offset)  # type: ignore[misc]  # 1..4 by the condition
            for name, (_, state) in _named(gpu).items()
            if state.held > 0 and state.until > gpu.now
        },
        states={
            check.state.id: (check.state.state, check.state.since, check.state.last_event)
            for check in gpu.checks
            if check.state.severity > 0  # others start again
        },
    )


def restore(gpu: GpuHealth, saved: SavedGpuState, time: float) -> None:
    """Set the state of a GPU before its first sample.

    Args:
        gpu: new.
        saved: what `save` returned; times in the future count as now.
        time: of the first sample, in Unix seconds.
    """

    def clock(moment: float) -> float:
        return gpu.now - max(time - moment, 0.0)

    gpu.reachability.expect(saved["last_seen"])
    gpu.boot_id = saved["boot_id"]
    if saved["driver_version"]:
        gpu.driver_version = saved["driver_version"]
        if gpu.device.driver_version and gpu.device.driver_version != gpu.driver_version:
            gpu.device = Device(gpu.device.entity)  # the first sample brings the change
    gpu.resets.highest[:] = saved["signs"]
    gpu.resets.fallen[:] = [fall and (fall[0], clock(fall[1])) for fall in saved["fallen"]]
    gpu.last_reset = saved.get("last_reset")
    xids = gpu.inputs.xids
    xids.gauge, xids.last = saved["gauge"], saved["last_xid"]
    for xid in saved["xids"]:
        record = XidRecord(clock(xid["last"]), xid["dated"], xid["cleared"], xid["count"], xid["source"])
        record.bursts = deque(((clock(when), tuple(jobs)) for when, jobs in xid["bursts"]), record.bursts.maxlen)
        xids.records[xid["code"]] = record
    for name, (rule, state) in _named(gpu).items():
        if isinstance(rule, Increase) and rule.window >= LONG:
            state.increases = {}
            for counter, window in saved["windows"].get(name, {}).items():
                if counter in rule.inputs:
                    increase = state.increases[counter] = CounterIncrease(rule.window, rule.lifetime)
                    parts = tuple([(clock(when), amount) for when, amount in window["parts"]])
                    increase.restore(window["last"], window["peak"], parts)
        if name in saved["gates"]:
            severity, until = saved["gates"][name]
            if until > time:
                state.held, state.until = severity, gpu.now + min(until - time, rule.hold)
    for check in gpu.checks:
        if check.state.id in saved["states"]:
            check.state = CheckState(check.state.id, *saved["states"][check.state.id])


def device_of(identity: SavedIdentity) -> Device:
    """Return a whole GPU that has not been seen since the restart."""
    entity = Entity("gpu", identity["gpu"], identity["uuid"], node=identity["node"])
    return Device(entity, model=identity["model"], pci_bus_id=identity["pci_bus_id"])


def validated(document: object) -> SavedTarget:
    """Return a document as the saved state of a target.

    Raises:
        ValueError: it is something else; the message has the place and the value that is wrong.
    """
    from pydantic import ValidationError  # only a state file needs it

    try:
        return _adapter().validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"saved state: {place}: {first['msg']}; the value is {first['input']!r:.80}") from error


@cache
def _adapter() -> TypeAdapter[SavedTarget]:
    from pydantic import TypeAdapter  # only a state file needs it

    return TypeAdapter(SavedTarget)


def _named(gpu: GpuHealth) -> dict[str, tuple[Rule, RuleState]]:
    return {
        f"{check.state.id}/{position}/{rule.name}": (rule, state)
        for check in gpu.checks
        for position, (rule, state) in enumerate(zip(check.check.rules, check.rules, strict=True))
    }
