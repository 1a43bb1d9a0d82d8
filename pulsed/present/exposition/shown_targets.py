"""Which target shows which GPU: each GPU, and each series of the source, is on the page once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from pulsed.model.computed_tick import ComputedTick
from pulsed.model.gpu import GpuKey, repeated
from pulsed.model.target_store import Target, TargetStore
from pulsed.present.exposition.catalog import RECENT_QUANTITIES
from pulsed.present.exposition.jobstats_series import TargetJobstats
from pulsed.present.exposition.passthrough import TargetPassthrough
from pulsed.present.exposition.summary import TargetCounts
from pulsed.present.exposition.target_renderer import TargetRenderer

REFRESH_SECONDS = 1.0
"""Maximum time after which another target may show a GPU whose first target is stale."""

TargetTick = tuple[Target, ComputedTick]


def fresh_ticks(targets: Sequence[Target], now: float) -> list[TargetTick]:
    """Return the fresh ones of targets with their ticks, which do not change while rendered; `now` is monotonic."""
    return [(target, tick) for target in targets if target.fresh(now) and (tick := target.tick)]


class Place:
    """The renderers of one target, and what other targets hide of it."""

    __slots__ = ("counts", "hidden", "hidden_series", "jobstats", "passthrough", "renderer", "target")

    def __init__(self, target: Target, here: str, renderer: TargetRenderer) -> None:
        self.target, self.renderer = target, renderer
        self.counts = TargetCounts(RECENT_QUANTITIES)
        self.passthrough = TargetPassthrough(here)
        self.jobstats = TargetJobstats(here)
        self.hidden: frozenset[int] = frozenset()
        self.hidden_series: frozenset[int] = frozenset()


class ShownTick(NamedTuple):
    """A tick with its renderers, the keys of its GPUs, and the positions of those that other targets have."""

    place: Place
    tick: ComputedTick
    keys: tuple[GpuKey, ...]
    hidden: frozenset[int]


class ShownTargets:
    """The renderers of all targets. Each GPU and series is of the first fresh target that has it.

    Args:
        new_renderer: returns the renderer of a new target.
        assigned: takes all GPUs, and the numbers of those left out by target, whenever GPUs were assigned anew.
        republishes: whether series of the sources are shown.
    """

    def __init__(
        self,
        store: TargetStore,
        new_renderer: Callable[[], TargetRenderer],
        assigned: Callable[[set[GpuKey], Mapping[str, int]], None],
        *,
        republishes: bool,
    ) -> None:
        self._store, self._new_renderer, self._assigned, self._republishes = store, new_renderer, assigned, republishes
        self._places: dict[int, Place] = {}
        self._shown: list[int] = []
        self._until = -inf

    def update(self, ticks: Sequence[TargetTick], now: float, *, is_whole: bool) -> list[ShownTick]:
        """Return the renderers of fresh ticks, after assigning GPUs and series anew if that may have changed.

        Args:
            is_whole: whether these are the ticks of all targets. For others GPUs are assigned at most once in
                `REFRESH_SECONDS`, unless GPUs or series of these targets have changed.
        """
        if not is_whole and now < self._until:
            known = [_shown(place, tick) for target, tick in ticks if (place := self._places.get(id(target)))]
            if len(known) == len(ticks) and not any(map(self._is_changed, known)):
                return known
        self._until = now + REFRESH_SECONDS
        self._keep_places()
        every = ticks if is_whole else fresh_ticks(self._store.targets, now)
        fresh = [(place, tick) for target, tick in every if (place := self._places.get(id(target)))]
        self._assign(fresh)
        wanted = {id(target) for target, _ in ticks}
        return [_shown(place, tick) for place, tick in fresh if id(place.target) in wanted]

    def _is_changed(self, shown: ShownTick) -> bool:
        """Return whether a tick has other GPUs than the one before, or other series of the source."""
        place, tick = shown.place, shown.tick
        has_same_series = not self._republishes or place.passthrough.has_layout(tick)
        return not (has_same_series and place.renderer.has_devices(tick.devices))

    def _keep_places(self) -> None:
        """Make places for new targets, and drop those of targets that are gone."""
        places, targets = self._places, self._store.targets
        if len(places) == len(targets) and all(id(target) in places for target in targets):
            return
        self._places = {
            id(target): places.get(id(target)) or Place(target, self._store.node, self._new_renderer())
            for target in targets
        }
        self._shown = []

    def _assign(self, fresh: Sequence[tuple[Place, ComputedTick]]) -> None:
        """Assign the GPUs and series of all fresh ticks, if they have changed."""
        places, shown = [place for place, _ in fresh], [id(place.target) for place, _ in fresh]
        is_changed = shown != self._shown
        self._shown = shown
        # Every renderer must be updated, so no any() over a generator.
        new_devices = [place.renderer.update_devices(tick.devices) for place, tick in fresh]
        if is_changed or any(new_devices):
            for place, hidden in zip(places, repeated(place.renderer.keys for place in places), strict=True):
                place.hidden = hidden
            keys = {key for place in places for key in place.renderer.keys}
            self._assigned(keys, {place.target.name: len(place.hidden) for place in places})
        if self._republishes:
            new_series = [place.passthrough.update_layout(tick) for place, tick in fresh]
            if is_changed or any(new_series):
                _share_series(places)


def _shown(place: Place, tick: ComputedTick) -> ShownTick:
    return ShownTick(place, tick, place.renderer.keys, place.hidden)


def _share_series(fresh: Sequence[Place]) -> None:
    """Hide the series that an earlier target has."""
    owned: set[str] = {""}
    for place in fresh:
        keys = place.passthrough.keys
        hidden = set()
        for position, key in enumerate(keys):
            if key in owned:
                hidden.add(position)
            owned.add(key)
        place.hidden_series = frozenset(hidden)
