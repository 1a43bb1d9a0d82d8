"""What of a GPU's health outlives a restart, as plain JSON: events, latched states, counters to go on from.

Times are written as Unix seconds, since no other clock lasts. Knows no files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TypedDict, TypeVar

from pulsed.compute.health.gpu import GpuHealth
from pulsed.compute.health.growth import Window
from pulsed.compute.health.model import SEVERITY, STATES, CheckState
from pulsed.compute.health.probe import Probe
from pulsed.compute.health.probes_over_time import GrowthProbe
from pulsed.compute.health.resets import RESET_SIGNS
from pulsed.compute.health.rule import Rule
from pulsed.compute.health.xid_log import Record
from pulsed.translate.tick import Device, Entity

_T = TypeVar("_T")

LONG = 3600.0
"""Windows from this length on are kept; shorter ones fill again soon."""


class XidMemory(TypedDict):
    """One code."""

    code: int
    last: float
    dated: bool
    cleared: bool
    count: int
    source: str
    bursts: list[tuple[float, list[str]]]


class WindowMemory(TypedDict):
    """Growth of one counter."""

    last: float | None
    peak: float
    parts: list[tuple[float, float]]


class IdentityMemory(TypedDict):
    """Who it is, to be named even if it does not come back."""

    kind: str
    gpu: str
    uuid: str
    node: str
    model: str
    pci_bus_id: str


class GpuMemory(TypedDict):
    """One GPU. Rules are named by check, place and measure: what a newer table does not have is left out."""

    saved: float
    last_seen: float
    identity: IdentityMemory
    boot_id: str
    driver_version: str
    signs: list[float | None]
    fallen: list[tuple[int, float] | None]
    gauge: int | None
    last_xid: int | None
    xids: list[XidMemory]
    windows: dict[str, dict[str, WindowMemory]]
    gates: dict[str, tuple[int, float]]
    states: dict[str, tuple[str, float | None, float | None]]


def remember(gpu: GpuHealth) -> GpuMemory:
    """Give what is to be kept of a GPU."""
    offset = gpu.time - gpu.now
    xids = gpu.xids
    entity = gpu.device.entity
    return GpuMemory(
        saved=gpu.time,
        last_seen=gpu.presence.last_seen,
        identity=IdentityMemory(
            kind=entity.kind,
            gpu=entity.gpu,
            uuid=entity.uuid,
            node=entity.node,
            model=gpu.model,
            pci_bus_id=gpu.device.pci_bus_id,
        ),
        boot_id=gpu.boot_id,
        driver_version=gpu.driver_version,
        signs=list(gpu.resets.highest),
        fallen=[one and (one[0], one[1] + offset) for one in gpu.resets.fallen],
        gauge=xids.gauge,
        last_xid=xids.last,
        xids=[
            XidMemory(
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
                counter: WindowMemory(
                    last=window.last,
                    peak=window.peak,
                    parts=[(when + offset, amount) for when, amount in window.parts()],
                )
                for counter, window in probe.windows.items()
                if window.last is not None
            }
            for name, probe in _growing(gpu).items()
        },
        gates={
            name: (probe.gate.held, probe.gate.until + offset)
            for name, probe in _named(gpu).items()
            if probe.gate.held > 0 and probe.gate.until > gpu.now
        },
        states={
            state.id: (state.state, state.since, state.last_event)
            for state in (check.state for check in gpu.checks)
            if state.severity > 0  # the others begin anew
        },
    )


def recall(gpu: GpuHealth, memory: GpuMemory, time: float) -> None:
    """Give a GPU that has not been judged yet what was kept of it.

    Args:
        gpu: fresh.
        memory: what `remember` gave; nothing in it may be from the future.
        time: of the sample to come, in Unix seconds.
    """

    def clock(moment: float) -> float:
        return gpu.now - max(time - moment, 0.0)

    gpu.presence.expect(memory["last_seen"])
    gpu.boot_id = memory["boot_id"]
    if memory["driver_version"]:
        gpu.driver_version = memory["driver_version"]
        if gpu.device.driver_version and gpu.device.driver_version != gpu.driver_version:
            gpu.device = Device(gpu.device.entity)  # the first sample tells the news
    gpu.resets.highest[:] = memory["signs"]
    gpu.resets.fallen[:] = [one and (one[0], clock(one[1])) for one in memory["fallen"]]
    xids = gpu.xids
    xids.gauge, xids.last = memory["gauge"], memory["last_xid"]
    for one in memory["xids"]:
        record = Record(clock(one["last"]), one["dated"], one["cleared"], one["count"], one["source"])
        record.bursts = deque(((clock(when), tuple(jobs)) for when, jobs in one["bursts"]), record.bursts.maxlen)
        xids.records[one["code"]] = record
    for name, growing in _growing(gpu).items():
        for counter, kept in memory["windows"].get(name, {}).items():
            if counter in growing.rule.inputs:
                window = growing.windows[counter] = Window(growing.rule.window, growing.rule.lifetime)
                window.restore(kept["last"], kept["peak"], [(clock(when), amount) for when, amount in kept["parts"]])
    for name, probe in _named(gpu).items():
        if name in memory["gates"]:
            severity, until = memory["gates"][name]
            left = until - time
            if left > 0:
                probe.gate.restore(severity, gpu.now + min(left, probe.rule.hold))
    for check in gpu.checks:
        id_ = check.state.id
        if id_ in memory["states"]:
            word, since, last_event = memory["states"][id_]
            check.state = CheckState(id_, STATES[SEVERITY[word] + 1], since, last_event)  # type: ignore[index]


def device_of(identity: IdentityMemory) -> Device:
    """Give what is known of a whole GPU that has not been seen since."""
    entity = Entity("gpu", identity["gpu"], identity["uuid"], node=identity["node"])
    return Device(entity, model=identity["model"], pci_bus_id=identity["pci_bus_id"])


def checked(document: object) -> GpuMemory:
    """Give a document as what was kept of a GPU.

    Raises:
        ValueError: it is something else; the message says what.
    """
    if not isinstance(document, Mapping):
        raise ValueError(f"a GPU's memory is a mapping, not {type(document).__name__}")
    try:
        return GpuMemory(
            saved=float(document["saved"]),
            last_seen=float(document["last_seen"]),
            identity=IdentityMemory(
                kind=str(document["identity"]["kind"]),
                gpu=str(document["identity"]["gpu"]),
                uuid=str(document["identity"]["uuid"]),
                node=str(document["identity"]["node"]),
                model=str(document["identity"]["model"]),
                pci_bus_id=str(document["identity"]["pci_bus_id"]),
            ),
            boot_id=str(document["boot_id"]),
            driver_version=str(document["driver_version"]),
            signs=_of_signs([None if sign is None else float(sign) for sign in document["signs"]]),
            fallen=_of_signs([one and (int(one[0]), float(one[1])) for one in document["fallen"]]),
            gauge=None if document["gauge"] is None else int(document["gauge"]),
            last_xid=None if document["last_xid"] is None else int(document["last_xid"]),
            xids=[_checked_xid(one) for one in document["xids"]],
            windows={
                str(name): {str(counter): _checked_window(window) for counter, window in windows.items()}
                for name, windows in document["windows"].items()
            },
            gates={str(name): (_severity(held), float(until)) for name, (held, until) in document["gates"].items()},
            states={
                str(id_): (STATES[SEVERITY[state] + 1], _moment(since), _moment(last))
                for id_, (state, since, last) in document["states"].items()
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ValueError(f"a GPU's memory is damaged: {type(error).__name__}: {error}") from error


def _checked_xid(one: Mapping[str, object]) -> XidMemory:
    bursts = one["bursts"]
    if not isinstance(bursts, list):
        raise TypeError("bursts")
    return XidMemory(
        code=int(str(one["code"])),
        last=float(str(one["last"])),
        dated=bool(one["dated"]),
        cleared=bool(one["cleared"]),
        count=int(str(one["count"])),
        source=str(one["source"]),
        bursts=[(float(when), [str(job) for job in jobs]) for when, jobs in bursts],
    )


def _checked_window(window: Mapping[str, object]) -> WindowMemory:
    last, parts = window["last"], window["parts"]
    if not isinstance(parts, list):
        raise TypeError("parts")
    return WindowMemory(
        last=None if last is None else float(str(last)),
        peak=float(str(window["peak"])),
        parts=[(float(when), float(amount)) for when, amount in parts],
    )


def _of_signs(values: list[_T]) -> list[_T]:
    if len(values) != len(RESET_SIGNS):
        raise ValueError(f"{len(values)} reset signs instead of {len(RESET_SIGNS)}")
    return values


def _severity(value: object) -> int:
    if value not in (1, 2, 3, 4):
        raise ValueError(f"no severity: {value!r}")
    return int(str(value))


def _moment(value: object) -> float | None:
    return None if value is None else float(str(value))


def _named(gpu: GpuHealth) -> dict[str, Probe[Rule]]:
    return {
        f"{check.state.id}/{place}/{probe.rule.name}": probe
        for check in gpu.checks
        for place, probe in enumerate(check.probes)
    }


def _growing(gpu: GpuHealth) -> dict[str, GrowthProbe]:
    return {
        name: probe
        for name, probe in _named(gpu).items()
        if isinstance(probe, GrowthProbe) and probe.rule.window >= LONG
    }
