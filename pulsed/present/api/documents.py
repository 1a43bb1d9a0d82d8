"""The JSON documents of the state of GPUs and sources.

Unlike the page for Prometheus they list stale GPUs too, with `stale`. A missing reading is null; all keys are always
present.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import isfinite
from typing import Annotated, NamedTuple

from pydantic import Field

from pulsed.compute.health.checks import BY_ID
from pulsed.compute.health.summary import limited_to
from pulsed.host.node_checks import NODE_CHECK_IDS
from pulsed.json_text import rfc3339
from pulsed.model.gpu import Device
from pulsed.model.health import CheckState, Health, NodeHealth
from pulsed.model.owner import Owner
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.vocabulary import Reading
from pulsed.present.api.account_documents import COUNTERS, OWNER
from pulsed.present.api.gpu_matches import (
    SECTIONS,
    Derived,
    Match,
    age,
    current_result,
    health_of,
    is_stale,
    matches,
    silence_of,
)
from pulsed.present.api.schema import (
    TEXT,
    TIME,
    TIME_OR_NULL,
    Document,
    Member,
    Shape,
    ValueKind,
    listed,
    optional,
    shape_of,
)


class SourceSummary(NamedTuple):
    """One source of data."""

    kind: str
    target: str
    up: bool
    error: str | None
    interval_seconds: float
    last_sample_time: str | None
    demo: bool
    kernel_log_error: Annotated[
        str | None, Field(description="why XIDs are not read from the kernel log; null: they are, or off")
    ]


class Sources(NamedTuple):
    """All sources of a node, at a Unix time."""

    node: str
    time: float
    sources: Sequence[SourceSummary]


def sources_of(store: TargetStore, now: float, wall_time: float) -> Sources:
    """Return the state of all sources at `now` monotonic seconds, which is `wall_time`."""
    return Sources(store.node, wall_time, [_state_of(target, now) for target in store.targets])


def _state_of(target: Target, now: float) -> SourceSummary:
    return SourceSummary(
        kind=target.kind,
        target=target.name,
        up=target.up and target.fresh(now),  # as on the page: one that hangs has not failed yet
        error=target.error or None,
        interval_seconds=target.interval,
        last_sample_time=rfc3339(target.tick.time) if target.tick else None,
        demo=target.kind == "demo",
        kernel_log_error=target.kernel_log_error or None,
    )


def _all_sources(states: Sequence[SourceSummary]) -> SourceSummary:
    """Return the summary of all sources: up only if all of them are, with the first error."""
    if len(states) == 1:
        return states[0]
    down = [state for state in states if not state.up]
    error = next((state.error for state in down if state.error), None)
    if len(down) > 1:
        error = f"{len(down)} of {len(states)} sources are down" + (f"; the first: {error}" if error else "")
    return SourceSummary(
        kind=",".join(dict.fromkeys(state.kind for state in states)),
        target=f"{len(states)} targets",
        up=bool(states) and not down,
        error=error,
        interval_seconds=max((state.interval_seconds for state in states), default=0.0),
        last_sample_time=max((state.last_sample_time for state in states if state.last_sample_time), default=None),
        demo=any(state.demo for state in states),
        kernel_log_error=next((state.kernel_log_error for state in states if state.kernel_log_error), None),
    )


_SOURCE = shape_of("SourceShape", SourceSummary)

SOURCES = Shape(
    "SourcesShape",
    Member("node", str),
    Member("time", TIME),
    Member("source", _SOURCE, of=lambda sources: _all_sources(sources.sources)),
    Member("sources", listed(_SOURCE)),
)
"""The state of all sources."""

_MIG = Shape(
    "MigInstance",
    Member("id", str, of="entity.mig_id"),
    Member("profile", TEXT, of="entity.mig_profile"),
    Member("uuid", TEXT, of="mig_uuid"),
)
MIG = ValueKind(lambda: _MIG.model | None, lambda device: _MIG.of(device) if device and device.entity.mig_id else None)
"""What a device is besides a GPU."""

_EVIDENCE = ValueKind(
    lambda: dict[str, float | None],
    lambda pairs: {name: value if isfinite(value) else None for name, value in pairs},
)

CHECK = Shape(
    "HealthCheck",
    Member("id", str),
    Member("state", str, "unknown (inputs are absent), ok, info, warn, hot or crit"),
    Member("since", TIME_OR_NULL),
    Member("last_event", TIME_OR_NULL, "time of the last event that raised it"),
    Member("covered", bool, "whether its inputs are present; a latched state outlives them"),
    Member("message", str),
    Member("evidence", _EVIDENCE, "the values that decided"),
    Member("remedy", str),
)
"""One check of a GPU's health."""

_XID = Shape(
    "LastXid",
    Member("code", int),
    Member("description", str),
    Member("time", TIME_OR_NULL, "null if it is older than pulsed's first sample"),
)

_HEALTH = Shape(
    "HealthShape",
    *SECTIONS["health"].members,
    Member("checks", listed(CHECK), of=lambda derived: [each for each in derived.result.health.checks if each.applies]),
    Member("last_xid", optional(_XID), of="result.health.xid_last"),
    first=("checks", "last_xid"),
)

LINK_STATES: Mapping[float, str] = {0.0: "down", 1.0: "up", 2.0: "sleep"}
"""By the state as DCGM numbers it."""

_NVLINK = Shape(
    "NvlinkShape",
    Member("link", int),
    Member(
        "state",
        str | None,
        "up, down or sleep; null if it is not read",
        lambda link: None if link.state is None else LINK_STATES.get(link.state, "unknown"),
    ),
    Member("is_down", bool, "whether it is not up and should be"),
    Member("counters", _EVIDENCE, "errors and recoveries by kind, since the driver was loaded"),
)

_POD = Shape(
    "PodShape", Member("namespace", str), Member("pod", str, of="name"), Member("container", str), Member("uid", str)
)

_ATTRIBUTION = Shape(
    "AttributionShape",
    Member(
        "known", bool, "whether its owners are known; without any it is then free", lambda gpu: gpu.owners is not None
    ),
    Member("owners", listed(OWNER), "several share it", lambda gpu: gpu.owners or ()),
    Member("pods", listed(_POD), of=lambda gpu: _owners_of(gpu, "pod")),
    Member("slurm_job", TEXT, of=lambda gpu: ",".join(owner.id for owner in _owners_of(gpu, "slurm_job"))),
    Member(
        "processes",
        list[int],
        "leaders of process groups, with attribution.process_owners",
        lambda gpu: [int(owner.id) for owner in _owners_of(gpu, "process") if owner.id.isdecimal()],
    ),
)


def _owners_of(device: Device, kind: str) -> Sequence[Owner]:
    return [owner for owner in device.owners or () if owner.kind == kind]


_ACCOUNTING = Shape(
    "AccountingShape",
    Member("since", TIME_OR_NULL, "time of the first sample; null before it", "created"),
    Member("counters", COUNTERS, "counters of docs/metrics.md without prefix; states that are 0 are absent", "values"),
)


def _metrics(reading: Reading) -> dict[str, float | None]:
    metrics: dict[str, float | None] = reading._asdict()
    try:
        finite = isfinite(sum(value for value in reading if value is not None))
    except OverflowError:
        finite = False
    if finite:
        return metrics
    # JSON cannot represent them, and no gauge reads infinity.
    return {name: value if value is not None and isfinite(value) else None for name, value in metrics.items()}


class Shown(NamedTuple):
    """A GPU at monotonic seconds, and what has its derived values at that time."""

    match: Match
    now: float
    derived: Derived


GPU = Shape(
    "Gpu",
    Member("gpu", str, of="match.device.entity.gpu"),
    Member("uuid", TEXT, of="match.device.entity.uuid"),
    Member("node", str, of="match.node"),
    Member("model", TEXT, of="match.device.model"),
    Member("mig", MIG, of="match.device"),
    Member("time", TIME, of="match.time"),
    Member("age_seconds", float, of=lambda shown: round(age(shown.match, shown.now), 3)),
    Member("stale", bool, of=lambda shown: is_stale(shown.match, shown.now)),
    *(Member(name, _HEALTH if name == "health" else shape, of="derived") for name, shape in SECTIONS.items()),
    Member(
        "metrics",
        ValueKind(lambda: dict[str, float | None], _metrics),
        "every quantity; null without a reading",
        "match.reading",
    ),
    Member("nvlinks", listed(_NVLINK), "NVLinks that the source has one by one", "match.result.health.nvlinks"),
    Member("accounting", _ACCOUNTING, "time and energy by class, since pulsed was started", "match.result.counters"),
    Member("attribution", _ATTRIBUTION, "owners of the GPU", "match.device"),
)
"""The current state of one GPU or MIG instance."""

GPUS = Shape("Gpus", *SOURCES.via("sources"), Member("gpus", listed(GPU)))
"""The current state of all GPUs."""


def shown(match: Match, now: float, preset: str) -> Shown:
    """Return a GPU at monotonic seconds; `preset` is the name of the weights of real utilization."""
    return Shown(match, now, Derived(match.reading, current_result(match, now), preset))


def gpu_document(match: Match, now: float, preset: str) -> Document:
    """Return the document of one GPU; its age refers to `now` (monotonic seconds)."""
    return GPU.of(shown(match, now, preset))


def gpus_document(store: TargetStore, now: float, wall_time: float, preset: str) -> Document:
    """Return the document of all GPUs and sources; ages refer to `now` (monotonic seconds)."""
    return all_gpus(sources_of(store, now, wall_time), list(matches(store, now)), now, preset)


def all_gpus(sources: Sources, gpus: Sequence[Match], now: float, preset: str) -> Document:
    """Return the document of GPUs and sources; may be called in a thread."""
    return GPUS.of(_Gpus(sources, [shown(match, now, preset) for match in gpus]))


class _Gpus(NamedTuple):
    """All sources and GPUs."""

    sources: Sources
    gpus: Sequence[Shown]


class _GpuHealth(NamedTuple):
    """Health of one GPU, of a target that does not deliver, or of this host."""

    node: str
    device: Device | None
    target: str
    stale: bool
    health: Health
    problems: Sequence[CheckState]


GPU_HEALTH = Shape(
    "GpuHealthShape",
    Member("node", str),
    Member(
        "gpu",
        str | None,
        "index; null for a target that does not deliver, and for the node itself",
        lambda row: row.device and row.device.entity.gpu,
    ),
    Member("uuid", TEXT, of=lambda row: row.device and row.device.entity.uuid),
    Member("mig", MIG, of="device"),
    Member("model", TEXT, of=lambda row: row.device and row.device.model),
    Member("target", str, "the source that it was read from; empty for the node itself"),
    Member("stale", bool),
    Member("state", str, of="health.state"),
    Member("severity", int, of="health.severity"),
    Member("coverage", float, of="health.coverage"),
    Member(
        "last_reset",
        TIME_OR_NULL,
        "last reset of the GPU, its driver or its node; null if none was seen",
        "health.last_reset",
    ),
    Member("problems", listed(CHECK), "checks that are worse than ok"),
)
"""Health of one GPU, of a target that does not deliver, or of this host, for scripts."""


def health_document(store: TargetStore, now: float, checks: Collection[str] = ()) -> list[Document]:
    """Return the health of all GPUs as a flat list for scripts; `problems` has the checks that are worse than ok.

    A target that has not delivered any GPU, or is not fresh, has one element more, whose `gpu` is null and whose
    problem is why: its GPUs are unknown. So has this host if a check of the node is raised.

    Args:
        checks: the ids of those that count, all if empty; a GPU on which none is raised and one is unknown is unknown.
            With checks of the node it has an element in any case, and without others there are no elements of GPUs.
    """
    node = [] if store.node_health is None else _node_health(store.node, store.node_health, checks)
    if checks and set(checks) <= set(NODE_CHECK_IDS):
        return [GPU_HEALTH.of(row) for row in node]
    shown = list(matches(store, now))
    seen = {id(match.target) for match in shown}
    rows = [_gpu_health(match, now, checks) for match in shown]
    for target in store.targets:
        if target.tick is None or not target.tick.devices:
            rows.append(_source_health(target, store.node, f"No GPU has been read: {target.error or 'no data yet'}"))
        elif id(target) in seen and not target.fresh(now):
            rows.append(_source_health(target, store.node, silence_of(target)))
    return [GPU_HEALTH.of(row) for row in (*rows, *node)]


def _node_health(node: str, health: NodeHealth, checks: Collection[str]) -> list[_GpuHealth]:
    """Return the row of this host, if a check of it is raised or asked for."""
    states = tuple([check for check in health.checks if not checks or check.id in checks])
    known = [check for check in states if check.state != "unknown"]
    problems = [check for check in states if check.severity > 0]
    if not problems and not set(checks) & set(NODE_CHECK_IDS):
        return []
    of_host = Health(NodeHealth(states).state, len(known) / len(states) if states else 0.0, states)
    return [_GpuHealth(node, None, "", False, of_host, problems)]


def _gpu_health(match: Match, now: float, checks: Collection[str]) -> _GpuHealth:
    health = health_of(match, now)
    health = limited_to(health, checks) if checks else health
    problems = [check for check in health.checks if check.severity > 0]
    return _GpuHealth(match.node, match.device, match.target.name, is_stale(match, now), health, problems)


def _source_health(target: Target, node: str, message: str) -> _GpuHealth:
    """Return the row of a target that does not deliver, with the reason as its problem."""
    check = CheckState("telemetry", "unknown", message=message, remedy=BY_ID["telemetry"].remedy)
    return _GpuHealth(node, None, target.name, True, Health("unknown", 0.0, ()), [check])
