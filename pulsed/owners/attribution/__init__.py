"""Combines the attribution sources of this host, and adds their owners to the devices of ticks.

The sources are refreshed in the background, and looked up by the keys of a device.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pulsed.background_tasks import FAILURES, aligned_sleep, keep_running
from pulsed.errors import AttributionError, AttributionTimeout
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.gpu import BoardKey, Device, Entity, board_keys, profile_key
from pulsed.model.owner import MAX_SHARERS, Owner, Owners
from pulsed.model.tick import GpuRow, Tick
from pulsed.owners.attribution.gpu_processes import GpuProcessTable
from pulsed.owners.attribution.source import (
    NO_CLAIMS,
    NUMBERS_HINT,
    AttributionSource,
    Claims,
    SourceState,
    numbered_otherwise,
)

if TYPE_CHECKING:
    from pulsed.owners.attribution.pod_workloads import PodWorkloads

log = logging.getLogger(__name__)

READ_SECONDS = 10.0
"""A look that takes longer has failed."""

KEPT_SECONDS = 60.0
"""How long the claims of the last look remain in force while a source fails: a kubelet restarts within seconds."""

KEPT_DEPARTURES = 1024
"""Owners that have lost a device, which are remembered until the next tick."""

KEPT_ENDS = 1024
"""Maximum number of departed owners whose end time is kept."""

LABELS_SECONDS = 180.0
"""The labels of pages are down when no tick has had an owner for so long; pages are read every minute or more often."""

LABELS = "labels"
"""Name of the source whose claims come with the ticks: the labels of an exporter's page."""


class Departure(NamedTuple):
    """An owner that has lost the device of a key, counted from 1 over all sources."""

    number: int
    key: str
    owner: Owner


class Attribution:
    """All sources of this host, the first with an owner of a device decides.

    Args:
        wall: returns the Unix time.
        clock: returns monotonic seconds, by the clock of the ticks of this host.

    Attributes:
        version: grows with every change of any claims; 0 as long as there were none.
    """

    def __init__(self, wall: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._clock = wall, clock
        self._running: dict[AttributionSource, tuple[SourceState, asyncio.Task[None]]] = {}
        self._states: tuple[SourceState, ...] = ()
        self._ends: OrderedDict[tuple[str, str], Monotonic] = OrderedDict()
        self._departures: deque[Departure] = deque(maxlen=KEPT_DEPARTURES)
        self._labels = SourceState(LABELS)
        self._completion: PodWorkloads | None = None
        self._has_logged_numbers = False
        self.version = 0
        self.gpu_processes = GpuProcessTable()

    @property
    def states(self) -> Sequence[SourceState]:
        """The states of all sources in the order of precedence, without those that this host never had."""
        self._labels.up = self._labels.age(Monotonic(self._clock())) <= LABELS_SECONDS
        states = [*self._states, self._labels]
        if self._completion is not None:
            states.append(self._completion.state)
        return [state for state in states if state.last_success is not None or state.errors]

    def note_labels(self) -> None:
        """Note that the labels of a page name owners."""
        self._labels.succeed(Unix(self._wall()), Monotonic(self._clock()))

    def apply(self, sources: Iterable[AttributionSource]) -> None:
        """Read these sources from now on, in this order of precedence. Equal ones are not interrupted."""
        before, self._running = self._running, {}
        for source in sources:
            self._running[source] = before.pop(source) if source in before else _start(source, self._read_source)
        for _, task in before.values():
            task.cancel()
        self._states = tuple([state for state, _ in self._running.values()])
        if any(state.claims is not NO_CLAIMS for state, _ in before.values()):
            self.version += 1

    def complete_with(self, completion: PodWorkloads | None) -> None:
        """Complete owners from now on, or no longer. To be called again when a completion has changed."""
        self._completion = completion
        self.version += 1

    async def stop(self) -> None:
        """Stop reading, and close all sources."""
        tasks = [task for _, task in self._running.values()]
        self.apply(())
        await asyncio.gather(*tasks, return_exceptions=True)

    def find(self, keys: Sequence[str], from_labels: Owners | None, *, is_local: bool) -> Owners | None:
        """Return the owners of a device; empty if it is free, None if that is unknown.

        Its most certain key comes first; the labels of the page decide where no source has an owner, None if they name
        none.
        """
        is_free = False
        for state in self._states:
            claims = state.claims
            for key in keys:
                if owners := claims.owners.get(key):
                    return self._completed(owners)
            is_free = is_free or claims.is_complete
        if from_labels is not None:
            return self._completed(from_labels)
        return () if is_free and is_local else None

    def note_numbers(self, device: Device) -> None:
        """Log, once, that files named by numbers are ambiguous, if a device of this host shows that."""
        if not self._has_logged_numbers and (text := numbered_otherwise(device)):
            for state in self._states:
                if state.claims.has_numbers:
                    self._has_logged_numbers = True
                    log.warning("%s: %s", text, NUMBERS_HINT, extra={"source": state.name})

    def _completed(self, owners: Owners) -> Owners:
        return owners if self._completion is None else tuple(map(self._completion.complete, owners))

    @property
    def departed(self) -> int:
        """The number of the newest departure; 0 before the first."""
        return self._departures[-1].number if self._departures else 0

    def departures_after(self, number: int) -> Sequence[Departure]:
        """Return the departures after one of a number, the oldest first."""
        return [each for each in self._departures if each.number > number]

    def ended_at(self, owner: Owner) -> Monotonic | None:
        """Return when the first look found that an owner was gone, in monotonic seconds; None if no source had it."""
        return self._ends.get(owner.key)

    async def _read_source(self, source: AttributionSource, state: SourceState) -> None:
        """Read a source once; a failure affects this source only."""
        try:
            async with asyncio.timeout(READ_SECONDS):
                claims = await source.read()
        except TimeoutError:
            late = AttributionTimeout(f"{source.name} did not answer within {READ_SECONDS:.0f} s")
            self._fail(state, late.reason, str(late))
        except AttributionError as error:
            self._fail(state, error.reason, str(error))
        except Exception as error:
            FAILURES["attribution"] += 1
            log.exception("internal error in attribution; please report it", extra={"source": source.name})
            self._fail(state, "internal", str(error))
        else:
            self._accept(state, claims)

    def _accept(self, state: SourceState, claims: Claims | None) -> None:
        if state.message:
            log.info("attribution works again", extra={"source": state.name})
        state.up, state.message = claims is not None, ""
        if claims is not None:
            state.succeed(Unix(self._wall()), Monotonic(self._clock()))
            for reason, count in claims.rejected.items():
                state.errors[reason] = state.errors.get(reason, 0) + count
            if any(len(owners) > MAX_SHARERS for owners in claims.owners.values()):
                state.errors["too_many_owners"] = state.errors.get("too_many_owners", 0) + 1
                limited = {key: owners[:MAX_SHARERS] for key, owners in claims.owners.items()}
                claims = replace(claims, owners=limited)
        self._set(state, claims or NO_CLAIMS)

    def _fail(self, state: SourceState, reason: str, message: str) -> None:
        if message != state.message:
            log.warning("attribution failed", extra={"source": state.name, "error": message})
        state.up, state.message = False, message
        state.errors[reason] = state.errors.get(reason, 0) + 1
        if state.age(Monotonic(self._clock())) > KEPT_SECONDS:
            self._set(state, NO_CLAIMS)

    def _set(self, state: SourceState, claims: Claims) -> None:
        is_new = (claims.owners, claims.is_complete) != (state.claims.owners, state.claims.is_complete)
        if is_new:
            before, now = _owners(state.claims), _owners(claims)
            for key, owner in before - now:
                self._departures.append(Departure(self.departed + 1, key, owner))
            gone = {owner.key for _, owner in before} - {owner.key for _, owner in now}
            self._ends |= dict.fromkeys(gone, Monotonic(self._clock()))
            while len(self._ends) > KEPT_ENDS:
                self._ends.popitem(last=False)
            self.version += 1
        state.claims = claims


def _owners(claims: Claims) -> set[tuple[str, Owner]]:
    return {(key, owner) for key, owners in claims.owners.items() for owner in owners}


def _start(
    source: AttributionSource, read: Callable[[AttributionSource, SourceState], Awaitable[None]]
) -> tuple[SourceState, asyncio.Task[None]]:
    state = SourceState(source.name)

    async def read_regularly() -> None:
        while True:
            await read(source, state)
            await aligned_sleep(source.interval)

    def failed() -> None:
        state.up = False

    async def run() -> None:
        try:
            await keep_running("attribution", read_regularly, failed)
        finally:
            await source.close()

    return state, asyncio.create_task(run(), name=f"attribution {source.name}")


class OwnerLookup:
    """The lookup for the ticks of one target; a tick without changes costs two comparisons.

    Args:
        attribution: the sources.
        node: this host; devices of other hosts are found by UUID only.
    """

    def __init__(self, attribution: Attribution, node: str) -> None:
        self._attribution, self._node = attribution, node
        self._before: Sequence[tuple[Device, Owners | None]] = ()
        self._owners: Sequence[Owners | None] = ()
        """One per row of the last tick."""
        self._version = 0
        self._departed = attribution.departed
        self._labelled = 0
        self._profiles: Counter[tuple[BoardKey, str]] = Counter()

    def add_owners(self, tick: Tick) -> None:
        """Set the owners of the GPUs of a tick."""
        attribution, version, rows = self._attribution, self._attribution.version, tick.gpus
        labelled = [(row.device, row.owners) for row in rows]
        if labelled != self._before or version != self._version:
            owners_before = {
                device.entity: owners or () for (device, _), owners in zip(self._before, self._owners, strict=True)
            }
            self._before, self._version = labelled, version
            self._labelled = sum(bool(owners) for _, owners in labelled)
            instances = (device.entity for device, _ in labelled if device.entity.mig_profile)
            self._profiles = Counter((entity.board, entity.mig_profile) for entity in instances)
            self._owners = list(self._found(labelled)) if version else [owners for _, owners in labelled]
            if attribution.departed != self._departed:
                self._add_passing(rows, owners_before)
        if self._labelled:
            attribution.note_labels()
        if version:
            for row, owners in zip(rows, self._owners, strict=True):
                if owners != row.owners:
                    row.ownership = replace(row.ownership, owners=owners)

    def _add_passing(self, rows: Sequence[GpuRow], owners_before: Mapping[Entity, Owners]) -> None:
        """Set the owners that had a device since the tick before, and in neither of both."""
        departures = self._attribution.departures_after(self._departed)
        self._departed = self._attribution.departed
        for row, owners in zip(rows, self._owners, strict=True):
            keys, seen = self._keys(row.device), (*owners_before.get(row.device.entity, ()), *(owners or ()))
            left = dict.fromkeys(each.owner for each in departures if each.key in keys)
            if passing := tuple([owner for owner in left if not any(owner.continues(each) for each in seen)]):
                row.ownership = replace(row.ownership, passing=passing)

    def _found(self, labelled: Sequence[tuple[Device, Owners | None]]) -> Iterator[Owners | None]:
        """Yield the owners of each device: by the sources of this host, or else by labels."""
        all_owners = [  # a part without owners of its own has its board's
            self._attribution.find(self._keys(device), owners, is_local=self._is_local(device))
            for device, owners in labelled
        ]
        for device, _ in labelled:
            if self._is_local(device):
                self._attribution.note_numbers(device)
        of_parts: dict[BoardKey, dict[tuple[str, str], Owner]] = {}
        for (device, _), owners in zip(labelled, all_owners, strict=True):
            if device.entity.kind != "gpu":
                of_parts.setdefault(device.entity.board, {}).update((owner.key, owner) for owner in owners or ())
        for (device, _), owners in zip(labelled, all_owners, strict=True):
            if device.entity.kind == "gpu" and (parts := of_parts.get(device.entity.board)):
                yield tuple(({owner.key: owner for owner in owners or ()} | parts).values())
            else:
                yield owners

    def _is_local(self, device: Device) -> bool:
        return device.entity.node in ("", self._node)

    def _keys(self, device: Device) -> tuple[str, ...]:
        """Return the keys of a device, the most certain first."""
        entity = device.entity
        keys = board_keys(entity.uuid, device.pci_bus_id, device.device, entity.gpu, is_local=self._is_local(device))
        if entity.kind == "vgpu":
            keys = ()
        elif entity.kind == "mig":
            own = [f"{key}/{entity.mig_id}" for key in keys]
            if self._profiles[entity.board, entity.mig_profile] == 1:
                own += [profile_key(key, entity.mig_profile) for key in keys]
            keys = (*([device.mig_uuid.lower()] if device.mig_uuid else ()), *own, *keys)
        return keys
