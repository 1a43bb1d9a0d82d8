"""What was published of each GPU before: decides when sparse series appear and end.

PromQL's `increase()` counts from the first sample of a series. So a counter that appears is published at 0 first, until
a scrape took that; then nothing of it is lost.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import inf
from operator import add, gt, sub

from pulsed.model.counters import Distribution
from pulsed.model.gpu import GpuKey
from pulsed.present.exposition.family_types import Form

MIN_HOLD_SECONDS, MAX_HOLD_SECONDS = 30.0, 120.0
"""Limits of the time for which a new counter stays at 0."""

RECENT_SECONDS = 600.0
"""Time for which a gauge that became 0 is still published."""

_SPARE = 64


@dataclass(slots=True)
class PublishedGpu:
    """What was published of one GPU; times of pages are in monotonic seconds.

    Attributes:
        first_page: time of its first page.
        first_configured: time of its first page with the forms in force; None before.
        counters: by sparse series, when it was published first, at 0; -inf once it has its value.
        gauges: by sparse series, Unix time since when it is 0; inf while it is not.
        distribution: as counted in the sum over all GPUs.
    """

    first_page: float
    first_configured: float | None = None
    counters: dict[Hashable, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    distribution: Distribution | None = None


class Published:
    """The sparse series of all GPUs. It outlives targets and configurations.

    Attributes:
        now: time of the page, in monotonic seconds.
        hold: time for which a new counter stays at 0.
        distributions: of real utilization, by node and model; also of GPUs that are gone.
    """

    def __init__(self) -> None:
        self.now = -inf
        self.hold = MIN_HOLD_SECONDS
        self.distributions: dict[tuple[str, str], Distribution] = {}
        self._interval = 0.0
        self._changed_until = -inf
        self._gpus: dict[GpuKey, PublishedGpu] = {}

    def begin_page(self, now: float) -> None:
        """Begin a page that is requested at this time.

        A new counter is held at 0 for twice the interval between requests, because there may be two scrapers.
        """
        if -inf < self.now < now:
            self._interval = max(now - self.now, self._interval / 2.0)
            self.hold = min(max(2.0 * self._interval, MIN_HOLD_SECONDS), MAX_HOLD_SECONDS)
        self.now = now
        self._changed_until = min(self._changed_until, now + MAX_HOLD_SECONDS)

    def change_forms(self) -> None:
        """Publish the counters of each GPU on its next page at once: pages of the forms before may have had them."""
        if self.now != -inf:
            self._changed_until = inf
            for gpu in self._gpus.values():
                gpu.first_configured = None

    def gpu(self, key: GpuKey) -> PublishedGpu:
        """Return what was published of a GPU that is on this page."""
        gpu = self._gpus.get(key)
        if gpu is None:
            gpu = self._gpus[key] = PublishedGpu(self.now)
        if gpu.first_configured is None:
            gpu.first_configured = self.now
        return gpu

    def counter(self, gpu: PublishedGpu, series: Hashable, value: float, form: Form) -> float | None:
        """Return what to publish of a counter, None for nothing.

        On the first page of a GPU, `counted` has its value at once, as the counters that every page has: quotients of
        both stay exact.
        """
        now = self.now
        since = gpu.counters.get(series)
        if since is None:
            if not value and form != "zero_first":
                return None
            is_known = gpu.first_configured == now < self._changed_until
            is_whole = form == "counted" and gpu.first_page == now
            since = gpu.counters[series] = -inf if is_known or is_whole else now
        if now - since < self.hold:
            return 0
        gpu.counters[series] = -inf
        return value

    def gauge(self, gpu: PublishedGpu, series: str, value: float, time: float) -> float | None:
        """Return what to publish of a gauge at this Unix time, None if it was 0 for long."""
        if value:
            gpu.gauges[series] = inf
            return value
        since = gpu.gauges.get(series, -inf)
        if since == inf:
            since = gpu.gauges[series] = time
        return value if time - since <= RECENT_SECONDS else None

    def add_distribution(self, key: GpuKey, model: str, now: Distribution) -> None:
        """Add what is new in the distribution of one GPU to the sum of its node and model, which never decreases."""
        gpu, place = self.gpu(key), (key[0], model)
        before, gpu.distribution = gpu.distribution, now
        if before == now:
            return
        nothing = Distribution(now.bounds, (0,) * len(now.counts), 0.0)
        if before is None or before.bounds != now.bounds or any(map(gt, before.counts, now.counts)):
            before = nothing
        sums = self.distributions.get(place, nothing)
        if sums.bounds != now.bounds:  # the configuration has changed
            sums = nothing
        counts = tuple(map(add, sums.counts, map(sub, now.counts, before.counts)))
        self.distributions[place] = Distribution(now.bounds, counts, sums.sum + (now.sum - before.sum))

    def forget_others(self, keys: set[GpuKey]) -> None:
        """Forget GPUs that are gone, once most of them are; those that return until then continue."""
        if len(self._gpus) > 2 * len(keys) + _SPARE:
            self._gpus = {key: gpu for key, gpu in self._gpus.items() if key in keys}
