"""The `/metrics` page, rendered at most once per change of the target store.

Order: GPU families, the source's own series if they are republished, then pulsed's own metrics. Families are
contiguous; empty families are omitted. Samples have no timestamps. GPUs of a stale target are not on the page.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator

from pulsed.collector.target_store import Target, TargetStore
from pulsed.present.exposition.cache_key import CacheKey
from pulsed.present.exposition.passthrough import TargetPassthrough, passthrough_header
from pulsed.present.exposition.target_renderer import FAMILIES, TargetRenderer
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.present.exposition.text_format import END, header
from pulsed.present.gpu_keys import repeated

GZIP_LEVEL = 1
"""On a page of 256 GPUs level 1 takes 0.4 of level 6's time for a result 1.4 times as long; both are about a tenth of
the page. See `tests/bench/bench_render.py`."""


def _headers(openmetrics: bool) -> tuple[bytes, ...]:
    """Return the header of each chunk, empty if the previous chunk is of the same family."""
    return tuple(
        b"" if family is before else header(family.name, family.type, family.help, openmetrics).encode()
        for before, family in zip((None, *FAMILIES), FAMILIES, strict=False)
    )


_HEADERS = {openmetrics: _headers(openmetrics) for openmetrics in (False, True)}


class _Place:
    """The renderers of one target, and what other targets hide of it."""

    __slots__ = ("hidden", "hidden_series", "passthrough", "renderer", "target")

    def __init__(self, target: Target, here: str) -> None:
        self.target = target
        self.renderer = TargetRenderer(here)
        self.passthrough = TargetPassthrough(here)
        self.hidden: frozenset[int] = frozenset()
        self.hidden_series: frozenset[int] = frozenset()


class Pages:
    """The page in every format and coding; with `passthrough` the source's own series are republished."""

    def __init__(self, board: TargetStore, telemetry: Telemetry, *, passthrough: bool = False) -> None:
        self._board = board
        self._telemetry = telemetry
        self.passthrough = passthrough
        self._cache_key = CacheKey()
        self._pages: dict[tuple[bool, bool, bool], bytes] = {}
        self._places: dict[int, _Place] = {}
        self._shown: list[int] = []
        self._with_node = False

    def page(self, now: float, *, openmetrics: bool, gzip: bool) -> bytes:
        """Return the page; targets must be fresh at `now` (monotonic seconds)."""
        if self._cache_key.expired(self._board, now):
            self._pages.clear()
        key = (self.passthrough, openmetrics, gzip)
        page = self._pages.get(key)
        if page is None:
            if gzip:
                page = compress(self.page(now, openmetrics=openmetrics, gzip=False))
            else:
                begun = time.perf_counter()
                page = self._render(now, openmetrics)
                self._telemetry.observe("present", time.perf_counter() - begun)
            self._pages[key] = page
        return page

    def _render(self, now: float, openmetrics: bool) -> bytes:
        fresh = self._fresh(now)
        parts: list[bytes] = []
        chunks = [
            place.renderer.render(place.target.tick, place.hidden, self._with_node)
            for place in fresh
            if place.target.tick is not None
        ]
        for head, lines in zip(_HEADERS[openmetrics], zip(*chunks, strict=True), strict=False):
            if any(lines):
                parts.append(head)
                parts.extend(lines)
        if self.passthrough:
            parts.extend(_republished(fresh, openmetrics))
        parts.append(self._telemetry.render(now, openmetrics=openmetrics))
        if openmetrics:
            parts.append(END)
        return b"".join(parts)

    def _fresh(self, now: float) -> list[_Place]:
        """Return the fresh targets, after assigning each GPU and series to the first target that has it."""
        targets = self._board.targets
        if len(self._places) != len(targets) or any(id(target) not in self._places for target in targets):
            self._places = {id(target): _Place(target, self._board.node) for target in targets}
            self._shown = []
        fresh = [self._places[id(target)] for target in targets if target.fresh(now)]
        shown = [id(place.target) for place in fresh]
        # Every renderer must be updated, so no any() over a generator.
        new_devices = [place.renderer.update_devices(tick.devices) for place in fresh if (tick := place.target.tick)]
        new_layouts = self.passthrough and [
            place.passthrough.update_layout(tick) for place in fresh if (tick := place.target.tick)
        ]
        if shown != self._shown or any(new_devices):
            self._share_devices(fresh)
        if self.passthrough and (shown != self._shown or any(new_layouts or ())):
            _share_series(fresh)
        self._shown = shown
        return fresh

    def _share_devices(self, fresh: list[_Place]) -> None:
        nodes: set[str] = set()
        for place, hidden in zip(fresh, repeated(place.renderer.keys for place in fresh), strict=True):
            place.hidden = hidden
            nodes |= place.renderer.nodes
        # Never reset: a node that is down for a while must not rename the series of all others.
        self._with_node = self._with_node or len(self._board.targets) > 1 or len(nodes) > 1
        self._telemetry.duplicate_gpus = {place.target.name: len(place.hidden) for place in fresh}


def compress(page: bytes) -> bytes:
    """Return the page as gzip; equal pages give equal bytes, as the header has no time."""
    gzip = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 31)  # 31: a gzip container, largest window
    return gzip.compress(page) + gzip.flush()


def _share_series(fresh: list[_Place]) -> None:
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


def _republished(fresh: list[_Place], openmetrics: bool) -> Iterator[bytes]:
    families: dict[str, list[bytes]] = {}
    for place in fresh:
        if place.target.tick is not None:
            for name, lines in place.passthrough.render(place.target.tick, place.hidden_series).items():
                families.setdefault(name, []).append(lines)
    layouts = [place.passthrough.layout for place in fresh]
    known = [layout for layout in layouts if layout is not None]
    for name, texts in families.items():
        yield passthrough_header(name, known, openmetrics)
        yield from texts
