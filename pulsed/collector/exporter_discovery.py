"""The exporters that the Kubernetes API lists, each a source; sources change as pods come and go.

The known state of the cluster is kept over a restart: the API server may be out of reach when pulsed starts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from pulsed.background_tasks import BackgroundTasks
from pulsed.collector.exporter_pages import GpuClaims, OwnNodeExporter, gpus_of
from pulsed.collector.this_host import BOOT_ID, discovery_node
from pulsed.config.configuration import Config
from pulsed.errors import DuplicateGpu, ExporterNotFound
from pulsed.kubernetes.api_client import ApiClient, own_namespace
from pulsed.kubernetes.exporter_pods import (
    ExporterEndpoint,
    ExporterPod,
    PageAddress,
    PodRequirements,
    endpoints,
    exporter_pod,
)
from pulsed.kubernetes.objects import JsonObject, labels_of, parse_selector
from pulsed.kubernetes.resource_watch import ResourceWatch
from pulsed.kubernetes.settings import ALL_NAMESPACES, USUAL_NAMESPACES
from pulsed.model.clocks import Unix
from pulsed.model.label_names import EXPORTED, with_known_names
from pulsed.model.raw_tick import Labels, RawTick
from pulsed.model.target_store import DiscoveryList
from pulsed.owners.attribution.pod_workloads import KnownPods
from pulsed.reader.exporter.source import ExporterSource, Scraper
from pulsed.reader.source import Source
from pulsed.translate.identity import NODE_LABELS, is_loopback, is_same_host

log = logging.getLogger(__name__)


NO_EXPORTER = "kubernetes"
"""Name of the target while no exporter has been found."""

_REMEDY = (
    "Install the GPU operator or dcgm-exporter there; correct source.exporter.kubernetes.namespaces, .controllers and "
    ".selectors; or set source.exporter.discovery: static"
)
_MAX_REASONS = 8
_HOST_LABELS = ("Hostname", "hostname")
"""Those that dcgm-exporter itself writes; pods of the GPUs may have labels with the other names."""


_YEAR_10000 = 253402300800.0


@dataclass(frozen=True, slots=True)
class KnownCluster:
    """Last known state of a cluster, used until the API server answers.

    Attributes:
        found_by: as `found_by` returns in the run that found the exporters.
        exporters: of this node.
    """

    found_by: str = ""
    exporters: tuple[ExporterEndpoint, ...] = ()
    pods: KnownPods = field(default_factory=KnownPods)


_ADAPTER = TypeAdapter(KnownCluster)


def dump_cluster(cluster: KnownCluster) -> object:
    """Return what is known of a cluster as JSON."""
    return _ADAPTER.dump_python(cluster, mode="json")


def load_cluster(saved: object) -> KnownCluster:
    """Return what `dump_cluster` has returned in an earlier run. Raises `ValueError` if it is something else."""
    loaded = _ADAPTER.validate_python(saved)  # its error is a ValueError
    if loaded.pods.time is not None and not 0.0 <= loaded.pods.time < _YEAR_10000:
        raise ValueError(f"{loaded.pods.time!r} is not a time")
    for exporter in loaded.exporters:
        if not urlsplit(exporter.url).hostname:
            raise ValueError(f"{exporter.url!r:.80} is not a URL")
    return loaded


def pod_requirements(config: Config) -> PodRequirements:
    """Return which pods are exporters, besides their labels.

    Users who may create pods in the namespace of pulsed can read its credentials anyway. `default` is excluded
    nevertheless, because all users of many clusters may create pods in it.
    """
    settings = config.source.exporter.kubernetes
    namespaces = settings.namespaces
    if namespaces is None:
        own = own_namespace(config.kubernetes.namespace_file)
        namespaces = tuple(dict.fromkeys((*USUAL_NAMESPACES, *([own] if own not in ("", "default") else []))))
    return PodRequirements(None if namespaces == ALL_NAMESPACES else namespaces, settings.controllers)


def found_by(config: Config) -> str:
    """Return what exporters are found by; those that an earlier run found are used by one with the same only.

    After a start of the node, another pod may have the address. Empty where the boot is unknown, or requests have
    credentials: a pod that has the address now would get them.
    """
    try:
        boot = BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
    if config.source.exporter.credentials:
        return ""
    exporter = config.source.exporter
    return repr((boot, discovery_node(config), exporter.kubernetes, pod_requirements(config)))


class MissingExporter(Source):
    """In place of exporters that are not there: every read fails with the reason."""

    kind = "exporter"

    def __init__(self, target: str, interval: float, discovery: ExporterDiscovery) -> None:
        self.target, self.interval, self._discovery = target, interval, discovery
        self.failures = DiscoveredExporter.failures
        self._is_first = True

    async def read(self) -> RawTick:
        """Raise `ExporterNotFound` once discovery has found none, then once an interval."""
        if not self._is_first:
            await asyncio.sleep(self.interval)
        await self._discovery.settle()
        self._is_first = False
        if self not in self._discovery.sources:
            await asyncio.Event().wait()  # until this read is cancelled: discovered sources are about to take its place
        raise self._discovery.problem()


class ExporterDiscovery:
    """Watches the exporter pods of this node, or of all nodes. An API server that fails changes nothing.

    Args:
        client: of the API server, which the caller closes.
        changed: called when `sources` are others than before.
        endpoints_before: exporters that were found before, until the first list.

    Attributes:
        found_by: see the function; empty: nothing to keep for the next run.
        endpoints: the exporters.
        sources: one per exporter, the same object as long as its address is the same. Without an exporter, one that
            fails with the reason. An exporter that is gone stays, failing, with its counters until another one appears.

    Raises:
        ConfigError: the node is unknown.
    """

    def __init__(
        self,
        config: Config,
        client: ApiClient,
        changed: Callable[[], None] = lambda: None,
        endpoints_before: Sequence[ExporterEndpoint] = (),
    ) -> None:
        settings = config.source.exporter.kubernetes
        self._node, self._pod_settings = discovery_node(config), settings
        self._changed, self._settings = changed, config.source.scrapes()
        self._scraper = Scraper(self._settings)
        self._scraper.retain()
        self._read_at: dict[str, Unix] = {}
        self._tasks = BackgroundTasks()
        self._settled = asyncio.Event()
        self._requirements = pod_requirements(config)
        # A watch per namespace needs no rights in others. One of all is cheaper, and shows what else has the labels.
        named = () if settings.namespaces in (None, ALL_NAMESPACES) else settings.namespaces
        paths = [f"/api/v1/namespaces/{each}/pods" for each in named or ()] or ["/api/v1/pods"]
        query = {"fieldSelector": f"spec.nodeName={self._node}"} if self._node else {}
        self._where = f"node {self._node}" if self._node else "any node"
        self._selectors = list(map(parse_selector, settings.selectors))
        self._watches = [ResourceWatch(client, path, query, self._read, self._update) for path in paths]
        self._paths = paths
        self._claims: dict[str, GpuClaims] = {}
        self._reasons: Sequence[str] = ()
        self._refused: Sequence[str] = ()
        self.found_by = found_by(config)
        self.endpoints = tuple(endpoints_before)
        self.sources: tuple[Source, ...] = ()
        self._expect(endpoints_before, {endpoint.target: endpoint.node for endpoint in endpoints_before})
        self._set_sources(())

    def start(self) -> None:
        """Begin to watch."""
        for watch in self._watches:
            self._tasks.start("kubernetes_watch", watch.run)

    async def settle(self) -> None:
        """Wait until the first lists have been read, successfully or not."""
        await self._settled.wait()

    async def stop(self) -> None:
        """End the watches; `sources` can still be read."""
        await self._tasks.stop()
        await self._scraper.release()

    @property
    def lists(self) -> Sequence[DiscoveryList]:
        """The watches; one that works is current."""
        watches = zip(self._paths, self._watches, strict=True)
        states = {path: watch.is_listed and not watch.error for path, watch in watches}
        self._read_at |= {path: Unix(time.time()) for path, is_up in states.items() if is_up}
        return [DiscoveryList("kubernetes", path, is_up, self._read_at.get(path)) for path, is_up in states.items()]

    def problem(self) -> ExporterNotFound:
        """Return why there is no exporter."""
        errors = list(dict.fromkeys(watch.error for watch in self._watches if watch.error))
        if errors:
            return ExporterNotFound(f"the exporters of {self._where} are unknown: {' '.join(errors)}")
        namespaces = self._requirements.namespaces
        where = "of any namespace" if namespaces is None else f"of the namespaces {', '.join(namespaces)}"
        selectors = " or ".join(self._pod_settings.selectors)
        if reasons := [*self._refused, *self._reasons]:
            return ExporterNotFound(f"no pod {where} on {self._where} can be read: {_joined(reasons)}", _REMEDY)
        return ExporterNotFound(f"no pod {where} on {self._where} matches {selectors}", _REMEDY)

    def _read(self, item: JsonObject) -> ExporterPod | None:
        """Return a pod with the labels of an exporter."""
        labels = labels_of(item)
        return exporter_pod(item) if any(matches(labels) for matches in self._selectors) else None

    def _update(self) -> None:
        if all(watch.is_listed for watch in self._watches):
            self._find()
        if all(watch.is_listed or watch.error for watch in self._watches):
            self._settled.set()

    def _find(self) -> None:
        pods = {key: pod for watch in self._watches for key, pod in watch.objects.items()}
        page = PageAddress(self._pod_settings.container_port, self._pod_settings.scheme, self._pod_settings.path)
        against = {key: self._requirements.reason_against(pod) for key, pod in pods.items()}
        exporters = [pods[key] for key, reason in against.items() if not reason]
        refused = [f"pod {'/'.join(key)} {reason}" for key, reason in sorted(against.items()) if reason]
        if refused and refused != self._refused:
            log.warning("pods with the labels of exporters are not read", extra={"pods": _joined(refused)})
        self._refused = refused
        new_endpoints, self._reasons = endpoints(exporters, page, names_nodes=not self._node)
        prefixed = "" if self._node else "{}/"
        self._expect(new_endpoints, {f"{prefixed.format(pod.node)}{pod.target}": pod.node for pod in exporters})
        if tuple(new_endpoints) == self.endpoints:
            return
        self.endpoints = tuple(new_endpoints)
        log.info("exporters of Kubernetes", extra={"urls": [endpoint.url for endpoint in new_endpoints]})
        self._set_sources(self.sources)
        self._changed()

    def _expect(self, read: Sequence[ExporterEndpoint], present: Mapping[str, str]) -> None:
        """Set which exporters are read, and which have a pod, by the name of the target its node."""
        by_node: dict[str, tuple[list[str], list[str]]] = {node: ([], []) for node in self._claims}
        for endpoint in read:
            by_node.setdefault(endpoint.node, ([], []))[0].append(endpoint.target)
        for target, node in present.items():
            by_node.setdefault(node, ([], []))[1].append(target)
        for node, (targets, with_pods) in by_node.items():
            self._claims_of(node).expect(targets, with_pods)

    def _claims_of(self, node: str) -> GpuClaims:
        return self._claims.setdefault(node, GpuClaims(self._settings.scrape_timeout))

    def _set_sources(self, before: Sequence[Source]) -> None:
        same = {source.endpoint: source for source in before if isinstance(source, DiscoveredExporter)}
        if self.endpoints:
            self.sources = tuple(same.get(endpoint) or self._source(endpoint) for endpoint in self.endpoints)
        else:
            gone = [source.target for source in before] or [NO_EXPORTER]
            self.sources = tuple(MissingExporter(target, self._settings.interval, self) for target in gone)

    def _source(self, endpoint: ExporterEndpoint) -> DiscoveredExporter:
        source = ExporterSource(endpoint.url, self._settings, self._scraper)
        return DiscoveredExporter(endpoint, endpoint.node or self._node, source, self._claims_of(endpoint.node))


def _joined(reasons: Sequence[str]) -> str:
    more = len(reasons) - _MAX_REASONS
    return "; ".join([*reasons[:_MAX_REASONS], *([f"and {more} more"] if more > 0 else [])])


class DiscoveredExporter(OwnNodeExporter):
    """The exporter of a pod. Its GPUs belong to the pod's node, unless another exporter also shows them.

    The API server proves the node; a host on the page can only contradict it.
    """

    failures = (*OwnNodeExporter.failures, ExporterNotFound, DuplicateGpu)

    def __init__(self, endpoint: ExporterEndpoint, node: str, source: ExporterSource, claims: GpuClaims) -> None:
        remedy = "See which host engine the exporter reads (`-r`), and its variable NODE_NAME"
        super().__init__(source, node, f"{endpoint.url} of pod {endpoint.pod}", remedy)
        self.endpoint, self.target, self._claims = endpoint, endpoint.target, claims

    async def read(self) -> RawTick:
        """Read the page, with the node in place of other hosts.

        Raises as `OwnNodeExporter.read`, and `DuplicateGpu` for a page with a GPU of another exporter.
        """
        try:
            tick = await super().read()
        finally:
            self._claims.tried(self.target)
        pod = f"{self.endpoint.namespace}/{self.endpoint.pod}"
        await self._claims.claim(self.target, pod, gpus_of(tick, self._node))
        return tick

    def _host(self, labels: Mapping[str, str]) -> str:
        """Return the host that contradicts the API server; exporters without NODE_NAME write the name of their pod."""
        hosts = [host for name in _HOST_LABELS if (host := labels.get(name)) and not is_loopback(host)]
        is_own = any(host == self.endpoint.pod or is_same_host(host, self._node) for host in hosts)
        return "" if is_own else next(iter(hosts), "")

    def _own(self, labels: Labels) -> Labels:
        """Return labels whose hosts are the node, and without those that only Prometheus gives: a tenant's, here."""
        own = tuple(
            (name, self._node if name in NODE_LABELS else value)
            for name, value in with_known_names(labels)
            if not name.startswith(EXPORTED)
        )
        return labels if own == labels else own
