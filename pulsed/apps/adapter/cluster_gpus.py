"""The GPUs of all pods of a cluster, as the daemons of its nodes report them: read at an interval, served from memory.

A daemon that does not answer leaves its last rows, which become stale: they are unknown then, and not gone. So are the
GPUs that a pod requests and no daemon has reported. Rows are gone with their pods; stale ones also while a pod is being
deleted, or is not ready, as those of a dead node.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, NamedTuple

from pydantic import ConfigDict, Field, ValidationError, create_model

from pulsed.errors import ScrapeFailed
from pulsed.kubernetes.api_client import KubernetesError
from pulsed.kubernetes.exporter_pods import ExporterPod, PageAddress, exporter_pod
from pulsed.kubernetes.objects import (
    JsonObject,
    Labels,
    PodMetadata,
    has_claims,
    parse_selector,
    pod_metadata,
    requested_gpus,
)
from pulsed.kubernetes.resource_watch import ResourceWatch
from pulsed.kubernetes.workload_resolver import WorkloadReference, WorkloadResolver
from pulsed.owners.attribution.pod_workloads import PodSettings
from pulsed.present.autoscale import GPUS_ROUTE, POD_GPU_FIELDS, ROUTES, PodGpu

UNKNOWN = WorkloadReference("", "")
"""Of a pod whose workload could not be resolved."""


class PodNames:
    """Names the workloads of pods as daemons do."""

    def __init__(self, resolver: WorkloadResolver, settings: PodSettings) -> None:
        self._resolver, self._settings = resolver, settings
        self._error = ""

    def workload(self, pod: PodMetadata) -> WorkloadReference:
        """Return the workload of a pod if it is resolved or needs no request; otherwise `UNKNOWN`."""
        reference = self._resolver.walk(pod)
        return self._settings.workload(pod, reference) if isinstance(reference, WorkloadReference) else UNKNOWN

    async def resolve(self, pods: Collection[PodMetadata]) -> None:
        """Resolve these pods until a request fails."""
        error = ""
        try:
            for pod in pods:
                await self._resolver.resolve(pod)
        except KubernetesError as failed:
            error = str(failed)
        if error and error != self._error:
            log.warning("workloads of pods cannot be resolved", extra={"error": error})
        self._error = error


log = logging.getLogger(__name__)

MAX_CONCURRENT = 16
"""Daemons that are read at a time."""

MAX_PAGE_BYTES = 2 * 2**20
"""Size limit of a daemon's answer, which takes 15 times its bytes while it is read. A row has some 300."""

MAX_ROWS, MAX_TEXT = 4096, 512
"""Rows of a daemon, and characters of a text in them: a pod with a daemon's labels must not fill the memory."""

_Row = create_model("_Row", __config__=ConfigDict(allow_inf_nan=False, str_max_length=MAX_TEXT), **POD_GPU_FIELDS)
_Rows = Annotated[list[_Row], Field(max_length=MAX_ROWS)]  # type: ignore[valid-type] # made at run time
_Page = create_model("_Page", __config__=ConfigDict(str_max_length=MAX_TEXT), node=(str, ...), gpus=(_Rows, ...))
"""What is used of a daemon's answer; a newer daemon may have more keys."""


class ClusterPod(NamedTuple):
    """What is kept of a pod.

    Attributes:
        metadata: with all labels.
        gpus: that it requests as a resource.
        has_claims: whether it has resource claims, of an unknown number of GPUs.
        node: its own.
        is_ready: Running, Ready, and not being deleted.
        daemon: how it is reached if it is a daemon.
    """

    metadata: PodMetadata
    gpus: int
    has_claims: bool
    node: str
    is_ready: bool
    daemon: ExporterPod | None


def pod_reader(selectors: Iterable[str], namespaces: Collection[str] | None) -> Callable[[JsonObject], ClusterPod]:
    """Return the function that takes from a pod in JSON what is kept of it.

    Args:
        selectors: label selectors; a pod that matches any is a daemon.
        namespaces: of daemons; None: any.
    """
    parsed = list(map(parse_selector, selectors))

    def read(item: JsonObject) -> ClusterPod:
        metadata, pod = pod_metadata(item, lambda _: True), exporter_pod(item)
        is_here = namespaces is None or pod.namespace in namespaces
        is_daemon = is_here and any(matches(metadata.labels) for matches in parsed)
        daemon = pod if is_daemon else None
        return ClusterPod(metadata, requested_gpus(item), has_claims(item), pod.node, pod.is_ready, daemon)

    return read


def daemon_page(port: int | str, scheme: str, prefix: str, fields: Iterable[str]) -> PageAddress:
    """Return where daemons have their rows with these fields; `prefix` is that of their routes."""
    return PageAddress(port, scheme, f"{prefix}{ROUTES}{GPUS_ROUTE}?fields={','.join(fields)}")


class _DaemonRows(NamedTuple):
    """The rows of a daemon by namespace, and when they arrived, in monotonic seconds."""

    rows: Mapping[str, Sequence[PodGpu]]
    arrived: float


class NamespaceGpus(NamedTuple):
    """The GPUs of the pods of a namespace.

    Attributes:
        rows: of pods that may use them; stale ones are unknown.
        ended: stale rows of pods that are being deleted, or are not ready.
    """

    rows: Sequence[PodGpu]
    ended: Sequence[PodGpu]


class ClusterGpus:
    """The rows of all daemons.

    Args:
        fetch: returns the page of a URL. Raises `ScrapeFailed`.
        pods: a watch of all pods of the cluster.
        names: the workloads of pods that daemons do not name.
        page: where daemons have their rows.
        stale_after: seconds after which the rows of a daemon that does not answer are stale.
        clock: returns monotonic seconds.

    Attributes:
        is_ready: whether the pods are known, and the daemons among them have been tried once.
        daemons: by URL, the error of the last reading; empty if it succeeded.
    """

    def __init__(
        self,
        fetch: Callable[[str], Awaitable[bytes]],
        pods: ResourceWatch[ClusterPod],
        names: PodNames,
        page: PageAddress,
        stale_after: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch, self._pods, self._names, self._page = fetch, pods, names, page
        self._stale_after, self._clock = stale_after, clock
        # By target and node of the daemon's pod, as the API server has them, in order of arrival.
        self._rows: dict[tuple[str, str], _DaemonRows] = {}
        self.is_ready = False
        self.daemons: Mapping[str, str] = {}

    @property
    def problem(self) -> str:
        """Why the pods may not be known completely; empty if they are."""
        return self._pods.error

    @property
    def oldest_age(self) -> float | None:
        """Seconds since the oldest reading that is in use; None without one."""
        return max((self._clock() - rows.arrived for rows in self._rows.values()), default=None)

    def labels(self, namespace: str, pod: str) -> Labels:
        """Return the labels of a pod; none if it does not exist."""
        pod_metadata = self._pods.objects.get((namespace, pod))
        return pod_metadata.metadata.labels if pod_metadata is not None else {}

    def in_namespace(self, namespace: str | None) -> NamespaceGpus:
        """Return the GPUs of the pods of a namespace, or of all, that exist, with `stale` as of now.

        Of a GPU that several daemons report, the row that arrived last counts.
        """
        rows: list[PodGpu] = []
        ended: list[PodGpu] = []
        for row in self._all_rows(namespace):
            pod = self._pods.objects[row.namespace, row.pod]
            if not row.workload:
                kind, name = self._names.workload(pod.metadata)
                row = row._replace(workload=name, workload_kind=kind)
            (ended if row.stale and not pod.is_ready else rows).append(row)
        return NamespaceGpus(rows, ended)

    def _all_rows(self, namespace: str | None = None) -> list[PodGpu]:
        """Return the reported rows, and a stale one for each GPU of the ready pods without any.

        A pod with resource claims counts as one GPU while the daemon of its node is not read.
        """
        now, pods = self._clock(), self._pods.objects
        pod_gpus: list[PodGpu] = []
        seen: set[tuple[str, str, str, str]] = set()
        read: set[str] = set()
        for (_, node), (by_namespace, arrived) in reversed(self._rows.items()):
            is_old = now - arrived > self._stale_after
            if not is_old:
                read.add(node)
            row_groups = by_namespace.values() if namespace is None else (by_namespace.get(namespace, ()),)
            new = [
                row._replace(stale=True) if is_old else row
                for rows in row_groups
                for row in rows
                if (row.namespace, row.pod) in pods and _key(row) not in seen
            ]
            seen.update(map(_key, new))
            pod_gpus += new
        reported = {(row.namespace, row.pod) for row in pod_gpus}
        for key, pod in pods.items():
            count = pod.gpus or int(pod.has_claims and pod.node not in read)
            if count and pod.is_ready and namespace in (None, key[0]) and key not in reported:
                pod_gpus += (
                    PodGpu(*key, "", "", "", "/".join((*key, str(gpu))), 1.0, 0.0, True, {}) for gpu in range(count)
                )
        return pod_gpus

    def counts(self) -> tuple[int, int]:
        """Return of how many GPUs of pods the values are current, and of how many they are not."""
        rows = self.in_namespace(None).rows
        stale = sum(row.stale for row in rows)
        return len(rows) - stale, stale

    async def run(self, interval: float) -> None:
        """Read all daemons at an interval until cancelled, and resolve pods that they do not name."""
        while True:
            begun = self._clock()
            try:
                await self.read()
                with suppress(TimeoutError):  # the next round continues
                    async with asyncio.timeout(interval):
                        await self.name_pods()
            except Exception:  # rows become stale then, and the next reading may work
                log.exception("internal error in the reading of daemons; please report it")
            await asyncio.sleep(max(0.0, interval - (self._clock() - begun)))

    async def read(self) -> None:
        """Read all daemons once."""
        limit = asyncio.Semaphore(MAX_CONCURRENT)

        daemons = [pod.daemon for pod in self._pods.objects.values() if pod.daemon is not None]
        pods_by_url = {url: pod for pod in daemons if (url := self._page.url(pod))}
        nodes = {pod.node for pod in pods_by_url.values()}

        async def error_of(url: str, pod: ExporterPod) -> str:
            async with limit:
                return await self._read(url, pod, nodes)

        errors = await asyncio.gather(*itertools.starmap(error_of, pods_by_url.items()))
        before, self.daemons = self.daemons, dict(zip(pods_by_url, errors, strict=True))
        for url, error in self.daemons.items():
            if error and error != before.get(url):
                log.warning(
                    "a daemon cannot be read; its last values are kept until they are stale", extra={"error": error}
                )
            elif not error and before.get(url):
                log.info("a daemon is read again", extra={"url": url})
        self._drop()
        self.is_ready = self.is_ready or self._pods.is_listed

    async def name_pods(self) -> None:
        """Resolve the workloads of pods that no daemon names."""
        keys = {(row.namespace, row.pod) for row in self._all_rows() if not row.workload}
        await self._names.resolve([self._pods.objects[key].metadata for key in keys])

    async def _read(self, url: str, pod: ExporterPod, nodes: Collection[str]) -> str:
        """Read one daemon; return the error, empty if it was read. `nodes` are those of all daemons."""
        try:
            page: Any = _Page.model_validate_json(await self._fetch(url))
        except ScrapeFailed as error:
            return str(error.args[0])
        except ValidationError:
            return f"{url} is not served by this version of pulsed, or has more than {MAX_ROWS} rows"
        if page.node != pod.node and page.node in nodes:
            return (
                f"{url} gives {page.node} as its node, but its pod runs on {pod.node}, and another daemon on "
                f"{page.node}; correct `node` in its configuration"
            )
        rows: dict[str, list[PodGpu]] = {}
        for row in page.gpus:
            rows.setdefault(row.namespace, []).append(PodGpu(**dict(row)))
        place = pod.target, pod.node
        self._rows.pop(place, None)
        self._rows[place] = _DaemonRows(rows, self._clock())
        return ""

    def _drop(self) -> None:
        """Drop the rows of daemons that are not read any more, once their pods are gone."""
        pods = self._pods.objects
        for place, (rows, arrived) in list(self._rows.items()):
            is_old = self._clock() - arrived > self._stale_after
            if is_old and not any((row.namespace, row.pod) in pods for each in rows.values() for row in each):
                del self._rows[place]


def _key(row: PodGpu) -> tuple[str, str, str, str]:
    return row.namespace, row.pod, row.container, row.gpu
