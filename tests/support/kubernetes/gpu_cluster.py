"""A cluster for the adapter: a fake API server, real daemons on several nodes, and pages that follow a load."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.certificates import Pair, make
from tests.support.daemon import Daemon, environment, free_port, serving
from tests.support.exporters import Exporter, exporting
from tests.support.kubernetes.fake_api_server import FakeApiServer, pod, reference
from tests.support.kubernetes.real_api_server import RealApiServer
from tests.support.waiting import SECONDS, until
from tests.system.end_to_end.dcgm_pages import Row, dcgm_page

DAEMON_LABELS = {"app.kubernetes.io/name": "pulsed"}
DAEMONS = "gpu"
"""Namespace of the daemons, and of the adapter."""


def busy(activity: float) -> dict[str, float]:
    """Return DCGM's values of a GPU whose real utilization is this."""
    names = ("SM_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE", "GR_ENGINE_ACTIVE")
    return {**{f"PROF_{name}": activity for name in names}, "DEV_POWER_USAGE": 100 + 500 * activity}


@dataclass
class Node:
    """A node: the page of its exporter, and its daemon."""

    name: str
    exporter: Exporter
    daemon: Daemon


@dataclass
class GpuCluster:
    """Nodes, and one workload whose pods have a GPU each.

    Attributes:
        owner: the reference to the ReplicaSet of its pods.
    """

    api: FakeApiServer | RealApiServer
    folder: Path
    nodes: Sequence[Node] = ()
    namespace: str = "ml"
    workload: str = "infer"
    pods: list[str] = field(default_factory=list)
    owner: dict[str, Any] = field(default_factory=dict)

    @property
    def fake(self) -> FakeApiServer:
        """The fake API server."""
        assert isinstance(self.api, FakeApiServer)
        return self.api

    @property
    def replica_set(self) -> str:
        """The name of the ReplicaSet of its pods."""
        return f"{self.workload}-5d9c8b7f6"

    def scale(self, replicas: int) -> None:
        """Create and delete pods of the workload."""
        wanted = [f"{self.replica_set}-{number:05}" for number in range(replicas)]
        for name in self.pods:
            if name not in wanted:
                self.api.delete(name, self.namespace)
        for position, name in enumerate(wanted):
            if name not in self.pods:
                self.api.put(self.pod(name, self.nodes[position % len(self.nodes)].name))
        self.pods = wanted

    def pod(self, name: str, node: str) -> dict[str, Any]:
        """Return a pod of the workload."""
        labels = {"app": self.workload}
        return pod(name, node=node, namespace=self.namespace, labels=labels, owner=self.owner)

    def load(self, activity: float) -> None:
        """Have the GPU of each pod be as busy as this."""
        self.loads([activity] * len(self.pods))

    def loads(self, activities: Sequence[float]) -> None:
        """Have the GPUs of the pods be as busy as these, in their order."""
        pods = list(zip(self.pods, activities, strict=True))
        for position, node in enumerate(self.nodes):
            rows = [
                Row(busy(activity), gpu, node.name, name, self.namespace, "server")
                for gpu, (name, activity) in enumerate(pods[position :: len(self.nodes)])
            ]
            node.exporter.body = dcgm_page([*rows, Row(busy(0.0), 15, node.name)])


@contextlib.contextmanager
def gpu_cluster(folder: Path, nodes: int, *settings: str, real: RealApiServer | None = None) -> Iterator[GpuCluster]:
    """Run the daemons of so many nodes, and a fake API server unless a real one is given."""
    fake = real or FakeApiServer(folder)
    names = [f"node-{number}" for number in range(nodes)]
    exporters = {name: Exporter(dcgm_page([Row(busy(0.0), 15, name)])) for name in names}
    with contextlib.ExitStack() as stack:
        if isinstance(fake, FakeApiServer):
            fake.url = stack.enter_context(fake.running())
        url = stack.enter_context(exporting(exporters))
        cluster = GpuCluster(fake, folder)
        deployment = reference("apps/v1", "Deployment", cluster.workload)
        cluster.owner = fake.put_object("apps/v1", "replicasets", cluster.replica_set, deployment)
        made = []
        for name in names:
            given = ["source.kind=exporter", "source.interval=1", "source.stale_after=5", f"node={name}"]
            given += [f"source.exporter.targets={url}{name}", "attribution.workloads.enabled=true", *settings]
            arguments = [f"--set={each}" for each in given]
            daemon = stack.enter_context(serving(folder, *arguments, ready=True, **api_variables(fake)))
            made.append(Node(name, exporters[name], daemon))
            daemon_pod = pod(f"pulsed-{name}", "127.0.0.1", daemon.port, node=name, namespace=DAEMONS, port_name="http")
            daemon_pod["metadata"]["labels"] = DAEMON_LABELS
            fake.put(daemon_pod)
        cluster.nodes = made
        yield cluster


def api_variables(fake: FakeApiServer | RealApiServer) -> dict[str, str]:
    """Return the configuration of the API server as variables."""
    return {
        "PULSED_KUBERNETES__SERVER": fake.url,
        "PULSED_KUBERNETES__TOKEN_FILE": str(fake.token_file),
        "PULSED_KUBERNETES__CA_FILE": str(fake.ca_file),
    }


@dataclass
class Adapter:
    """A running `pulsed adapter`, and a client that is the API server."""

    port: int
    plain_port: int
    log_path: Path
    context: ssl.SSLContext
    authority: Pair
    process: subprocess.Popen[str]
    server_ca: Path

    def request(self, path: str, method: str = "GET", context: ssl.SSLContext | None = None) -> tuple[int, Any]:
        """Return status and document."""
        accept = "application/vnd.kubernetes.protobuf, */*"
        status, text, _ = self._answer(path, accept, method, context)
        return status, json.loads(text) if text else None

    def warning(self, path: str) -> str:
        """Return what an answer warns of."""
        return self._answer(path, "*/*", "GET", None)[2]

    def text(self, path: str, accept: str = "text/plain", context: ssl.SSLContext | None = None) -> str:
        """Return a page of text."""
        status, text, _ = self._answer(path, accept, "GET", context)
        assert status == 200, text
        return text

    def _answer(self, path: str, accept: str, method: str, context: ssl.SSLContext | None) -> tuple[int, str, str]:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=SECONDS, context=context or self.context
        )
        with contextlib.closing(connection):
            connection.request(method, path, headers={"Accept": accept})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.getheader("Warning", "")

    def plain(self, path: str) -> tuple[int, Any]:
        """Return status and document over plain HTTP, as KEDA asks."""
        connection = http.client.HTTPConnection("127.0.0.1", self.plain_port, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def get(self, path: str) -> Any:
        """Return the document of a path that has one."""
        status, document = self.request(path)
        assert status == 200, document
        return document

    def pods(self, metric: str, namespace: str = "ml", selector: str = "app%3Dinfer") -> dict[str, float]:
        """Return a metric by pod, as the autoscaler asks for it."""
        path = f"/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}/pods/%2A/{metric}?labelSelector={selector}"
        return {item["describedObject"]["name"]: number(item["value"]) for item in self.get(path)["items"]}

    def log(self) -> str:
        """Return what it logged."""
        return self.log_path.read_text()


def number(quantity: str) -> float:
    """Return the number of a quantity."""
    return float(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


def client_context(folder: Path, authority: Pair, name: str, server_ca: Path) -> ssl.SSLContext:
    """Return the TLS context of a client whose certificate has a common name."""
    context = ssl.create_default_context(cafile=str(server_ca))
    context.load_cert_chain(*make(name, authority).write(folder, name))
    return context


@contextlib.contextmanager
def adapter(
    cluster: GpuCluster,
    *settings: str,
    ready: bool = True,
    config: Path | None = None,
    front_proxy: Pair | None = None,
    name: str = "adapter",
    client_auth: str = "VerifyClientCertIfGiven",
    web_settings: str = "",
    within: Sequence[str] = (),
) -> Iterator[Adapter]:
    """Run the adapter with TLS and the check of the API server's client certificate, as in a pod.

    Args:
        front_proxy: the authority of that certificate; None: one of its own.
        name: the host name that the adapter's certificate is for.
        web_settings: lines of the web configuration after those of TLS.
        within: the beginning of a command that runs the adapter.
    """
    folder, port, plain_port = cluster.folder, free_port(), free_port()
    front_proxy = front_proxy or make("front-proxy-ca", authority=True)
    ca, _ = front_proxy.write(folder, "front-proxy-ca")
    serving_ca = make("serving-ca", authority=True)
    server_ca, _ = serving_ca.write(folder, "serving-ca")
    make(name, serving_ca).write(folder, "adapter")
    web = folder / "adapter-web.yml"
    web.write_text(
        "tls_server_config: {cert_file: adapter.crt, key_file: adapter.key,\n"
        f"  client_auth_type: {client_auth}, client_ca_file: {ca.name}}}\n"
        f"{web_settings}"
    )
    given = ["adapter.interval=1s", "adapter.stale_after=6s", "adapter.client_names=front-proxy-client", *settings]
    given.append(f"adapter.plain_listen=127.0.0.1:{plain_port}")
    files = [f"--web.config.file={web}", *([f"--config.file={config}"] if config else [])]
    (namespace := folder / "namespace").write_text(f"{DAEMONS}\n")
    log_path = folder / "adapter.log"
    with log_path.open("w") as log:
        process = subprocess.Popen(
            [
                *(*within, sys.executable, "-m", "pulsed", "adapter", f"--web.listen-address=127.0.0.1:{port}"),
                *(*files, *(f"--set={each}" for each in given)),
            ],
            stderr=log,
            stdout=log,
            text=True,
            env=environment(PULSED_KUBERNETES__NAMESPACE_FILE=str(namespace), **api_variables(cluster.api)),
        )
    context = client_context(folder, front_proxy, "front-proxy-client", server_ca)
    made = Adapter(port, plain_port, log_path, context, front_proxy, process, server_ca)

    def answers() -> bool:
        assert process.poll() is None, made.log()
        with contextlib.suppress(OSError):
            return made.request("/readyz" if ready else "/livez")[0] == 200
        return False

    try:
        until(answers)
        yield made
        process.terminate()
        assert process.wait(SECONDS) == 0, made.log()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(SECONDS)
