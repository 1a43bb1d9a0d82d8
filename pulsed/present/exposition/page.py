"""The `/metrics` page, rendered at most once per change of the target store.

Order: GPU families, those of jobstats and the source's own series if configured, then pulsed's own metrics. Families
are contiguous; empty families are omitted. Samples have no timestamps. GPUs of a stale target are not on the page. A
GPU or series that several targets have is that of the first fresh one.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import NamedTuple

from pulsed.compute.peaks import DEFAULT_PEAKS, Peaks
from pulsed.model.computed_tick import ComputedTick, without_duplicates
from pulsed.model.gpu import key_of
from pulsed.model.target_store import Target, TargetStore
from pulsed.present.exposition.catalog import FULL, RECENT_QUANTITIES, Catalog
from pulsed.present.exposition.jobstats_series import FAMILIES as JOBSTATS
from pulsed.present.exposition.jobstats_series import TargetJobstats
from pulsed.present.exposition.passthrough import TargetPassthrough, passthrough_header
from pulsed.present.exposition.series_memory import SeriesMemory
from pulsed.present.exposition.summary import Distributions, TargetCounts, summary_lines
from pulsed.present.exposition.target_renderer import TargetRenderer
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.present.exposition.text_format import END, encoded, header

GZIP_LEVEL = 1
"""On a page of 256 GPUs level 1 takes 0.4 of level 6's time for a result 1.4 times as long; both are about a tenth of
the page. See `tools/bench/bench_render.py`."""

REFRESH_SECONDS = 1.0
"""Maximum age of a page without a new tick, because counters of pulsed itself change."""

LARGE_GPUS = 64
"""GPUs up to which a page is rendered in the event loop: it takes some 5 ms. A larger one is rendered in a thread."""

COMPATIBLE = ("jobstats",)
"""Programs whose series pulsed can publish in addition to its own."""


class _TargetRenderers(NamedTuple):
    """The renderers of one target, kept as long as it is configured."""

    target: Target
    gpus: TargetRenderer
    counts: TargetCounts
    passthrough: TargetPassthrough
    jobstats: TargetJobstats


_Fresh = tuple[_TargetRenderers, ComputedTick]
"""The renderers of a target that is fresh, and its tick."""


class CacheKey:
    """The state of the target store that a cached page was rendered from.

    It expires with every change of the store, when a target turns stale, and with age.
    """

    def __init__(self) -> None:
        self._version = -1
        self._targets = -1
        self._since = 0.0
        self._until = 0.0

    def expired(self, store: TargetStore, now: float) -> bool:
        """Return whether the key has expired, and if so renew it; `now` is monotonic seconds."""
        version = store.version
        if version == self._version and len(store.targets) == self._targets and self._since <= now < self._until:
            return False
        self._version, self._targets, self._since = version, len(store.targets), now
        turns = [target.arrived + target.stale_after for target in store.targets if target.fresh(now)]
        # fresh() is still true at the very moment that a target turns stale.
        self._until = min([now + REFRESH_SECONDS, *turns])
        return True


@dataclass(frozen=True, slots=True)
class PageSettings:
    """What is on the page.

    Attributes:
        catalog: the families of GPUs.
        peaks: practical peaks by architecture.
        passthrough: whether the source's own series are republished.
        owner_labels: whether the series of GPUs have the labels of their owners.
        compat: programs whose series are published as well.
    """

    catalog: Catalog = FULL
    peaks: Mapping[str, Peaks] = field(default_factory=lambda: DEFAULT_PEAKS)
    passthrough: bool = False
    owner_labels: bool = False
    compat: Sequence[str] = ()


_EVERYTHING = PageSettings()


class Pages:
    """The page in every format and coding, rendered at most once per change."""

    def __init__(self, store: TargetStore, telemetry: Telemetry, settings: PageSettings = _EVERYTHING) -> None:
        self._store = store
        self._telemetry = telemetry
        self._memory = SeriesMemory()
        self._distributions = Distributions()
        self._renderers: dict[int, _TargetRenderers] = {}
        self._lock = asyncio.Lock()
        self._cache_key = CacheKey()
        self._pages: dict[tuple[bool, bool], bytes] = {}
        self._settings, self._next = settings, settings
        self._apply()

    def configure(self, settings: PageSettings) -> None:
        """Render by these settings from the next page on; what was published of a GPU before is remembered."""
        self._next = settings

    def page(self, now: float, *, openmetrics: bool, gzip: bool) -> bytes:
        """Return the page; targets must be fresh at `now` (monotonic seconds)."""
        self._begin(now)
        key = (openmetrics, gzip)
        page = self._pages.get(key)
        if page is None:
            if gzip:
                page = compress(self.page(now, openmetrics=openmetrics, gzip=False))
            else:
                page = self._with_telemetry(self._render(self._fresh(now), openmetrics), now, openmetrics)
            self._pages[key] = page
        return page

    async def serve(self, now: float, *, openmetrics: bool, gzip: bool) -> bytes:
        """Return the page as `page` does; that of more than `LARGE_GPUS` is rendered and compressed in a thread.

        Only one page is rendered at a time, also if a request for it is cancelled.
        """
        if self._store.gpus <= LARGE_GPUS and not self._lock.locked():
            return self.page(now, openmetrics=openmetrics, gzip=gzip)
        return await asyncio.shield(self._serve_large(now, openmetrics, gzip))

    async def _serve_large(self, now: float, openmetrics: bool, gzip: bool) -> bytes:
        async with self._lock:
            self._begin(now)
            plain, packed = (openmetrics, False), (openmetrics, True)
            if plain not in self._pages:
                body = await asyncio.to_thread(self._render, self._fresh(now), openmetrics)
                self._pages[plain] = self._with_telemetry(body, now, openmetrics)
            if gzip and packed not in self._pages:
                self._pages[packed] = await asyncio.to_thread(compress, self._pages[plain])
            return self._pages[packed if gzip else plain]

    def _begin(self, now: float) -> None:
        """Begin a page: drop what is outdated of the cached ones, and apply new settings."""
        self._memory.begin_page(now)
        is_new = self._next is not self._settings
        if is_new:
            self._settings = self._next
            self._memory.change_forms()
            self._apply()
        if self._cache_key.expired(self._store, now) or is_new:
            self._pages.clear()

    def _apply(self) -> None:
        self._renderers = {}
        self._headers = tuple([_headers(self._settings.catalog, openmetrics) for openmetrics in (False, True)])

    def _fresh(self, now: float) -> list[_Fresh]:
        """Return the fresh targets with their ticks, which do not change while they are rendered."""
        targets = self._store.targets
        kept = {id(target): self._renderers.get(id(target)) or self._new_renderers(target) for target in targets}
        self._renderers = kept
        return [(kept[id(target)], tick) for target in targets if target.fresh(now) and (tick := target.tick)]

    def _new_renderers(self, target: Target) -> _TargetRenderers:
        here, settings = self._store.node, self._settings
        return _TargetRenderers(
            target,
            TargetRenderer(here, settings.catalog, self._memory, owner_labels=settings.owner_labels),
            TargetCounts(here, RECENT_QUANTITIES),
            TargetPassthrough(here),
            TargetJobstats(here),
        )

    def _with_telemetry(self, body: bytes, now: float, openmetrics: bool) -> bytes:
        """Return the page: the families of GPUs, pulsed's own families, and the last line."""
        own = self._telemetry.render(now, openmetrics=openmetrics)
        return b"".join((body, own, END if openmetrics else b""))

    def _render(self, fresh: Sequence[_Fresh], openmetrics: bool) -> bytes:
        """Return the families of GPUs and of the sources."""
        begun = time.perf_counter()
        page, settings = BytesIO(), self._settings
        shown = self._without_duplicates(fresh)
        chunks = [renderers.gpus.render(tick) for renderers, tick in shown]
        before = b""
        for head, parts in zip(self._headers[openmetrics], zip(*chunks, strict=True), strict=False):
            if any(parts):
                if head is not before:
                    page.write(head)
                    before = head
                page.writelines(parts)
        counts = [renderers.counts.update(tick, self._distributions) for renderers, tick in shown]
        names = settings.catalog.summaries
        page.write(encoded(summary_lines(names, counts, self._distributions, settings.peaks, openmetrics)))
        if "jobstats" in settings.compat:
            page.writelines(_of_jobstats(shown, openmetrics))
        if settings.passthrough:
            page.writelines(_republished(fresh, openmetrics))
        self._telemetry.observe("present", time.perf_counter() - begun)
        return page.getvalue()

    def _without_duplicates(self, fresh: Sequence[_Fresh]) -> Sequence[_Fresh]:
        """Return the ticks without GPUs that an earlier target shows."""
        here = self._store.node
        ticks = without_duplicates([tick for _, tick in fresh], here)
        keys = {key_of(device, here) for tick in ticks for device in tick.devices}
        self._memory.forget_others(keys)
        self._distributions.forget_others(keys)
        self._telemetry.duplicate_gpus = {
            renderers.target.name: len(tick.devices) - len(rest.devices)
            for (renderers, tick), rest in zip(fresh, ticks, strict=True)
        }
        return [(renderers, tick) for (renderers, _), tick in zip(fresh, ticks, strict=True)]


def _headers(catalog: Catalog, openmetrics: bool) -> Sequence[bytes]:
    """Return the header of each chunk, the same object for chunks of one family."""
    heads = {each: header(each.name, each.type, each.help, openmetrics).encode() for each in catalog.families}
    return [heads[family] for family in catalog.families]


def compress(page: bytes) -> bytes:
    """Return the page as gzip; equal pages give equal bytes, as the header has no time."""
    gzip = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 31)  # 31: a gzip container, largest window
    return gzip.compress(page) + gzip.flush()


def _of_jobstats(shown: Sequence[_Fresh], openmetrics: bool) -> Iterator[bytes]:
    chunks = zip(*(renderers.jobstats.render(tick) for renderers, tick in shown), strict=True)
    for family, parts in zip(JOBSTATS, chunks, strict=False):
        if any(parts):
            yield header(family.name, "gauge", family.help, openmetrics).encode()
            yield from parts


def _republished(fresh: Sequence[_Fresh], openmetrics: bool) -> Iterator[bytes]:
    """Yield the series of the sources, each of the first target that has it."""
    families: dict[str, list[bytes]] = {}
    published: set[str] = set()
    for renderers, tick in fresh:
        for name, samples in renderers.passthrough.render(tick, published).items():
            families.setdefault(name, []).append(samples)
    layouts = [renderers.passthrough.layout for renderers, _ in fresh]
    for name, texts in families.items():
        yield passthrough_header(name, layouts, openmetrics)
        yield from texts
