"""A Kubernetes API server for tests: pods over TLS with lists, pages, selectors, watches, tokens, and faults.

Other objects can only be requested one by one. The status of nodes takes strategic merge patches; events are kept.
"""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from tests.support.certificates import make_authority
from tests.support.http_servers import QuietHandler, running

Pod = dict[str, Any]

_FIELDS: Mapping[str, Callable[[Pod], str]] = {
    "metadata.name": lambda pod: str(pod["metadata"]["name"]),
    "metadata.namespace": lambda pod: str(pod["metadata"]["namespace"]),
    "spec.nodeName": lambda pod: str(pod["spec"].get("nodeName", "")),
    "status.phase": lambda pod: str(pod["status"].get("phase", "")),
}


ITEM_KEYS = ("metadata", "spec", "status")
"""Keys of an item of a list, which has neither kind nor version."""

KINDS = {
    "deployments": "Deployment",
    "replicasets": "ReplicaSet",
    "statefulsets": "StatefulSet",
    "daemonsets": "DaemonSet",
    "jobs": "Job",
    "cronjobs": "CronJob",
    "rollouts": "Rollout",
    "jobsets": "JobSet",
    "rayclusters": "RayCluster",
    "rayjobs": "RayJob",
    "leaderworkersets": "LeaderWorkerSet",
}

EXPIRED_PAGE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


def pod(name: str, address: str = "127.0.0.1", port: int = 9400, **more: Any) -> Pod:
    """Return a Running and Ready pod of the GPU operator's dcgm-exporter on the node `node-a`.

    `more` has the keys node, namespace, labels, owner (a DaemonSet, or a reference), ready, phase, port_name, uid,
    gpus, claims.
    """
    owner = more.get("owner", "nvidia-dcgm-exporter")
    if isinstance(owner, str) and owner:
        owner = reference("apps/v1", "DaemonSet", owner)
    ready = "True" if more.get("ready", True) else "False"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": more.get("namespace", "gpu-operator"),
            "uid": more.get("uid", f"uid-{name}"),
            "creationTimestamp": more.get("created", "2026-01-01T00:00:00Z"),
            "labels": more.get("labels", {"app": "nvidia-dcgm-exporter"}),
            "ownerReferences": [owner] if owner else [],
        },
        "spec": {
            "nodeName": more.get("node", "node-a"),
            **({"resourceClaims": claims} if (claims := more.get("claims")) else {}),
            "containers": [
                {
                    "name": "exporter",
                    "image": "exporter",
                    "ports": [{"name": more.get("port_name", "metrics"), "containerPort": port, "protocol": "TCP"}],
                    "resources": {"limits": {"nvidia.com/gpu": str(gpus)}} if (gpus := more.get("gpus")) else {},
                }
            ],
        },
        "status": {
            "phase": more.get("phase", "Running"),
            "podIP": address,
            "podIPs": [{"ip": address}] if address else [],
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def reference(version: str, kind: str, name: str, controller: bool = True) -> dict[str, Any]:
    """Return the reference to an owner."""
    return {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": controller}


class StatusError(Exception):
    """An answer that is a Status object.

    Args:
        document: another body; None: a Status object.
        more: further keys of the object, as details.
    """

    def __init__(self, code: int, reason: str, message: str = "", document: object = None, **more: object) -> None:
        super().__init__(reason)
        self.code = code
        head: dict[str, object] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        status = {**head, "message": message or reason, "reason": reason, **more, "code": code}
        self.document = status if document is None else document


class UnknownApi(Exception):
    """There is no such API group: the answer is no Status object."""


class ResourcePath(NamedTuple):
    """The parts of a path of the API; empty without one."""

    group: str
    version: str
    namespace: str
    plural: str
    name: str

    @property
    def details(self) -> dict[str, str]:
        """The details of a Status object."""
        found = {"name": self.name, "group": self.group, "kind": self.plural}
        return {key: value for key, value in found.items() if value}

    def __str__(self) -> str:
        resource = f"{self.plural}.{self.group}" if self.group else self.plural
        return f'{resource} "{self.name}"' if self.name else resource

    def not_found(self) -> StatusError:
        """Return the answer for an object that does not exist."""
        return StatusError(404, "NotFound", f"{self} not found", details=self.details)

    def forbidden(self) -> StatusError:
        """Return the answer for a user without rights."""
        verb, where = "get" if self.name else "list", f'in the namespace "{self.namespace}"'
        message = (
            f'{self} is forbidden: User "reader" cannot {verb} resource "{self.plural}" in API group "{self.group}" '
            f"{where if self.namespace else 'at the cluster scope'}"
        )
        return StatusError(403, "Forbidden", message, details=self.details)


def resource_path(path: str) -> ResourcePath:
    """Return the parts of a path of the API. Raises a StatusError 404 for another path."""
    found = re.fullmatch(r"/(?:api|apis/([^/]+))/(v[^/]+)/(?:namespaces/([^/]+)/)?([^/]+)(?:/([^/]+))?", path)
    if found is None:
        raise StatusError(404, "NotFound", "the server could not find the requested resource", details={})
    return ResourcePath(*(part or "" for part in found.groups()))


@dataclass
class Request:
    """A request that came: when (monotonic seconds), its path, parameters, token, document, and the answer's status."""

    time: float
    path: str
    query: dict[str, str]
    token: str
    status: int = 0
    method: str = "GET"
    document: Any = None


@dataclass
class FakeApiServer:
    """The state of the cluster, and the faults.

    Attributes:
        token: what requests must bear.
        denied: whether the ServiceAccount may read nothing.
        denied_paths: parts of paths that it may not read.
        fault: status of all answers instead of 200; 0: none.
        fault_document: their body; None: a Status object.
        retry_after: the header of these; empty for none.
        delay: seconds before each answer.
        requests: all that came.
        nodes: the conditions of nodes, by name.
        created: events that were created.
    """

    folder: Path
    token: str = "first"
    denied: bool = False
    denied_paths: tuple[str, ...] = ()
    fault: int = 0
    fault_document: object = None
    retry_after: str = ""
    delay: float = 0.0
    bookmark_seconds: float = 0.1
    requests: list[Request] = field(default_factory=list)
    nodes: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    created: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        authority = make_authority(self.folder)
        self.ca_file, self._tls = authority.ca, authority.server_context()
        self.token_file = self.folder / "token"
        self.token_file.write_text(self.token)
        self.changed = threading.Condition()
        self.pods: dict[tuple[str, str], Pod] = {}
        self.objects: dict[ResourcePath, Pod] = {}
        self.apis = {("", "v1"), ("apps", "v1"), ("batch", "v1")}
        self.version, self.oldest, self.cuts = 100, 100, 0
        self._log: list[tuple[int, Pod | None, Pod | None]] = []

    def put(self, new: Pod) -> None:
        """Create or change a pod. A new one is Pending at first, until its kubelet writes the status."""
        key = (new["metadata"]["namespace"], new["metadata"]["name"])
        with self.changed:
            if key not in self.pods:
                self._write(key, {**new, "status": {"phase": "Pending"}})
            self._write(key, new)

    def _write(self, key: tuple[str, str], new: Pod | None) -> None:
        self.version += 1
        before = self.pods.pop(key, None)
        if new is not None:
            new = self.pods[key] = deepcopy(new)
            new["metadata"]["resourceVersion"] = str(self.version)
        self._log.append((self.version, before, new))
        self.changed.notify_all()

    def put_object(self, version: str, plural: str, name: str, owner: object = None, **more: Any) -> dict[str, Any]:
        """Create or change an object that is no pod, and return the reference to it.

        `more` has the keys namespace, uid.
        """
        group, _, number = version.rpartition("/")
        path = ResourcePath(group, number, more.get("namespace", "ml"), plural, name)
        metadata = {"name": name, "namespace": path.namespace, "uid": more.get("uid", f"uid-{name}")}
        metadata["ownerReferences"] = [owner] if owner else []
        kind = KINDS.get(plural, plural)
        self.objects[path] = {"kind": kind, "apiVersion": version, "metadata": metadata}
        self.apis.add((group, number))
        return reference(version, kind, name)

    def delete(self, name: str, namespace: str = "gpu-operator") -> None:
        """Delete a pod."""
        key = (namespace, name)
        with self.changed:
            ending = deepcopy(self.pods[key])
            ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self._write(key, ending)
            self._write(key, None)

    def compact(self) -> None:
        """Forget all changes: watches and pages that continue before now are answered 410."""
        with self.changed:
            self.version += 1
            self.oldest = self.version
            self._log.clear()
        self.cut()

    def restore(self) -> None:
        """Begin anew without pods and with lower versions, as with etcd restored from a backup."""
        with self.changed:
            self.pods.clear()
            self._log.clear()
            self.version = self.oldest = 1
        self.cut()

    def cut(self) -> None:
        """Break all connections of watches."""
        with self.changed:
            self.cuts += 1
            self.changed.notify_all()

    def rotate(self, token: str) -> None:
        """Renew the token: the old one is not accepted any more."""
        self.token_file.write_text(token)
        self.token = token
        self.cut()

    @contextlib.contextmanager
    def running(self) -> Iterator[str]:
        """Serve; gives the URL."""
        fake = self

        class Handler(QuietHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.do_PATCH()

            def do_PATCH(self) -> None:
                request = self._request(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                with contextlib.suppress(ConnectionError, ssl.SSLError):
                    try:
                        resource = fake.admitted(request)
                        is_event = request.method == "POST"
                        document = (
                            fake.event(request)
                            if is_event
                            else fake.patched(request, resource, self.headers["Content-Type"])
                        )
                        request.status = 201 if is_event else 200
                        self._send(request.status, document)
                    except StatusError as error:
                        request.status = error.code
                        self._send(error.code, error.document)

            def _request(self, document: object = None) -> Request:
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                request = Request(time.monotonic(), parts.path, query, token, 0, self.command, document)
                fake.requests.append(request)
                time.sleep(fake.delay)
                return request

            def do_GET(self) -> None:
                request = self._request()
                query = request.query
                cuts = fake.cuts
                with contextlib.suppress(ConnectionError, ssl.SSLError):
                    try:
                        resource = fake.admitted(request)
                        request.status = 200
                        if resource.name or resource.plural != "pods":
                            self._send(200, fake.found(resource))
                        elif query.get("watch") == "true":
                            self._watch(query, resource.namespace, cuts)
                        else:
                            self._send(200, fake.listed(query, resource.namespace))
                    except UnknownApi:
                        request.status = 404
                        self._send(404, "404 page not found\n", "text/plain; charset=utf-8")
                    except StatusError as error:
                        request.status = error.code
                        self._send(error.code, error.document)

            def _send(self, code: int, document: object, content: str = "application/json") -> None:
                body = document.encode() if isinstance(document, str) else json.dumps(document).encode()
                self.send_response(code)
                self.send_header("Content-Type", content)
                self.send_header("Content-Length", str(len(body)))
                if fake.retry_after and code >= 400:
                    self.send_header("Retry-After", fake.retry_after)
                self.end_headers()
                self.wfile.write(body)

            def _watch(self, query: dict[str, str], namespace: str, cuts: int) -> None:
                selector(query, namespace)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.flush()
                for event in fake.events(query, namespace, cuts):
                    self._event(event)
                self.close_connection = True
                if fake.cuts == cuts:
                    self.wfile.write(b"0\r\n\r\n")  # the regular end

            def _event(self, event: object) -> None:
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
                self.wfile.flush()

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def get_request(self) -> Any:
                sock, address = super().get_request()
                return fake._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), address

            def handle_error(self, request: object, client_address: object) -> None:
                pass

        server = Server(("127.0.0.1", 0), Handler)
        with running(server):
            try:
                yield f"https://127.0.0.1:{server.server_port}"
            finally:
                self.cut()

    def admitted(self, request: Request) -> ResourcePath:
        """Return what a request is for. Raises a StatusError if it is refused."""
        if request.token != self.token:
            raise StatusError(401, "Unauthorized")
        if self.fault:
            raise StatusError(self.fault, "InjectedFault", document=self.fault_document)
        resource = resource_path(request.path.removesuffix("/status"))
        if self.denied or any(part in request.path for part in self.denied_paths):
            raise resource.forbidden()
        return resource

    def patched(self, request: Request, resource: ResourcePath, content: str | None) -> object:
        """Apply a patch to the conditions of a node, which are merged by their type; return the node."""
        if resource.plural != "nodes" or resource.name not in self.nodes or not request.path.endswith("/status"):
            raise resource.not_found()
        if content != "application/strategic-merge-patch+json":
            raise StatusError(415, "UnsupportedMediaType")
        with self.changed:
            merged = {each["type"]: each for each in self.nodes[resource.name]}
            for each in request.document.get("status", {}).get("conditions", ()):
                if each.get("$patch") == "delete":
                    merged.pop(each["type"], None)
                else:
                    merged[each["type"]] = {**merged.get(each["type"], {}), **each}
            self.nodes[resource.name] = list(merged.values())
            status = {"conditions": deepcopy(self.nodes[resource.name])}
        return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": resource.name}, "status": status}

    def event(self, request: Request) -> object:
        """Keep an event. Raises a StatusError 422 for one about a node outside of the namespace `default`."""
        item = request.document
        if request.path != "/api/v1/namespaces/default/events" or item["metadata"]["namespace"] != "default":
            raise StatusError(422, "Invalid", "involvedObject.namespace: does not match event.namespace")
        self.created.append(item)
        return item

    def conditions(self, node: str) -> dict[str, dict[str, Any]]:
        """Return the conditions of a node by type."""
        with self.changed:
            return {each["type"]: dict(each) for each in self.nodes[node]}

    def found(self, resource: ResourcePath) -> Pod:
        """Return one object. Raises a StatusError 404, or UnknownApi, without one."""
        if (resource.group, resource.version) not in self.apis:
            raise UnknownApi
        with self.changed:
            key = (resource.namespace, resource.name)
            item = self.pods.get(key) if resource.plural == "pods" else self.objects.get(resource)
            if item is None:
                raise resource.not_found()
            return deepcopy(item)

    def listed(self, query: dict[str, str], namespace: str) -> object:
        """Return a page of the list."""
        matches = selector(query, namespace)
        with self.changed:
            start, version = 0, self.version
            if "continue" in query:
                if "resourceVersion" in query:
                    message = "specifying resource version is not allowed when using continue"
                    raise StatusError(400, "BadRequest", message)
                start, version = map(int, query["continue"].split(":"))
                if version < self.oldest:
                    raise StatusError(410, "Expired", EXPIRED_PAGE, metadata={"continue": f"{start}:-1"})
            found = [each for key, each in sorted(self.pods.items()) if matches(each)]  # never changed, but replaced
        # A list from memory, which the version 0 admits, has no pages.
        limit = 0 if query.get("resourceVersion") == "0" else int(query.get("limit", "0"))
        end = start + limit if limit else len(found)
        metadata: dict[str, object] = {"resourceVersion": str(version)}
        if end < len(found):
            metadata["continue"] = f"{end}:{version}"
            if not {"labelSelector", "fieldSelector"} & query.keys():
                metadata["remainingItemCount"] = len(found) - end
        items = [{key: value for key, value in each.items() if key in ITEM_KEYS} for each in found[start:end]]
        return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}

    def events(self, query: dict[str, str], namespace: str, cuts: int) -> Iterator[object]:
        """Yield the events of a watch until its time is over, or connections are cut after so many cuts."""
        matches, since = selector(query, namespace), int(query["resourceVersion"])
        end = time.monotonic() + float(query.get("timeoutSeconds", "60"))
        if since < self.oldest:
            expired = StatusError(410, "Expired", f"too old resource version: {since} ({self.oldest})")
            yield {"type": "ERROR", "object": expired.document}
            return
        while time.monotonic() < end:
            with self.changed:
                due = [entry for entry in self._log if entry[0] > since]
                now = self.version
                if not due and self.cuts == cuts:
                    self.changed.wait(self.bookmark_seconds)
                if self.cuts != cuts:
                    return
            has_event = False
            for version, old, new in due:
                was, is_now = bool(old and matches(old)), bool(new and matches(new))
                if was or is_now:
                    kind = "DELETED" if not is_now else "MODIFIED" if was else "ADDED"
                    item = deepcopy(new if is_now else old) or {}
                    item["metadata"]["resourceVersion"] = str(version)
                    has_event = True
                    yield {"type": kind, "object": item}
                since = version
            if due and not has_event:  # a real server has one a minute, and two seconds before the end
                item = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(now)}}
                yield {"type": "BOOKMARK", "object": item}


def selector(query: dict[str, str], namespace: str) -> Callable[[Pod], bool]:
    """Return whether a pod is in the namespace and matches the field and label selectors.

    Raises a StatusError 400 for a field that has no selector.
    """
    terms = [_field_term(term) for term in query.get("fieldSelector", "").split(",") if term]
    terms += [_label_term(term) for term in re.split(r",(?![^(]*\))", query.get("labelSelector", "")) if term]
    return lambda each: namespace in ("", each["metadata"]["namespace"]) and all(term(each) for term in terms)


def _field_term(term: str) -> Callable[[Pod], bool]:
    found = re.fullmatch(r"([A-Za-z.]+)(==|=|!=)(.*)", term)
    if found is None or found[1] not in _FIELDS:
        raise StatusError(400, "BadRequest", f"field label not supported: {term.partition('=')[0].rstrip('!')}")
    name, operator, value = found.groups()
    return lambda each: (_FIELDS[name](each) == value) != (operator == "!=")


def _label_term(term: str) -> Callable[[Pod], bool]:
    term = term.strip()
    if found := re.fullmatch(r"(\S+) (in|notin) \(([^)]*)\)", term):
        name, operator, allowed = found.groups()
        values = {value.strip() for value in allowed.split(",")}
        return lambda each: (_labels(each).get(name) in values) == (operator == "in")
    if found := re.fullmatch(r"([^=!\s]+)\s*(==|=|!=)\s*(\S*)", term):
        key, sign, value = found.groups()
        return lambda each: (_labels(each).get(key) == value) != (sign == "!=")
    return lambda each: (term.lstrip("!") in _labels(each)) != term.startswith("!")


def _labels(each: Pod) -> dict[str, str]:
    labels: dict[str, str] = each["metadata"].get("labels", {})
    return labels
