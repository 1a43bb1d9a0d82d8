"""A Kubernetes API server for tests: pods over TLS with lists, pages, selectors, watches, tokens, and faults.

Other objects can only be requested one by one.
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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.certificates import make_authority

Pod = dict[str, Any]

_FIELDS: Mapping[str, Callable[[Pod], str]] = {
    "metadata.name": lambda pod: str(pod["metadata"]["name"]),
    "metadata.namespace": lambda pod: str(pod["metadata"]["namespace"]),
    "spec.nodeName": lambda pod: str(pod["spec"].get("nodeName", "")),
    "status.phase": lambda pod: str(pod["status"].get("phase", "")),
}


def pod(name: str, address: str = "127.0.0.1", port: int = 9400, **more: Any) -> Pod:
    """Return a Running and Ready pod of the GPU operator's dcgm-exporter on the node `node-a`.

    `more` has the keys node, namespace, labels, owner (a DaemonSet, or a reference), ready, phase, port_name, uid.
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
            "containers": [
                {
                    "name": "exporter",
                    "ports": [{"name": more.get("port_name", "metrics"), "containerPort": port, "protocol": "TCP"}],
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
    """An answer that is a Status object."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass
class Request:
    """A request that came: when (monotonic seconds), its path, parameters, token, and the answer's status."""

    time: float
    path: str
    query: dict[str, str]
    token: str
    status: int = 0


@dataclass
class FakeApiServer:
    """The state of the cluster, and the faults.

    Attributes:
        token: what requests must bear.
        denied: whether the ServiceAccount may not read pods.
        denied_paths: parts of paths that it may not read.
        fault: status of all answers instead of 200; 0: none.
        retry_after: the header of these; empty for none.
        delay: seconds before each answer.
        requests: all that came.
    """

    folder: Path
    token: str = "first"
    denied: bool = False
    denied_paths: tuple[str, ...] = ()
    fault: int = 0
    retry_after: str = ""
    delay: float = 0.0
    bookmark_seconds: float = 0.1
    requests: list[Request] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        authority = make_authority(self.folder)
        self.ca_file, self._tls = authority.ca, authority.server_context()
        self.token_file = self.folder / "token"
        self.token_file.write_text(self.token)
        self.changed = threading.Condition()
        self.pods: dict[tuple[str, str], Pod] = {}
        self.objects: dict[str, Pod] = {}
        self.version, self.oldest, self.cuts = 100, 100, 0
        self._log: list[tuple[int, Pod | None, Pod | None]] = []

    def put(self, new: Pod) -> None:
        """Create or change a pod."""
        key = (new["metadata"]["namespace"], new["metadata"]["name"])
        with self.changed:
            self.version += 1
            new = deepcopy(new)
            new["metadata"]["resourceVersion"] = str(self.version)
            self._log.append((self.version, self.pods.get(key), new))
            self.pods[key] = new
            self.changed.notify_all()

    def put_object(self, version: str, plural: str, name: str, owner: object = None, **more: Any) -> None:
        """Create or change an object that is no pod; `more` has the keys namespace, uid."""
        namespace = more.get("namespace", "ml")
        metadata = {"name": name, "namespace": namespace, "uid": more.get("uid", f"uid-{name}")}
        metadata["ownerReferences"] = [owner] if owner else []
        root = "apis" if "/" in version else "api"
        self.objects[f"/{root}/{version}/namespaces/{namespace}/{plural}/{name}"] = {"metadata": metadata}

    def delete(self, name: str, namespace: str = "gpu-operator") -> None:
        """Delete a pod."""
        with self.changed:
            self.version += 1
            old = deepcopy(self.pods.pop((namespace, name)))
            old["metadata"]["resourceVersion"] = str(self.version)
            self._log.append((self.version, old, None))
            self.changed.notify_all()

    def compact(self) -> None:
        """Forget all changes: watches and pages that continue before now are answered 410."""
        with self.changed:
            self.version += 1
            self.oldest = self.version
            self._log.clear()
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

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                request = Request(time.monotonic(), parts.path, query, token)
                fake.requests.append(request)
                time.sleep(fake.delay)
                with contextlib.suppress(ConnectionError, ssl.SSLError):
                    try:
                        namespace, name = fake.admitted(request)
                        request.status = 200
                        if name or namespace is None:
                            self._send(200, fake.found(parts.path, namespace, name))
                        elif query.get("watch") == "true":
                            self._watch(query, namespace)
                        else:
                            self._send(200, fake.listed(query, namespace))
                    except StatusError as error:
                        request.status = error.code
                        self._send(error.code, status_object(error))

            def _send(self, code: int, document: object) -> None:
                body = json.dumps(document).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                if fake.retry_after and code != 200:
                    self.send_header("Retry-After", fake.retry_after)
                self.end_headers()
                self.wfile.write(body)

            def _watch(self, query: dict[str, str], namespace: str) -> None:
                events = fake.events(query, namespace)
                first = next(events)  # 410 before the first byte is a status, as a real server has it
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self._event(first)
                cuts = fake.cuts
                for event in events:
                    self._event(event)
                self.close_connection = True
                if fake.cuts == cuts:
                    self.wfile.write(b"0\r\n\r\n")  # the regular end

            def _event(self, event: object) -> None:
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
                self.wfile.flush()

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def get_request(self) -> Any:
                sock, address = super().get_request()
                return fake._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), address

            def handle_error(self, request: object, client_address: object) -> None:
                pass

        with Server(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            try:
                yield f"https://127.0.0.1:{server.server_port}"
            finally:
                self.cut()
                server.shutdown()
                thread.join()

    def admitted(self, request: Request) -> tuple[str | None, str]:
        """Return the namespace of a request for pods, empty for all, and the name of the pod, empty for a list.

        The namespace is None for other objects. Raises a StatusError if the request is refused.
        """
        if request.token != self.token:
            raise StatusError(401, "Unauthorized")
        if self.fault:
            raise StatusError(self.fault, "InjectedFault")
        if any(part in request.path for part in self.denied_paths):
            raise StatusError(403, "Forbidden")
        found = re.fullmatch(r"/api/v1/(?:namespaces/([^/]+)/)?pods(?:/([^/]+))?", request.path)
        if found is None:
            return None, ""
        if self.denied:
            raise StatusError(403, "Forbidden")
        return found[1] or "", found[2] or ""

    def found(self, path: str, namespace: str | None, name: str) -> Pod:
        """Return one object. Raises a StatusError 404 without one."""
        with self.changed:
            item = self.objects.get(path) if namespace is None else self.pods.get((namespace, name))
            if item is None:
                raise StatusError(404, "NotFound")
            return deepcopy(item)

    def listed(self, query: dict[str, str], namespace: str) -> object:
        """Return a page of the list."""
        matches = selector(query, namespace)
        with self.changed:
            start, version = 0, self.version
            if "continue" in query:
                start, version = map(int, query["continue"].split(":"))
                if version < self.oldest:
                    raise StatusError(410, "Expired")
            found = [deepcopy(each) for key, each in sorted(self.pods.items()) if matches(each)]
        limit = int(query.get("limit", "0")) or len(found) or 1
        metadata = {"resourceVersion": str(version)}
        if start + limit < len(found):
            metadata["continue"] = f"{start + limit}:{version}"
        return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": found[start : start + limit]}

    def events(self, query: dict[str, str], namespace: str) -> Iterator[object]:
        """Yield the events of a watch until it is cut or its time is over."""
        matches, since = selector(query, namespace), int(query["resourceVersion"])
        end, cuts = time.monotonic() + float(query.get("timeoutSeconds", "60")), self.cuts
        if since < self.oldest:
            raise StatusError(410, "Expired")
        while time.monotonic() < end:
            with self.changed:
                due = [entry for entry in self._log if entry[0] > since]
                now = self.version
                if not due and self.cuts == cuts:
                    self.changed.wait(self.bookmark_seconds)
                if self.cuts != cuts:
                    return
            for version, old, new in due:
                was, is_now = bool(old and matches(old)), bool(new and matches(new))
                if was or is_now:
                    kind = "DELETED" if not is_now else "MODIFIED" if was else "ADDED"
                    yield {"type": kind, "object": new or old}
                since = version
            if not due:
                since = now
                yield {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": str(now)}}}


def status_object(error: StatusError) -> object:
    """Return the Status of an error, as the API server sends it."""
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": str(error), "code": error.code}


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
        raise StatusError(400, "field label not supported")
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
