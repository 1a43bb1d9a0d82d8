"""The Kubernetes API: its address and who may read it; GET, list and watch at a bounded rate of requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple
from urllib.parse import urlencode

from pulsed.errors import ConfigError, PulsedError
from pulsed.http.body import lines
from pulsed.http.client import Answer, HttpClient, Request, answer_of
from pulsed.http.credentials import BadCredentials, BadTlsFiles, ClientTls, authorization, url_host
from pulsed.http.failure import HttpRequestFailed
from pulsed.kubernetes.objects import JsonObject
from pulsed.kubernetes.settings import SERVICE_ACCOUNT
from pulsed.regular_file import read_regular

MAX_RETRY_SECONDS = 300.0
"""A longer Retry-After is shortened to this."""

PAGE_OBJECTS = 250
"""Objects of one answer to a list."""

SILENT_SECONDS = 70.0
"""A watch on which nothing arrives for so long is ended. API servers send a bookmark every minute."""

_CREATED = 201
_MAX_LIST_BYTES = 64 * 2**20
_MAX_OBJECT_BYTES = 4 * 2**20
_MAX_EVENT_BYTES = 4 * 2**20
_MAX_REFUSAL_BYTES = 64 * 2**10
_MAX_MESSAGE_LENGTH = 300
_IDLE_SECONDS = 30.0
_WATCH_GRACE_SECONDS = 30.0
_UNREACHABLE = "See whether the API server is up and reachable"
_REMEDIES: Mapping[int, str] = {
    401: "See whether the ServiceAccount exists; its token is read again for every request",
    403: "Grant its ServiceAccount get, list and watch of pods, and get of their controllers, as the chart does with "
    "`rbac.create`; for kubernetes.conditions also patch of nodes/status, and create of events",
    404: "See whether this is a Kubernetes API server, and whether the namespace exists",
    429: "It is overloaded; requests continue at growing intervals",
}


class RateLimit(NamedTuple):
    """At most one request every `seconds` on average, but `burst` at once after a pause."""

    burst: int
    seconds: float


REQUEST_LIMITS = (RateLimit(20, 0.1), RateLimit(64, 1.0))
"""Limits of a client by default: a restart names the pods of a node in seconds, and whatever fails for long costs no
more than a request a second."""


class KubernetesError(PulsedError):
    """The API server did not answer, or refused a request."""


class AccessDenied(KubernetesError):
    """The ServiceAccount may not do this (403 Forbidden)."""


class ResourceNotFound(KubernetesError):
    """There is no such object, or no such kind (404 Not Found)."""


class ResourceExpired(KubernetesError):
    """The version to continue from is too old (410 Gone): the list has to be requested again."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A change: `ADDED`, `MODIFIED`, `DELETED`, or `BOOKMARK` with a version only."""

    kind: str
    item: JsonObject


_REFUSALS: Mapping[int, type[KubernetesError]] = {
    403: AccessDenied,
    404: ResourceNotFound,
    410: ResourceExpired,
}


class ApiClient:
    """Requests to one API server. All users of a client share its rate, and wait while the server demands it.

    Args:
        timeout: seconds that a request may take; a watch may take its own time.
        limits: of the rate at which requests begin, all in force; None: `REQUEST_LIMITS`.
    """

    def __init__(
        self,
        access: ClusterAccess,
        timeout: float = 10.0,
        *,
        limits: Sequence[RateLimit] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._access, self._timeout, self._clock, self._sleep = access, timeout, clock, sleep
        self._next_request = dict.fromkeys(REQUEST_LIMITS if limits is None else limits, 0.0)
        self._http = HttpClient(_IDLE_SECONDS, refusal_bytes=_MAX_REFUSAL_BYTES)
        self._tls = ClientTls(access.ca_file)
        self._paused_until = 0.0
        self._turn = asyncio.Lock()

    async def close(self) -> None:
        """Close all connections; requests on their way fail."""
        await self._http.close()

    async def get(self, path: str) -> JsonObject:
        """Return one object.

        Raises:
            ResourceNotFound: the object does not exist.
            KubernetesError: it was not sent.
        """
        return self._parsed((await self._send(path)).body)

    async def patch(self, path: str, changes: JsonObject) -> JsonObject:
        """Change an object by a strategic merge patch; return it. Raises `KubernetesError` if it was not changed."""
        return self._parsed((await self._send(path, "PATCH", changes, "application/strategic-merge-patch+json")).body)

    async def create(self, path: str, item: JsonObject) -> None:
        """Create an object in a list. Raises `KubernetesError` if it was not created."""
        await self._send(path, "POST", item)

    async def list(self, path: str, query: Mapping[str, str], take: Callable[[JsonObject], None]) -> str:
        """Call `take` with every object, page by page; return the version from which a watch continues the list.

        Raises:
            ResourceExpired: the list changed too much between two pages.
            KubernetesError: no list came.
        """
        page: dict[str, str] = {}
        while True:
            query = {**query, "limit": str(PAGE_OBJECTS), **page}
            document = self._parsed((await self._send(f"{path}?{urlencode(query)}", limit=_MAX_LIST_BYTES)).body)
            metadata = document.get("metadata")
            items = document.get("items")
            if not isinstance(metadata, dict) or not isinstance(items, list | None):
                raise self._error("sent something other than a list", "Check that this is an API server")
            for item in items or ():
                if isinstance(item, dict):
                    take(item)
            if not metadata.get("continue"):
                return str(metadata.get("resourceVersion", ""))
            # The version comes from the first page; a request for a page may not name both.
            page = {"continue": str(metadata["continue"])}
            query = {name: value for name, value in query.items() if name != "resourceVersion"}

    async def watch(
        self,
        path: str,
        query: Mapping[str, str],
        version: str,
        seconds: int,
        begun: Callable[[], None],
        take: Callable[[WatchEvent], None],
    ) -> None:
        """Call `take` with each change after a version, until the server ends the watch after the given seconds.

        Returns also after `SILENT_SECONDS` without a byte: the connection may be half-open. The next watch shows
        whether the API server can be reached.

        Args:
            begun: called when the server has accepted the watch.

        Raises:
            ResourceExpired: the version is too old.
            KubernetesError: the watch was not accepted within the timeout, was refused, or broke.
        """
        path += "?" + urlencode(
            {
                **query,
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": version,
                "timeoutSeconds": str(seconds),
            }
        )
        await self._wait_for_turn()
        now, is_accepted = asyncio.get_running_loop().time, False
        end = now() + seconds + _WATCH_GRACE_SECONDS
        try:
            with self._errors():
                async with (
                    asyncio.timeout(self._timeout) as silence,
                    self._http.open(await self._request(path)) as response,
                ):
                    if response.status != 200:
                        answer = answer_of(response)
                        answer.body = await self._http.body(response)
                        raise self._refused(answer, path)
                    is_accepted = True
                    begun()
                    silence.reschedule(now() + SILENT_SECONDS)
                    async for line in lines(response, _MAX_EVENT_BYTES):
                        silence.reschedule(min(now() + SILENT_SECONDS, end))
                        take(self._event(line))
        except TimeoutError:
            if not is_accepted:
                raise self._error(f"did not answer in {self._timeout:g} s", _UNREACHABLE) from None

    def _event(self, line: bytes) -> WatchEvent:
        document = self._parsed(line)
        kind, item = document.get("type"), document.get("object")
        if not isinstance(kind, str) or not isinstance(item, dict):
            raise self._error("sent something other than a change", "Check that this is an API server")
        if kind == "ERROR":
            code = item.get("code")
            raise self._refusal(code if isinstance(code, int) else 500, str(item.get("reason", "")), "watch", item)
        return WatchEvent(kind, item)

    async def _send(
        self,
        path: str,
        method: str = "GET",
        item: JsonObject | None = None,
        media_type: str = "application/json",
        limit: int = _MAX_OBJECT_BYTES,
    ) -> Answer:
        await self._wait_for_turn()
        with self._errors():
            request = await self._request(path)
            if item is not None:
                headers = {**request.headers, "Content-Type": media_type}
                request = replace(request, headers=headers, method=method, body=json.dumps(item).encode())
            answer = await self._http.fetch(request, limit, self._timeout)
        if answer.status not in (200, _CREATED):
            raise self._refused(answer, path)
        return answer

    async def _request(self, path: str) -> Request:
        url, secrets, file = self._access.server.rstrip("/") + path, dict[str, str](), self._access.token_file
        if file:
            secrets = await self._http.read_secrets(file, lambda: authorization("", file))
        return Request(url, {"Accept": "application/json"}, secrets, self._tls)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise what fails in a request as `KubernetesError`."""
        try:
            yield
        except BadCredentials as error:
            remedy = "The pod needs a ServiceAccount token: automountServiceAccountToken"
            raise KubernetesError(str(error), remedy) from error
        except BadTlsFiles as error:
            raise KubernetesError(
                f"certificate authority {error.files}: {error.reason}", "Name a readable file in PEM format"
            ) from error
        except HttpRequestFailed as error:
            remedy = "See what is between pulsed and the API server" if error.kind == "body" else _UNREACHABLE
            raise self._error(str(error), remedy) from error

    def _refused(self, answer: Answer, path: str) -> KubernetesError:
        """Return the error for a refused request, and wait with the next ones if the server demands it."""
        if answer.status in (429, 503) and answer.retry_seconds is not None:
            pause = min(float(answer.retry_seconds), MAX_RETRY_SECONDS)
            self._paused_until = max(self._paused_until, self._clock() + pause)
        return self._refusal(answer.status, answer.reason, path.partition("?")[0], _document(answer.body))

    async def _wait_for_turn(self) -> None:
        """Wait until a request may begin; one after the other, also when the server demands a pause meanwhile.

        `_next_request` has when the next would begin without bursts, at most a burst ahead of the clock.
        """
        async with self._turn:
            begin = -math.inf
            while begin < (due := max([self._paused_until, *self._earliest()])):
                begin = due
                if (pause := due - self._clock()) > 0:
                    await self._sleep(pause)
            for limit, moment in self._next_request.items():
                self._next_request[limit] = max(self._clock(), moment) + limit.seconds

    def _earliest(self) -> Iterator[float]:
        """Yield when each limit admits the next request."""
        return (moment - (limit.burst - 1) * limit.seconds for limit, moment in self._next_request.items())

    def _parsed(self, text: bytes) -> JsonObject:
        document = _document(text)
        if not isinstance(document, dict):
            raise self._error("sent something other than JSON objects", "Check that this is an API server")
        return document

    def _refusal(self, status: int, reason: str, what: str, document: object) -> KubernetesError:
        """Return the error for a refused request, with the message of the Status object that came with it."""
        remedy = _REMEDIES.get(status, "See the log of the API server")
        message = f"{f'API server {self._access.server} answered {status} {reason}'.rstrip()} for {what}"
        detail = document.get("message") if isinstance(document, dict) else None
        if isinstance(detail, str) and detail not in ("", reason):
            shown = detail[:_MAX_MESSAGE_LENGTH].rstrip(" .")
            message += f": {''.join(each if each.isprintable() else '?' for each in shown)}"
        return _REFUSALS.get(status, KubernetesError)(message, remedy)

    def _error(self, what: str, remedy: str) -> KubernetesError:
        return KubernetesError(f"API server {self._access.server} {what}", remedy)


def _document(text: bytes) -> object:
    """Return the value of a JSON text; None if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None


_NAMESPACE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How to reach the API server.

    Attributes:
        server: its URL, without a path.
        token_file: bearer token, read for every request, because the kubelet renews it; empty: none is sent.
        ca_file: PEM file of the only authorities to trust, read again when it has changed.
    """

    server: str
    token_file: str = f"{SERVICE_ACCOUNT}/token"
    ca_file: str = f"{SERVICE_ACCOUNT}/ca.crt"


def server_of_pod(environment: Mapping[str, str]) -> str:
    """Return the URL of the API server from the variables that Kubernetes sets in every container.

    Raises:
        ConfigError: they are not set: this is not a pod.
    """
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT_HTTPS") or environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError(
            "this is not a pod of Kubernetes: KUBERNETES_SERVICE_HOST is not set",
            "Outside of a cluster set kubernetes.server, kubernetes.ca_file and kubernetes.token_file",
        )
    return f"https://{url_host(host)}:{port}"


@cache
def own_namespace(file: str) -> str:
    """Return the namespace of this pod, from the file that is mounted next to its token; empty without the file.

    It is read once: a pod stays in its namespace.
    """
    try:
        return read_regular(file, _NAMESPACE_BYTES).decode().strip()
    except (OSError, ValueError):
        return ""
