"""The daemon finds the exporters of its node through the Kubernetes API, and follows them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon, pulsed, serving
from tests.support.exporters import Exporter, exporting, page
from tests.support.kubernetes.fake_api_server import FakeApiServer, pod, reference
from tests.support.nightly import nightly_after
from tests.support.waiting import until

OPERATOR = "gpu-operator/nvidia-dcgm-exporter"


def page_of(node: str, gpu: int = 0, sm_active: float = 0.5) -> str:
    return page(gpu, sm_active).replace('Hostname="node"', f'Hostname="{node}"')


def variables(fake: FakeApiServer, url: str, node: str = "node-a") -> dict[str, str]:
    """Return the configuration as a pod would have it."""
    host, port = url.removeprefix("https://").split(":")
    return {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "PULSED_KUBERNETES__TOKEN_FILE": str(fake.token_file),
        "PULSED_KUBERNETES__CA_FILE": str(fake.ca_file),
        "PULSED_NODE": node,
        "PULSED_SOURCE__KIND": "exporter",
        "PULSED_SOURCE__INTERVAL": "1s",
        "PULSED_SOURCE__EXPORTER__DISCOVERY": "kubernetes",
    }


class Cluster:
    """A fake API server, and exporters that its pods can have."""

    def __init__(self, fake: FakeApiServer, url: str, folder: Path) -> None:
        self.fake, self.url, self._folder = fake, url, folder
        self.pages = {name: Exporter(page_of("node-a", number)) for number, name in enumerate(("metrics", "second"))}

    @contextlib.contextmanager
    def daemon(self, *, ready: bool = True, **extra: str) -> Iterator[Daemon]:
        with serving(self._folder, ready=ready, **variables(self.fake, self.url), **extra) as daemon:
            yield daemon


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    fake = FakeApiServer(tmp_path)
    with fake.running() as url:
        yield Cluster(fake, url, tmp_path)


@contextlib.contextmanager
def exporter(given: Exporter) -> Iterator[int]:
    """Serve a page; gives the port."""
    with exporting({"metrics": given}) as url:
        yield int(url.rstrip("/").rsplit(":", 1)[1])


def up(daemon: Daemon) -> dict[str, str]:
    found = re.findall(r'^pulsed_source_up\{source="([^"]*)"\} (\d)', daemon.get("/metrics").text, re.MULTILINE)
    return dict(found)


TENANTS: dict[str, dict[str, Any]] = {
    "a pod": {"namespace": "ml", "owner": ""},
    "a DaemonSet": {"namespace": "ml"},
    "a DaemonSet in default": {"namespace": "default"},
    "a DaemonSet in a namespace that comes first": {"namespace": "a"},
    "a pod in the namespace of the exporter": {"owner": ""},
    "a Deployment in the namespace of the exporter": {"owner": reference("apps/v1", "ReplicaSet", "web-7d4")},
    "another kind called DaemonSet": {"owner": reference("evil.io/v1", "DaemonSet", "nvidia-dcgm-exporter")},
}
"""Pods of tenants that have the labels and the port of the exporter."""

XID = 'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-00000000-0000-4000-8000-000000000000",Hostname="node-a"} 79\n'


@pytest.mark.parametrize("tenant", nightly_after(2, TENANTS))
def test_the_pod_of_a_tenant_is_no_exporter_and_gets_no_token(cluster: Cluster, tenant: str) -> None:
    """Its page, with one more GPU of another namespace's pod, or its error changes no number."""
    page_of_pod = page_of("node-a", sm_active=0.5).replace("gpu=", 'namespace="ml",pod="web-1",gpu=')
    real, fake = Exporter(page_of_pod), Exporter(f"{page_of_pod}{page_of_pod}".replace('gpu="0"', 'gpu="1"', 1) + XID)
    with exporter(real) as port, exporter(fake) as other:
        cluster.fake.put(pod("exporter-a", port=port))
        more = {"created": "2026-02-01T00:00:00Z", **TENANTS[tenant]}
        cluster.fake.put(pod("exporter-b", port=other, **more))
        with cluster.daemon(PULSED_SOURCE__EXPORTER__BEARER_TOKEN="secret") as daemon:
            until(lambda: real.asked >= 3)
            assert up(daemon) == {OPERATOR: "1"}
            (gpu,) = daemon.get("/gpus").json()["gpus"]
            assert gpu["metrics"]["sm_active_ratio"] == 0.5
            assert gpu["health"]["state"] != "crit"
            assert "exporter-b" in daemon.log(), "that it is not read is logged"
            for fake.status in (200, 500):
                (gpu,) = daemon.get("/gpus").json()["gpus"]
                (owner,) = gpu["attribution"]["pods"]
                assert (owner["pod"], gpu["metrics"]["sm_active_ratio"]) == ("web-1", 0.5)
                asked = real.asked
                until(lambda asked=asked: real.asked >= asked + 2)  # type: ignore[misc] # bound now
    assert real.credentials == {"Bearer secret"}
    assert fake.asked == 0


def test_a_gpu_of_two_exporters_is_taken_from_neither_until_one_is_gone(cluster: Cluster) -> None:
    one, two = Exporter(page_of("node-a")), Exporter(page_of("node-a", sm_active=0.9) + XID)
    with exporter(one) as port, exporter(two) as other:
        cluster.fake.put(pod("exporter-a", port=port))
        cluster.fake.put(pod("exporter-b", port=other, namespace="monitoring"))
        with cluster.daemon(ready=False) as daemon:
            both = {OPERATOR: "0", "monitoring/nvidia-dcgm-exporter": "0"}
            until(lambda: one.asked >= 3 and two.asked >= 3)
            assert up(daemon) == both
            assert daemon.get("/gpus").json()["gpus"] == []
            page = daemon.get("/metrics").text
            assert 'pulsed_source_samples_total{source="gpu-operator/nvidia-dcgm-exporter"} 0' in page
            assert 'pulsed_source_samples_total{source="monitoring/nvidia-dcgm-exporter"} 0' in page
            assert 'reason="duplicate_gpu"} 0' not in page
            assert "gpu-operator/exporter-a and monitoring/exporter-b" in daemon.log()
            assert "source.exporter.kubernetes.namespaces" in daemon.log()
            cluster.fake.delete("exporter-b", "monitoring")
            until(lambda: up(daemon) == {OPERATOR: "1"})
            assert [gpu["metrics"]["sm_active_ratio"] for gpu in daemon.get("/gpus").json()["gpus"]] == [0.5]


def test_a_second_exporter_that_comes_later_is_never_read_from(cluster: Cluster) -> None:
    one, two = Exporter(page_of("node-a")), Exporter(page_of("node-a", sm_active=0.9) + XID)
    with exporter(one) as port, exporter(two) as other:
        cluster.fake.put(pod("exporter-a", port=port))
        with cluster.daemon() as daemon:
            cluster.fake.put(pod("exporter-b", port=other, namespace="monitoring"))
            until(lambda: up(daemon) == {OPERATOR: "0", "monitoring/nvidia-dcgm-exporter": "0"})
            (gpu,) = daemon.get("/gpus").json()["gpus"]
            assert gpu["health"]["state"] != "crit"
            page = daemon.get("/metrics").text
            assert 'pulsed_source_samples_total{source="monitoring/nvidia-dcgm-exporter"} 0' in page


def test_a_rolling_update_of_the_exporter_loses_nothing(cluster: Cluster) -> None:
    """With maxSurge, both pods of the DaemonSet are ready for a while; then the old one ends."""

    def counted(daemon: Daemon) -> float:
        found = re.search(r"^pulsed_gpu_observed_seconds_total\{.*\} ([\d.e+]+)", daemon.get("/metrics").text, re.M)
        return float(found[1]) if found else 0.0

    old, new = Exporter(page_of("node-a")), Exporter(page_of("node-a"))
    with exporter(old) as first, exporter(new) as second:
        cluster.fake.put(pod("exporter-old", port=first))
        with cluster.daemon() as daemon:
            until(lambda: counted(daemon) >= 2)
            created = {"created": "2026-02-01T00:00:00Z"}
            cluster.fake.put(pod("exporter-new", port=second, ready=False, **created))
            before = old.asked
            until(lambda: old.asked > before + 1)
            cluster.fake.put(pod("exporter-new", port=second, **created))
            until(lambda: new.asked >= 2)
            cluster.fake.delete("exporter-old")
            seconds, asked = counted(daemon), new.asked
            until(lambda: new.asked > asked + 2)
            assert counted(daemon) >= seconds + 1
            assert up(daemon) == {OPERATOR: "1"}
            assert 'reason="duplicate_gpu"} 0' in daemon.get("/metrics").text
            assert "source failed" not in daemon.log()


def test_the_namespaces_of_exporters_are_a_choice(cluster: Cluster) -> None:
    with exporter(Exporter(page_of("node-a"))) as one, exporter(Exporter(page_of("node-a", 1))) as two:
        cluster.fake.put(pod("exporter-a", port=one))
        cluster.fake.put(pod("exporter-b", port=two, namespace="ml"))
        with cluster.daemon(PULSED_SOURCE__EXPORTER__KUBERNETES__NAMESPACES="ml") as daemon:
            assert up(daemon) == {"ml/nvidia-dcgm-exporter": "1"}
            paths = {request.path for request in cluster.fake.requests}
            assert paths == {"/api/v1/namespaces/ml/pods"}, "a role for these namespaces is enough"
        with cluster.daemon(PULSED_SOURCE__EXPORTER__KUBERNETES__NAMESPACES="all") as daemon:
            until(lambda: up(daemon) == {OPERATOR: "1", "ml/nvidia-dcgm-exporter": "1"})


def test_the_exporter_may_be_in_the_namespace_of_pulsed_but_for_default(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "namespace"
    with exporter(Exporter(page_of("node-a"))) as port:
        for namespace, found in (("gpu-team", True), ("default", False)):
            cluster.fake.put(pod("exporter-a", port=port, namespace=namespace))
            file.write_text(namespace)
            with cluster.daemon(ready=found, PULSED_KUBERNETES__NAMESPACE_FILE=str(file)) as daemon:
                if not found:
                    until(lambda: "pod default/exporter-a is in another namespace" in daemon.log())
                assert up(daemon) == ({"gpu-team/nvidia-dcgm-exporter": "1"} if found else {"kubernetes": "0"})
            cluster.fake.delete("exporter-a", namespace)


def test_labels_of_a_tenant_s_pod_on_the_page_change_no_owner_and_no_node(cluster: Cluster) -> None:
    """As dcgm-exporter copies them with DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS."""
    own = 'namespace="ml",pod="web-1",container="main"'
    forged = f'exported_namespace="bank",exported_pod="ledger-0",cpu="high",node="node-b",{own}'
    body = page_of("node-a").replace('Hostname="node-a"', f'Hostname="node-a",{forged}')
    body += page_of("node-a", 1).replace('Hostname="node-a"', f'Hostname="node-a",{own.replace("web-1", "web-2")}')
    with exporter(Exporter(body)) as port:
        cluster.fake.put(pod("exporter-a", port=port))
        with cluster.daemon() as daemon:
            found = daemon.get("/gpus").json()["gpus"]
            pods = [[each["pod"] for each in gpu["attribution"]["pods"]] for gpu in found]
            assert pods == [["web-1"], ["web-2"]]
            assert {gpu["node"] for gpu in found} == {"node-a"}
            assert "bank" not in daemon.get("/metrics").text


def test_no_exporter_is_an_error_with_a_remedy_until_there_is_one(cluster: Cluster) -> None:
    with exporter(Exporter(page_of("node-a"))) as port, cluster.daemon(ready=False) as daemon:
        until(lambda: "on node node-a matches app in (nvidia-dcgm-exporter, " in daemon.log())
        assert "Install the GPU operator or dcgm-exporter" in daemon.log()
        assert up(daemon) == {"kubernetes": "0"}
        assert daemon.get("/-/ready").status == 503
        cluster.fake.put(pod("exporter-a", port=port, ready=False))
        until(lambda: "pod gpu-operator/exporter-a is not Running and Ready" in daemon.log())
        cluster.fake.put(pod("exporter-a", port=port))
        until(lambda: up(daemon) == {OPERATOR: "1"})


def test_counters_go_on_when_the_exporter_s_pod_is_replaced(cluster: Cluster) -> None:
    def seconds(daemon: Daemon) -> float:
        found = re.search(r"^pulsed_gpu_observed_seconds_total\{.*\} ([\d.e+]+)", daemon.get("/metrics").text, re.M)
        return float(found[1]) if found else 0.0

    with exporter(Exporter(page_of("node-a"))) as first, exporter(Exporter(page_of("node-a"))) as second:
        cluster.fake.put(pod("one", port=first))
        with cluster.daemon() as daemon:
            until(lambda: seconds(daemon) >= 2)
            cluster.fake.delete("one")
            until(lambda: up(daemon) == {OPERATOR: "0"})
            cluster.fake.put(pod("two", port=second))
            until(lambda: up(daemon) == {OPERATOR: "1"})
            assert seconds(daemon) >= 2


def test_several_exporters_come_and_go(cluster: Cluster) -> None:
    with exporter(Exporter(page_of("node-a"))) as one, exporter(Exporter(page_of("node-a", 1))) as two:
        cluster.fake.put(pod("one", port=one))
        with cluster.daemon() as daemon:
            labels = {"app.kubernetes.io/name": "dcgm-exporter"}
            cluster.fake.put(pod("two", port=two, owner="dcgm-exporter", namespace="monitoring", labels=labels))
            until(lambda: up(daemon) == {OPERATOR: "1", "monitoring/dcgm-exporter": "1"})
            assert len(daemon.get("/gpus").json()["gpus"]) == 2
            cluster.fake.delete("one")
            until(lambda: up(daemon) == {"monitoring/dcgm-exporter": "1"})


def test_a_page_of_another_node_is_refused_and_the_pod_s_own_name_is_the_node(cluster: Cluster) -> None:
    given = Exporter(page_of("node-b"))
    with exporter(given) as port:
        cluster.fake.put(pod("exporter-a", port=port))
        with cluster.daemon(ready=False) as daemon:
            until(lambda: "has the GPUs of node node-b, not of node-a" in daemon.log())
            assert up(daemon) == {OPERATOR: "0"}
            assert 'reason="other_node"} 0' not in daemon.get("/metrics").text
            given.body = page_of("exporter-a")
            until(lambda: up(daemon) == {OPERATOR: "1"})
            assert [gpu["node"] for gpu in daemon.get("/gpus").json()["gpus"]] == ["node-a"]


@pytest.mark.parametrize("fault", [401, 403, 429, 500])
def test_metrics_go_on_while_the_api_server_fails(cluster: Cluster, fault: int) -> None:
    given = Exporter(page_of("node-a"))
    with exporter(given) as port:
        cluster.fake.put(pod("exporter-a", port=port))
        with cluster.daemon() as daemon:
            cluster.fake.fault = fault
            cluster.fake.cut()
            until(lambda: f"answered {fault}" in daemon.log())
            before = given.asked
            until(lambda: given.asked > before + 1)
            assert up(daemon) == {OPERATOR: "1"}


def test_a_forbidden_list_is_named_with_a_remedy(cluster: Cluster) -> None:
    cluster.fake.denied = True
    with cluster.daemon(ready=False) as daemon:
        until(lambda: "the exporters of node node-a are unknown" in daemon.log())
        assert "Grant its ServiceAccount get, list and watch of pods" in daemon.log()


def test_a_reload_keeps_what_was_found(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "pulsed.yaml"
    file.write_text("source: {exporter: {timeout: 800ms}}")
    with exporter(Exporter(page_of("node-a"))) as port:
        cluster.fake.put(pod("exporter-a", port=port))
        with cluster.daemon(PULSED_CONFIG_FILE=str(file)) as daemon:
            cluster.fake.fault = 500
            file.write_text("source: {exporter: {timeout: 900ms}}")
            until(lambda: "configuration reloaded" in daemon.log())
            until(lambda: "the Kubernetes API failed" in daemon.log())
            assert up(daemon) == {OPERATOR: "1"}


def test_a_command_reads_what_is_there(cluster: Cluster) -> None:
    variables_of = variables(cluster.fake, cluster.url)
    done = pulsed("snapshot", **variables_of)
    assert done.returncode == 1
    assert "no pod of the namespaces gpu-operator, nvidia-gpu-operator," in done.stderr
    with exporter(Exporter(page_of("node-a"))) as port:
        cluster.fake.put(pod("exporter-a", port=port))
        done = pulsed("snapshot", "--format", "json", **variables_of)
    assert done.returncode == 0, done.stderr
    assert '"node-a"' in done.stdout


@pytest.mark.parametrize("command", ["doctor", "snapshot"])
def test_a_command_reads_no_gpu_of_two_exporters(cluster: Cluster, command: str) -> None:
    with exporter(Exporter(page_of("node-a"))) as port:
        cluster.fake.put(pod("exporter-a", port=port))
        cluster.fake.put(pod("exporter-b", port=port, namespace="monitoring"))
        done = pulsed(command, **variables(cluster.fake, cluster.url))
    assert done.returncode == 1
    said = done.stdout if command == "doctor" else done.stderr
    assert said.count("the pods gpu-operator/exporter-a and monitoring/exporter-b both show GPU-0") >= 1


def test_outside_of_a_cluster_there_is_a_remedy() -> None:
    given = {"PULSED_SOURCE__KIND": "exporter", "PULSED_SOURCE__EXPORTER__DISCOVERY": "kubernetes"}
    done = pulsed("snapshot", **given, KUBERNETES_SERVICE_HOST="", PULSED_NODE="a")
    assert (done.returncode, "KUBERNETES_SERVICE_HOST is not set" in done.stderr) == (2, True)
    done = pulsed("snapshot", **given)
    assert (done.returncode, "needs the node's name" in done.stderr) == (2, True)


def owned_page(sm_active: float = 0.5) -> str:
    """Return a page whose GPU belongs to the pod ml/web-1."""
    return page_of("node-a", 0, sm_active).replace(
        'Hostname="node-a"', 'Hostname="node-a",namespace="ml",pod="web-1",container="main"'
    )


def put_deployment(cluster: Cluster) -> None:
    owner = reference("apps/v1", "ReplicaSet", "web-7d4")
    cluster.fake.put(pod("web-1", namespace="ml", owner=owner, labels={"team": "vision"}))
    deployment = reference("apps/v1", "Deployment", "web")
    cluster.fake.put_object("apps/v1", "replicasets", "web-7d4", deployment)


RESOLVES: dict[str, Any] = {
    "PULSED_ATTRIBUTION__WORKLOADS__ENABLED": "true",
    "PULSED_ATTRIBUTION__WORKLOADS__POD_LABELS": "team",
}
WEB = 'namespace="ml",workload="web",workload_kind="Deployment"'


def test_pods_have_the_names_of_their_workloads(cluster: Cluster) -> None:
    with exporter(Exporter(owned_page())) as port:
        cluster.fake.put(pod("exporter-a", port=port))
        put_deployment(cluster)
        with cluster.daemon(**RESOLVES) as daemon:
            until(lambda: f"pulsed_workload_gpus{{{WEB}}} 1" in daemon.get("/metrics").text)
            found = daemon.get("/metrics").text
            info = next(line for line in found.splitlines() if line.startswith("pulsed_gpu_owner_info"))
            assert 'workload="web",workload_kind="Deployment"' in info
            assert 'label_team="vision"' in info
            assert 'pulsed_attribution_up{source="kubernetes"} 1' in found


def test_a_reload_begins_and_ends_the_names_of_workloads(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "pulsed.yaml"
    file.write_text("attribution: {workloads: {enabled: false}}")
    with exporter(Exporter(owned_page())) as port:
        cluster.fake.put(pod("exporter-a", port=port))
        put_deployment(cluster)
        with cluster.daemon(PULSED_CONFIG_FILE=str(file)) as daemon:
            until(lambda: "pulsed_pod_gpus" in daemon.get("/metrics").text)
            assert "workload=" not in daemon.get("/metrics").text
            file.write_text("attribution: {workloads: {enabled: true}}")
            until(lambda: f"pulsed_workload_gpus{{{WEB}}} 1" in daemon.get("/metrics").text)
            file.write_text("attribution: {workloads: {enabled: true, pod_labels: [team]}}")
            until(lambda: 'label_team="vision"' in daemon.get("/metrics").text)
            file.write_text("attribution: {workloads: {enabled: false}}")
            until(lambda: "workload=" not in daemon.get("/metrics").text)
            assert "internal error" not in daemon.log()


def test_a_dead_api_server_costs_the_names_of_workloads_only(cluster: Cluster) -> None:
    with exporter(Exporter(owned_page())) as port:
        cluster.fake.put(pod("exporter-a", port=port))
        put_deployment(cluster)
        cluster.fake.denied_paths = ("/replicasets/",)
        with cluster.daemon(**RESOLVES) as daemon:
            until(lambda: 'pulsed_attribution_up{source="kubernetes"} 0' in daemon.get("/metrics").text)
            cluster.fake.fault = 500
            cluster.fake.cut()
            until(lambda: "answered 500" in daemon.log())
            found = daemon.get("/metrics").text
            assert 'pulsed_pod_gpus{namespace="ml",pod="web-1",container="main"} 1' in found
            assert "pulsed_workload_" not in found
            assert up(daemon) == {OPERATOR: "1"}


def test_a_restart_while_the_api_server_fails_reads_the_exporter_and_names_its_pods(
    cluster: Cluster, tmp_path: Path
) -> None:
    given = Exporter(page_of("node-a").replace('Hostname="node-a"', 'Hostname="node-a",namespace="ml",pod="web-0"'))
    state: dict[str, Any] = {
        "PULSED_STATE_DIR": str(tmp_path / "state"),
        "PULSED_ATTRIBUTION__WORKLOADS__ENABLED": "true",
    }
    set_of_web = cluster.fake.put_object("apps/v1", "replicasets", "web-7d4", reference("apps/v1", "Deployment", "web"))
    cluster.fake.put(pod("web-0", namespace="ml", owner=set_of_web, labels={}))
    named = 'pulsed_workload_gpus{namespace="ml",workload="web",workload_kind="Deployment"} 1'
    file = tmp_path / "state" / "state.json"
    with exporter(given) as port:
        cluster.fake.put(pod("exporter-a", port=port))
        with cluster.daemon(**state) as daemon:
            until(lambda: named in daemon.get("/metrics").text)
            until(lambda: file.exists() and "Deployment" in file.read_text())
        cluster.fake.fault = 500
        with cluster.daemon(**state) as daemon:
            until(lambda: named in daemon.get("/metrics").text)
            assert up(daemon) == {OPERATOR: "1"}
            page = daemon.get("/metrics").text
            assert 'pulsed_attribution_up{source="kubernetes"} 0' in page
            assert 'pulsed_attribution_last_success_timestamp_seconds{source="kubernetes"}' in page
            cluster.fake.fault = 0
            until(lambda: 'pulsed_attribution_up{source="kubernetes"} 1' in daemon.get("/metrics").text)
        cluster.fake.fault = 500
        with cluster.daemon(ready=False, PULSED_SOURCE__EXPORTER__BEARER_TOKEN="secret", **state) as daemon:
            until(lambda: up(daemon) == {"kubernetes": "0"})
    assert "Bearer secret" not in given.credentials, "another pod may have the address by now"
