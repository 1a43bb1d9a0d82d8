"""The `/metrics` page, rendered at most once per change of the target store.

Order: GPU families, jobstats' and the source's own series if configured, then pulsed's own metrics. Families
are contiguous; empty families are omitted. Samples have no timestamps. GPUs of a stale target are not on the page. A
GPU or series that several targets have comes from the first fresh one.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from pulsed.compute.peaks import DEFAULT_PEAKS, Peaks
from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import TargetStore
from pulsed.model.tick import Tick
from pulsed.present.exposition.catalog import FULL, Catalog
from pulsed.present.exposition.gpu_series import Published, gpu_lines, page_gpus, summary_lines
from pulsed.present.exposition.jobstats_series import jobstats_lines
from pulsed.present.exposition.passthrough import passthrough_lines
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.present.exposition.text_format import END, encoded

GZIP_LEVEL = 1
"""On a page of 256 GPUs level 1 takes 0.4 of level 6's time for a result 1.4 times as long; both are about a tenth of
the page."""

REFRESH_SECONDS = 1.0
"""Maximum age of a page without a new tick, because counters of pulsed itself change."""

LARGE_GPUS = 64
"""GPUs up to which a page is rendered in the event loop: it takes some 5 ms. A larger one is rendered in a thread."""

COMPATIBLE = ("jobstats",)
"""Programs whose series pulsed can publish in addition to its own."""


@dataclass(frozen=True, slots=True)
class PageSettings:
    """Content of the page.

    Attributes:
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


def render(ticks: Sequence[Tick], here: str, settings: PageSettings, published: Published, openmetrics: bool) -> bytes:
    """Return the families of GPUs and of the sources, from ticks of the fresh targets; `here` is the node of GPUs whose
    source does not name one.
    """
    gpus = page_gpus(ticks, here, published, owner_labels=settings.owner_labels)
    published.forget_others({gpu.key for gpu in gpus})
    page = gpu_lines(gpus, settings.catalog, published, openmetrics)
    page += summary_lines(settings.catalog.summaries, gpus, published, settings.peaks, openmetrics)
    if "jobstats" in settings.compat:
        page += jobstats_lines([gpu.sample for gpu in gpus], here, openmetrics)
    if settings.passthrough:
        page += passthrough_lines(ticks, here, openmetrics)
    return encoded(page)


class Pages:
    """The page in every format and coding, kept until a target changes or a second has passed."""

    def __init__(self, store: TargetStore, telemetry: Telemetry, settings: PageSettings = _EVERYTHING) -> None:
        self._store = store
        self._telemetry = telemetry
        self._published = Published()
        self._lock = asyncio.Lock()
        self._settings = settings
        self._next: PageSettings | None = None
        self._pages: dict[tuple[bool, bool], bytes] = {}
        self._ticks: Sequence[Tick] = ()
        self._state: object = None
        self._since = -inf

    def configure(self, settings: PageSettings) -> None:
        """Render by these settings from the next page on; the publication state of GPUs remains."""
        self._next = settings

    @property
    def owner_families(self) -> frozenset[str]:
        """The families of owners that the page has."""
        return self._settings.catalog.owners

    def page(self, now: Monotonic, *, openmetrics: bool, gzip: bool) -> bytes:
        """Return the page; targets must be fresh at `now` (monotonic seconds)."""
        pages = self._begin(now)
        plain = pages.get((openmetrics, False))
        if plain is None:
            body = self._render(self._ticks, openmetrics)
            plain = pages[openmetrics, False] = self._with_telemetry(body, now, openmetrics)
        if not gzip:
            return plain
        packed = pages.get((openmetrics, True))
        if packed is None:
            packed = pages[openmetrics, True] = compress(plain)
        return packed

    async def serve(self, now: Monotonic, *, openmetrics: bool, gzip: bool) -> bytes:
        """Return the page as `page` does; a page of more than `LARGE_GPUS` is rendered and compressed in a thread.

        Only one page is rendered at a time, even if a request for it is cancelled.
        """
        if self._store.gpus <= LARGE_GPUS and not self._lock.locked():
            return self.page(now, openmetrics=openmetrics, gzip=gzip)
        return await asyncio.shield(self._serve_large(now, openmetrics, gzip))

    async def _serve_large(self, now: Monotonic, openmetrics: bool, gzip: bool) -> bytes:
        async with self._lock:
            pages = self._begin(now)
            plain, packed = (openmetrics, False), (openmetrics, True)
            if plain not in pages:
                body = await asyncio.to_thread(self._render, self._ticks, openmetrics)
                pages[plain] = self._with_telemetry(body, now, openmetrics)
            if gzip and packed not in pages:
                pages[packed] = await asyncio.to_thread(compress, pages[plain])
            return pages[packed if gzip else plain]

    def _begin(self, now: Monotonic) -> dict[tuple[bool, bool], bytes]:
        """Begin a page: apply new settings; return the pages that are still current."""
        self._published.begin_page(now)
        if self._next is not None:
            self._settings, self._next = self._next, None
            self._published.change_forms()
        self._ticks = self._store.fresh_ticks(now)
        state = (self._settings, self._store.version, self._ticks)
        if state != self._state or not self._since <= now < self._since + REFRESH_SECONDS:
            self._state, self._since, self._pages = state, now, {}
        return self._pages

    def _render(self, ticks: Sequence[Tick], openmetrics: bool) -> bytes:
        begun = time.perf_counter()
        page = render(ticks, self._store.node, self._settings, self._published, openmetrics)
        self._telemetry.observe("present", time.perf_counter() - begun)
        return page

    def _with_telemetry(self, body: bytes, now: Monotonic, openmetrics: bool) -> bytes:
        """Return the page: the families of GPUs, pulsed's own families, and the last line."""
        own = self._telemetry.render(now, openmetrics=openmetrics)
        return b"".join((body, own, END if openmetrics else b""))


def compress(page: bytes) -> bytes:
    """Return the page as gzip; equal pages give equal bytes, as the header has no time."""
    gzip = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 31)  # 31: a gzip container, largest window
    return gzip.compress(page) + gzip.flush()
