"""The exporters on this node as the Kubernetes API lists them, each a source; sources change as pods come and go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from pulsed.collector.own_node import OwnNodeExporter
from pulsed.collector.source_factory import exporter_settings
from pulsed.collector.this_host import discovery_node
from pulsed.config import Config
from pulsed.errors import ExporterNotFound
from pulsed.kubernetes.api_client import ApiClient
from pulsed.kubernetes.exporter_pods import ExporterEndpoint, PageAddress, endpoints, exporter_pod
from pulsed.kubernetes.resource_watch import ResourceWatch
from pulsed.reader.exporter.scraper import Scraper
from pulsed.reader.exporter.source import ExporterSource
from pulsed.reader.tick import RawTick, Source

log = logging.getLogger(__name__)

NO_EXPORTER = "kubernetes"
"""Name of the target while no exporter has been found."""

_REMEDY = (
    "Install the GPU operator or dcgm-exporter there, correct source.exporter.kubernetes.selectors and .namespace, or "
    "set source.exporter.discovery: static"
)


class ExporterDiscovery:
    """Watches the exporter pods of this node. An API server that fails changes nothing.

    Args:
        client: of the API server, which the caller closes.
        changed: called when `sources` are others than before.
        known: exporters that were found before, until the first list.

    Attributes:
        sources: one per exporter, the same object as long as its address is; one that fails with the reason if there
            is none. An exporter that is gone stays, failing, while there is no other, and so do its counters.

    Raises:
        ConfigError: the node is unknown.
    """

    def __init__(
        self,
        config: Config,
        client: ApiClient,
        changed: Callable[[], None] = lambda: None,
        known: Sequence[ExporterEndpoint] = (),
    ) -> None:
        given = config.source.exporter.kubernetes
        self._node, self._given, self._changed = discovery_node(config), given, changed
        path = f"/api/v1/namespaces/{given.namespace}/pods" if given.namespace else "/api/v1/pods"
        self._watches = [
            ResourceWatch(
                client,
                path,
                {"labelSelector": selector, "fieldSelector": f"spec.nodeName={self._node}"},
                exporter_pod,
                self._update,
            )
            for selector in given.selectors
        ]
        self._settings = exporter_settings(config)
        self._scraper = Scraper(self._settings)
        self._scraper.retain()
        self._reasons: Sequence[str] = ()
        self._tasks: list[asyncio.Task[None]] = []
        self._settled = asyncio.Event()
        self.endpoints = tuple(known)
        self.sources: tuple[Source, ...] = ()
        self._set_sources(())

    def start(self) -> None:
        """Begin to watch."""
        self._tasks = [asyncio.create_task(watch.run()) for watch in self._watches]

    async def settle(self) -> None:
        """Wait until the API server has answered, or failed to."""
        await self._settled.wait()

    async def stop(self) -> None:
        """End watching; `sources` can still be read."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._scraper.release()

    def problem(self) -> ExporterNotFound:
        """Return why there is no exporter."""
        errors = list(dict.fromkeys(watch.error for watch in self._watches if watch.error))
        if errors:
            return ExporterNotFound(f"the exporters of node {self._node} are unknown: {' '.join(errors)}")
        if self._reasons:
            return ExporterNotFound(f"node {self._node} has no exporter to read: {'; '.join(self._reasons)}", _REMEDY)
        where = f"in namespace {self._given.namespace}" if self._given.namespace else "of any namespace"
        return ExporterNotFound(
            f"no pod {where} on node {self._node} matches {' or '.join(self._given.selectors)}", _REMEDY
        )

    def _update(self) -> None:
        if all(watch.is_listed for watch in self._watches):
            self._find()
        if all(watch.is_listed or watch.error for watch in self._watches):
            self._settled.set()

    def _find(self) -> None:
        pods = {key: pod for watch in self._watches for key, pod in watch.objects.items()}
        page = PageAddress(self._given.container_port, self._given.scheme, self._given.path)
        found, self._reasons = endpoints(pods.values(), page)
        if tuple(found) == self.endpoints:
            return
        self.endpoints = tuple(found)
        log.info("exporters of this node", extra={"urls": [endpoint.url for endpoint in found]})
        self._set_sources(self.sources)
        self._changed()

    def _set_sources(self, before: Sequence[Source]) -> None:
        same = {source.endpoint: source for source in before if isinstance(source, DiscoveredExporter)}
        if self.endpoints:
            self.sources = tuple(same.get(endpoint) or self._source(endpoint) for endpoint in self.endpoints)
        else:
            gone = [source.target for source in before] or [NO_EXPORTER]
            self.sources = tuple(MissingExporter(target, self._settings.interval, self) for target in gone)

    def _source(self, endpoint: ExporterEndpoint) -> DiscoveredExporter:
        return DiscoveredExporter(endpoint, self._node, ExporterSource(endpoint.url, self._settings, self._scraper))


class DiscoveredExporter(OwnNodeExporter):
    """The exporter of a pod on this node; pages of other nodes are refused."""

    failures = (*OwnNodeExporter.failures, ExporterNotFound)

    def __init__(self, endpoint: ExporterEndpoint, node: str, source: ExporterSource) -> None:
        remedy = "See which host engine the exporter reads (`-r`), and its variable NODE_NAME"
        super().__init__(source, node, f"{endpoint.url} of pod {endpoint.pod}", remedy, endpoint.pod)
        self.endpoint, self.target = endpoint, endpoint.target


class MissingExporter:
    """In place of an exporter that is not there: every read fails with the reason."""

    kind = "exporter"
    failures = DiscoveredExporter.failures
    restarts = 0

    def __init__(self, target: str, interval: float, discovery: ExporterDiscovery) -> None:
        self.target, self.interval, self._discovery = target, interval, discovery
        self._is_first = True

    async def read(self) -> RawTick:
        """Raise `ExporterNotFound` once discovery has a result, then once an interval."""
        if not self._is_first:
            await asyncio.sleep(self.interval)
        await self._discovery.settle()
        self._is_first = False
        raise self._discovery.problem()

    async def close(self) -> None:
        """Do nothing: nothing is open."""
