"""The examples of autoscaling: valid for Kubernetes and KEDA, and right on real daemons and a real Prometheus."""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.support.kubernetes.gpu_cluster import Adapter, GpuCluster, adapter, gpu_cluster, number
from tests.support.prometheus import Prometheus, prometheus
from tests.support.waiting import until
from tests.system.deploy.chart import CHART, Manifest, complaints
from tests.system.deploy.install import KUBERNETES

EXAMPLES = CHART / "examples"
MANIFESTS = ("hpa-external", "hpa-object", "hpa-pods", "scaledobject-metrics-api", "scaledobject-prometheus")

TRIGGERS: Mapping[str, tuple[set[str], set[str]]] = {
    "prometheus": (
        {"serverAddress", "query", "threshold"},
        {
            "activationThreshold", "namespace", "customHeaders", "ignoreNullValues", "queryParameters", "unsafeSsl",
            "timeout", "authModes",
        },
    ),
    "metrics-api": (
        {"url", "valueLocation", "targetValue"},
        {
            "format", "activationTargetValue", "unsafeSsl", "timeout", "authMode", "method", "keyParamName",
            "aggregateFromKubeServiceEndpoints", "aggregationType",
        },
    ),
}  # fmt: skip
"""Required and optional parameters of KEDA's triggers, from its documentation: to its CRD they are any texts."""

ACTIVITIES = (0.9, 0.3, 0.0, 0.9)
"""Of four pods on three nodes: two on the first."""

MEAN = sum(ACTIVITIES) / 4

APIS = "/apis/{}.metrics.k8s.io/{}/namespaces/ml/{}"
OBJECT = APIS.format("custom", "v1beta2", "deployments.apps/infer/gpu_real_utilization")
EXTERNAL = APIS.format("external", "v1beta1", "gpu_real_utilization?labelSelector=workload%3Dinfer")

SCRAPES = """
global: {{scrape_interval: 1s}}
scrape_configs: [{{job_name: pulsed, honor_labels: true, static_configs: [{{targets: {addresses}}}]}}]
"""


def example(name: str) -> Manifest:
    """Return an example."""
    found: Manifest = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    return found


def trigger(name: str) -> Mapping[str, Any]:
    """Return the trigger of a ScaledObject."""
    (found,) = triggers(name)
    return found


def triggers(name: str) -> list[Mapping[str, Any]]:
    """Return the triggers of a ScaledObject."""
    found: list[Mapping[str, Any]] = example(name)["spec"]["triggers"]
    return found


def rules(kind: str) -> list[Mapping[str, Any]]:
    """Return the rules of prometheus-adapter, custom or external."""
    found: list[Mapping[str, Any]] = example("prometheus-adapter-values")["rules"][kind]
    return found


def test_these_are_all_examples() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.yaml") if not path.stem.startswith("values-")}
    assert names == {*MANIFESTS, "prometheus-adapter-values"}


@pytest.mark.parametrize("kubernetes", KUBERNETES)
@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_are_valid(name: str, kubernetes: str) -> None:
    assert complaints([example(name)], kubernetes) == []


def test_the_judge_of_keda_finds_what_is_wrong() -> None:
    wrong = example("scaledobject-prometheus")
    wrong["spec"]["minReplicas"] = 1
    assert complaints([wrong], KUBERNETES[-1]) == ["ScaledObject/spec/minReplicas: unknown"]
    wrong = example("scaledobject-prometheus")
    wrong["spec"]["maxReplicaCount"] = "8"
    assert "maxReplicaCount" in complaints([wrong], KUBERNETES[-1])[0]


@pytest.mark.parametrize("name", ["scaledobject-prometheus", "scaledobject-metrics-api"])
def test_triggers_have_documented_parameters(name: str) -> None:
    for found in triggers(name):
        required, optional = TRIGGERS[found["type"]]
        assert required <= found["metadata"].keys() <= required | optional
        assert all(isinstance(value, str) for value in found["metadata"].values())


class Running(NamedTuple):
    """A cluster, the adapter, and a Prometheus that scrapes its daemons."""

    cluster: GpuCluster
    adapter: Adapter
    server: Prometheus


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("examples")
    with gpu_cluster(folder, 3) as cluster, adapter(cluster) as made:
        config = SCRAPES.format(addresses=json.dumps([node.daemon.address for node in cluster.nodes]))
        with prometheus(folder, config) as server:
            cluster.scale(4)
            cluster.loads(ACTIVITIES)
            until(lambda: sorted(made.pods("gpu_real_utilization").values()) == sorted(ACTIVITIES))
            server.wait_for("sum(pulsed_workload_gpus) == 4 and sum(pulsed_workload_pods) == 4")
            yield Running(cluster, made, server)


def settled(running: Running, query: str, value: float | None) -> None:
    """Wait until a query has one value, or no result."""

    def holds() -> bool:
        found = running.server.ask(query)
        if value is None:
            return not found
        return len(found) == 1 and float(found[0]["value"][1]) == pytest.approx(value, abs=0.001)

    until(holds)


def rendered(rule: Mapping[str, Any], series: str, matchers: Mapping[str, str], group: str) -> str:
    """Return the query that prometheus-adapter makes of a rule."""
    query: str = rule["metricsQuery"]
    text = ",".join(f'{name}="{value}"' for name, value in matchers.items() if "|" not in value)
    text += "".join(f',{name}=~"{value}"' for name, value in matchers.items() if "|" in value)
    parts = {"<<.Series>>": series, "<<.LabelMatchers>>": text, "<<.GroupBy>>": group}
    for placeholder, part in parts.items():
        query = query.replace(placeholder, part)
    assert "<<" not in query
    return query


def metric_name(rule: Mapping[str, Any], series: str) -> str:
    """Return the name of the metric that prometheus-adapter gives a series."""
    name = rule["name"]
    if "matches" not in name:
        return str(name["as"])
    found = re.fullmatch(name["matches"], series)
    assert found
    return str(name["as"]).replace("${1}", found[1])


@pytest.mark.parametrize(
    ("position", "names"),
    [
        (0, {"gpu_real_utilization"}),
        (1, {"gpu_memory_used_bytes", "gpu_power_watts"}),
        (2, {"gpu_real_utilization"}),
    ],
)
def test_rules_of_prometheus_adapter_find_their_series(running: Running, position: int, names: set[str]) -> None:
    rule = rules("custom")[position]
    found = running.server.ask(f"count by (__name__) ({rule['seriesQuery']})")
    made = {metric_name(rule, series["metric"]["__name__"]) for series in found}
    assert made <= names
    assert made >= names - {"gpu_memory_used_bytes"}  # these pages have no memory


def test_pods_by_prometheus_adapter_and_by_pulsed_adapter(running: Running) -> None:
    (metric,) = example("hpa-pods")["spec"]["metrics"]
    name = metric["pods"]["metric"]["name"]
    pods = running.cluster.pods
    matchers = {"namespace": "ml", "pod": "|".join(pods)}
    query = rendered(rules("custom")[0], "pulsed_pod_real_utilization_ratio", matchers, "pod")
    expected = dict(zip(pods, ACTIVITIES, strict=True))

    def values() -> dict[str, float]:
        return {series["metric"]["pod"]: float(series["value"][1]) for series in running.server.ask(query)}

    until(lambda: values() == pytest.approx(expected, abs=0.001))
    assert running.adapter.pods(name) == pytest.approx(expected, abs=0.001)
    power = rendered(rules("custom")[1], "pulsed_pod_power_watts", matchers, "pod")
    found = {series["metric"]["pod"]: float(series["value"][1]) for series in running.server.ask(power)}
    assert found == pytest.approx(running.adapter.pods("gpu_power_watts"))


def test_the_object_by_prometheus_adapter_and_by_pulsed_adapter(running: Running) -> None:
    (metric,) = example("hpa-object")["spec"]["metrics"]
    described, target = metric["object"]["describedObject"], metric["object"]["target"]
    assert (described["kind"], target["type"]) == ("Deployment", "Value")
    matchers = {"namespace": "ml", "workload": described["name"]}
    query = rendered(rules("custom")[2], "pulsed_workload_real_utilization_ratio_sum", matchers, "workload")
    settled(running, query, MEAN)
    other = rendered(rules("custom")[3], "pulsed_workload_real_utilization_ratio_sum", matchers, "workload")
    assert running.server.ask(other) == []  # no StatefulSet of that name
    path = f"/apis/custom.metrics.k8s.io/v1beta2/namespaces/ml/deployments.apps/{described['name']}"
    (item,) = running.adapter.get(f"{path}/{metric['object']['metric']['name']}")["items"]
    assert number(item["value"]) == MEAN


def test_the_external_metric_by_prometheus_adapter_and_by_pulsed_adapter(running: Running) -> None:
    (metric,) = example("hpa-external")["spec"]["metrics"]
    given = metric["external"]["metric"]
    labels = given["selector"]["matchLabels"]
    query = rendered(
        rules("external")[0], "pulsed_workload_real_utilization_ratio_sum", {"namespace": "ml", **labels}, ""
    )
    settled(running, query, MEAN)
    assert metric_name(rules("external")[0], "pulsed_workload_real_utilization_ratio_sum") == given["name"]
    selector = urllib.parse.quote(",".join(f"{name}={value}" for name, value in labels.items()), safe="")
    path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/ml/{given['name']}?labelSelector={selector}"
    (item,) = running.adapter.get(path)["items"]
    assert number(item["value"]) == MEAN


def keda_prometheus(server: Prometheus, metadata: Mapping[str, str]) -> float | None:
    """Return the number of the prometheus scaler; None for an error, as documented for `ignoreNullValues: false`."""
    assert metadata["ignoreNullValues"] == "false"
    found = server.ask(metadata["query"])
    assert len(found) <= 1, "the scaler takes one element"
    return float(found[0]["value"][1]) if found else None


def keda_metrics_api(running: Running, metadata: Mapping[str, str]) -> float | None:
    """Return the number of the metrics-api scaler; None for an error."""
    url = urllib.parse.urlsplit(metadata["url"])
    assert url.hostname == "pulsed-adapter.monitoring.svc.cluster.local"
    status, document = running.adapter.plain(url.path)
    return float(document[metadata["valueLocation"]]) if status == 200 else None


def test_the_scaled_objects_and_stale_nodes(running: Running) -> None:
    """The mean over all GPUs, on nodes with two and with one; a failed node is left out, and without data is none."""
    by_query, by_api = trigger("scaledobject-prometheus")["metadata"], trigger("scaledobject-metrics-api")["metadata"]
    until(lambda: keda_prometheus(running.server, by_query) == pytest.approx(MEAN, abs=0.001))
    until(lambda: keda_metrics_api(running, by_api) == pytest.approx(MEAN))
    nodes = running.cluster.nodes
    try:
        nodes[0].exporter.status = 500
        until(lambda: keda_metrics_api(running, by_api) == pytest.approx(0.15))
        until(lambda: keda_prometheus(running.server, by_query) == pytest.approx(0.15, abs=0.001))
        for node in nodes:
            node.exporter.status = 500
        until(lambda: keda_metrics_api(running, by_api) is None)
        until(lambda: keda_prometheus(running.server, by_query) is None)
        until(lambda: running.adapter.request(OBJECT)[0] == running.adapter.request(EXTERNAL)[0] == 503)
        until(lambda: running.adapter.pods("gpu_real_utilization") == {})  # each node's values age for themselves
    finally:
        for node in nodes:
            node.exporter.status = 200
    until(lambda: keda_metrics_api(running, by_api) == pytest.approx(MEAN))


def test_a_workload_without_pods_has_no_number(running: Running) -> None:
    by_query, by_api = trigger("scaledobject-prometheus")["metadata"], trigger("scaledobject-metrics-api")["metadata"]
    assert keda_prometheus(running.server, {**by_query, "query": by_query["query"].replace("infer", "other")}) is None
    assert keda_metrics_api(running, {**by_api, "url": by_api["url"].replace("infer", "other")}) is None
    assert running.adapter.request(OBJECT.replace("infer", "other"))[0] == 404
    assert running.adapter.get(EXTERNAL.replace("infer", "other"))["items"] == []
    assert running.adapter.pods("gpu_real_utilization", selector="app%3Dother") == {}


def test_the_number_of_a_workload_has_what_it_is_made_of(running: Running) -> None:
    path = "/autoscale/v1/sum/ml/Deployment/infer/real_utilization"
    until(lambda: running.adapter.plain(path)[0] == 200)
    _, document = running.adapter.plain(path)
    assert document["value"] == pytest.approx(sum(ACTIVITIES))
    assert (document["gpus"], document["pods"], document["warnings"]) == (4, 4, [])
    assert running.adapter.plain("/apis/external.metrics.k8s.io/v1beta1")[0] == 401, "without the certificate"
