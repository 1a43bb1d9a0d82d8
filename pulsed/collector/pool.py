"""All collectors of a process: started, changed and stopped together, as the configuration requires."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pulsed.background_tasks import keep_running
from pulsed.collector.absent_gpus import AbsentGpu, choose_absent
from pulsed.collector.attribution_sources import Cluster, attribution_sources
from pulsed.collector.collector import EVERY_GPU, Collector, Observe, Pipeline, PipelineSettings
from pulsed.collector.source_factory import open_sources, target_of
from pulsed.collector.this_host import (
    discovers_exporters,
    host_epoch_of,
    kernel_log_of,
    node_name,
    node_of_source,
    selection_of,
)
from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.health_evaluator import HealthEvaluator
from pulsed.config.configuration import Config
from pulsed.model.clocks import Unix
from pulsed.model.result import Removal
from pulsed.model.target_store import DiscoveryList, Target, TargetStore
from pulsed.model.tick import Tick
from pulsed.owners.attribution import Attribution
from pulsed.reader.source import Source

if TYPE_CHECKING:
    from pulsed.collector.exporter_discovery import ExporterDiscovery, KnownCluster
    from pulsed.kubernetes.api_client import ApiClient
    from pulsed.kubernetes.exporter_pods import ExporterEndpoint

log = logging.getLogger(__name__)

GONE_SECONDS = 600.0
"""How long the state of a target that is no longer configured or discovered is kept."""


class SavedHealth:
    """The health of targets as of the last run, until they are read again, by the target's name."""

    def __init__(self) -> None:
        self._kept: dict[str, Mapping[str, object]] = {}

    def load(self, saved: object) -> None:
        """Keep what an earlier run has saved. Raises `ValueError` if it is something else."""
        if not isinstance(saved, dict):
            raise ValueError(f"a {type(saved).__name__} instead of the targets")
        self._kept = {name: kept for name, kept in saved.items() if isinstance(kept, dict)}

    def restore(self, target: str, evaluator: HealthEvaluator, now: Unix) -> None:
        """Restore the saved health of a target, once; invalid entries are logged and dropped.

        Args:
            evaluator: has evaluated nothing yet.
            now: in Unix seconds.
        """
        kept = self._kept.pop(target, None)
        if kept is None:
            return
        try:
            evaluator.restore(kept, now)
        except ValueError as error:
            log.warning("saved health cannot be used", extra={"target": target, "error": str(error)})

    def dump(self, evaluators: Mapping[str, HealthEvaluator]) -> dict[str, object]:
        """Return the health of all targets; those that are not read now are kept as they were."""
        return {**self._kept, **{name: evaluator.dump() for name, evaluator in evaluators.items()}}


@dataclass(slots=True)
class _Running:
    """A collector's source, target and pipeline, the host of its GPUs, and the task that reads."""

    node: str
    source: Source
    target: Target
    pipeline: Pipeline
    task: asyncio.Task[None]

    async def end(self) -> None:
        """Stop reading and close the source, even if the task never ran."""
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.source.close()


class CollectorPool:
    """All collectors of the daemon.

    Args:
        store: where the collectors store their ticks; `apply` replaces its targets.
        observe: called with the seconds that each layer spends on a tick.

    Attributes:
        attribution: the owners of this host's GPUs.
        saved_health: from the last run.
    """

    def __init__(
        self,
        store: TargetStore,
        observe: Observe,
        on_tick: Callable[[Tick], None],
    ) -> None:
        self._known: KnownCluster | None = None
        self._store, self._observe, self._on_tick = store, observe, on_tick
        self.saved_health = SavedHealth()
        self._config: Config | None = None
        self._settings = EVERY_GPU
        self._running: dict[tuple[str, str], _Running] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._discovery: ExporterDiscovery | None = None
        self._gone: dict[tuple[str, str], _Running] = {}
        self.attribution = Attribution()
        self._cluster = Cluster(self.attribution)
        self._table = GpuTable()

    def apply(self, config: Config) -> None:
        """Read and compute by this configuration from now on.

        Counters and health of a target are kept as long as the configuration or discovery names it, and for
        `GONE_SECONDS` after that. Sources whose section has not changed are not interrupted.

        Raises `ConfigError` if a source cannot be made; then nothing has changed.
        """
        before, selection = self._config, selection_of(config, {})
        is_new = before is None or (before.source, before.node) != (config.source, config.node)
        client = self._cluster.client_for(config)
        if before is not None and discovers_exporters(config):
            is_new = is_new or before.kubernetes != config.kubernetes
        discovery = self._new_discovery(config, client) if is_new else None
        sources = discovery.sources if discovery else open_sources(config) if is_new else ()
        self.attribution.apply(
            attribution_sources(config, self.attribution.gpu_processes, self._cluster.claims(config, client))
        )  # first: the first tick has its owners
        self._cluster.apply(config, client)
        self._table.configure(config.compute_settings())
        self._settings = PipelineSettings(
            selection, config.source.max_gpus, config.attribution.exporter_pods, kernel_log_of(config)
        )
        if is_new:
            self._replace(config, sources)
            if self._discovery is not None:
                self._close(self._discovery.stop())
            self._discovery = discovery
            if discovery is not None:
                discovery.start()
        for running in self._running.values():
            running.pipeline.configure(self._settings)
        self._config = config

    def restore_cluster(self, cluster: KnownCluster) -> None:
        """Use what an earlier run knew of the cluster, until the API server answers; before the first `apply`."""
        self._known = cluster
        self._cluster.restore(cluster.pods)

    def latched(self) -> Mapping[str, Mapping[str, int]]:
        """Return, by target and GPU, a number; they change with everything that must survive a restart."""
        return {target: evaluator.latched for target, evaluator in self._health_evaluators.items()}

    def dump_health(self) -> dict[str, object]:
        """Return the health of all targets as JSON."""
        return self.saved_health.dump(self._health_evaluators)

    @property
    def _health_evaluators(self) -> Mapping[str, HealthEvaluator]:
        """The health evaluators by the name of their target."""
        return {" ".join(key): running.pipeline.health_evaluator for key, running in self._running.items()}

    @property
    def lists(self) -> Sequence[DiscoveryList]:
        """The lists that targets are discovered by."""
        return () if self._discovery is None else self._discovery.lists

    def known_cluster(self) -> KnownCluster:
        """Return what is known of the cluster now."""
        from pulsed.collector.exporter_discovery import KnownCluster

        discovery, pods = self._discovery, self._cluster.known_pods
        cluster = KnownCluster() if pods is None else KnownCluster(pods=pods)
        if discovery is not None and discovery.found_by:
            cluster = replace(cluster, found_by=discovery.found_by, exporters=discovery.endpoints)
        return cluster

    async def forget(self, gpu: str, node: str | None = None) -> Sequence[Removal]:
        """Forget an absent GPU in all targets that remember it; return what was removed, at least one.

        Args:
            gpu: index or UUID.
            node: its host, if several have such a GPU.

        Raises:
            GpuNotFound: no GPU of that name is remembered.
            GpuNotForgettable: it is present, or there are several.
        """
        matches = choose_absent(
            [
                AbsentGpu(running.target, running.pipeline.computer, state)
                for running in self._running.values()
                for state in running.pipeline.computer.absent
            ],
            self._store,
            gpu,
            node,
        )
        return [absent.forget() for absent in matches]

    async def stop(self) -> None:
        """End all collectors and close their sources; their state can still be saved."""
        for running in self._running.values():
            self._end(running)
        for running in (*self._running.values(), *self._gone.values()):
            running.pipeline.close()
        if self._discovery is not None:
            self._close(self._discovery.stop())
        await self._cluster.stop()
        await self.attribution.stop()
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _new_discovery(self, config: Config, client: ApiClient | None) -> ExporterDiscovery | None:
        """Return a discovery that has not started; it continues with the exporters from an earlier discovery or run.

        With other requirements it starts without exporters: the earlier ones may not fulfill them.
        """
        exporter = config.source.exporter
        if client is None or not discovers_exporters(config):
            return None
        from pulsed.collector.exporter_discovery import ExporterDiscovery, found_by

        endpoints: Sequence[ExporterEndpoint] = ()
        if self._config is None and self._known is not None and self._known.found_by == found_by(config):
            endpoints = self._known.exporters
        elif self._discovery and self._config and self._config.source.exporter.kubernetes == exporter.kubernetes:
            endpoints = self._discovery.endpoints
        return ExporterDiscovery(config, client, self._discovered, endpoints)

    def _discovered(self) -> None:
        """Read the exporters that were found, and no others."""
        if self._discovery is not None and self._config is not None:
            self._replace(self._config, self._discovery.sources)

    def _replace(self, config: Config, sources: Sequence[Source]) -> None:
        before, self._running = self._running, {}
        for source in sources:
            key = (source.kind, source.target)
            old = before.pop(key, None) or self._gone.pop(key, None)
            if old is None or not self._continues(old, source, config):
                old = self._start(config, source, old)
            elif old.source is not source:
                self._close(source.close())
            self._running[key] = old
        for key, removed in before.items():
            self._end(removed)
            self._gone[key] = removed
            asyncio.get_running_loop().call_later(GONE_SECONDS, self._forget_gone, key, removed)
        self._store.node = node_name(config)
        self._store.replace([running.target for running in self._running.values()])

    def _continues(self, old: _Running, source: Source, config: Config) -> bool:
        """Return whether a collector continues in place of a new one of a source."""
        return old.source is source or (
            not old.task.done()
            and old.source.is_same(source)
            and old.node == node_of_source(source, config)
            and old.target.stale_after == target_of(source, config).stale_after
        )

    def _forget_gone(self, key: tuple[str, str], removed: _Running) -> None:
        """Forget a target that has not returned."""
        if self._gone.get(key) is removed:
            del self._gone[key]
            removed.pipeline.forget()

    def _start(self, config: Config, source: Source, old: _Running | None) -> _Running:
        """Start to collect a source in place of an old one, whose state is kept if the host of the GPUs is the same."""
        target, node = target_of(source, config), node_of_source(source, config)
        closing = self._end(old) if old is not None else None
        if old is not None and old.node == node:
            pipeline = old.pipeline
            pipeline.configure(self._settings)
            target.continue_from(old.target)
        else:
            if old is not None:
                old.pipeline.forget()
            pipeline = Pipeline(
                self._table,
                node,
                self._observe,
                self._settings,
                host_epoch_of(config, source.target),
                self.attribution,
                lambda: self._store.host,
            )
            self.saved_health.restore(f"{source.kind} {source.target}", pipeline.health_evaluator, Unix(time.time()))
        collector = Collector(source, pipeline, target, self._on_tick)
        task = asyncio.create_task(_run(collector, target, closing), name=target.name)
        return _Running(node, source, target, pipeline, task)

    def _end(self, running: _Running) -> asyncio.Task[None]:
        return self._close(running.end())

    def _close(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        closing = asyncio.create_task(work)
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        return closing


async def _run(collector: Collector, target: Target, before: asyncio.Task[None] | None) -> None:
    """Run a collector after the one that it replaces has closed its source, a child process or a file."""
    if before is not None:
        await asyncio.wait([before])
    await keep_running("collector", collector.run, lambda: target.fail("internal", "internal error; see the log"))
