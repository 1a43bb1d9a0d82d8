"""pulsed's metrics about itself and its sources, in a registry of its own, and the metrics of every process of pulsed.

The state of targets is read from the target store when the page is rendered; only durations and requests are counted
here. There are no `_created` series: each would be a family of its own.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from pulsed import __version__, revision
from pulsed.background_tasks import FAILURES
from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import Target, TargetStore
from pulsed.present.exposition.text_format import encoded, lines

LAYERS = ("read", "translate", "compute", "present")
"""The values of the label `layer`."""

BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.1, 1.0)
"""Upper bounds in seconds of `pulsed_tick_duration_seconds`: eight GPUs take some 100 us."""


class Telemetry(Collector):
    """Counts what pulsed does and writes it as exposition.

    Args:
        families: returns the families of other parts of the daemon at monotonic seconds.
        is_config_in_force: returns whether the configuration of the files is in force.
    """

    def __init__(
        self,
        store: TargetStore,
        families: Callable[[Monotonic], Iterable[Metric]] = lambda now: (),
        is_config_in_force: Callable[[], bool] = lambda: True,
    ) -> None:
        self._families, self._is_config_in_force = families, is_config_in_force
        self._build = build_info("pulsed_build")
        self._store = store
        self._now = 0.0
        self.registry = CollectorRegistry()
        self.registry.register(self)
        durations = Histogram(
            "pulsed_tick_duration_seconds",
            "Time of a layer for one tick of one source",
            ["layer"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._durations = {layer: durations.labels(layer) for layer in LAYERS}
        self._requests = request_counter(self.registry)
        ProcessCollector(registry=self.registry)

    def observe(self, layer: str, seconds: float) -> None:
        """Note how long a layer (one of `LAYERS`) took for a tick."""
        self._durations[layer].observe(seconds)

    def count_request(self, path: str, code: int) -> None:
        """Count an answered HTTP request; `path` is the route's template, never what the client asked for."""
        self._requests.labels(path, code).inc()

    def render(self, now: Monotonic, *, openmetrics: bool) -> bytes:
        """Return all families, without OpenMetrics' last line; the reference for freshness is `now` (monotonic)."""
        self._now = now
        return encoded(lines(self.registry.collect(), openmetrics))

    def collect(self) -> Iterator[Metric]:
        """Yield all families (prometheus_client)."""
        yield self._build
        yield from _source_families(self._store, Monotonic(self._now))
        yield from self._families(Monotonic(self._now))
        yield GaugeMetricFamily(
            "pulsed_config_last_reload_successful",
            "1 if the configuration file is active, 0 if it was rejected",
            value=int(self._is_config_in_force()),
        )


def _source_families(store: TargetStore, now: Monotonic) -> Iterator[Metric]:
    source = ["source"]
    info = InfoMetricFamily("pulsed_source", "Kind and target of a source", labels=["kind", "target"])
    up = GaugeMetricFamily("pulsed_source_up", "1 while the last attempt delivered a fresh sample", labels=source)
    samples = CounterMetricFamily("pulsed_source_samples", "Samples read", labels=source)
    errors = CounterMetricFamily("pulsed_source_errors", "Failed attempts to read samples", labels=["source", "reason"])
    rejected = CounterMetricFamily(
        "pulsed_source_rejected_rows", "Rows of samples that could not be read", labels=["source", "reason"]
    )
    restarted = CounterMetricFamily("pulsed_source_restarts", "Restarts of the source", labels=source)
    last = GaugeMetricFamily(
        "pulsed_source_last_sample_timestamp_seconds",
        "Time of the last sample, whether fresh or not; absent before the first",
        labels=source,
    )
    repeated = GaugeMetricFamily(
        "pulsed_source_duplicate_gpus", "GPUs omitted because another source has them", labels=source
    )
    alternating = GaugeMetricFamily(
        "pulsed_source_alternating_hosts",
        "Hosts that the pages of a source name in turns, as behind a balanced address; absent otherwise",
        labels=source,
    )
    unknown = GaugeMetricFamily(
        "pulsed_source_unknown_fields",
        "Unknown names on the page that begin like DCGM's; pulsed doctor lists them",
        labels=source,
    )
    kernel_log = GaugeMetricFamily(
        "pulsed_kernel_log_up",
        "1 while XIDs are read from the kernel log; absent if health.kernel_log is off",
        labels=source,
    )
    targets: dict[str, Target] = {}
    for target in store.targets:
        targets.setdefault(target.name, target)  # one that is configured twice is shown once, as the first
    for name, target in targets.items():
        if target.kernel_log_error is not None:
            kernel_log.add_metric([name], int(not target.kernel_log_error))
        labels = target.tick.raw.target_labels if target.tick else ()
        info.add_metric([target.kind, name], dict(labels))
        up.add_metric([name], int(target.up and target.fresh(now)))
        samples.add_metric([name], target.samples)
        for reason, count in target.errors.items():
            errors.add_metric([name, reason], count)
        for reason, rows in target.rejected.items():
            rejected.add_metric([name, reason], rows)
        restarted.add_metric([name], target.restarts)
        if target.tick is not None:
            last.add_metric([name], target.tick.time)
            if target.tick.layout.dialect == "exporter":
                unknown.add_metric([name], len(target.tick.unknown_fields))
        tick = target.tick if target.fresh(now) else None
        repeated.add_metric([name], sum(tick.duplicates.values()) if tick is not None else 0)
        if tick is not None and tick.alternating_hosts:
            alternating.add_metric([name], len(tick.alternating_hosts))
    for family in (info, up, samples, errors, rejected, restarted, last, repeated, alternating, unknown, kernel_log):
        if family.samples:
            yield family


def build_info(name: str) -> Metric:
    """Return the family of the versions; its name without `_info`."""
    labels = {"version": __version__, "revision": revision(), "python": platform.python_version()}
    return InfoMetricFamily(name, "Version and revision of pulsed, and version of Python", value=labels)


def request_counter(registry: CollectorRegistry | None) -> Counter:
    """Return the counter of answered HTTP requests, without a `_created` series, which would be a family of its own."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    return Counter(
        "pulsed_http_requests", "Answered HTTP requests, by route and status", ["path", "code"], registry=registry
    )


def task_families() -> Iterator[Metric]:
    """Yield the family of failures, if there were any."""
    if FAILURES:
        yield failure_family(
            "pulsed_task_failures",
            "Background tasks restarted after an internal error; absent before the first",
            "task",
            FAILURES,
        )


def failure_family(name: str, help: str, label: str, failures: Mapping[str, int]) -> Metric:
    """Return a family of failures by the values of a label."""
    family = CounterMetricFamily(name, help, labels=[label])
    for value, count in failures.items():
        family.add_metric([value], count)
    return family
