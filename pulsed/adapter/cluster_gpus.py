"""The GPUs of all pods of a cluster, as the daemons of its nodes report them: read at an interval, served from memory.

A daemon that does not answer leaves its last rows, which become stale: they are unknown then, and not gone. Rows are
gone with their pods.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from pydantic import ConfigDict, ValidationError, create_model

from pulsed.errors import ScrapeFailed
from pulsed.kubernetes.api_client import JsonObject
from pulsed.kubernetes.exporter_pods import ExporterPod, PageAddress, exporter_pod
from pulsed.kubernetes.objects import Labels, mapping, parse_selector, text
from pulsed.kubernetes.resource_watch import ResourceWatch
from pulsed.present.autoscale import GPUS_ROUTE, POD_GPU_FIELDS, ROUTES, PodGpu

log = logging.getLogger(__name__)

MAX_CONCURRENT = 16
"""Daemons that are read at a time."""

_Row = create_model("_Row", __config__=ConfigDict(allow_inf_nan=False), **POD_GPU_FIELDS)
_Page = create_model("_Page", node=(str, ...), gpus=(list[_Row], ...))  # type: ignore[valid-type] # made at run time
"""What is used of a daemon's answer; a newer daemon may have more keys."""


class Fetcher(Protocol):
    """Gets pages over HTTP."""

    async def fetch(self, url: str) -> bytes:
        """Return a page. Raises `ScrapeFailed`."""


class ClusterPod(NamedTuple):
    """What is kept of a pod: its labels, and how it is reached if it is a daemon."""

    labels: Labels
    daemon: ExporterPod | None


def pod_reader(selectors: Iterable[str], namespaces: Collection[str] | None) -> Callable[[JsonObject], ClusterPod]:
    """Return the function that takes from a pod in JSON what is kept of it.

    Args:
        selectors: label selectors; a pod that matches any is a daemon.
        namespaces: of daemons; None: any.
    """
    parsed = list(map(parse_selector, selectors))

    def read(item: JsonObject) -> ClusterPod:
        given = mapping(mapping(item.get("metadata")).get("labels"))
        labels = {name: text(value) for name, value in given.items()}
        pod = exporter_pod(item)
        is_here = namespaces is None or pod.namespace in namespaces
        is_daemon = is_here and any(matches(labels) for matches in parsed)
        return ClusterPod(labels, pod if is_daemon else None)

    return read


def daemon_page(port: int | str, scheme: str, prefix: str, fields: Iterable[str]) -> PageAddress:
    """Return where daemons have their rows with these fields; `prefix` is that of their routes."""
    return PageAddress(port, scheme, f"{prefix}{ROUTES}{GPUS_ROUTE}?fields={','.join(fields)}")


class _DaemonRows(NamedTuple):
    """The rows of a daemon by namespace, and when they arrived, in monotonic seconds."""

    rows: Mapping[str, Sequence[PodGpu]]
    arrived: float


class ClusterGpus:
    """The rows of all daemons.

    Args:
        pods: a watch of all pods of the cluster.
        page: where daemons have their rows.
        stale_after: seconds after which the rows of a daemon that does not answer are stale.
        clock: returns monotonic seconds.

    Attributes:
        is_ready: whether the pods are known, and the daemons among them have been tried once.
        daemons: by URL, the error of the last reading; empty if it succeeded.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        pods: ResourceWatch[ClusterPod],
        page: PageAddress,
        stale_after: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetcher, self._pods, self._page = fetcher, pods, page
        self._stale_after, self._clock = stale_after, clock
        # By target and node of the daemon's pod, as the API server has them, in order of arrival.
        self._rows: dict[tuple[str, str], _DaemonRows] = {}
        self._read_once: set[str] = set()
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

    def missing(self) -> str:
        """Return why pods may have more GPUs than `rows` returns; empty if they certainly have not.

        Pods may be unknown, or a daemon that is ready has never been read.
        """
        ready = {self._page.url(pod) for pod in self._daemon_pods() if pod.is_ready}
        unread = (self.daemons.get(url, url) for url in sorted(ready - self._read_once) if url)
        return self.problem or next(unread, "")

    def labels(self, namespace: str, pod: str) -> Labels:
        """Return the labels of a pod; none if it does not exist."""
        found = self._pods.objects.get((namespace, pod))
        return found.labels if found is not None else {}

    def rows(self, namespace: str) -> list[PodGpu]:
        """Return the rows of the pods of a namespace that exist, with `stale` as of now.

        Of a GPU that several daemons report, the row that arrived last counts.
        """
        now, known = self._clock(), self._pods.objects
        found: list[PodGpu] = []
        seen: set[tuple[str, str, str]] = set()
        for rows, arrived in reversed(self._rows.values()):
            new = [
                row._replace(stale=True) if now - arrived > self._stale_after else row
                for row in rows.get(namespace, ())
                if (namespace, row.pod) in known and (row.pod, row.container, row.gpu) not in seen
            ]
            seen.update((row.pod, row.container, row.gpu) for row in new)
            found += new
        return found

    async def run(self, interval: float) -> None:
        """Read all daemons at an interval until cancelled."""
        while True:
            begun = self._clock()
            try:
                await self.read()
            except Exception:  # rows become stale then, and the next reading may work
                log.exception("internal error in the reading of daemons; please report it")
            await asyncio.sleep(max(0.0, interval - (self._clock() - begun)))

    async def read(self) -> None:
        """Read all daemons once."""
        limit = asyncio.Semaphore(MAX_CONCURRENT)

        found = {url: pod for pod in self._daemon_pods() if (url := self._page.url(pod))}
        nodes = {pod.node for pod in found.values()}

        async def error_of(url: str, pod: ExporterPod) -> str:
            async with limit:
                return await self._read(url, pod, nodes)

        errors = await asyncio.gather(*itertools.starmap(error_of, found.items()))
        before, self.daemons = self.daemons, dict(zip(found, errors, strict=True))
        for url, error in self.daemons.items():
            if error and error != before.get(url):
                log.warning(
                    "a daemon cannot be read; its last values stay until they are stale", extra={"error": error}
                )
            elif not error and before.get(url):
                log.info("a daemon is read again", extra={"url": url})
        self._drop()
        self.is_ready = self.is_ready or self._pods.is_listed

    def _daemon_pods(self) -> Iterator[ExporterPod]:
        return (pod.daemon for pod in self._pods.objects.values() if pod.daemon is not None)

    async def _read(self, url: str, pod: ExporterPod, nodes: Collection[str]) -> str:
        """Read one daemon; return the error, empty if it was read. `nodes` are those of all daemons."""
        try:
            found: Any = _Page.model_validate_json(await self._fetcher.fetch(url))
        except ScrapeFailed as error:
            return str(error.args[0])
        except ValidationError:
            return f"{url} is not served by this version of pulsed"
        if found.node != pod.node and found.node in nodes:
            return (
                f"{url} gives {found.node} as its node, but its pod runs on {pod.node}, and another daemon on "
                f"{found.node}; correct `node` in its configuration"
            )
        rows: dict[str, list[PodGpu]] = {}
        for row in found.gpus:
            rows.setdefault(row.namespace, []).append(PodGpu(**dict(row)))
        place = pod.target, pod.node
        self._rows.pop(place, None)
        self._rows[place] = _DaemonRows(rows, self._clock())
        self._read_once.add(url)
        return ""

    def _drop(self) -> None:
        """Drop the rows of daemons that are not read any more, once their pods are gone."""
        self._read_once.intersection_update(self.daemons)
        known = self._pods.objects
        for place, (rows, arrived) in list(self._rows.items()):
            is_old = self._clock() - arrived > self._stale_after
            if is_old and not any((row.namespace, row.pod) in known for each in rows.values() for row in each):
                del self._rows[place]
