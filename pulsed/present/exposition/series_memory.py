"""What was published of a GPU before: decides when sparse series appear and end.

PromQL's `increase()` counts from the first sample of a series. So a counter that appears is published at 0 first, until
a scrape took that; then nothing of it is lost.
"""

from __future__ import annotations

from math import inf
from typing import Literal, TypeVar, get_args

from pulsed.model.gpu import GpuKey

LEAST_HOLD_SECONDS, MOST_HOLD_SECONDS = 30.0, 120.0
"""Limits of the time for which a new counter stays at 0."""

RECENT_SECONDS = 600.0
"""Time for which a gauge that became 0 is still published."""

_SPARE = 64
T = TypeVar("T")
_FIRST_PAGE = ""

CounterForm = Literal["counted", "events", "zero_first"]
"""A counter of time and energy, absent before it counts; one of events, likewise; one that is there from 0."""

COUNTER_FORMS = frozenset[str](get_args(CounterForm))


class SeriesMemory:
    """When each sparse series was published first, or became 0. It outlives targets and renderers.

    Attributes:
        now: time of the page, in monotonic seconds.
        hold: time for which a new counter stays at 0.
    """

    def __init__(self) -> None:
        self.now = -inf
        self.hold = LEAST_HOLD_SECONDS
        self._interval = 0.0
        self._changed_until = -inf
        self._first_since_change: dict[GpuKey, float] = {}
        self._times: dict[GpuKey, dict[str, float]] = {}

    def begin_page(self, now: float) -> None:
        """Begin a page that is requested at this time.

        A new counter is held at 0 for twice the interval between requests, because there may be two scrapers.
        """
        if -inf < self.now < now:
            self._interval = max(now - self.now, self._interval / 2.0)
            self.hold = min(max(2.0 * self._interval, LEAST_HOLD_SECONDS), MOST_HOLD_SECONDS)
        self.now = now
        self._changed_until = min(self._changed_until, now + MOST_HOLD_SECONDS)

    def change_forms(self) -> None:
        """Publish the counters of each GPU on its next page at once: pages of the forms before may have had them."""
        if self.now != -inf:
            self._changed_until = inf
            self._first_since_change.clear()

    def counter(self, key: GpuKey, series: str, value: float, form: CounterForm) -> tuple[float | None, bool]:
        """Return what to publish of a counter, None for nothing, and whether that changes with time alone.

        On the first page of a GPU, `counted` has its value at once, as the counters that every page has: quotients of
        both stay exact.
        """
        times = self._times.get(key)
        if times is None:
            times = self._times[key] = {_FIRST_PAGE: self.now}
        since = times.get(series)
        if since == -inf:
            return value, False
        if since is None:
            is_changed = self.now < self._changed_until and (
                self._first_since_change.setdefault(key, self.now) == self.now
            )
            if not value and form != "zero_first":
                return None, False
            if is_changed or (form == "counted" and times[_FIRST_PAGE] == self.now):
                times[series] = -inf
                return value, False
            times[series] = self.now
            return 0, True
        if self.now - since < self.hold:
            return 0, True
        times[series] = -inf
        return value, False

    def gauge(self, key: GpuKey, series: str, value: float, time: float) -> tuple[float | None, bool]:
        """Return the value of a gauge at this Unix time, None if it was 0 for long; and whether that changes."""
        times = self._times.setdefault(key, {_FIRST_PAGE: self.now})
        if value:
            times[series] = inf
            return value, False
        since = times.get(series, -inf)
        if since == inf:
            since = times[series] = time
        return (value, True) if time - since <= RECENT_SECONDS else (None, False)

    def forget_others(self, keys: set[GpuKey]) -> None:
        """Forget GPUs that are gone, once they are many."""
        self._times = without_gone(self._times, keys)


def without_gone(kept: dict[GpuKey, T], keys: set[GpuKey]) -> dict[GpuKey, T]:
    """Return what is kept of GPUs: all, until most of them are gone, because those that return begin again."""
    if len(kept) <= 2 * len(keys) + _SPARE:
        return kept
    return {key: value for key, value in kept.items() if key in keys}
