"""HorizontalPodAutoscalers of a real kube-controller-manager follow a load, through a real API server.

The test is the scheduler and the kubelet.
"""

from __future__ import annotations

import base64
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.kubernetes.fake_api_server import pod
from tests.support.kubernetes.gpu_cluster import Adapter, GpuCluster, adapter, busy, gpu_cluster, number
from tests.support.kubernetes.real_api_server import APISERVICES, RealApiServer
from tests.support.waiting import SECONDS
from tests.system.deploy.chart import CHART
from tests.system.end_to_end.dcgm_pages import Row, dcgm_page

CUSTOM = "/apis/custom.metrics.k8s.io"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1"
DEPLOYMENTS = "/apis/apps/v1/namespaces/ml/deployments"
AUTOSCALERS = "/apis/autoscaling/v2beta2/namespaces/ml/horizontalpodautoscalers"
PODS = "/api/v1/namespaces/ml/pods"
CONTROLLERS = (
    "--controllers=deployment,replicaset,horizontalpodautoscaling",
    "--horizontal-pod-autoscaler-sync-period=1s",
)
NAMESPACE, SERVICE = "gpu", "adapter"
GPUS = 32
EXAMPLES = ("pods", "object", "external")
"""Types of the metric: of each the chart has an example, and here a deployment."""
SELECTOR = f"app+in+({','.join(EXAMPLES)})"


class Load:
    """Deployments, whose pods each share a load, in GPUs."""

    def __init__(self, real: RealApiServer, cluster: GpuCluster) -> None:
        self.real, self.cluster, self.total = real, cluster, 0.0
        self.history: list[tuple[float, float, tuple[int, ...]]] = []
        self._begun = time.monotonic()
        self._gpus: dict[str, int] = {}

    def step(self) -> set[int]:
        """Run what was scheduled, end what was deleted; return the replicas that the deployments shall have."""
        running = {}
        for each in self.real.done(f"{PODS}?labelSelector={SELECTOR}")["items"]:
            name = each["metadata"]["name"]
            if "deletionTimestamp" in each["metadata"]:
                self.real.delete(name, "ml")
                continue
            if not each["spec"].get("nodeName"):
                target = {"apiVersion": "v1", "kind": "Node", "name": self.cluster.nodes[0].name}
                self.real.done(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})
                self.real.patched(f"{PODS}/{name}/status", {"status": pod(name)["status"]})
            running[name] = each["metadata"]["labels"]["app"]
        self.cluster.pods = list(running)
        self._publish(running)
        found = self.replicas()
        if not self.history or self.history[-1][1:] != (self.total, found):
            self.history.append((time.monotonic() - self._begun, self.total, found))
        return set(found) | set(Counter(running.values()).values())

    def replicas(self) -> tuple[int, ...]:
        """Return the replicas of the deployments."""
        return tuple(int(self.real.done(f"{DEPLOYMENTS}/{name}")["spec"]["replicas"]) for name in EXAMPLES)

    def _publish(self, pods: Mapping[str, str]) -> None:
        """Have each pod on a GPU of its own, as long as it runs; the other GPUs are idle.

        Args:
            pods: the deployment of each pod.
        """
        self._gpus = {name: gpu for name, gpu in self._gpus.items() if name in pods}
        for name in pods:
            self._gpus.setdefault(name, min(set(range(GPUS)) - set(self._gpus.values())))
        names = {gpu: name for name, gpu in self._gpus.items()}
        node, sizes = self.cluster.nodes[0], Counter(pods.values())
        rows = [
            Row(busy(min(1.0, self.total / sizes[pods[names[gpu]]])), gpu, node.name, names[gpu], "ml", "server")
            if gpu in names
            else Row(busy(0.0), gpu, node.name)
            for gpu in range(GPUS)
        ]
        node.exporter.body = dcgm_page(rows)

    def settles_at(self, replicas: int, syncs: int = 5) -> None:
        """Wait until every deployment has so many replicas, and runs them, for some seconds."""
        deadline, seen = time.monotonic() + 2 * SECONDS, 0
        while seen < syncs:
            assert time.monotonic() < deadline, f"{self.history}: {self.status()}"
            seen = seen + 1 if self.step() == {replicas} else 0
            time.sleep(1)

    def status(self) -> list[dict[str, Any]]:
        """Return the status of each autoscaler."""
        return [self.real.done(f"{AUTOSCALERS}/{name}")["status"] for name in EXAMPLES]


def register(real: RealApiServer, metrics: Adapter, folder: Path) -> None:
    """Have the API server pass the metrics APIs on to the adapter."""
    real.need_namespace(NAMESPACE)
    service = {"type": "ExternalName", "externalName": "localhost"}
    real.done(f"/api/v1/namespaces/{NAMESPACE}/services", {"metadata": {"name": SERVICE}, "spec": service})
    for group, version in (("custom", "v1beta1"), ("custom", "v1beta2"), ("external", "v1beta1")):
        spec = {
            "group": f"{group}.metrics.k8s.io",
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": SERVICE, "namespace": NAMESPACE, "port": metrics.port},
            "caBundle": base64.b64encode((folder / "serving-ca.crt").read_bytes()).decode(),
        }
        real.done(APISERVICES, {"metadata": {"name": f"{version}.{group}.metrics.k8s.io"}, "spec": spec})


def deploy(real: RealApiServer, name: str) -> None:
    """Create a deployment, and the autoscaler of the example for it, which scales down after five seconds."""
    real.need_namespace("ml")
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "server", "image": "server"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    real.done(DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec})
    example = yaml.safe_load((CHART / "examples" / f"hpa-{name}.yaml").read_text().replace("infer", name))
    example["apiVersion"] = "autoscaling/v2beta2"
    example["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] = 5
    real.done(AUTOSCALERS, example)


def test_replicas_follow_the_load_and_hold_without_data(real: RealApiServer, tmp_path: Path) -> None:
    name = f"{SERVICE}.{NAMESPACE}.svc"
    with (
        gpu_cluster(tmp_path, 1, real=real) as cluster,
        adapter(cluster, front_proxy=real.front_proxy, name=name) as metrics,
        real.controllers(*CONTROLLERS),
    ):
        register(real, metrics, tmp_path)
        for each in EXAMPLES:
            deploy(real, each)
        load = Load(real, cluster)
        for total, replicas in ((0.5, 1), (2.4, 4), (4.8, 8), (0.5, 1), (1.2, 2)):
            load.total = total
            load.settles_at(replicas)
        for version in ("v1beta1", "v1beta2"):
            items = real.done(f"{CUSTOM}/{version}/namespaces/ml/pods/*/gpu_real_utilization")["items"]
            assert {item["describedObject"]["name"]: number(item["value"]) for item in items} == dict.fromkeys(
                cluster.pods, 0.6
            )
        deployment = real.done(f"{CUSTOM}/v1beta2/namespaces/ml/deployments.apps/object/gpu_real_utilization")
        assert [number(item["value"]) for item in deployment["items"]] == [0.6]
        selector = "workload%3Dexternal%2Cworkload_kind%3DDeployment"
        external = real.done(f"{EXTERNAL}/namespaces/ml/gpu_real_utilization_sum?labelSelector={selector}")
        assert [number(item["value"]) for item in external["items"]] == [1.2]
        before = len(load.history)
        cluster.nodes[0].exporter.body = "not a page"
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            assert set(load.replicas()) == {2}
            time.sleep(1)
        for status in load.status():
            conditions = {each["type"]: each["status"] for each in status["conditions"]}
            assert conditions["ScalingActive"] == "False", "stale data is absent, and the replicas stay"
        assert len(load.history) == before
