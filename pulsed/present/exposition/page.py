"""The `/metrics` page, rendered at most once per change of the target store, and its parts.

Order: GPU families, those of jobstats and the source's own series if configured, then pulsed's own metrics. Families
are contiguous; empty families are omitted. Samples have no timestamps. GPUs of a stale target are not on the page.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from itertools import chain

from pulsed.background import TURN_SECONDS, in_background
from pulsed.compute.peaks import DEFAULT_PEAKS, Peaks
from pulsed.model.computed_tick import ComputedTick
from pulsed.model.gpu import GpuKey
from pulsed.model.target_store import TargetStore
from pulsed.present.exposition.catalog import FULL, Catalog
from pulsed.present.exposition.jobstats_series import FAMILIES as JOBSTATS
from pulsed.present.exposition.node_counters import NodeCounters
from pulsed.present.exposition.node_sums import node_lines
from pulsed.present.exposition.page_parts import WHOLE, PagePart, PageParts
from pulsed.present.exposition.passthrough import passthrough_header
from pulsed.present.exposition.series_memory import SeriesMemory
from pulsed.present.exposition.shown_targets import Place, ShownTargets, ShownTick, TargetTick, fresh_ticks
from pulsed.present.exposition.summary import Distributions, summary_lines
from pulsed.present.exposition.target_renderer import TargetRenderer
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.present.exposition.text_format import END, header, pieces

GZIP_LEVEL = 1
"""On a page of 256 GPUs level 1 takes 0.4 of level 6's time for a result 1.4 times as long; both are about a tenth of
the page. See `tools/bench/bench_render.py`."""

REFRESH_SECONDS = 1.0
"""Maximum age of a page without a new tick, because counters of pulsed itself change."""

LARGE_GPUS = 128
"""GPUs, or targets, up to which a page is rendered at once: it takes some 10 ms. A larger target is rendered in the
background."""

LARGE_BYTES = 2**20
"""Size up to which a page is compressed at once: it takes some 10 ms."""

MANY_GPUS = 1000
"""GPUs above which a log line recommends the parts of the page."""

COMPATIBLE = ("jobstats",)
"""Programs whose series pulsed can publish beside its own."""

log = logging.getLogger(__name__)


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
    """The page and its parts in every format and coding.

    Attributes:
        parts: the parts that there are.
    """

    def __init__(self, store: TargetStore, telemetry: Telemetry, settings: PageSettings = _EVERYTHING) -> None:
        self.parts = PageParts(store)
        self._store = store
        self._telemetry = telemetry
        self._memory = SeriesMemory()
        self._distributions = Distributions()
        self._node_counters = NodeCounters()
        self._sums_memory = SeriesMemory()
        self._present: set[GpuKey] | None = None
        """The GPUs that there are since they changed, for the sums to forget the others."""
        self._lock, self._sums_lock = asyncio.Lock(), asyncio.Lock()
        self._cache_key = CacheKey()
        self._pages: dict[tuple[bool, bool], bytes] = {}
        self._recommends_parts = True
        self.configure(settings)

    def configure(self, settings: PageSettings) -> None:
        """Render by these settings from the next page on; what was published of a GPU before is remembered."""
        self._settings = settings
        self._memory.change_forms()
        self._sums_memory.change_forms()
        self._headers = tuple([_headers(settings.catalog, openmetrics) for openmetrics in (False, True)])
        self._pages.clear()
        self._shown = ShownTargets(self._store, self._renderer, self._note_assigned, republishes=settings.passthrough)

    def page(self, now: float, *, openmetrics: bool, gzip: bool) -> bytes:
        """Return the page; targets must be fresh at `now` (monotonic seconds)."""
        self._begin(now, WHOLE)
        if self._cache_key.expired(self._store, now):
            self._pages.clear()
        key = (openmetrics, gzip)
        page = self._pages.get(key)
        if page is None:
            if gzip:
                page = compress(self.page(now, openmetrics=openmetrics, gzip=False))
            else:
                draft = BytesIO()
                ticks = fresh_ticks(self._store.targets, now)
                self._telemetry.observe("present", _run(self._render(draft, ticks, now, openmetrics, WHOLE)))
                _run(self._end(draft, now, openmetrics, WHOLE))
                page = draft.getvalue()
            self._pages[key] = page
        return page

    async def serve(self, now: float, *, openmetrics: bool, gzip: bool, part: PagePart = WHOLE) -> bytes:
        """Return the page as `page` does, or a part, without keeping other requests from being answered meanwhile.

        The pages of many targets are rendered in turns of `TURN_SECONDS`, those with a large target in the background.
        The whole page is kept until it changes; of a part the chunks of its targets are. The sums of all GPUs, which
        take long, do not keep parts with GPUs waiting.
        """
        async with contextlib.AsyncExitStack() as stack:
            if part.daemon:
                await stack.enter_async_context(self._sums_lock)
            if part.gpus:
                await stack.enter_async_context(self._lock)
            pages = self._pages
            if part is not WHOLE:
                pages = {}
            elif self._cache_key.expired(self._store, now):
                pages.clear()
            self._begin(now, part)
            plain, packed = (openmetrics, False), (openmetrics, True)
            if plain not in pages:
                pages[plain] = await self._rendered(now, openmetrics, part)
            if gzip and packed not in pages:
                pages[packed] = await _compressed(pages[plain])
            return pages[packed if gzip else plain]

    async def _rendered(self, now: float, openmetrics: bool, part: PagePart) -> bytes:
        targets = self._store.targets if part.daemon or part.targets is None else part.targets
        fresh = fresh_ticks(targets, now)
        sizes = [len(tick.devices) for _, tick in fresh]
        if part is WHOLE:
            self._recommend_parts(sum(sizes))
        draft = BytesIO()
        if not part.gpus:
            async with self._lock:
                shown = self._shown.update(fresh, now, is_whole=True)
            steps = self._sums(draft, shown, openmetrics)
        else:
            steps = self._render(draft, fresh, now, openmetrics, part)
        end = self._end(draft, now, openmetrics, part)
        if max(sum(sizes), len(targets)) <= LARGE_GPUS:
            # Without turns, which would let the requests of many clients be at work at once.
            self._telemetry.observe("present", _run(steps))
            _run(end)
            return draft.getvalue()
        others = None if part.gpus else self._lock
        if max(sizes, default=0) <= LARGE_GPUS:
            seconds = await _run_in_turns(steps, others)
        else:
            seconds = await in_background(partial(_run, steps))
        self._telemetry.observe("present", seconds)
        await _run_in_turns(end, others)
        return draft.getvalue()

    def _begin(self, now: float, part: PagePart) -> None:
        if part.gpus:
            self._memory.begin_page(now, part.name)
        if part.daemon:
            self._sums_memory.begin_page(now, part.name)

    def _recommend_parts(self, gpus: int) -> None:
        """Log once that a large page is better read in parts."""
        if gpus > MANY_GPUS and self._recommends_parts:
            log.warning(
                "the page is large: let Prometheus read it in parts, which it finds at /sd",
                extra={"gpus": gpus, "documentation": "docs/operations.md, One process for a fleet"},
            )
        self._recommends_parts = gpus <= MANY_GPUS

    def _end(self, page: BytesIO, now: float, openmetrics: bool, part: PagePart) -> Iterator[None]:
        """Add pulsed's own families and the last line in many short steps."""
        if part.daemon:
            for piece in self._telemetry.render(now, openmetrics=openmetrics):
                page.write(piece)
                yield
        if openmetrics:
            page.write(END)

    def _render(
        self, page: BytesIO, ticks: Sequence[TargetTick], now: float, openmetrics: bool, part: PagePart
    ) -> Iterator[None]:
        """Render what a part has of ticks in many short steps: families of GPUs, of the source, and sums of GPUs."""
        settings = self._settings
        shown = self._shown.update(ticks, now, is_whole=part.daemon)
        fresh = [(each.place, each.tick) for each in shown]
        chunks: list[list[bytes]] = []
        for place, tick in fresh:
            chunks.append(place.renderer.render(tick, place.hidden))
            yield
        before = b""
        for head, parts in zip(self._headers[openmetrics], zip(*chunks, strict=True), strict=False):
            if any(parts):
                if head is not before:
                    page.write(head)
                    before = head
                page.writelines(parts)
            yield
        if part.daemon:
            yield from self._sums(page, shown, openmetrics)
        if "jobstats" in settings.compat:
            page.writelines(_of_jobstats(fresh, openmetrics))
            yield
        if settings.passthrough:
            for lines in _republished(fresh, openmetrics):
                page.write(lines)
                yield

    def _sums(self, page: BytesIO, shown: Sequence[ShownTick], openmetrics: bool) -> Iterator[None]:
        """Render the sums over all GPUs in many short steps, while renderers may go on to other ticks."""
        present, self._present = self._present, None
        if present is not None:
            self._distributions.forget_others(present)
            self._node_counters.forget_others(present)
        for place, tick, keys, hidden in shown:
            place.counts.update(tick, keys, hidden, self._distributions, self._node_counters)
            yield
        catalog, counts = self._settings.catalog, [each.place.counts for each in shown]
        nodes = [count.nodes for count in counts]
        texts = chain(
            summary_lines(catalog.summaries, counts, self._distributions, self._settings.peaks, openmetrics),
            node_lines(catalog.nodes, nodes, self._node_counters, self._sums_memory, openmetrics),
        )
        for piece in pieces(texts):
            page.write(piece)
            yield

    def _renderer(self) -> TargetRenderer:
        return TargetRenderer(
            self._store.node, self._settings.catalog, self._memory, owner_labels=self._settings.owner_labels
        )

    def _note_assigned(self, keys: set[GpuKey], duplicates: Mapping[str, int]) -> None:
        self._memory.forget_others(keys)
        self._present = keys
        self._telemetry.duplicate_gpus = duplicates


def _headers(catalog: Catalog, openmetrics: bool) -> Sequence[bytes]:
    """Return the header of each chunk, the same object for chunks of one family."""
    heads = {each: header(each.name, each.type, each.help, openmetrics).encode() for each in catalog.families}
    return [heads[family] for family in catalog.families]


def _run(steps: Iterator[None]) -> float:
    """Run all steps; return the seconds that they took."""
    begun = time.perf_counter()
    for _ in steps:
        pass
    return time.perf_counter() - begun


async def _compressed(page: bytes) -> bytes:
    return compress(page) if len(page) <= LARGE_BYTES else await in_background(partial(compress, page))


async def _run_in_turns(steps: Iterator[None], others: asyncio.Lock | None = None) -> float:
    """Run all steps, and after every turn the event loop, and who waits for a lock or has it; return the seconds that
    the steps took."""
    seconds, begun = 0.0, time.perf_counter()
    for _ in steps:
        spent = time.perf_counter() - begun
        if spent > TURN_SECONDS:
            await asyncio.sleep(0)
            if others is not None and others.locked():
                async with others:
                    pass
            seconds, begun = seconds + spent, time.perf_counter()
    return seconds + time.perf_counter() - begun


def compress(page: bytes) -> bytes:
    """Return the page as gzip; equal pages give equal bytes, as the header has no time."""
    gzip = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 31)  # 31: a gzip container, largest window
    return gzip.compress(page) + gzip.flush()


def _of_jobstats(fresh: Sequence[tuple[Place, ComputedTick]], openmetrics: bool) -> Iterator[bytes]:
    chunks = zip(*(place.jobstats.render(tick, place.hidden) for place, tick in fresh), strict=True)
    for family, parts in zip(JOBSTATS, chunks, strict=False):
        if any(parts):
            yield header(family.name, "gauge", family.help, openmetrics).encode()
            yield from parts


def _republished(fresh: Sequence[tuple[Place, ComputedTick]], openmetrics: bool) -> Iterator[bytes]:
    families: dict[str, list[bytes]] = {}
    for place, tick in fresh:
        for name, samples in place.passthrough.render(tick, place.hidden_series).items():
            families.setdefault(name, []).append(samples)
    layouts = [place.passthrough.layout for place, _ in fresh]
    known = [layout for layout in layouts if layout is not None]
    for name, texts in families.items():
        yield passthrough_header(name, known, openmetrics)
        yield from texts
