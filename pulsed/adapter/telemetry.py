"""The adapter's metrics about itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from pulsed.adapter.cluster_gpus import ClusterGpus, ClusterPod
from pulsed.kubernetes.resource_watch import ResourceWatch
from pulsed.present.exposition.process_families import RequestCounts, build_info
from pulsed.present.exposition.text_format import END, lines


class AdapterTelemetry:
    """Counts requests, and renders the page.

    Args:
        pods: the watch of all pods.
        wall: returns the Unix time.
    """

    def __init__(
        self, gpus: ClusterGpus, pods: ResourceWatch[ClusterPod], wall: Callable[[], float] = time.time
    ) -> None:
        self._gpus, self._pods, self._wall = gpus, pods, wall
        self._build = build_info("pulsed_adapter_build")  # `pulsed_build_info` identifies daemons
        self._requests = RequestCounts()
        self._process = ProcessCollector(registry=None)

    def count_request(self, path: str, code: int) -> None:
        """Count an answered request, as `RequestCounts.count`."""
        self._requests.count(path, code)

    def page(self, *, openmetrics: bool) -> bytes:
        """Return the page."""
        page = "".join(lines((*self.families(), *self._process.collect()), openmetrics)).encode()
        return page + END if openmetrics else page

    def families(self) -> Iterator[Metric]:
        """Yield all families but `process_*`."""
        yield self._build
        daemons = GaugeMetricFamily(
            "pulsed_adapter_daemons", "Daemons by the result of their last reading", labels=["result"]
        )
        failing = sum(map(bool, self._gpus.daemons.values()))
        daemons.add_metric(["success"], len(self._gpus.daemons) - failing)
        daemons.add_metric(["failure"], failing)
        yield daemons
        oldest = GaugeMetricFamily(
            "pulsed_adapter_oldest_reading_timestamp_seconds",
            "Time of the oldest reading of a daemon among those in use; absent without one",
        )
        if (age := self._gpus.oldest_age) is not None:
            oldest.add_metric([], round(self._wall() - age, 3))
        yield oldest
        yield GaugeMetricFamily(
            "pulsed_adapter_watch_up",
            "1 while the list of pods is current",
            value=int(self._pods.is_listed and not self._pods.error),
        )
        yield CounterMetricFamily(
            "pulsed_adapter_watch_restarts",
            "Lists and watches of pods that failed and were begun again",
            value=self._pods.restarts,
        )
        yield self._requests.family()
