"""The JSON documents of the state of GPUs and sources.

Unlike the page for Prometheus they list stale GPUs too, with `stale`. A missing reading is null; all keys are always
present.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isfinite
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, create_model

from pulsed.compute.health.checks import BY_ID
from pulsed.compute.health.summary import limited_to
from pulsed.host.node_checks import NODE_CHECK_IDS
from pulsed.json_text import rfc3339
from pulsed.model.clocks import Monotonic
from pulsed.model.gpu import Device
from pulsed.model.health import CheckState, Health, NodeHealth, applicable_checks, known_checks
from pulsed.model.owner import Owner, Owners
from pulsed.model.target_store import Target, TargetStore
from pulsed.owners.report.incidents import current_incidents
from pulsed.present.api.account_documents import Counters, OwnerShape
from pulsed.present.api.event_documents import finite
from pulsed.present.api.gpu_matches import (
    SECTIONS,
    Derived,
    Match,
    age,
    current_result,
    health_of,
    is_stale,
    matches,
    pods_of,
    silence_of,
)
from pulsed.present.api.schema import Document, DocumentModel, Numbers, Text, Time, TimeOrNull, at


class SourceShape(DocumentModel):
    """One source of data."""

    kind: str
    target: str
    up: bool
    ended: bool = Field(description="whether it has no more samples: a recording is over; this is not a fault")
    error: str | None
    interval_seconds: float
    last_sample_time: str | None
    demo: bool
    kernel_log_error: str | None = Field(
        description="why XIDs are not read from the kernel log; null: they are, or off"
    )


class SourcesShape(DocumentModel):
    """The state of all sources of a node."""

    node: str
    time: str
    source: SourceShape
    sources: list[SourceShape]


def sources_of(store: TargetStore, now: Monotonic, wall_time: float) -> SourcesShape:
    """Return the state of all sources at `now` monotonic seconds, which is `wall_time`."""
    states = [_state_of(target, now) for target in store.targets]
    return SourcesShape(node=store.node, time=rfc3339(wall_time), source=_all_sources(states), sources=states)


def _state_of(target: Target, now: Monotonic) -> SourceShape:
    return SourceShape(
        kind=target.kind,
        target=target.name,
        up=target.up and target.fresh(now),  # as on the page: one that hangs has not failed yet
        ended=target.ended,
        error=target.error or None,
        interval_seconds=target.interval,
        last_sample_time=rfc3339(target.tick.time) if target.tick else None,
        demo=target.kind == "demo",
        kernel_log_error=target.kernel_log_error or None,
    )


def _all_sources(states: Sequence[SourceShape]) -> SourceShape:
    """Return the summary of all sources: up only if all of them are, with the first error."""
    if len(states) == 1:
        return states[0]
    down = [state for state in states if not state.up and not state.ended]
    error = next((state.error for state in down if state.error), None)
    if len(down) > 1:
        error = f"{len(down)} of {len(states)} sources are down" + (f"; the first: {error}" if error else "")
    return SourceShape(
        kind=",".join(dict.fromkeys(state.kind for state in states)),
        target=f"{len(states)} targets",
        up=any(state.up for state in states) and not down,
        ended=bool(states) and all(state.ended for state in states),
        error=error,
        interval_seconds=max((state.interval_seconds for state in states), default=0.0),
        last_sample_time=max((state.last_sample_time for state in states if state.last_sample_time), default=None),
        demo=any(state.demo for state in states),
        kernel_log_error=next((state.kernel_log_error for state in states if state.kernel_log_error), None),
    )


class MigInstance(DocumentModel):
    """Identity of a MIG instance, in addition to its GPU's."""

    id: str = at("entity.mig_id")
    profile: Text = at("entity.mig_profile")
    uuid: Text = at("mig_uuid")


def _mig_of(device: object) -> Device | None:
    return device if isinstance(device, Device) and device.entity.mig_id else None


Mig = Annotated[MigInstance | None, BeforeValidator(_mig_of)]
"""The MIG instance that a device is, if it is one."""


def _finite(pairs: Iterable[tuple[str, float]]) -> dict[str, float | None]:
    return {name: value if isfinite(value) else None for name, value in pairs}


Evidence = Annotated[Numbers, BeforeValidator(_finite)]
"""Finite numbers by name; others are null."""


class HealthCheck(DocumentModel):
    """One check of a GPU's health."""

    id: str
    state: str = Field(description="unknown (inputs are absent), ok, info, warn, hot or crit")
    since: TimeOrNull
    last_event: TimeOrNull = Field(description="time of the last event that raised it")
    covered: bool = Field(description="whether its inputs are present; a latched state outlives them")
    message: str
    evidence: Evidence = Field(description="the values that decided")
    remedy: str


class LastXid(DocumentModel):
    """The last XID of a GPU."""

    code: int
    description: str
    time: TimeOrNull = Field(description="null if it is older than pulsed's first sample")


class RaisedTogether(DocumentModel):
    """Raised checks that began within a minute: the one that is the cause, and those that followed from it."""

    cause: str
    consequences: list[str]


class _HealthDetails(DocumentModel):
    checks: list[HealthCheck]
    incidents: list[RaisedTogether] = Field(description="the raised checks by incident, the worst first")
    last_xid: LastXid | None
    seconds: Evidence = Field(description="time in each state since the first sample; time without samples is unknown")


_HEALTH = create_model("HealthShape", __base__=(_HealthDetails, SECTIONS["health"].model))

LINK_STATES: Mapping[float, str] = {0.0: "down", 1.0: "up", 2.0: "sleep"}
"""By the state as DCGM numbers it."""


class NvlinkShape(DocumentModel):
    """An NVLink of a GPU."""

    link: int
    state: Annotated[
        str | None, BeforeValidator(lambda state: None if state is None else LINK_STATES.get(state, "unknown"))
    ] = Field(description="up, down or sleep; null if it is not read")
    is_down: bool = Field(description="whether it is not up and should be")
    counters: Evidence = Field(description="errors and recoveries by kind, since the driver was loaded")


class PodShape(DocumentModel):
    """A container of a pod."""

    namespace: str
    pod: str = at("name")
    container: str
    uid: str


class AttributionShape(DocumentModel):
    """The owners of a GPU."""

    known: bool = Field(description="whether its owners are known; without any it is then free")
    owners: list[OwnerShape] = Field(description="several share it")
    pods: list[PodShape]
    slurm_job: Text
    processes: list[int] = Field(description="leaders of process groups, with attribution.process_owners")


def _attribution(owners: Owners | None) -> dict[str, object]:
    """Return the values of `AttributionShape`."""
    return {
        "known": owners is not None,
        "owners": owners or (),
        "pods": pods_of(owners),
        "slurm_job": ",".join(owner.id for owner in _of_kind(owners, "slurm_job")),
        "processes": [int(owner.id) for owner in _of_kind(owners, "process") if owner.id.isdecimal()],
    }


def _of_kind(owners: Owners | None, kind: str) -> Sequence[Owner]:
    return [owner for owner in owners or () if owner.kind == kind]


class AccountingShape(DocumentModel):
    """Time and energy of a GPU by class."""

    since: TimeOrNull = at("created", "time of the first sample; null before it")
    counters: Counters = at("values", "counters of docs/metrics.md without prefix; states that are 0 are absent")


class _GpuIdentity(DocumentModel):
    gpu: str
    uuid: Text
    node: str
    model: Text
    serial: Text = Field(description="of the board, for its vendor")
    vbios_version: Text
    mig: Mig
    time: Time
    age_seconds: float
    stale: bool


class _GpuDetails(DocumentModel):
    metrics: Numbers = Field(description="every quantity; null without a reading")
    nvlinks: list[NvlinkShape] = Field(description="NVLinks that the source has one by one")
    accounting: AccountingShape = Field(description="time and energy by class, since pulsed was started")
    attribution: AttributionShape = Field(description="owners of the GPU")


_sections: Any = {name: (_HEALTH if name == "health" else section.model, ...) for name, section in SECTIONS.items()}

GPU = create_model("Gpu", __base__=(_GpuDetails, create_model("_GpuSections", __base__=_GpuIdentity, **_sections)))
"""The current state of one GPU or MIG instance."""

GPUS = create_model("Gpus", __base__=SourcesShape, gpus=(list[GPU], ...))  # type: ignore[valid-type] # made of a table


def gpu_document(match: Match, now: Monotonic, preset: str) -> Document:
    """Return the document of one GPU; its age refers to `now` (monotonic seconds)."""
    device, result = match.device, current_result(match, now)
    derived, health = Derived(match.reading, result, preset), result.health
    sections = {name: section.values(derived) for name, section in SECTIONS.items()}
    sections["health"] |= {
        "checks": [check for check in health.checks if check.applies],
        "incidents": [
            {"cause": each.cause.id, "consequences": [check.id for check in each.consequences]}
            for each in current_incidents(health.checks)
        ],
        "last_xid": health.xid_last,
        "seconds": result.health_seconds,
    }
    return GPU.render(
        {
            "gpu": device.entity.gpu,
            "uuid": device.entity.uuid,
            "node": match.node,
            "model": device.model,
            "serial": device.serial,
            "vbios_version": device.vbios_version,
            "mig": device,
            "time": match.time,
            "age_seconds": round(age(match, now), 3),
            "stale": is_stale(match, now),
            **sections,
            "metrics": {name: finite(value) for name, value in match.reading._asdict().items()},
            "nvlinks": match.result.health.nvlinks,
            "accounting": match.result.counters,
            "attribution": _attribution(match.owners),
        }
    )


def gpus_document(store: TargetStore, now: Monotonic, wall_time: float, preset: str) -> Document:
    """Return the document of all GPUs and sources; ages refer to `now` (monotonic seconds)."""
    return all_gpus(sources_of(store, now, wall_time), list(matches(store, now)), now, preset)


def all_gpus(sources: SourcesShape, gpus: Sequence[Match], now: Monotonic, preset: str) -> Document:
    """Return the document of GPUs and sources; may be called in a thread."""
    return {**sources.model_dump(), "gpus": [gpu_document(match, now, preset) for match in gpus]}


class GpuHealthShape(DocumentModel):
    """Health of one GPU, of a target that does not deliver, or of this host, for scripts."""

    node: str
    gpu: str | None = Field(description="index; null for a target that does not deliver, and for the node itself")
    uuid: Text
    mig: Mig
    model: Text
    target: str = Field(description="the source that it was read from; empty for the node itself")
    stale: bool
    state: str
    severity: int
    coverage: float
    known_checks: int = Field(description="checks that apply and are known")
    applicable_checks: int = Field(description="checks that apply")
    last_reset: TimeOrNull = Field(description="last reset of the GPU, its driver or its node; null if none was seen")
    problems: list[HealthCheck] = Field(description="checks that are worse than ok")


def health_document(store: TargetStore, now: Monotonic, checks: Collection[str] = ()) -> list[Document]:
    """Return the health of all GPUs as a flat list for scripts; `problems` has the checks that are worse than ok.

    A target that has not delivered any GPU, or is not fresh, has one element more, whose `gpu` is null and whose
    problem is why: its GPUs are unknown. So has this host if a check of the node is raised.

    Args:
        checks: the ids of those that count, all if empty; a GPU on which none is raised and one is unknown is unknown.
            With checks of the node it has an element in any case, and without others there are no elements of GPUs.
    """
    node = [] if store.node_health is None else _node_health(store.node, store.node_health, checks)
    if checks and set(checks) <= set(NODE_CHECK_IDS):
        return node
    shown = list(matches(store, now))
    seen = {id(match.target) for match in shown}
    rows = [_gpu_health(match, now, checks) for match in shown]
    for target in store.targets:
        if target.tick is None or not target.tick.gpus:
            rows.append(_source_health(target, store.node, f"No GPU has been read: {target.failure}"))
        elif id(target) in seen and not target.fresh(now):
            rows.append(_source_health(target, store.node, silence_of(target)))
    return [*rows, *node]


def _health_row(
    node: str, device: Device | None, target: str, stale: bool, health: Health, problems: Sequence[CheckState]
) -> Document:
    return GpuHealthShape.render(
        {
            "node": node,
            "gpu": device and device.entity.gpu,
            "uuid": device and device.entity.uuid,
            "mig": device,
            "model": device and device.model,
            "target": target,
            "stale": stale,
            "state": health.state,
            "severity": health.severity,
            "coverage": health.coverage,
            "known_checks": known_checks(health.checks),
            "applicable_checks": applicable_checks(health.checks),
            "last_reset": health.last_reset,
            "problems": problems,
        }
    )


def _node_health(node: str, health: NodeHealth, checks: Collection[str]) -> list[Document]:
    """Return the row of this host, if a check of it is raised or asked for."""
    states = tuple([check for check in health.checks if not checks or check.id in checks])
    evaluated = [check for check in states if check.state != "unknown"]
    problems = [check for check in states if check.severity > 0]
    if not problems and not set(checks) & set(NODE_CHECK_IDS):
        return []
    of_host = Health(NodeHealth(states).state, len(evaluated) / len(states) if states else 0.0, states)
    return [_health_row(node, None, "", False, of_host, problems)]


def _gpu_health(match: Match, now: Monotonic, checks: Collection[str]) -> Document:
    health = health_of(match, now)
    health = limited_to(health, checks) if checks else health
    problems = [check for check in health.checks if check.severity > 0]
    return _health_row(match.node, match.device, match.target.name, is_stale(match, now), health, problems)


def _source_health(target: Target, node: str, message: str) -> Document:
    """Return the row of a target that does not deliver, with the reason as its problem."""
    check = CheckState("telemetry", "unknown", message=message, remedy=BY_ID["telemetry"].remedy)
    return _health_row(node, None, target.name, True, Health("unknown", 0.0, ()), [check])
