"""The address of the API server, and the files that identify both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pulsed.errors import ConfigError
from pulsed.http.client import url_host
from pulsed.kubernetes.settings import SERVICE_ACCOUNT
from pulsed.regular_file import read_regular

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


def own_namespace(file: str) -> str:
    """Return the namespace of this pod, from the file that is mounted beside its token; empty without the file."""
    try:
        return read_regular(file, _NAMESPACE_BYTES).decode().strip()
    except (OSError, ValueError):
        return ""
