"""The sections about Kubernetes: the API server, and the discovery of exporters."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pulsed.config.section import Section
from pulsed.config.values import (
    Duration,
    FileName,
    HttpPath,
    LabelSelectors,
    Namespaces,
    ObjectKinds,
    PodPort,
    ServerUrl,
)
from pulsed.kubernetes.cluster_access import SERVICE_ACCOUNT
from pulsed.kubernetes.exporter_pods import DAEMON_SET, USUAL_NAMESPACES


class KubernetesSection(Section):
    """The API server. In a pod with a ServiceAccount token nothing has to be set."""

    server: ServerUrl | None = Field(
        default=None,
        description="URL of the API server. Unset: that of the cluster that pulsed runs in.",
        examples=["https://10.96.0.1:443"],
    )
    token_file: FileName = Field(
        default=f"{SERVICE_ACCOUNT}/token", description="File with the bearer token, read for every request."
    )
    ca_file: FileName = Field(default=f"{SERVICE_ACCOUNT}/ca.crt", description="PEM file of its authority.")
    namespace_file: FileName = Field(
        default=f"{SERVICE_ACCOUNT}/namespace",
        description="File with the namespace of this pod. Without the file, it is not known.",
    )
    timeout: Duration = Field(default=10.0, description="Timeout of a request.")


class ExporterPodsSection(Section):
    """Exporters that `discovery: kubernetes` finds: Running and Ready pods on the node `node`."""

    selectors: LabelSelectors = Field(
        default=("app=nvidia-dcgm-exporter", "app.kubernetes.io/name=dcgm-exporter"),
        description="Label selectors; a pod must match one of them. The default is that of the GPU operator and that "
        "of dcgm-exporter's chart.",
    )
    namespaces: Namespaces | None = Field(
        default=None,
        description="Namespaces of the exporters. Whoever can create pods there can publish any value of any GPU of "
        f"the node, and gets the credentials. Unset: {', '.join(f'`{each}`' for each in USUAL_NAMESPACES)}, and that "
        "of pulsed unless it is `default`; name them where users create namespaces themselves. `all`: every namespace; "
        "credentials are refused then.",
        examples=["gpu-operator"],
    )
    controllers: ObjectKinds = Field(
        default=(DAEMON_SET,),
        description="Kinds of controllers; one of them must control an exporter's pod. `[]`: any, or none.",
    )
    container_port: PodPort = Field(
        default="metrics", description="Port of the page: number, or name of a container port.", examples=[9400]
    )
    scheme: Literal["http", "https"] = Field(default="http", description="Scheme of the page.")
    path: HttpPath = Field(default="/metrics", description="Path of the page.")
