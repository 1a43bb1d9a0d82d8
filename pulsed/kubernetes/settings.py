"""Settings of the Kubernetes API and of the discovery of exporters, and how names of Kubernetes are written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pulsed.config.settings import Kind, ListKind, Settings, setting
from pulsed.config.values import Duration, FileName, HttpPath, Switch, external_url, matching

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Folder of the token and the certificate authority in a pod with a ServiceAccount token."""

USUAL_NAMESPACES = (
    "gpu-operator",
    "nvidia-gpu-operator",
    "gpu-operator-resources",
    "dcgm-exporter",
    "monitoring",
    "kube-system",
    "gke-managed-system",
)
"""Namespaces in which exporters usually run: the GPU operator's, also on OpenShift and before its version 1.9;
dcgm-exporter's; cluster services'; and GKE's own exporter's. Only administrators create pods there."""

DAEMON_SET = "DaemonSet.apps"
"""The kind of controller that exporters usually have."""

_LABEL_TERM = r"(!?[\w./-]+|[\w./-]+ *(=|==|!=) *[\w.-]*|[\w./-]+ +(in|notin) +\([\w., -]*\))"

_label_name = matching(
    r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", "is not the name of a label"
)
_label_selector = matching(rf"{_LABEL_TERM}( *, *{_LABEL_TERM})*", "is not a label selector")
_namespace = matching(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", "is not a namespace")
_object_kind = matching(r"[A-Z][A-Za-z0-9]*(\.[a-z0-9-]+)+", "is not a kind with its API group")


def _server_url(value: str) -> str:
    """Return a URL of scheme, host and port."""
    value = external_url(value)
    if urlsplit(value).path:
        raise ValueError("has a path")
    return value


def _label_pattern(value: str) -> str:
    """Return the name of a label, or the begin of names and a `*`."""
    if value != "*":
        _label_name(f"{value[:-1]}a" if value.endswith("*") else value)
    return value


def _namespaces(value: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of namespaces, each once; or `all` alone."""
    if "all" in value and len(value) > 1:
        raise ValueError("has all in addition to other namespaces")
    return tuple(dict.fromkeys(value))


def _pod_port(value: object) -> object:
    """Return the number or name of a port of a pod."""
    is_port = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65535
    if not is_port and not (isinstance(value, str) and re.fullmatch(r"(?=.*[a-z])[a-z0-9-]{1,15}", value)):
        raise ValueError("is not a port")
    return value


ServerUrl = Annotated[str, Kind("server", "a URL without a path, such as https://10.96.0.1:443", _server_url, "text")]
LabelSelectors = Annotated[
    tuple[str, ...],
    ListKind(
        "selector", "label selectors such as app=dcgm-exporter; one or a list of them", _label_selector, "text", least=1
    ),
]
LabelNames = Annotated[
    tuple[str, ...],
    ListKind("label", "names of labels such as app.kubernetes.io/name; one or a list of them", _label_name, "text"),
]
LabelPatterns = Annotated[
    tuple[str, ...],
    ListKind(
        "labels", "names of labels, with * at the end for any characters; one or a list of them", _label_pattern, "text"
    ),
]
ALL_NAMESPACES = ("all",)
Namespaces = Annotated[
    tuple[str, ...],
    ListKind(
        "namespace",
        "names such as gpu-operator, one or a list of them; or all",
        _namespace,
        "text",
        least=1,
        check=_namespaces,
    ),
]
"""Names of namespaces, or `ALL_NAMESPACES`."""

ObjectKinds = Annotated[
    tuple[str, ...],
    ListKind("kind", "kinds with their API groups, such as RayJob.ray.io; one or a list of them", _object_kind, "text"),
]
PodPort = Annotated[int | str, Kind("port", "a number from 1 to 65535, or the name of a port", _pod_port)]


@dataclass(frozen=True, slots=True)
class ConditionSettings(Settings):
    """Health as conditions of the node `node`: `GPUHealthy` and `GPUSourceHealthy`; `True` is good."""

    enabled: Switch = setting(False, "Write them. Needs the rights to `patch` `nodes/status` and `create` `events`.")
    interval: Duration = setting(10.0, "Minimum time between two patches of the node.")
    heartbeat: Duration = setting(300.0, "Time after which unchanged conditions are written again.")
    events: Switch = setting(True, "Create an event of the node for each change.")


@dataclass(frozen=True, slots=True)
class KubernetesSettings(Settings):
    """The API server. In a pod with a ServiceAccount token nothing has to be set."""

    server: ServerUrl | None = setting(
        None, "URL of the API server. Unset: the API server of this pod's cluster.", example="https://10.96.0.1:443"
    )
    token_file: FileName = setting(f"{SERVICE_ACCOUNT}/token", "File with the bearer token, read for every request.")
    ca_file: FileName = setting(f"{SERVICE_ACCOUNT}/ca.crt", "PEM file of its authority.")
    namespace_file: FileName = setting(
        f"{SERVICE_ACCOUNT}/namespace", "File with the namespace of this pod; unknown without the file."
    )
    timeout: Duration = setting(10.0, "Timeout of a request.")
    conditions: ConditionSettings = setting(ConditionSettings(), "Conditions of the node.")


@dataclass(frozen=True, slots=True)
class ExporterPodSettings(Settings):
    """Exporters that `discovery: kubernetes` finds: Running and Ready pods."""

    nodes: Literal["own", "all"] = setting(
        "own",
        "`own`: exporters on the node `node`, which the API server proves; or `all`.",
    )

    selectors: LabelSelectors = setting(
        ("app in (nvidia-dcgm-exporter, nvidia-dcgm-exporter-dra)", "app.kubernetes.io/name=dcgm-exporter"),
        "Label selectors; a pod must match one.",
    )
    namespaces: Namespaces | None = setting(
        None,
        "Namespaces of the exporters; users who can create pods there can publish any value, and get the credentials. "
        f"Unset: {', '.join(f'`{each}`' for each in USUAL_NAMESPACES)}, and pulsed's own "
        "unless it is `default`; set it where users create namespaces. `all`: every namespace; not with credentials.",
        example="gpu-operator",
    )
    controllers: ObjectKinds = setting(
        (DAEMON_SET,), "The pod must have a controller of one of these kinds. `[]`: any, or none."
    )
    container_port: PodPort = setting("metrics", "Port of the page.", example=9400)
    scheme: Literal["http", "https"] = setting("http", "Scheme of the page.")
    path: HttpPath = setting("/metrics", "Path of the page.")
