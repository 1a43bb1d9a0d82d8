"""The sections about Kubernetes: the API server, and the discovery of exporters."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pulsed.config.section import Section
from pulsed.config.values import Duration, FileName, HttpPath, LabelSelectors, PodPort, ServerUrl, Text
from pulsed.kubernetes.cluster_access import SERVICE_ACCOUNT


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
    timeout: Duration = Field(default=10.0, description="Timeout of a request.")


class ExporterPodsSection(Section):
    """Exporters that `discovery: kubernetes` finds: Running and Ready pods on the node `node`."""

    selectors: LabelSelectors = Field(
        default=("app=nvidia-dcgm-exporter", "app.kubernetes.io/name=dcgm-exporter"),
        description="Label selectors; a pod that matches any of them is an exporter. The default is that of the GPU "
        "operator and that of dcgm-exporter's chart.",
    )
    namespace: Text | None = Field(
        default=None, description="Namespace of the pods. Unset: all.", examples=["gpu-operator"]
    )
    container_port: PodPort = Field(
        default="metrics", description="Port of the page: number, or name of a container port.", examples=[9400]
    )
    scheme: Literal["http", "https"] = Field(default="http", description="Scheme of the page.")
    path: HttpPath = Field(default="/metrics", description="Path of the page.")
