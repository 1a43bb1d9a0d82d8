"""The GPUs of this process's targets, and the pods that have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pulsed.model.computed_tick import Result
from pulsed.model.owner import Owner
from pulsed.model.target_store import TargetStore
from pulsed.model.vocabulary import Reading, Value
from pulsed.present.api.documents import Match, is_stale, matches
from pulsed.present.api.event_documents import finite
from pulsed.present.api.sample_fields import getter
from pulsed.present.autoscale import PodGpu


def without_split_boards(found: Sequence[Match]) -> list[Match]:
    """Return the GPUs and MIG instances without the boards of these instances, whose values repeat theirs."""
    split = {board_of(match) for match in found if match.device.entity.kind == "mig"}
    return [match for match in found if match.device.entity.kind != "gpu" or board_of(match) not in split]


def board_of(match: Match) -> tuple[str, str]:
    """Return the key of a GPU's board: its node, and its UUID or else its index."""
    entity = match.device.entity
    return (match.node, entity.uuid or entity.gpu)


def pods_of(match: Match) -> Sequence[Owner]:
    """Return the owners of a GPU that are containers of pods."""
    return [owner for owner in match.device.owners or () if owner.kind == "pod"]


def pod_gpus(board: TargetStore, now: float, fields: Iterable[str]) -> list[PodGpu]:
    """Return the GPUs that pods have, stale ones too, once per container, with these fields; at a monotonic time."""
    getters = [(name, getter(name)) for name in fields]
    return [
        _pod_gpu(match, owner, getters, now)
        for match in without_split_boards(list(matches(board, now)))
        for owner in pods_of(match)
    ]


def missing_targets(board: TargetStore, now: float) -> str:
    """Return why pods may have more GPUs than `pod_gpus` returns; empty if they certainly have not."""
    for target in board.targets:
        if not target.fresh(now):
            return f"{target.name} has no current data" + (f": {target.error}" if target.error else "")
    return ""


def _pod_gpu(
    match: Match,
    owner: Owner,
    getters: Iterable[tuple[str, Callable[[Reading, Result], str | Value]]],
    now: float,
) -> PodGpu:
    entity = match.device.entity
    values = {name: finite(get(match.reading, match.result)) for name, get in getters}
    return PodGpu(
        owner.namespace,
        owner.name,
        owner.container,
        owner.workload,
        owner.workload_kind,
        "/".join(filter(None, (*board_of(match), entity.mig_id))),
        1 / len(match.device.owners or (owner,)),
        round(match.time, 3),
        is_stale(match, now),
        {name: value for name, value in values.items() if not isinstance(value, str)},
    )
