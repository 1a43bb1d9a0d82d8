"""The HTTP side of the adapter: an ASGI application, and its metrics about itself."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from urllib.parse import parse_qsl, unquote

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from pulsed.apps.adapter.cluster_gpus import ClusterGpus, ClusterPod
from pulsed.apps.adapter.documents import OPENAPI, VERSIONS, Document, failure
from pulsed.apps.adapter.metrics_api import MetricsApi, RequestFailed
from pulsed.json_text import json_bytes
from pulsed.kubernetes.resource_watch import ResourceWatch
from pulsed.present.asgi import Receive, Scope, Send, client_of, respond
from pulsed.present.autoscale import ROUTES
from pulsed.present.exposition.telemetry import build_info, request_counter, task_families
from pulsed.present.exposition.text_format import END, choose_format, lines
from pulsed.printable import clean


class AdapterTelemetry:
    """Counts requests, and renders the page.

    Args:
        pods: the watch of all pods.
    """

    def __init__(self, gpus: ClusterGpus, pods: ResourceWatch[ClusterPod]) -> None:
        self._gpus, self._pods = gpus, pods
        self._build = build_info("pulsed_adapter_build")  # `pulsed_build_info` identifies daemons
        self._requests = request_counter(None)
        self._process = ProcessCollector(registry=None)

    def count_request(self, path: str, code: int) -> None:
        """Count an answered request; `path` is the route's template, never what the client asked for."""
        self._requests.labels(path, code).inc()

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
        gpus = GaugeMetricFamily(
            "pulsed_adapter_gpus", "GPUs of pods that do not end, by whether their values are current", labels=["state"]
        )
        for state, count in zip(("current", "stale"), self._gpus.counts(), strict=True):
            gpus.add_metric([state], count)
        yield gpus
        oldest = GaugeMetricFamily(
            "pulsed_adapter_oldest_reading_timestamp_seconds",
            "Time of the oldest reading of a daemon among those in use; absent without one",
        )
        if (age := self._gpus.oldest_age) is not None:
            oldest.add_metric([], round(time.time() - age, 3))
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
        yield from self._requests.collect()
        yield from task_families()


log = logging.getLogger(__name__)

ALIVE = ("/livez", "/healthz", "/-/healthy")
READY = ("/readyz", "/-/ready")
METRICS = "/metrics"
NAMED = frozenset((*ALIVE, *READY, METRICS))
"""Paths that are counted by name."""


class AdapterApp:
    """Answers the API server, KEDA, probes, and Prometheus.

    Args:
        client_names: returns the common names of client certificates, one of which requests of `/apis` need; empty: a
            certificate of any name; None: requests need none.
    """

    def __init__(
        self, api: MetricsApi, telemetry: AdapterTelemetry, client_names: Callable[[], Collection[str]] | None = None
    ) -> None:
        self._api, self._telemetry, self._client_names = api, telemetry, client_names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        path, content_type = scope["path"], b"application/json"
        warnings: list[str] = []
        try:
            if scope["method"] not in ("GET", "HEAD"):
                raise RequestFailed(405, "only GET and HEAD")
            code = 200
            if path == METRICS:
                accept = [value.decode("latin-1") for name, value in scope["headers"] if name == b"accept"]
                chosen = choose_format(",".join(accept))
                body, content_type = self._telemetry.page(openmetrics=chosen.openmetrics), chosen.content_type.encode()
            else:
                body = json_bytes(self._document(scope, warnings.append))
        except RequestFailed as error:
            log.debug("request failed", extra={"path": path, "error": str(error)})
            code, body = error.code, json_bytes(failure(error.code, str(error)))
        self._telemetry.count_request(_route(path), code)
        # As the API server writes its own warnings, which clients such as kubectl show.
        headers = [(b"warning", f'299 - "{clean(each)}"'.encode("ascii", "replace")) for each in warnings]
        await respond(scope, send, code, body, *headers, content_type=content_type)

    def _check_client(self, names: frozenset[str]) -> None:
        if self._client_names is None:
            return
        allowed = self._client_names()
        if not names or (allowed and names.isdisjoint(allowed)):
            reason = f"its common name is {', '.join(sorted(names))}" if names else "it has no name"
            raise RequestFailed(
                401,
                f"a client certificate of adapter.client_names ({', '.join(allowed) or 'any'}) is needed; {reason}",
            )

    def _document(self, scope: Scope, warn: Callable[[str], None]) -> Document:
        path = scope["path"]
        if path in ALIVE:
            return {"status": "ok"}
        if path in READY:
            self._api.check_ready()
            return {"status": "ok"}
        # Decoded part by part: the API server sends `*` as %2A, and a name may hold a slash.
        root, *parts = [unquote(part) for part in scope["raw_path"].decode("ascii").strip("/").split("/")]
        if path.startswith(f"{ROUTES}/"):
            return self._api.number(parts[1:])
        self._check_client(client_of(scope).names)
        if path in OPENAPI:
            return OPENAPI[path]
        if root != "apis":
            raise RequestFailed(404, f"there is no {path}")
        return self._api.get(parts, dict(parse_qsl(scope["query_string"].decode("latin-1"))), warn)


def _route(path: str) -> str:
    """Return by what name a request is counted: its path, the API group, or `ROUTES`."""
    if path in NAMED:
        return path
    if path.startswith(f"{ROUTES}/"):
        return ROUTES
    group = path.removeprefix("/apis/").partition("/")[0]
    return f"/apis/{group}" if group in VERSIONS and path.startswith("/apis/") else "other"
