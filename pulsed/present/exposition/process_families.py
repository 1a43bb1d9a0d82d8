"""What every process of pulsed publishes about itself: its versions, and the HTTP requests that it answered."""

from __future__ import annotations

import platform

from prometheus_client.metrics_core import CounterMetricFamily, InfoMetricFamily, Metric

from pulsed import __version__


def build_info(name: str) -> Metric:
    """Return the family of the versions; its name without `_info`."""
    labels = {"version": __version__, "python": platform.python_version()}
    return InfoMetricFamily(name, "Version of pulsed and Python", value=labels)


class RequestCounts:
    """Counts answered HTTP requests."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}

    def count(self, path: str, code: int) -> None:
        """Count a request; `path` is the route's template, never what the client asked for."""
        key = (path, str(code))
        self._counts[key] = self._counts.get(key, 0) + 1

    def family(self) -> Metric:
        """Return the counts."""
        found = CounterMetricFamily(
            "pulsed_http_requests", "Answered HTTP requests, by route and status", labels=["path", "code"]
        )
        for labels, count in self._counts.items():
            found.add_metric(labels, count)
        return found
