"""The adapter's own certificate, on a real API server, with the rights and the configuration of the chart."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pulsed.apps.adapter.serving_certificate import DAYS, ServingCertificate
from pulsed.apps.adapter.settings import ServingSettings
from pulsed.kubernetes.api_client import ApiClient, ClusterAccess
from tests.support.daemon import environment, free_port
from tests.support.kubernetes.gpu_cluster import api_variables
from tests.support.kubernetes.real_api_server import RealApiServer
from tests.support.waiting import SECONDS, until
from tests.system.deploy.chart import NAMESPACE, Manifest, render

NAME = "gpu-pulsed-adapter"
API = "v1beta2.custom.metrics.k8s.io"
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "APIService": "/apis/apiregistration.k8s.io/v1/apiservices",
}


@dataclass
class Installed:
    """The chart's adapter on a real API server; its Service leads to `port` of this host."""

    real: RealApiServer
    folder: Path
    manifests: Sequence[Manifest]
    port: int
    token_file: Path

    def serving(self, wall: float = 0.0) -> tuple[ApiClient, ServingCertificate]:
        """Return the client, and what keeps the certificate at a later time, in seconds from now."""
        client = ApiClient(ClusterAccess(self.real.url, str(self.token_file), str(self.real.ca_file)))
        settings = ServingSettings(secret=f"{NAME}-tls", service=NAME, api_services=(API,))
        folder = str(self.folder / "third")
        return client, ServingCertificate(client, settings, folder, NAMESPACE, lambda: time.time() + wall)

    def bundle(self) -> bytes:
        """Return what the API server trusts."""
        return base64.b64decode(self.real.done(f"{PATHS['APIService']}/{API}")["spec"].get("caBundle", ""))

    @contextlib.contextmanager
    def adapter(self, name: str, port: int) -> Iterator[Path]:
        """Run a replica; gives the folder of its files."""
        folder = self.folder / name
        folder.mkdir()
        (data,) = [each["data"] for each in self.manifests if each["kind"] == "ConfigMap" and "adapter" in str(each)]
        for file in ("config.yaml", "web-config.yml"):
            text = data[file].replace("/run/pulsed-tls", str(folder)).replace(":8080", f"localhost:{free_port()}")
            (folder / file).write_text(text)
        (folder / "namespace").write_text(NAMESPACE)
        variables = {
            **api_variables(self.real),
            "PULSED_KUBERNETES__TOKEN_FILE": str(self.token_file),
            "PULSED_KUBERNETES__NAMESPACE_FILE": str(folder / "namespace"),
        }
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "pulsed", "adapter", f"--config.file={folder / 'config.yaml'}"),
                    f"--web.config.file={folder / 'web-config.yml'}",
                    f"--web.listen-address=localhost:{port}",
                ],
                stdout=log,
                stderr=log,
                env=environment(**variables),
            )
            try:
                yield folder
                process.terminate()
                assert process.wait(SECONDS) == 0, (folder / "log").read_text()
            finally:
                process.kill()
                process.wait(SECONDS)


@pytest.fixture
def installed(real: RealApiServer, tmp_path: Path) -> Iterator[Installed]:
    manifests = render({"adapter": {"enabled": True}})
    port, made = free_port(), []
    real.need_namespace(NAMESPACE)
    service = {"type": "ExternalName", "externalName": "localhost"}
    real.done(f"/api/v1/namespaces/{NAMESPACE}/services", {"metadata": {"name": NAME}, "spec": service})
    for each in manifests:
        if each["kind"] in PATHS and "adapter" in each["metadata"].get("labels", {})["app.kubernetes.io/name"]:
            path = PATHS[each["kind"]].format(each["metadata"].get("namespace", ""))
            if each["kind"] == "APIService":
                each["spec"]["service"]["port"] = port
            real.done(path, each)
            made.append(f"{path}/{each['metadata']['name']}")
    (token := tmp_path / "adapter-token").write_text(real.service_account_token(NAMESPACE, NAME))
    yield Installed(real, tmp_path, manifests, port, token)
    for path in made:
        real.done(path, method="DELETE")


def answers(real: RealApiServer) -> bool:
    """Return whether the API server passes requests on."""
    return real.request("/apis/custom.metrics.k8s.io/v1beta2/namespaces/ml/pods/*/gpu_power_watts")[0] == 200


async def test_the_chart_s_adapter_is_trusted_by_the_api_server_and_renews(installed: Installed) -> None:
    real = installed.real
    with installed.adapter("one", installed.port) as one, installed.adapter("two", free_port()) as two:
        until(lambda: answers(real))
        until(lambda: (two / "tls.crt").exists())
        for file in ("tls.crt", "tls.key", "ca.crt", "front-proxy-ca.crt"):
            assert (one / file).read_bytes() == (two / file).read_bytes(), "replicas share it"
            assert (one / file).stat().st_mode & 0o077 == 0
        first = (one / "tls.crt").read_bytes()
        assert installed.bundle() == first
        spec = real.done(f"{PATHS['APIService']}/{API}")["spec"]
        assert not spec.get("insecureSkipTLSVerify")

        # Until it is due nothing changes; then both certificates are trusted, as replicas still use the old one.
        for days, trusted in ((DAYS * 0.6, 1), (DAYS * 0.7, 2)):
            client, serving = installed.serving(days * 86400)
            await serving.refresh()
            await client.close()
            assert installed.bundle().count(b"BEGIN CERTIFICATE") == trusted
        assert installed.bundle().endswith(first)
        assert (installed.folder / "third" / "tls.crt").read_bytes() != first
        assert serving.client_names == ("front-proxy-client",)
        assert answers(real)
        client, serving = installed.serving(DAYS * 86400 * 1.1)
        await serving.refresh()
        await client.close()
        assert installed.bundle().count(b"BEGIN CERTIFICATE") == 1, "those that have ended are not trusted"


def test_the_token_may_write_its_secret_and_apiservices_only(installed: Installed) -> None:
    real, token = installed.real, installed.token_file.read_text()

    def status(path: str, method: str = "GET", body: object = None) -> int:
        return real.request(path, body, method, token, "application/merge-patch+json")[0]

    secrets, services = f"/api/v1/namespaces/{NAMESPACE}/secrets", PATHS["APIService"]
    nothing: dict[str, Any] = {}
    assert status(f"{secrets}/{NAME}-tls") == 200
    assert status(f"{services}/{API}", "PATCH", nothing) == 200
    assert status("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication") == 200
    assert {
        status(secrets),
        status(f"{secrets}/other"),
        status("/api/v1/namespaces/ml/secrets"),
        status(f"{secrets}/{NAME}-tls", "DELETE"),
        status("/api/v1/namespaces/kube-system/configmaps"),
        status(services),
        status(f"{services}/v1.apps", "PATCH", nothing),
        status("/api/v1/nodes"),
    } == {403}
    assert json.loads(real.request(f"{secrets}/{NAME}-tls", token=token)[2]).get("data") is None
