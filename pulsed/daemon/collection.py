"""All collectors of the daemon, and the files that keep their state over a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from pulsed.collector.attribution_sources import resolves_workloads
from pulsed.collector.collector import Observe
from pulsed.collector.pool import CollectorPool
from pulsed.collector.state_file import SavedHealth, StateFile, WriteStatus
from pulsed.collector.this_host import discovers_exporters
from pulsed.config.configuration import Config
from pulsed.daemon.feature import Feature
from pulsed.model.computed_tick import ComputedTick
from pulsed.model.target_store import DiscoveryList, TargetStore
from pulsed.owners.attribution.source import SourceState

if TYPE_CHECKING:
    from pulsed.collector.known_cluster import KnownClusterFile

STATE_FILE = "latches.json"
"""The file in `state_dir` that keeps latched health."""

KNOWN_CLUSTER_FILE = "cluster.json"
"""The file in `state_dir` that keeps exporters and workloads of pods."""


class Collection(Feature):
    """The collectors, their health and what is known of the cluster.

    Args:
        config: that of the start.
        store: where the collectors store their ticks.
        observe: called with the seconds that each layer spends on a tick.
        on_tick: called with each tick.

    Attributes:
        pool: the collectors.
        statuses: whether each file is written.
    """

    name = "collectors"

    def __init__(
        self, config: Config, store: TargetStore, observe: Observe, on_tick: Callable[[ComputedTick], None]
    ) -> None:
        self._saved = SavedHealth(StateFile(Path(config.state_dir) / STATE_FILE)) if config.state_dir else None
        self._known = _known_cluster(config)
        self.pool = CollectorPool(
            store, observe, on_tick, self._saved, self._known.loaded if self._known is not None else None
        )
        self.statuses: Sequence[WriteStatus] = [file.status for file in (self._saved, self._known) if file is not None]

    def apply(self, config: Config) -> None:
        """Read and compute by a configuration. Raises `ConfigError` if it cannot be; then nothing has changed."""
        self.pool.apply(config)

    def metrics(self, now: float) -> Iterator[Metric]:
        """Yield the families of discovery and attribution."""
        yield from discovery_families(self.pool.lists)
        yield from attribution_families(self.pool.attribution.states)

    async def run(self) -> None:
        """Write what has changed regularly."""
        async with asyncio.TaskGroup() as group:
            if self._saved is not None:
                group.create_task(self._saved.write_regularly(lambda: self.pool.health_evaluators))
            if self._known is not None:
                group.create_task(self._known.write_regularly(self.pool.known_cluster))

    async def close(self) -> None:
        """End all collectors, and write their state."""
        evaluators = self.pool.health_evaluators
        if self._known is not None:
            self._known.write(self.pool.known_cluster())
        await self.pool.stop()
        if self._saved is not None:
            self._saved.write(evaluators)


def _known_cluster(config: Config) -> KnownClusterFile | None:
    """Return the file of what is known of the cluster; None without a cluster, or without `state_dir`."""
    if not config.state_dir or not (discovers_exporters(config) or resolves_workloads(config)):
        return None
    from pulsed.collector.known_cluster import KnownClusterFile

    return KnownClusterFile(StateFile(Path(config.state_dir) / KNOWN_CLUSTER_FILE, "what is known of the cluster"))


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
        "Time of the last successful look for owners",
        labels=source,
    )
    errors = CounterMetricFamily(
        "pulsed_attribution_errors",
        "Failed looks for owners, and entries that could not be read",
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
