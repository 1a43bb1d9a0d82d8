"""The absent GPUs that are remembered, by name, to forget them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from pulsed.compute.gpu_table import GpuState
from pulsed.compute.layer import ComputeLayer
from pulsed.errors import GpuNotForgettable, GpuNotFound
from pulsed.model.gpu import Entity
from pulsed.model.result import Removal
from pulsed.model.target_store import Target, TargetStore

_MAX_NAMES = 16


class AbsentGpu(NamedTuple):
    """A whole GPU that is in no newest tick of a target, and is remembered."""

    target: Target
    computer: ComputeLayer
    state: GpuState

    @property
    def entity(self) -> Entity:
        """What identifies it."""
        return self.state.device.entity

    def forget(self) -> Removal:
        """Forget it, and take it out of the newest tick of its target."""
        removal, tick = self.computer.forget(self.state)
        if tick is not None:
            self.target.correct(tick)
        return removal


def choose_absent(absent: Sequence[AbsentGpu], store: TargetStore, gpu: str, node: str | None) -> Sequence[AbsentGpu]:
    """Return the GPU of a name: an index or a UUID. Several targets may remember it.

    Raises:
        GpuNotFound: no GPU of that name is remembered.
        GpuNotForgettable: it is present, or there are several.
    """

    def is_meant(entity: Entity) -> bool:
        return gpu in (entity.gpu, entity.uuid) and node in (None, entity.node or store.node)

    matches = [one for one in absent if is_meant(one.entity)]
    remedy = _remedy(absent, store.node)
    if any(map(is_meant, _present(store))):
        raise GpuNotForgettable(f"GPU {gpu} is present; only absent GPUs can be forgotten", remedy)
    if not matches:
        raise GpuNotFound(f"there is no absent GPU {gpu!r}", remedy)
    if len({one.entity.board for one in matches}) > 1:
        raise GpuNotForgettable(f"there are several absent GPUs {gpu}: give the UUID or the node", remedy)
    return matches


def _present(store: TargetStore) -> list[Entity]:
    """Return the GPUs of the newest ticks, and the boards of their parts."""
    return [
        row.device.entity
        for target in store.targets
        if (tick := target.tick) is not None
        for row in tick.gpus
        if row.is_listed
    ]


def _remedy(absent: Sequence[AbsentGpu], here: str) -> str:
    names = [
        f"{one.entity.uuid or one.entity.gpu} (GPU {one.entity.gpu} of {one.entity.node or here}, last seen "
        f"{datetime.fromtimestamp(one.state.last_seen, UTC):%Y-%m-%d %H:%M:%S} UTC)"
        for one in absent
    ]
    more = f", and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"Can be forgotten: {', '.join(names[:_MAX_NAMES]) or 'none'}{more}"
