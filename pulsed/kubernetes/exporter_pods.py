"""From pods to the pages of the dcgm-exporters on one node.

Labels prove nothing: the creator of a pod chooses them. A pod is an exporter by its namespace and its controller.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from pulsed.http.credentials import url_host
from pulsed.kubernetes.objects import Controller, JsonObject, controller_of, mapping, mappings, text
from pulsed.kubernetes.settings import DAEMON_SET, USUAL_NAMESPACES

_NAME = re.compile(r"[A-Za-z0-9.-]{1,253}")


@dataclass(frozen=True, slots=True)
class ExporterPod:
    """What discovery uses of a pod.

    Attributes:
        node: that it runs on, as the API server has it; empty if it has none yet.
        controller: kind, as in `DaemonSet.apps`, and name of the object that owns it; empty without one.
        address: its IP address; empty if it has none yet.
        ports: numbers of the declared container ports by name.
        is_ready: Running, Ready, and not being deleted.
        created: RFC 3339.
    """

    namespace: str
    name: str
    node: str
    controller: tuple[str, str]
    address: str
    ports: Mapping[str, int]
    is_ready: bool
    created: str

    @property
    def target(self) -> str:
        """Name of the target: the DaemonSet, which outlives its pods, or without one the pod."""
        kind, name = self.controller
        return f"{self.namespace}/{name if kind == DAEMON_SET else self.name}"


@dataclass(frozen=True, slots=True)
class PodRequirements:
    """Requirements on a pod, in addition to its labels, to be read as an exporter.

    Attributes:
        namespaces: it is in one of them; None: in any.
        controllers: kinds, as in `DaemonSet.apps`; one of them controls it; empty: anything, or nothing.
    """

    namespaces: Sequence[str] | None = USUAL_NAMESPACES
    controllers: Sequence[str] = (DAEMON_SET,)

    def reason_against(self, pod: ExporterPod) -> str:
        """Return why a pod is not read; empty if it may be."""
        kind, name = pod.controller
        if self.namespaces is not None and pod.namespace not in self.namespaces:
            return "is in another namespace"
        if self.controllers and kind not in self.controllers:
            controller = f"is controlled by {kind} {name}" if kind else "has no controller"
            return f"{controller}, not by {' or '.join(self.controllers)}"
        return ""


@dataclass(frozen=True, slots=True)
class PageAddress:
    """How the page of a pod is reached.

    Attributes:
        port: number, or name of a container port.
    """

    port: int | str = "metrics"
    scheme: str = "http"
    path: str = "/metrics"

    def url(self, pod: ExporterPod) -> str:
        """Return the URL of a pod's page; empty if the pod has no address or no such port."""
        port = self.port if isinstance(self.port, int) else pod.ports.get(self.port)
        if not pod.address or port is None:
            return ""
        return f"{self.scheme}://{url_host(pod.address)}:{port}{quote(self.path, safe='/?=&%,')}"


@dataclass(frozen=True, slots=True)
class ExporterEndpoint:
    """A dcgm-exporter.

    Attributes:
        target: name that stays the same when the exporter's pod is replaced.
        url: of its page.
        namespace: of the pod.
        pod: name of the pod.
        node: that it runs on.
    """

    target: str
    url: str
    namespace: str
    pod: str
    node: str = ""


def exporter_pod(item: JsonObject) -> ExporterPod:
    """Return the data of a pod in JSON that discovery uses; values that are missing or have another type are absent."""
    metadata, spec, status = mapping(item.get("metadata")), mapping(item.get("spec")), mapping(item.get("status"))
    controller = controller_of(item)
    ports = {
        str(port.get("name", "")): number
        for container in mappings(spec.get("containers"))
        for port in mappings(container.get("ports"))
        if isinstance(number := port.get("containerPort"), int) and port.get("protocol", "TCP") == "TCP"
    }
    is_ready = any(
        each.get("type") == "Ready" and each.get("status") == "True" for each in mappings(status.get("conditions"))
    )
    return ExporterPod(
        namespace=text(metadata.get("namespace")),
        name=text(metadata.get("name")),
        node=text(spec.get("nodeName")),
        controller=_named(controller) if controller else ("", ""),
        address=text(status.get("podIP")),
        ports=ports,
        is_ready=is_ready and status.get("phase") == "Running" and not metadata.get("deletionTimestamp"),
        created=text(metadata.get("creationTimestamp")),
    )


def _named(controller: Controller) -> tuple[str, str]:
    """Return kind and name of a controller; empty if they are not names, which the API server does not check."""
    names = str(controller.kind), controller.name
    return names if all(map(_NAME.fullmatch, names)) else ("", "")


def endpoints(
    pods: Iterable[ExporterPod], page: PageAddress, *, names_nodes: bool = False
) -> tuple[Sequence[ExporterEndpoint], Sequence[str]]:
    """Return the exporters in order of their targets, and why the other pods are excluded.

    Of several pods of a DaemonSet on a node, as during an update, the newest that is ready counts.

    Args:
        names_nodes: whether names of targets begin with the node, as they must where there are several.
    """
    by_target: dict[str, ExporterEndpoint] = {}
    reasons: list[str] = []
    for pod in sorted(pods, key=lambda pod: (pod.created, pod.name)):
        if not pod.is_ready:
            reasons.append(f"pod {pod.namespace}/{pod.name} is not Running and Ready")
        elif not pod.address:
            reasons.append(f"pod {pod.namespace}/{pod.name} has no address")
        elif not (url := page.url(pod)):
            names = ", ".join(sorted(name for name in pod.ports if name)) or "none"
            reasons.append(f"pod {pod.namespace}/{pod.name} has no port {page.port!r}; its named ports: {names}")
        else:
            target = f"{pod.node}/{pod.target}" if names_nodes else pod.target
            by_target[target] = ExporterEndpoint(target, url, pod.namespace, pod.name, pod.node)
    return [by_target[target] for target in sorted(by_target)], reasons
