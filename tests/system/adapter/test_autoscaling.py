"""A HorizontalPodAutoscaler follows the load of a workload, through the adapter and real daemons."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.kubernetes.fake_api_server import pod, reference
from tests.support.kubernetes.gpu_cluster import Adapter, GpuCluster, adapter, gpu_cluster, number
from tests.support.kubernetes.hpa import (
    DOWN_SECONDS,
    SYNC_SECONDS,
    Autoscaler,
    NoMetrics,
    replicas_for_average_value,
    replicas_for_pods,
    replicas_for_value,
)
from tests.support.waiting import until

TARGET = 0.6


class Simulation:
    """A workload with a total load in GPUs, and its autoscaler."""

    def __init__(self, cluster: GpuCluster, metrics: Adapter) -> None:
        self.cluster, self.metrics = cluster, metrics
        self.autoscaler = Autoscaler(1, 8, 1)
        self.total = 0.6
        self._apply()

    def set_load(self, total: float) -> None:
        """Change the load, and wait until the adapter has it."""
        self.total = total
        self._apply()

    def sync(self) -> int:
        """Let the autoscaler look once; the cluster follows."""
        try:
            values = self.metrics.pods("gpu_real_utilization")
            wanted = replicas_for_pods(values, self.cluster.pods, TARGET)
        except NoMetrics:
            wanted = None
        before = self.autoscaler.replicas
        if self.autoscaler.sync(wanted) != before:
            self._apply()
        return self.autoscaler.replicas

    @property
    def activity(self) -> float:
        """How busy each pod is."""
        return min(1.0, self.total / self.autoscaler.replicas)

    def _apply(self) -> None:
        self.cluster.scale(self.autoscaler.replicas)
        self.cluster.load(self.activity)
        until(self.is_seen)

    def is_seen(self) -> bool:
        """Return whether the metrics are those of the cluster now."""
        values = self.metrics.pods("gpu_real_utilization")
        return values == pytest.approx(dict.fromkeys(self.cluster.pods, self.activity), abs=0.002)


@pytest.fixture(scope="module")
def simulation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    folder: Path = tmp_path_factory.mktemp("autoscaling")
    with gpu_cluster(folder, 2) as cluster, adapter(cluster) as metrics:
        yield Simulation(cluster, metrics)


def test_replicas_follow_the_load_and_hold_without_data(simulation: Simulation) -> None:
    assert [simulation.sync() for _ in range(3)] == [1, 1, 1]

    # The load rises fivefold: a saturated GPU shows 1.0, so that it takes several steps.
    simulation.set_load(3.0)
    assert [simulation.sync() for _ in range(4)] == [2, 4, 5, 5]

    # No flapping: 8 % up and down is within the tolerance.
    for total in (3.2, 2.8, 3.1, 3.0):
        simulation.set_load(total)
        assert simulation.sync() == 5

    # The exporter of one node fails: its pods are left out, and count as at the target.
    failed = simulation.cluster.nodes[1].exporter
    failed.status = 500
    until(lambda: len(simulation.metrics.pods("gpu_real_utilization")) == 3)
    assert [simulation.sync() for _ in range(25)] == [5] * 25

    # All fail, while the load is gone: nothing is known, and nothing is done.
    simulation.cluster.nodes[0].exporter.status = 500
    simulation.cluster.load(0.0)
    until(lambda: simulation.metrics.pods("gpu_real_utilization") == {})
    assert [simulation.sync() for _ in range(25)] == [5] * 25

    # Data is back, with the load as before, which then falls to that of one replica: down, after 300 s.
    for node in simulation.cluster.nodes:
        node.exporter.status = 200
    simulation.set_load(3.0)
    assert simulation.sync() == 5
    simulation.set_load(0.6)
    replicas = [simulation.sync() for _ in range(25)]
    assert replicas == sorted(replicas, reverse=True)
    assert replicas.index(1) == DOWN_SECONDS / SYNC_SECONDS - 1
    assert set(replicas) == {5, 1}


CUSTOM = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ml"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1/namespaces/ml"

SELECTOR = "labelSelector=workload%3Dinfer%2Cworkload_kind%3DDeployment"


@pytest.mark.parametrize(
    ("path", "replicas"),
    [
        (f"{CUSTOM}/deployments.apps/infer/gpu_real_utilization", lambda value: replicas_for_value(value, 2, TARGET)),
        (
            f"{CUSTOM}/deployments.apps/infer/gpu_real_utilization_sum",
            lambda value: replicas_for_average_value(value, 2, TARGET),
        ),
        (
            f"{EXTERNAL}/gpu_real_utilization_sum?{SELECTOR}",
            lambda value: replicas_for_average_value(value, 2, TARGET),
        ),
        (
            f"{EXTERNAL}/gpu_power_watts?{SELECTOR}",
            lambda value: replicas_for_average_value(value, 2, 100 + 500 * TARGET),
        ),
    ],
    ids=["object, value", "object, average value", "external", "external, watts"],
)
def test_metrics_of_the_workload(simulation: Simulation, path: str, replicas: Callable[[float], int]) -> None:
    """Two replicas at 0.9 need three, by each way; without data there is no answer, and never 0."""
    simulation.autoscaler.replicas = 2
    simulation.set_load(1.8)
    metrics = simulation.metrics
    until(lambda: metrics.request(path)[0] == 200)  # the workloads of new pods are resolved
    (item,) = metrics.get(path)["items"]
    assert replicas(number(item["value"])) == 3
    for node in simulation.cluster.nodes:
        node.exporter.status = 500
    try:
        until(lambda: metrics.request(path)[0] == 503)
    finally:
        for node in simulation.cluster.nodes:
            node.exporter.status = 200


def test_a_dead_node_makes_sums_unknown_until_its_pods_end(simulation: Simulation) -> None:
    simulation.autoscaler.replicas = 2
    simulation.set_load(1.2)
    cluster, metrics, daemon = simulation.cluster, simulation.metrics, simulation.cluster.nodes[1].daemon
    path = f"{CUSTOM}/deployments.apps/infer/gpu_real_utilization"
    until(lambda: metrics.request(f"{path}_sum")[0] == 200)
    assert metrics.warning(f"{path}_sum") == ""
    daemon.process.send_signal(signal.SIGSTOP)
    lost = cluster.pod(cluster.pods[1], cluster.nodes[1].name)
    try:
        until(lambda: metrics.request(f"{path}_sum")[0] == 503)
        assert number(metrics.get(path)["items"][0]["value"]) == 0.6
        status, document = metrics.request(f"{path}_sum")
        assert (status, document["kind"], document["code"]) == (503, "Status", 503)
        unknown = f"1 of 2 GPUs are stale, 0 have no value; pods: {cluster.pods[1]}"
        assert unknown in document["message"]
        assert unknown in metrics.warning(path)
        assert list(metrics.pods("gpu_real_utilization")) == [cluster.pods[0]]
        cluster.fake.put({**lost, "metadata": {**lost["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
        until(lambda: metrics.request(f"{path}_sum")[0] == 200)
        assert number(metrics.get(f"{path}_sum")["items"][0]["value"]) == 0.6
        assert metrics.warning(f"{path}_sum").startswith('299 - "gpu_real_utilization_sum of Deployment ml/infer')
    finally:
        daemon.process.send_signal(signal.SIGCONT)
        cluster.fake.put(lost)
    until(lambda: "'1200m'" in str(metrics.request(f"{path}_sum")))


def test_a_pod_that_nobody_reports_is_resolved_and_makes_its_own_sum_unknown(simulation: Simulation) -> None:
    simulation.autoscaler.replicas = 2
    simulation.set_load(1.2)
    cluster, metrics = simulation.cluster, simulation.metrics
    path = f"{CUSTOM}/deployments.apps"
    owner = reference("apps/v1", "ReplicaSet", "other-7d4")
    cluster.fake.put_object("apps/v1", "replicasets", "other-7d4", reference("apps/v1", "Deployment", "other"))
    cluster.fake.put(pod("other-7d4-x", node="node-9", namespace="ml", owner=owner, gpus=4))
    try:
        until(lambda: "4 of 4 GPUs" in str(metrics.request(f"{path}/other/gpu_power_watts")))
        until(lambda: metrics.request(f"{path}/infer/gpu_real_utilization_sum")[0] == 200)
        assert metrics.request(f"{path}/none/gpu_power_watts")[0] == 404
    finally:
        cluster.fake.delete("other-7d4-x", "ml")


def test_pods_that_are_gone_count_no_longer_and_idle_ones_are_0(simulation: Simulation) -> None:
    simulation.autoscaler.replicas = 2
    simulation.set_load(0.0)
    path = f"{CUSTOM}/deployments.apps/infer/gpu_real_utilization_sum"
    until(lambda: simulation.metrics.request(path)[0] == 200)
    assert number(simulation.metrics.get(path)["items"][0]["value"]) == 0
    simulation.cluster.scale(0)  # their labels are still on the pages
    until(lambda: simulation.metrics.request(path)[0] == 404)
    assert simulation.metrics.request(path)[1]["message"] == "Deployment ml/infer has no GPU"
