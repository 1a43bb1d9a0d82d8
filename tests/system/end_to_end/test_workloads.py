"""A workload on two nodes: daemons with a fake API server, a real Prometheus, and the rules of `pulsed rules`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from pulsed.kubernetes.api_client import REQUEST_LIMITS
from tests.support.daemon import Daemon, pulsed, serving
from tests.support.exporters import Exporter, exporting
from tests.support.kubernetes.fake_api_server import FakeApiServer, pod, reference
from tests.support.nightly import nightly_after
from tests.support.prometheus import Prometheus, prometheus
from tests.support.waiting import until

CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - {{job_name: pulsed, honor_labels: true, static_configs: [{{targets: [{addresses}]}}]}}
  - job_name: kube-state-metrics
    honor_labels: true
    metrics_path: /replicas
    static_configs: [{{targets: ["{kube}"]}}]
"""
REPLICAS = 'kube_deployment_status_replicas{namespace="ml",deployment="web"} 4\n'
NODES = {"node-a": 3, "node-b": 1}
"""Nodes and the GPUs that each gives to the workload."""

ACTIVITY = ("GR_ENGINE_ACTIVE", "SM_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE")


def page(node: str, gpus: int, activity: float) -> str:
    """Return a page whose GPUs belong to one pod each; all activities are the same, and so is the real utilization."""
    lines = []
    for name in ACTIVITY:
        lines.append(f"# TYPE DCGM_FI_PROF_{name} gauge")
        for gpu in range(gpus):
            identity = f'gpu="{gpu}",UUID="GPU-{node}-{gpu}",device="nvidia{gpu}",modelName="A10",Hostname="{node}"'
            owner = f'namespace="ml",pod="web-{node}-{gpu}",container="main"'
            lines.append(f"DCGM_FI_PROF_{name}{{{identity},{owner}}} {activity}")
    return "\n".join((*lines, ""))


def variables(fake: FakeApiServer, url: str, node: str) -> dict[str, Any]:
    """Return the configuration of a daemon that resolves workloads."""
    return {
        "PULSED_KUBERNETES__SERVER": url,
        "PULSED_KUBERNETES__TOKEN_FILE": str(fake.token_file),
        "PULSED_KUBERNETES__CA_FILE": str(fake.ca_file),
        "PULSED_KUBERNETES__TIMEOUT": "1s",
        "PULSED_NODE": node,
        "PULSED_SOURCE__KIND": "exporter",
        "PULSED_SOURCE__INTERVAL": "1s",
        "PULSED_ATTRIBUTION__WORKLOADS__ENABLED": "true",
    }


@dataclass
class WorkloadCluster:
    """The running programs."""

    fake: FakeApiServer
    pages: Mapping[str, Exporter]
    daemons: Mapping[str, Daemon]
    server: Prometheus

    def set(self, **activity: float) -> None:
        for node, value in activity.items():
            name = node.replace("_", "-")
            self.pages[name].body = page(name, NODES[name], value)

    def waits_for(self, query: str, value: float) -> None:
        until(lambda: [round(float(each["value"][1]), 6) for each in self.server.ask(query)] == [value])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[WorkloadCluster]:
    rules = pulsed("rules", "--kind", "recording")
    assert rules.returncode == 0, rules.stderr
    (tmp_path / "rules.yaml").write_text(rules.stdout.replace("interval: 15s", "interval: 1s"))
    fake = FakeApiServer(tmp_path)
    fake.put_object("apps/v1", "replicasets", "web-7d4", reference("apps/v1", "Deployment", "web"))
    pages = {node: Exporter(page(node, gpus, 0.9)) for node, gpus in NODES.items()}
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(fake.running())
        exporters = stack.enter_context(exporting({**pages, "replicas": Exporter(REPLICAS)}))
        daemons = {}
        for node, gpus in NODES.items():
            for gpu in range(gpus):
                owner = reference("apps/v1", "ReplicaSet", "web-7d4")
                fake.put(pod(f"web-{node}-{gpu}", namespace="ml", node=node, owner=owner, labels={}))
            target: dict[str, Any] = {"PULSED_SOURCE__EXPORTER__TARGETS": f"{exporters}{node}"}
            daemons[node] = stack.enter_context(serving(tmp_path, **variables(fake, url, node), **target))
        addresses = ", ".join(f'"{daemon.address}"' for daemon in daemons.values())
        kube = urlsplit(exporters).netloc
        config = CONFIG.format(rules=tmp_path / "rules.yaml", addresses=addresses, kube=kube)
        server = stack.enter_context(prometheus(tmp_path, config))
        server.wait_for("workload:pulsed_gpus:sum == 4")
        yield WorkloadCluster(fake, pages, daemons, server)


def test_a_workload_is_weighed_by_gpus_over_its_nodes(cluster: WorkloadCluster) -> None:
    labels = '{namespace="ml",workload="web",workload_kind="Deployment"}'
    ratio = f"workload:pulsed_real_utilization_ratio:mean{labels}"
    cluster.waits_for(f"workload:pulsed_pods:sum{labels}", 4)
    cluster.waits_for(ratio, 0.9)
    scale = f"workload:pulsed_real_utilization_ratio:scale{labels}"
    cluster.waits_for(scale, 3.6)
    cluster.set(node_a=0.4, node_b=0.0)
    cluster.waits_for(ratio, 0.3)  # 3 GPUs at 0.4 and one at 0; the mean of the nodes would be 0.2
    cluster.set(node_a=0.0)
    cluster.waits_for(ratio, 0)
    (row,) = cluster.daemons["node-a"].get("/workloads").json()["workloads"]
    assert (row["workload"], row["gpus"], row["pods"]) == ("web", 3, 3)
    cluster.set(node_b=0.6)
    cluster.pages["node-a"].status = 500
    cluster.waits_for(f"workload:pulsed_gpus:sum{labels}", 1)  # stale is absent, and not 0
    cluster.waits_for(ratio, 0.6)
    cluster.waits_for(scale, 2.4)  # three silent pods may be idle or full: four replicas at the target
    assert cluster.daemons["node-a"].get("/workloads").json()["workloads"] == []


@pytest.mark.parametrize("fault", nightly_after(2, ["410", "500", "slow", "401", "403", "429", "cut", "token"]))
def test_metrics_go_on_whatever_the_api_server_does(tmp_path: Path, fault: str) -> None:
    """Pods churn at 50 a second meanwhile; requests stay within the limits."""
    fake = FakeApiServer(tmp_path)
    fake.put_object("apps/v1", "replicasets", "web-7d4", reference("apps/v1", "Deployment", "web"))
    given = Exporter(page("node-a", 1, 0.5))
    stop = threading.Event()

    def churn() -> None:
        for number in range(10**6):
            if stop.wait(0.02):
                return
            fake.put(pod(f"p{number}", namespace="ml", owner=reference("batch/v1", "Job", f"j{number}"), labels={}))
            if number >= 10:
                fake.delete(f"p{number - 10}", "ml")
            if fault == "cut" and number % 50 == 25:
                fake.cut()
            if fault == "410" and number % 100 == 50:
                fake.compact()
            if fault == "token" and number % 100 == 50:
                fake.rotate(f"token-{number}")

    with contextlib.ExitStack() as stack:
        url = stack.enter_context(fake.running())
        exporters = stack.enter_context(exporting({"metrics": given}))
        port = int(exporters.rstrip("/").rsplit(":", 1)[1])
        fake.put(pod("exporter", port=port))
        owner = reference("apps/v1", "ReplicaSet", "web-7d4")
        fake.put(pod("web-node-a-0", namespace="ml", owner=owner, labels={}))
        begun = time.monotonic()
        discovery: dict[str, Any] = {"PULSED_SOURCE__EXPORTER__DISCOVERY": "kubernetes"}
        daemon = stack.enter_context(serving(tmp_path, **variables(fake, url, "node-a"), **discovery))
        named = 'pulsed_workload_gpus{namespace="ml",workload="web",workload_kind="Deployment"} 1'
        until(lambda: named in daemon.get("/metrics").text)
        thread = threading.Thread(target=churn)
        thread.start()
        try:
            if fault.isdecimal() and fault != "410":
                fake.fault, fake.retry_after = int(fault), "3" if fault == "429" else ""
                fake.cut()
            elif fault == "slow":
                fake.delay = 3.0
                fake.cut()
            before = given.asked
            until(lambda: given.asked >= before + 8)
            text = daemon.get("/metrics").text
            assert named in text
            assert 'pulsed_source_up{source="gpu-operator/nvidia-dcgm-exporter"} 1' in text
            assert daemon.get("/-/ready").status == 200
            seconds = time.monotonic() - begun
            assert len(fake.requests) <= min(each.burst + seconds / each.seconds for each in REQUEST_LIMITS)
        finally:
            stop.set()
            thread.join()
