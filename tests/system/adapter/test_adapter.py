"""The metrics APIs over TLS, as the API server requests them, from a real adapter and a real daemon."""

from __future__ import annotations

import base64
import http.client
import json
import re
import ssl
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import bcrypt
import pytest

from pulsed import __version__
from tests.present.exposition.pages import families_of
from tests.support.certificates import make
from tests.support.daemon import pulsed
from tests.support.exporters import Exporter, exporting
from tests.support.kubernetes.fake_api_server import pod
from tests.support.kubernetes.gpu_cluster import (
    DAEMON_LABELS,
    Adapter,
    GpuCluster,
    adapter,
    busy,
    client_context,
    gpu_cluster,
)
from tests.support.waiting import SECONDS, until
from tests.system.end_to_end.dcgm_pages import Row, dcgm_page
from tools.generate_docs import ROOT

CUSTOM = "/apis/custom.metrics.k8s.io"
PODS = f"{CUSTOM}/v1beta2/namespaces/ml/pods"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1"


class Running(NamedTuple):
    """A cluster with two pods of a workload on one node, and one pod of another workload."""

    cluster: GpuCluster
    adapter: Adapter


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("adapter")
    with gpu_cluster(folder, 1) as cluster, adapter(cluster) as made:
        cluster.scale(2)
        other = cluster.pod("batch-0", "node-0")
        other["metadata"] |= {"labels": {"app": "batch", "tier": "low"}, "ownerReferences": []}
        cluster.fake.put(other)
        first, second = cluster.pods
        rows = [
            Row(busy(0.9), 0, "node-0", first, "ml", "server"),
            Row(busy(0.3), 1, "node-0", second, "ml", "server"),
            Row(busy(0.5), 2, "node-0", "batch-0", "ml", "main"),
        ]
        cluster.nodes[0].exporter.body = dcgm_page(rows)
        until(lambda: len(made.pods("gpu_real_utilization", selector="")) == 3)
        until(lambda: made.request(f"{EXTERNAL}/namespaces/ml/gpu_power_watts")[0] == 200)
        yield Running(cluster, made)


def samples(page: str) -> dict[str, float]:
    """Return the values of a page by series."""
    pairs = (line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def test_discovery(running: Running) -> None:
    get = running.adapter.get
    assert [group["name"] for group in get("/apis")["groups"]] == ["custom.metrics.k8s.io", "external.metrics.k8s.io"]
    group = get(CUSTOM)
    assert (group["kind"], group["preferredVersion"]["version"]) == ("APIGroup", "v1beta2")
    assert [version["version"] for version in group["versions"]] == ["v1beta2", "v1beta1"]
    listed = get(f"{CUSTOM}/v1beta1")
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", "custom.metrics.k8s.io/v1beta1")
    names = {resource["name"] for resource in listed["resources"]}
    assert {"pods/gpu_real_utilization", "deployments.apps/gpu_real_utilization_sum", "pods/gpu_power_watts"} <= names
    expected = {"name": "gpu_power_watts", "singularName": "", "namespaced": True}
    assert expected | {"kind": "ExternalMetricValueList", "verbs": ["get"]} in get(EXTERNAL)["resources"]


def test_the_documents_are_those_of_the_api(running: Running) -> None:
    name = running.cluster.pods[0]
    document = running.adapter.get(f"{PODS}/{name}/gpu_real_utilization")
    timestamp = document["items"][0]["timestamp"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", timestamp)
    item: dict[str, Any] = {
        "describedObject": {"kind": "Pod", "namespace": "ml", "name": name, "apiVersion": "/v1"},
        "metric": {"name": "gpu_real_utilization", "selector": None},
        "timestamp": timestamp,
        "windowSeconds": 0,
        "value": "900m",
    }
    api_version = "custom.metrics.k8s.io/v1beta2"
    assert document == {"kind": "MetricValueList", "apiVersion": api_version, "metadata": {}, "items": [item]}
    (old,) = running.adapter.get(f"{PODS.replace('v1beta2', 'v1beta1')}/{name}/gpu_real_utilization")["items"]
    assert old["metricName"] == "gpu_real_utilization"
    assert "metric" not in old
    (external,) = running.adapter.get(f"{EXTERNAL}/namespaces/ml/gpu_power_watts?labelSelector=workload%3Dbatch-0")[
        "items"
    ]
    labels = {"namespace": "ml", "workload": "batch-0", "workload_kind": "Pod"}
    assert (external["metricName"], external["metricLabels"], external["value"]) == ("gpu_power_watts", labels, "350")


@pytest.mark.parametrize(
    ("selector", "values"),
    [
        ("", [0.9, 0.3, 0.5]),
        ("app%3Dinfer", [0.9, 0.3]),
        ("app+in+(infer,batch)", [0.9, 0.3, 0.5]),
        ("app!%3Dinfer", [0.5]),
        ("tier", [0.5]),
        ("!tier", [0.9, 0.3]),
        ("app%3Dother", []),
    ],
)
def test_pods_are_selected_by_their_labels(running: Running, selector: str, values: list[float]) -> None:
    found = running.adapter.pods("gpu_real_utilization", selector=selector)
    assert sorted(found.values()) == sorted(values)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("gpu_real_utilization", "600m"),
        ("gpu_real_utilization_sum", "1200m"),
        ("gpu_real_utilization_max", "900m"),
        ("gpu_power_watts", "800"),
    ],
)
def test_metrics_of_a_workload(running: Running, metric: str, value: str) -> None:
    path = f"{CUSTOM}/v1beta2/namespaces/ml/deployments.apps/infer/{metric}"
    (item,) = running.adapter.get(path)["items"]
    expected = {"kind": "Deployment", "namespace": "ml", "name": "infer", "apiVersion": "apps/v1"}
    assert (item["describedObject"], item["value"]) == (expected, value)


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/", 404, "there is no /"),
        ("/apis/metrics.k8s.io", 404, "there is no API group"),
        (f"{CUSTOM}/v1", 404, "has no version v1"),
        (f"{PODS}/x/gpu_utilisation", 404, "did you mean gpu_utilization?"),
        (f"{PODS}/x/gpu_utilization", 404, "Pod ml/x has no GPU"),
        (f"{PODS}/%2A/gpu_utilization?labelSelector=a+b", 400, "'a b' is not a label selector"),
        (f"{PODS}/gpu_utilization", 404, "metrics are those of objects in a namespace"),
        (f"{CUSTOM}/v1beta2/namespaces/ml/nodes/a/gpu_utilization", 404, "nodes have no metrics"),
        (f"{CUSTOM}/v1beta2/namespaces/ml/deployments.apps/%2A/gpu_utilization", 404, "by their names only"),
        (f"{CUSTOM}/v1beta2/namespaces/ml/statefulsets.apps/infer/gpu_utilization", 404, "StatefulSet ml/infer"),
        (f"{CUSTOM}/v1beta2/namespaces/other/deployments.apps/infer/gpu_utilization", 404, "has no GPU"),
    ],
)
def test_errors_are_status_objects(running: Running, path: str, code: int, said: str) -> None:
    status, document = running.adapter.request(path)
    assert (status, document["kind"], document["apiVersion"], document["status"]) == (code, "Status", "v1", "Failure")
    assert document["code"] == code
    assert said in document["message"]


def test_openapi_documents_are_there_for_the_api_server(running: Running) -> None:
    assert running.adapter.get("/openapi/v2")["swagger"] == "2.0"
    assert running.adapter.get("/openapi/v3") == {"paths": {}}


def test_lists_that_nothing_is_in(running: Running) -> None:
    assert running.adapter.get(f"{EXTERNAL}/namespaces/other/gpu_power_watts")["items"] == []
    assert running.adapter.get(f"{PODS}/%2A/gpu_power_watts?metricLabelSelector=a%3Db")["items"] == []


def test_its_own_metrics(running: Running) -> None:
    path = f"{EXTERNAL}/namespaces/none/gpu_power_watts"
    before = samples(running.adapter.text("/metrics"))
    for _ in range(2):
        running.adapter.get(path)
    running.adapter.request(f"{PODS}/x/none")
    running.adapter.request("/secret")
    page = running.adapter.text("/metrics")
    after = samples(page)
    grown = {name: value - before.get(name, 0.0) for name, value in after.items() if "requests" in name}
    assert {name: value for name, value in grown.items() if value and "readyz" not in name} == {
        'pulsed_http_requests_total{path="/apis/external.metrics.k8s.io",code="200"}': 2,
        'pulsed_http_requests_total{path="/apis/custom.metrics.k8s.io",code="404"}': 1,
        'pulsed_http_requests_total{path="other",code="404"}': 1,
        'pulsed_http_requests_total{path="/metrics",code="200"}': 1,
    }
    assert after['pulsed_adapter_daemons{result="success"}'] == 1
    assert after['pulsed_adapter_daemons{result="failure"}'] == 0
    assert (after["pulsed_adapter_watch_up"], after["pulsed_adapter_watch_restarts_total"]) == (1, 0)
    assert 0 <= time.time() - after["pulsed_adapter_oldest_reading_timestamp_seconds"] < SECONDS
    families_of(running.adapter.text("/metrics", "application/openmetrics-text"), openmetrics=True)
    names = set(re.findall(r"^# TYPE (pulsed_\w+)", page, re.MULTILINE))
    documented = re.findall(r"^\|`(pulsed_adapter_\w+)", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE)
    assert names == {*documented, "pulsed_http_requests_total"}
    assert "pulsed_build_info" not in names, "it identifies daemons"
    assert f'pulsed_adapter_build_info{{version="{__version__}",revision="unknown",python=' in page


def test_only_reading_is_allowed(running: Running) -> None:
    status, document = running.adapter.request(PODS, "POST")
    assert (status, document["reason"]) == (405, "MethodNotAllowed")
    assert running.adapter.request("/livez", "HEAD") == (200, None)


@pytest.mark.parametrize("path", ["/apis", f"{PODS}/%2A/gpu_power_watts", "/openapi/v2", "/"])
@pytest.mark.parametrize("name", ["", "kubelet"])
def test_other_clients_than_the_api_server_get_probes_only(
    running: Running, tmp_path: Path, name: str, path: str
) -> None:
    """They have no certificate, or one for another name."""
    server_ca = running.cluster.folder / "serving-ca.crt"
    context = ssl.create_default_context(cafile=str(server_ca))
    if name:
        context = client_context(tmp_path, running.adapter.authority, name, server_ca)
    status, document = running.adapter.request(path, context=context)
    assert (status, document["kind"], document["reason"]) == (401, "Status", "Unauthorized")
    assert "adapter.client_names" in document["message"]
    for probe in ("/livez", "/readyz"):
        assert running.adapter.request(probe, context=context) == (200, {"status": "ok"})
    assert "pulsed_adapter_daemons" in running.adapter.text("/metrics", context=context)


def test_certificates_of_other_authorities_are_refused(running: Running, tmp_path: Path) -> None:
    other, server_ca = make("other-ca", authority=True), running.cluster.folder / "serving-ca.crt"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        running.adapter.request("/livez", context=client_context(tmp_path, other, "front-proxy-client", server_ca))


def test_without_client_names_every_client_that_tls_accepts_can_read(tmp_path: Path) -> None:
    with (
        gpu_cluster(tmp_path, 0) as cluster,
        adapter(cluster, "adapter.client_names=[]", client_auth="RequireAndVerifyClientCert") as made,
    ):
        server_ca = tmp_path / "serving-ca.crt"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            made.request("/livez", context=ssl.create_default_context(cafile=str(server_ca)))
        context = client_context(tmp_path, made.authority, "any", server_ca)
        assert made.request("/apis", context=context)[0] == 200


@pytest.mark.parametrize("web", ["", "tls_server_config: {cert_file: a.crt, key_file: a.key}"])
def test_client_names_need_verified_certificates(tmp_path: Path, web: str) -> None:
    make("a").write(tmp_path, "a")
    file = tmp_path / "web.yml"
    file.write_text(web)
    done = pulsed(
        "adapter", f"--web.config.file={file}", "--set=adapter.client_names=a", "--set=kubernetes.server=https://a"
    )
    assert (done.returncode, "set client_ca_file and client_auth_type" in done.stderr) == (2, True), done.stderr


def test_before_the_pods_are_known_it_is_not_ready(tmp_path: Path) -> None:
    with gpu_cluster(tmp_path, 1) as cluster:
        cluster.fake.denied = True
        with adapter(cluster, ready=False) as made:
            until(lambda: "the Kubernetes API failed" in made.log())
            for path in ("/readyz", f"{PODS}/%2A/gpu_power_watts"):
                status, document = made.request(path)
                assert (status, document["reason"]) == (503, "ServiceUnavailable")
                assert "answered 403" in document["message"]


def test_passwords_of_the_web_configuration_are_required(tmp_path: Path) -> None:
    users = f"basic_auth_users: {{alice: {bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}}}\n"
    with gpu_cluster(tmp_path, 0) as cluster, adapter(cluster, "web.open_probes=true", web_settings=users) as made:
        connection = http.client.HTTPSConnection("127.0.0.1", made.port, timeout=SECONDS, context=made.context)
        statuses = []
        for path, password in (("/readyz", ""), ("/apis", ""), ("/apis", "wrong"), ("/apis", "secret")):
            login = base64.b64encode(f"alice:{password}".encode()).decode()
            connection.request("GET", path, headers={"Authorization": f"Basic {login}"} if password else {})
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        connection.close()
    assert statuses == [200, 401, 401, 200]


def test_the_pod_of_a_tenant_is_no_daemon_and_gets_no_password(tmp_path: Path) -> None:
    """It has the labels and the port of a daemon, and says that a workload is idle."""
    row = {
        "namespace": "ml", "pod": "infer-5d9c8b7f6-00000", "container": "server", "workload": "infer",
        "workload_kind": "Deployment", "gpu": "x", "share": 1.0, "time": 1e10, "stale": False,
        "values": {"real_utilization_ratio": 0.0},
    }  # fmt: skip
    tenant = Exporter(json.dumps({"node": "node-0", "gpus": [row]}))
    login = ("source.exporter.username=pulsed", "source.exporter.password=secret")
    with gpu_cluster(tmp_path, 1) as cluster, exporting(defaultdict(lambda: tenant)) as url:
        port = int(url.rstrip("/").rsplit(":", 1)[1])
        for namespace in ("ml", "default", "a"):
            cluster.fake.put(pod("pulsed-x", port=port, namespace=namespace, labels=DAEMON_LABELS, port_name="http"))
        cluster.scale(1)
        cluster.load(0.9)
        with adapter(cluster, *login) as made:
            until(lambda: made.pods("gpu_real_utilization") == {cluster.pods[0]: 0.9})
            assert samples(made.text("/metrics"))['pulsed_adapter_daemons{result="success"}'] == 1
            assert made.pods("gpu_real_utilization") == {cluster.pods[0]: 0.9}
    assert tenant.asked == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ([], "adapter.namespaces is not set, and /var/run/secrets/kubernetes.io/serviceaccount/namespace"),
        (
            ["adapter.namespaces=all", "source.exporter.bearer_token=secret"],
            "adapter.namespaces: all would send source.exporter.bearer_token to any pod",
        ),
        (["adapter.namespace=monitoring"], "did you mean adapter.namespaces?"),
        (["adapter.namespaces=[all, gpu]"], "has all in addition to other namespaces"),
        (["adapter.namespaces=../secrets"], "'../secrets' is not a namespace; allowed: names such as gpu-operator"),
    ],
)
def test_the_namespaces_of_daemons_are_known(settings: list[str], said: str) -> None:
    done = pulsed("adapter", *(f"--set={each}" for each in (*settings, "kubernetes.server=https://a")))
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_outside_of_a_cluster_there_is_a_remedy() -> None:
    done = pulsed("adapter", KUBERNETES_SERVICE_HOST="")
    assert (done.returncode, "KUBERNETES_SERVICE_HOST is not set" in done.stderr) == (2, True)
    done = pulsed("adapter", "--set=adapter.fields=real_utilisation_ratio", KUBERNETES_SERVICE_HOST="")
    assert (done.returncode, "did you mean real_utilization_ratio?" in done.stderr) == (2, True)
