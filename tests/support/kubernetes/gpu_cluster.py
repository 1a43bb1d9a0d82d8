"""A cluster: a fake API server, real daemons on several nodes, and pages that follow a load."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.daemon import Daemon, serving
from tests.support.exporters import Exporter, exporting
from tests.support.kubernetes.fake_api_server import FakeApiServer, pod, reference
from tests.support.kubernetes.real_api_server import RealApiServer
from tests.system.end_to_end.dcgm_pages import Row, dcgm_page

DAEMON_LABELS = {"app.kubernetes.io/name": "pulsed"}
DAEMONS = "gpu"
"""Namespace of the daemons."""


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
