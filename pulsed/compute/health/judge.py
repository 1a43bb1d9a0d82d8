"""Health of all GPUs of one target, sample by sample: who is judged, who inherits, and who is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypedDict

from pulsed.compute.health.gpu import GpuHealth
from pulsed.compute.health.memory import GpuMemory, checked, device_of, recall, remember
from pulsed.compute.health.model import Health, HealthChange, HealthTick, LostGpu, State
from pulsed.compute.health.node import roll_up
from pulsed.compute.health.plan import HealthPlan
from pulsed.compute.health.presence import answers
from pulsed.compute.health.settings import HealthSettings
from pulsed.translate.tick import CanonicalTick, Device, Entity
from pulsed.translate.vocabulary import NOTHING

VERSION = 1
"""Of what `HealthEvaluator.dump` gives."""

KEPT = 256
"""So many GPUs that are gone are remembered beside those that are there."""

FORGET_SECONDS = 7 * 86400.0
"""What was kept is given up after the longest window."""

MISSED_SECONDS = 86400.0
"""A GPU that was there within a day before a restart, and is not after it, is missing."""

EMPTY_POLLS = 2
"""So many more samples without any GPU are granted: an exporter that has just been started has none yet."""


class Dump(TypedDict):
    """What outlives a restart; plain JSON."""

    version: int
    target: str
    saved: float
    gpus: dict[str, GpuMemory]


class HealthEvaluator:
    """Judges the ticks of one target, in the order of their clock.

    Args:
        settings: how.
    """

    def __init__(self, settings: HealthSettings) -> None:
        self._plan = HealthPlan(settings)
        self._gpus: dict[str, GpuHealth] = {}
        self._restored: dict[str, GpuMemory] = {}
        self._target = self._restored_target = ""
        self._devices: tuple[Device, ...] | None = None
        self._here: list[GpuHealth] = []
        self._boards: list[GpuHealth] = []
        self._missing: list[tuple[str, GpuHealth]] = []
        self._lost: tuple[LostGpu, ...] = ()
        self._empty = 0
        self._last: HealthTick | None = None

    @property
    def latched(self) -> int:
        """Another number whenever something changed that is worth keeping over a restart: dump then."""
        return sum(gpu.latched for gpu in self._gpus.values())

    def reconfigure(self, settings: HealthSettings) -> None:
        """Judge so from now on; what was latched stays, rates and shares are gathered anew."""
        if settings == self._plan.settings:
            return
        self._plan = HealthPlan(settings)
        for key, old in self._gpus.items():
            new = GpuHealth(self._plan, old.device)
            recall(new, remember(old), old.time)
            self._gpus[key] = new
        self._devices = None

    def judge(self, tick: CanonicalTick, boot_id: str = "") -> HealthTick:
        """Work out the health of all devices of a tick.

        Args:
            tick: the sample.
            boot_id: of the node, opaque; empty when not known. Another one than before means that the node was
                restarted: what asked for that is done, and GPUs that are gone were taken out.
        """
        if tick.devices is not self._devices:
            self._meet(tick)
        extras, is_source_alive = tick.extras, any(map(answers, tick.readings))
        changes: list[HealthChange] = []
        for position, gpu in enumerate(self._here):
            device = tick.devices[position]
            if gpu.device.entity.kind != device.entity.kind:
                continue  # a part of a board has the board's health
            before = gpu.health
            after = gpu.judge(
                device,
                tick.readings[position],
                extras.get(position) if extras else None,
                tick.interval,
                tick.time,
                tick.clock,
                boot_id,
                is_source_alive,
            )
            if after is not before:
                changes += _changes(position, gpu, before, after)
        if self._missing:
            changes += self._follow_missing(tick, boot_id)
        return self._deliver(changes)

    def dump(self) -> Dump:
        """Give what is to be kept over a restart: small, plain JSON."""
        gpus = {key: remember(gpu) for key, gpu in self._gpus.items()}
        saved = max((memory["saved"] for memory in gpus.values()), default=0.0)
        return Dump(version=VERSION, target=self._target, saved=saved, gpus={**self._restored, **gpus})

    def restore(self, document: Mapping[str, object], now: float) -> None:
        """Take up what was kept, before the first tick.

        Args:
            document: what `dump` gave.
            now: in Unix seconds.

        Raises:
            ValueError: it is something else, or of another version. Nothing was taken up then.
        """
        if document.get("version") != VERSION:
            raise ValueError(f"version {document.get('version')!r} instead of {VERSION}")
        gpus = document.get("gpus")
        if not isinstance(gpus, Mapping):
            raise ValueError("there are no gpus in it")
        restored = {str(key): checked(memory) for key, memory in gpus.items()}
        self._restored = {key: kept for key, kept in restored.items() if now - kept["saved"] < FORGET_SECONDS}
        self._restored_target = str(document.get("target", ""))

    def _meet(self, tick: CanonicalTick) -> None:
        """Find what is known of the devices of a tick, and who is missing."""
        self._devices = tick.devices
        boards: dict[tuple[str, str], GpuHealth] = {}
        self._here, self._boards = [], []
        for device in tick.devices:
            if device.entity.kind == "gpu":
                gpu = self._find(device, tick)
                boards[device.entity.node, device.entity.uuid or device.entity.gpu] = gpu
        for device in tick.devices:
            entity = device.entity
            board = boards.get((entity.node, entity.uuid or entity.gpu))
            gpu = board if board is not None else self._find(device, tick)
            self._here.append(gpu)
            if entity.kind == "gpu" or board is None:
                self._boards.append(gpu)
        self._target = tick.target
        if self._restored_target and tick.devices:
            self._expect_restored(tick)
        here = {id(gpu) for gpu in self._here}
        known = [(key, gpu) for key, gpu in self._gpus.items() if id(gpu) not in here]
        self._missing = [
            (key, gpu)
            for key, gpu in known
            if gpu.device.entity.kind == "gpu"
            and gpu.presence.last_seen
            and not _is_spoken_for(gpu.device.entity, tick.devices)
        ]
        for key, _ in known[: max(0, len(known) - KEPT)]:
            del self._gpus[key]

    def _expect_restored(self, tick: CanonicalTick) -> None:
        """Miss the GPUs that were there before a restart of the daemon, and are not now."""
        if self._restored_target == tick.target:
            for key, memory in list(self._restored.items()):
                is_recent = tick.time - memory["last_seen"] < MISSED_SECONDS
                if memory["identity"]["kind"] == "gpu" and is_recent:
                    gpu = GpuHealth(self._plan, device_of(memory["identity"]))
                    recall(gpu, self._restored.pop(key), tick.time)
                    self._gpus[key] = gpu
        self._restored_target = ""

    def _find(self, device: Device, tick: CanonicalTick) -> GpuHealth:
        key = _key(device.entity)
        gpu = self._gpus.pop(key, None)
        if gpu is None:
            gpu = self._known_otherwise(device.entity)
        if gpu is None:
            gpu = GpuHealth(self._plan, device)
            memory = self._restored.pop(key, None)
            if memory is not None:
                recall(gpu, memory, tick.time)
        self._gpus[key] = gpu  # at the end: the first are those that were not seen for the longest
        return gpu

    def _known_otherwise(self, entity: Entity) -> GpuHealth | None:
        """Find a GPU whose UUID is known only now, or no more."""
        for key, gpu in self._gpus.items():
            other = gpu.device.entity
            if (
                (other.kind, other.node, other.gpu, other.mig_id)
                == (entity.kind, entity.node, entity.gpu, entity.mig_id)
                and not (other.uuid and entity.uuid)
                and entity.gpu
            ):
                return self._gpus.pop(key)
        return None

    def _follow_missing(self, tick: CanonicalTick, boot_id: str) -> Iterable[HealthChange]:
        self._empty = 0 if tick.devices else self._empty + 1
        if not tick.devices and self._empty <= EMPTY_POLLS:
            return []
        changes: list[HealthChange] = []
        lost: list[LostGpu] = []
        known = {id(one.device): one for one in self._lost}
        for key, gpu in list(self._missing):
            if boot_id and gpu.boot_id and boot_id != gpu.boot_id:
                self._missing.remove((key, gpu))  # the node was restarted without it: it was taken out
                self._gpus.pop(key, None)
                continue
            before = gpu.health
            after = gpu.judge(gpu.device, NOTHING, None, tick.interval, tick.time, tick.clock, boot_id)
            if after is not before:
                changes += _changes(-1, gpu, before, after)
            if gpu.presence.is_lost:
                old = known.get(id(gpu.device))
                since = gpu.presence.missed_since or tick.time
                lost.append(
                    old
                    if old is not None and old.health is after and old.since == since
                    else LostGpu(gpu.device, since, gpu.presence.last_seen, after)
                )
        if tuple(lost) != self._lost:
            self._lost = tuple(lost)
        return changes

    def _deliver(self, changes: list[HealthChange]) -> HealthTick:
        if not self._missing and self._lost:
            self._lost = ()
        healths = tuple([gpu.health for gpu in self._here])
        shares = tuple([gpu.clock_events.shares for gpu in self._here])
        last = self._last
        if last is not None and _same(last.healths, healths) and last.lost is self._lost:
            if not changes and not last.changes and shares == last.clock_event_shares:
                return last
            node = last.node
        else:
            node = roll_up([*(gpu.health for gpu in self._boards), *(one.health for one in self._lost)])
            if last is not None and node == last.node:
                node = last.node
        self._last = HealthTick(healths, self._lost, node, tuple(changes), shares)
        return self._last


def _same(one: tuple[Health, ...], other: tuple[Health, ...]) -> bool:
    return len(one) == len(other) and all([a is b for a, b in zip(one, other, strict=True)])  # noqa: C419


def _key(entity: Entity) -> str:
    """Name a GPU so that it is found again after a restart."""
    parts = [entity.node, entity.uuid or f"gpu {entity.gpu}"]
    if entity.kind != "gpu":
        parts += [entity.kind, entity.mig_id]
    return "|".join(parts)


def _is_spoken_for(board: Entity, devices: Iterable[Device]) -> bool:
    """Tell whether a board is in a tick by its parts only: then it was split or joined, not lost.

    dmon does not always say which board a part is on: then it may be this one.
    """
    return any(
        entity.kind != "gpu"
        and entity.node == board.node
        and (
            (not entity.uuid and not entity.gpu)
            or (entity.uuid == board.uuid if entity.uuid and board.uuid else entity.gpu == board.gpu)
        )
        for entity in (device.entity for device in devices)
    )


def _changes(position: int, gpu: GpuHealth, before: Health, after: Health) -> list[HealthChange]:
    found = [
        HealthChange(position, new.id, old.state, new.state, gpu.time, new.message, new.remedy, gpu.device)
        for old, new in gpu.changes
    ]
    whole: State = before.state
    if whole != after.state and (before.checks or after.severity > 0):
        worst = max(after.checks, key=lambda check: check.severity if check.applies else -1, default=None)
        message, remedy = (worst.message, worst.remedy) if worst is not None else ("", "")
        found.append(HealthChange(position, "", whole, after.state, gpu.time, message, remedy, gpu.device))
    return found
