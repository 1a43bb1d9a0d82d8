"""Requests to an API server, and its answers in a form that two servers can be compared by."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, Protocol
from urllib.parse import quote, urlencode, urlsplit

from pulsed.kubernetes.api_client import ClusterAccess
from pulsed.kubernetes.exporter_pods import exporter_pod
from pulsed.kubernetes.objects import pod_metadata
from tests.support.kubernetes.fake_api_server import Pod, pod
from tests.support.waiting import SECONDS

PODS = "/api/v1/pods"
WORKER = {"app": "web", "tier": "gpu"}


class Cluster(Protocol):
    """What the fake and the real API server have in common.

    Attributes:
        denied: whether the user of the token file may read nothing.
    """

    url: str
    token: str
    denied: bool

    @property
    def ca_file(self) -> Any: ...

    @property
    def token_file(self) -> Any: ...

    def put(self, new: Pod) -> None: ...

    def put_object(self, version: str, plural: str, name: str, owner: object = None) -> dict[str, Any]: ...

    def delete(self, name: str, namespace: str = ...) -> None: ...

    def compact(self) -> None: ...

    def rotate(self, token: str) -> None: ...


def access_to(cluster: Cluster) -> ClusterAccess:
    """Return how clients reach an API server."""
    return ClusterAccess(cluster.url, str(cluster.token_file), str(cluster.ca_file))


@dataclass(frozen=True)
class Answer:
    """An answer as it came."""

    status: int
    content: str
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def requested(cluster: Cluster, path: str, query: Mapping[str, str], token: str) -> Answer:
    """Send a request."""
    parts = urlsplit(cluster.url)
    context = ssl.create_default_context(cafile=str(cluster.ca_file))
    connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=SECONDS, context=context)
    with closing(connection):
        target = f"{path}?{urlencode(query, quote_via=quote)}" if query else path
        connection.request("GET", target, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers.get("Content-Type", ""), answer.read())


SELECTORS: Mapping[str, Mapping[str, str]] = {
    "all pods": {},
    "pods of a node": {"fieldSelector": "spec.nodeName=node-a"},
    "running pods of a node": {"fieldSelector": "status.phase=Running,spec.nodeName==node-a"},
    "pods that are not running": {"fieldSelector": "status.phase!=Running"},
    "pod by name": {"fieldSelector": "metadata.name=web-1,metadata.namespace=ml"},
    "pods with a label": {"labelSelector": "app=web"},
    "pods with two labels": {"labelSelector": "app==web,tier=gpu"},
    "pods without a value": {"labelSelector": "app!=web"},
    "pods with one of several values": {"labelSelector": "app in (web, nvidia-dcgm-exporter),tier"},
    "pods with none of several values": {"labelSelector": "app notin (web, x)"},
    "pods that have a label": {"labelSelector": "tier"},
    "pods that lack a label": {"labelSelector": "!tier"},
    "pods by labels and fields": {"labelSelector": "app=web", "fieldSelector": "spec.nodeName=node-a"},
    "field without a selector": {"fieldSelector": "spec.image=x"},
    "version and continue": {"limit": "2", "resourceVersion": "1", "continue": "CONTINUE"},
    "from memory, without pages": {"limit": "2", "resourceVersion": "0"},
    "first page": {"limit": "2"},
    "next page": {"limit": "2", "continue": "CONTINUE"},
    "first page of a selection": {"limit": "1", "labelSelector": "app=web"},
}

OBJECTS: Mapping[str, str] = {
    "pod": "/api/v1/namespaces/ml/pods/web-1",
    "pod that is missing": "/api/v1/namespaces/ml/pods/none",
    "pods of a namespace": "/api/v1/namespaces/ml/pods",
    "pods of a missing namespace": "/api/v1/namespaces/nowhere/pods",
    "ReplicaSet": "/apis/apps/v1/namespaces/ml/replicasets/web-7d4",
    "ReplicaSet that is missing": "/apis/apps/v1/namespaces/ml/replicasets/none",
    "Job that is missing": "/apis/batch/v1/namespaces/ml/jobs/none",
    "object of a missing API": "/apis/none.io/v1/namespaces/ml/things/none",
}


def answers(cluster: Cluster, watch_seconds: int) -> Iterator[tuple[str, object]]:
    """Yield the answers of a server without pods, by name, in their comparable form.

    Args:
        watch_seconds: a real server needs 5 to send a bookmark before the end.
    """
    _populate(cluster)
    token = cluster.token
    first = requested(cluster, PODS, {"limit": "2"}, token).json()
    place = {"CONTINUE": first["metadata"]["continue"]}
    for name, query in SELECTORS.items():
        found = {key: place.get(value, value) for key, value in query.items()}
        yield name, comparable(requested(cluster, PODS, found, token))
    for name, path in OBJECTS.items():
        yield name, comparable(requested(cluster, path, {}, token))
    yield "unknown token", comparable(requested(cluster, PODS, {}, "unknown"))
    cluster.denied = True
    yield "denied list", comparable(requested(cluster, PODS, {}, token))
    for name in ("pods of a namespace", "pod", "ReplicaSet", "object of a missing API"):
        yield f"denied: {name}", comparable(requested(cluster, OBJECTS[name], {}, token))
    cluster.denied = False
    watch = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(watch_seconds)}
    since = requested(cluster, PODS, {}, token).json()["metadata"]["resourceVersion"]
    _change(cluster)
    query = {**watch, "resourceVersion": since, "fieldSelector": "spec.nodeName=node-a", "labelSelector": "app"}
    later = threading.Timer(0.5, cluster.put, [pod("later", namespace="ml", labels=WORKER, node="node-b")])
    later.start()  # what the watch does not select makes a bookmark
    yield "watch", comparable(requested(cluster, PODS, query, token))
    later.join()
    cluster.compact()
    yield "watch of an old version", comparable(requested(cluster, PODS, query, token))
    yield "page of an old version", comparable(requested(cluster, PODS, {"limit": "2", **_continue(place)}, token))


def _continue(place: Mapping[str, str]) -> dict[str, str]:
    return {"continue": place["CONTINUE"]}


def _populate(cluster: Cluster) -> None:
    cluster.put(pod("exporter-a", "10.0.0.1"))
    cluster.put(pod("exporter-b", "10.0.0.2", node="node-b"))
    deployment = cluster.put_object("apps/v1", "deployments", "web")
    owner = cluster.put_object("apps/v1", "replicasets", "web-7d4", deployment)
    cluster.put(pod("web-1", "10.0.0.3", namespace="ml", labels=WORKER, owner=owner))
    cluster.put(pod("web-2", "10.0.0.4", namespace="ml", labels={"app": "web"}, owner=owner, node="node-b"))
    cluster.put(pod("done", "10.0.0.5", namespace="ml", labels={}, owner="", phase="Succeeded", ready=False))


def _change(cluster: Cluster) -> None:
    """Change pods in each way that a watch with selectors has an event for."""
    for name in ("new", "relabeled", "deleted"):
        cluster.put(pod(name, "10.0.1.1", namespace="ml", labels=WORKER))
    cluster.put(pod("new", "10.0.1.2", namespace="ml", labels=WORKER))
    cluster.put(pod("relabeled", "10.0.1.1", namespace="ml", labels={"tier": "gpu"}))
    cluster.put(pod("relabeled", "10.0.1.1", namespace="ml", labels=WORKER))
    cluster.delete("deleted", "ml")


def comparable(answer: Answer) -> object:
    """Return what does not depend on the server: no versions, times and UIDs; of lists the names."""
    shown: dict[str, object] = {"status": answer.status, "content": answer.content}
    if "json" not in answer.content:
        return {**shown, "text": answer.body.decode()}
    lines = [_document(json.loads(line)) for line in answer.body.splitlines()]
    return {**shown, "documents": [line for at, line in enumerate(lines) if at == 0 or line != lines[at - 1]]}


def _document(document: dict[str, Any]) -> object:
    if "object" in document:
        return {"type": document["type"], "object": _object(document["object"])}
    return _object(document)


def _object(document: dict[str, Any]) -> object:
    if document["kind"] == "PodList":
        names = sorted(f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in document["items"])
        keys = sorted({key for item in document["items"] for key in item})
        # A list from memory has no order, and pages are in that of the keys.
        return {**document, "metadata": _masked(document["metadata"]), "items": names, "keys of items": keys}
    if document["kind"] == "Status":
        return {**document, "metadata": _masked(document["metadata"]), "message": _message(document["message"])}
    shown: dict[str, object] = {"kind": document["kind"], "apiVersion": document["apiVersion"]}
    if document["kind"] == "Pod":
        shown["discovery"] = {**asdict(exporter_pod(document)), "created": "..."}
    metadata = pod_metadata(document, lambda label: True)
    controller = metadata.controller and metadata.controller._replace(uid="...")
    return {
        **shown,
        "attribution": {**asdict(metadata), "controller": controller, "uid": "..." if metadata.uid else ""},
    }


def _masked(metadata: Mapping[str, object]) -> dict[str, object]:
    return {key: value if key == "remainingItemCount" else "..." for key, value in sorted(metadata.items())}


def _message(text: str) -> str:
    return re.sub(r"\b\d+\b", "N", re.sub(r'User "[^"]*"', 'User "..."', text))
