"""All collectors of the daemon, and their sections of the state file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from pulsed.collector.attribution_sources import resolves_workloads
from pulsed.collector.collector import Observe
from pulsed.collector.pool import CollectorPool
from pulsed.collector.this_host import discovers_exporters
from pulsed.config.configuration import Config
from pulsed.daemon.feature import Feature, Section
from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import DiscoveryList, TargetStore
from pulsed.model.tick import Tick
from pulsed.owners.attribution.source import SourceState


class Collection(Feature):
    """The collectors, their health and what is known of the cluster.

    Args:
        config: the configuration at the start.
        store: where the collectors store their ticks.
        observe: called with the seconds that each layer spends on a tick.
        on_tick: called with each tick.

    Attributes:
        pool: the collectors.
    """

    name = "collectors"

    def __init__(self, config: Config, store: TargetStore, observe: Observe, on_tick: Callable[[Tick], None]) -> None:
        self.pool = CollectorPool(store, observe, on_tick)
        self._keeps_cluster = discovers_exporters(config) or resolves_workloads(config)

    def sections(self) -> Iterator[Section]:
        """Yield the health of all targets, and what is known of the cluster where there is one."""
        pool = self.pool
        yield Section("health", pool.latched, pool.dump_health, pool.saved_health.load)
        if self._keeps_cluster:
            from pulsed.collector.exporter_discovery import dump_cluster, load_cluster  # most hosts have no cluster

            yield Section(
                "cluster",
                pool.known_cluster,
                lambda: dump_cluster(pool.known_cluster()),
                lambda saved: pool.restore_cluster(load_cluster(saved)),
            )

    def metrics(self, now: Monotonic) -> Iterator[Metric]:
        """Yield the families of discovery and attribution."""
        yield from discovery_families(self.pool.lists)
        yield from attribution_families(self.pool.attribution.states)


def discovery_families(lists: Sequence[DiscoveryList]) -> Iterator[Metric]:
    """Yield the families of the lists that targets are discovered by; none without lists."""
    if not lists:
        return
    labels = ["kind", "list"]
    up = GaugeMetricFamily(
        "pulsed_discovery_up", "1 while the list of targets can be read; its targets are kept meanwhile", labels=labels
    )
    last = GaugeMetricFamily(
        "pulsed_discovery_last_success_timestamp_seconds", "Time when the list was last read", labels=labels
    )
    for each in lists:
        up.add_metric([each.kind, each.name], int(each.is_up))
        if each.last_success is not None:
            last.add_metric([each.kind, each.name], each.last_success)
    yield up
    yield last


def attribution_families(states: Sequence[SourceState]) -> Iterator[Metric]:
    """Yield the families of the sources of owners."""
    source = ["source"]
    up = GaugeMetricFamily("pulsed_attribution_up", "1 while owners are read from this source", labels=source)
    last = GaugeMetricFamily(
        "pulsed_attribution_last_success_timestamp_seconds",
        "Time of the last successful attribution lookup",
        labels=source,
    )
    errors = CounterMetricFamily(
        "pulsed_attribution_errors",
        "Failed attribution lookups, and entries that could not be read",
        labels=["source", "reason"],
    )
    for state in states:
        up.add_metric([state.name], int(state.up))
        if state.last_success is not None:
            last.add_metric([state.name], state.last_success)
        for reason, count in state.errors.items():
            errors.add_metric([state.name, reason], count)
    for family in (up, last, errors):
        if family.samples:
            yield family
