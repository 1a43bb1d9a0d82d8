"""The sections about Kubernetes: the API server, and the discovery of exporters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pulsed.config.values import LabelSelectors, Namespaces, ObjectKinds, PodPort, ServerUrl
from pulsed.kubernetes.cluster_access import SERVICE_ACCOUNT
from pulsed.kubernetes.exporter_pods import DAEMON_SET, USUAL_NAMESPACES
from pulsed.settings import Duration, FileName, HttpPath, Settings, setting


@dataclass(frozen=True, slots=True)
class KubernetesSection(Settings):
    """The API server. In a pod with a ServiceAccount token nothing has to be set."""

    server: ServerUrl | None = setting(
        None, "URL of the API server. Unset: that of the cluster that pulsed runs in.", example="https://10.96.0.1:443"
    )
    token_file: FileName = setting(f"{SERVICE_ACCOUNT}/token", "File with the bearer token, read for every request.")
    ca_file: FileName = setting(f"{SERVICE_ACCOUNT}/ca.crt", "PEM file of its authority.")
    namespace_file: FileName = setting(
        f"{SERVICE_ACCOUNT}/namespace", "File with the namespace of this pod. Without the file, it is not known."
    )
    timeout: Duration = setting(10.0, "Timeout of a request.")


@dataclass(frozen=True, slots=True)
class ExporterPodsSection(Settings):
    """Exporters that `discovery: kubernetes` finds: Running and Ready pods on the node `node`."""

    selectors: LabelSelectors = setting(
        ("app=nvidia-dcgm-exporter", "app.kubernetes.io/name=dcgm-exporter"),
        "Label selectors; a pod must match one of them. The default is that of the GPU operator and that "
        "of dcgm-exporter's chart.",
    )
    namespaces: Namespaces | None = setting(
        None,
        "Namespaces of the exporters. Whoever can create pods there can publish any value of any GPU of "
        f"the node, and gets the credentials. Unset: {', '.join(f'`{each}`' for each in USUAL_NAMESPACES)}, and that "
        "of pulsed unless it is `default`; name them where users create namespaces themselves. `all`: every namespace; "
        "credentials are refused then.",
        example="gpu-operator",
    )
    controllers: ObjectKinds = setting(
        (DAEMON_SET,), "Kinds of controllers; one of them must control an exporter's pod. `[]`: any, or none."
    )
    container_port: PodPort = setting("metrics", "Port of the page: number, or name of a container port.", example=9400)
    scheme: Literal["http", "https"] = setting("http", "Scheme of the page.")
    path: HttpPath = setting("/metrics", "Path of the page.")
