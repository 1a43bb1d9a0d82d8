"""The adapter of the chart: harmless, with its own rights only, and started as rendered against a fake cluster."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from pulsed.config.configuration import load
from tests.support.kubernetes.gpu_cluster import adapter, gpu_cluster
from tests.support.waiting import until
from tests.system.deploy.cases import ADAPTER, MONITORS, SINGLE
from tests.system.deploy.chart import Manifest, Values, only, pod_template, render
from tests.system.deploy.test_helm import check_restricted

WHOLE = SINGLE["whole adapter"]


def named(manifests: Sequence[Manifest], kind: str, name: str = "gpu-pulsed-adapter") -> Manifest:
    """The object of a kind and name."""
    return only([each for each in manifests if each["metadata"]["name"] == name], kind)


@pytest.mark.parametrize("values", [ADAPTER, WHOLE])
def test_the_pod_is_harmless_and_may_read_pods_and_what_controls_them(values: Values) -> None:
    manifests = render(values)
    check_restricted(named(manifests, "Deployment")["spec"]["template"]["spec"], has_token=True)
    role = named(manifests, "ClusterRole", "monitoring-gpu-pulsed-adapter")
    assert {(*rule["resources"], *rule["verbs"]) for rule in role["rules"]} == {
        ("pods", "get", "list", "watch"),
        ("replicasets", "get"),
        ("jobs", "get"),
        *([] if values is WHOLE else [("apiservices", "get", "patch")]),
    }
    binding = named(manifests, "ClusterRoleBinding", "monitoring-gpu-pulsed-adapter")
    account = named(manifests, "ServiceAccount")["metadata"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]


def test_the_services_select_their_own_pods_only() -> None:
    manifests = render(ADAPTER)
    daemons = pod_template(manifests)["metadata"]["labels"].items()
    own = named(manifests, "Deployment")["spec"]["template"]["metadata"]["labels"].items()
    selected = named(manifests, "Service")["spec"]["selector"].items()
    assert selected <= own
    assert not selected <= daemons
    assert not named(manifests, "Service", "gpu-pulsed")["spec"]["selector"].items() <= own
    assert not only(manifests, "DaemonSet")["spec"]["selector"]["matchLabels"].items() <= own


def test_the_apis_are_registered() -> None:
    def services(values: Values) -> dict[str, Manifest]:
        return {each["metadata"]["name"]: each["spec"] for each in render(values) if each["kind"] == "APIService"}

    found = services(ADAPTER)
    assert set(found) == {
        "v1beta1.custom.metrics.k8s.io",
        "v1beta2.custom.metrics.k8s.io",
        "v1beta1.external.metrics.k8s.io",
    }
    service = {"name": "gpu-pulsed-adapter", "namespace": "monitoring", "port": 443}
    assert all(spec["service"] == service and "caBundle" not in spec for spec in found.values()), "the adapter sets it"
    whole = services(WHOLE)
    assert set(whole) == {"v1beta1.custom.metrics.k8s.io", "v1beta2.custom.metrics.k8s.io"}
    for spec in whole.values():
        assert base64.b64decode(spec["caBundle"]).startswith(b"-----BEGIN CERTIFICATE-----")
    assert all("insecureSkipTLSVerify" not in spec for spec in (*found.values(), *whole.values()))
    assert services({}) == {}


def test_replicas_are_apart_and_one_at_a_time_is_evicted() -> None:
    manifests = render(ADAPTER)
    spec = named(manifests, "Deployment")["spec"]
    labels = spec["selector"]["matchLabels"]
    assert spec["replicas"] == 2
    (term,) = spec["template"]["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"] == {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": labels},
    }
    budget = named(manifests, "PodDisruptionBudget")["spec"]
    assert budget == {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    assert not [
        each for each in render({"adapter": {"enabled": True, "replicas": 1}}) if each["kind"] == "PodDisruptionBudget"
    ]


def test_the_network_policy_of_the_daemons_admits_it() -> None:
    manifests = render(WHOLE)
    daemons, own = (named(manifests, "NetworkPolicy", name)["spec"] for name in ("gpu-pulsed", "gpu-pulsed-adapter"))
    ((*_, peer),) = [rule["from"] for rule in daemons["ingress"]]
    labels = named(manifests, "Deployment")["spec"]["template"]["metadata"]["labels"].items()
    assert peer["podSelector"]["matchLabels"].items() <= labels
    assert own["podSelector"]["matchLabels"].items() <= labels
    https, http = ({"ports": [{"port": port, "protocol": "TCP"}]} for port in ("https", "http"))
    assert own["ingress"] == [https, http], "an API server is no pod"
    keda = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "keda"}}}]
    limited = render({**WHOLE, "networkPolicy": {**WHOLE["networkPolicy"], "adapterFrom": keda}})
    assert named(limited, "NetworkPolicy")["spec"]["ingress"] == [https, {**http, "from": keda}]
    _, api_server, to_daemons = own["egress"]
    assert [each["port"] for each in api_server["ports"]] == [7443]
    (peer,) = to_daemons["to"]
    assert peer["podSelector"]["matchLabels"].items() <= pod_template(manifests)["metadata"]["labels"].items()


def test_the_configuration_follows_the_daemons(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(named(render(WHOLE), "ConfigMap")["data"]["config.yaml"])
    seen = load(file, [], {})
    assert seen.listen == (":8443",)
    assert (seen.adapter.scheme, seen.adapter.route_prefix, seen.adapter.interval) == ("https", "/gpu", 15.0)
    assert seen.adapter.client_names == ("front-proxy-client",)
    assert (seen.source.exporter.insecure_skip_verify, seen.source.exporter.timeout) == (True, 3.0)


@pytest.mark.parametrize(
    ("front_proxy", "client_auth"),
    [
        ({}, "VerifyClientCertIfGiven"),
        ({"ca": "-----BEGIN CERTIFICATE-----"}, "VerifyClientCertIfGiven"),
        ({"ca": "-----BEGIN CERTIFICATE-----", "names": []}, "RequireAndVerifyClientCert"),
    ],
)
def test_probes_need_no_client_certificate(front_proxy: Values, client_auth: str) -> None:
    manifests = render({"adapter": {**ADAPTER["adapter"], "frontProxy": front_proxy}})
    data = named(manifests, "ConfigMap")["data"]
    tls = yaml.safe_load(data["web-config.yml"])["tls_server_config"]
    assert tls["client_auth_type"] == client_auth
    assert ("client_names" in yaml.safe_load(data["config.yaml"])["adapter"]) == (
        bool(front_proxy) and client_auth == "VerifyClientCertIfGiven"
    )
    (container,) = named(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {container[f"{name}Probe"]["httpGet"]["port"] for name in ("startup", "liveness", "readiness")} == {"http"}


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PodMonitor"])
def test_a_monitor_for_the_adapter_beside_that_of_the_daemons(kind: str) -> None:
    manifests = render({**ADAPTER, **MONITORS[kind]})
    spec = named(manifests, kind)["spec"]
    (endpoint,) = spec.get("endpoints") or spec["podMetricsEndpoints"]
    assert endpoint == {"port": "http"}, "without a Secret, which would be in another namespace than the monitor"
    selected = spec["selector"]["matchLabels"].items()
    for labels in (
        named(manifests, "Service")["metadata"]["labels"],
        named(manifests, "Deployment")["spec"]["template"]["metadata"]["labels"],
    ):
        assert selected <= labels.items()
    daemons = named(manifests, kind, "gpu-pulsed")["spec"]["selector"]["matchLabels"].items()
    assert not selected <= pod_template(manifests)["metadata"]["labels"].items()
    assert not daemons <= named(manifests, "Service")["metadata"]["labels"].items()


def test_without_apis_there_is_plain_http_and_no_right_that_a_certificate_needs(tmp_path: Path) -> None:
    manifests = render({**ADAPTER, "adapter": {**ADAPTER["adapter"], "apis": []}})
    kinds = {(each["kind"], each["metadata"]["name"]) for each in manifests}
    assert not {kind for kind, _ in kinds} & {"APIService", "Secret"}
    assert ("RoleBinding", "monitoring-gpu-pulsed-adapter") not in kinds
    (port,) = named(manifests, "Service")["spec"]["ports"]
    assert (port["name"], port["port"]) == ("http", 8080)
    data = named(manifests, "ConfigMap")["data"]
    assert data.keys() == {"config.yaml"}
    (file := tmp_path / "config.yaml").write_text(data["config.yaml"])
    seen = load(file, [], {})
    assert (seen.listen, seen.adapter.plain_listen, seen.unused) == ((":8080",), None, ())
    assert named(manifests, "NetworkPolicy")["spec"]["ingress"] == [{"ports": [{"port": "http", "protocol": "TCP"}]}]


def test_daemons_are_verified_with_the_authority_of_their_secret(tmp_path: Path) -> None:
    manifests = render({**ADAPTER, "webConfig": {"existingSecret": "web", "caKey": "ca.pem"}})
    (file := tmp_path / "config.yaml").write_text(named(manifests, "ConfigMap")["data"]["config.yaml"])
    exporter = load(file, [], {}).source.exporter
    assert (exporter.server_name, exporter.insecure_skip_verify) == ("gpu-pulsed.monitoring.svc", False)
    spec = named(manifests, "Deployment")["spec"]["template"]["spec"]
    (mount,) = [each for each in spec["containers"][0]["volumeMounts"] if each["name"] == "daemons"]
    (volume,) = [each for each in spec["volumes"] if each["name"] == "daemons"]
    assert exporter.ca_file == f"{mount['mountPath']}/ca.crt"
    assert volume["secret"]["items"] == [{"key": "ca.pem", "path": "ca.crt"}], "not the key of the daemons"


def test_credentials_come_from_a_secret_and_the_pods_survive_what_they_would_block() -> None:
    password = {"name": "password", "secret": {"secretName": "daemons"}}
    mount = {"name": "password", "mountPath": "/etc/daemons"}
    more = {"extraVolumes": [password], "extraVolumeMounts": [mount], "extraEnv": [{"name": "A", "value": "b"}]}
    given = {**ADAPTER["adapter"], **more, "hostNetwork": True}
    spec = named(render({"adapter": given}), "Deployment")["spec"]["template"]["spec"]
    assert password in spec["volumes"]
    assert mount in spec["containers"][0]["volumeMounts"]
    assert spec["containers"][0]["env"] == more["extraEnv"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert spec["priorityClassName"] == "system-cluster-critical", "without it namespaces cannot be deleted"


def test_the_daemons_may_reach_the_urls_of_their_configuration() -> None:
    config = {
        "publish": {"otlp": {"url": "http://collector.monitoring:4318/v1/metrics"}},
        "source": {"exporter": {"http": {"url": "https://lists.example.org:8443/gpus"}}},
        "notify": {"webhook": {"url": "http://hooks.example.org:8080/pulsed"}},
    }
    daemons = named(render({"config": config}), "NetworkPolicy", "gpu-pulsed")["spec"]
    ports = {port["port"] for rule in daemons["egress"] for port in rule["ports"]}
    assert ports >= {4318, 8443, 8080}


def test_the_rendered_adapter_finds_the_rendered_daemons(tmp_path: Path) -> None:
    manifests = render(ADAPTER)
    file = tmp_path / "config.yaml"
    file.write_text(named(manifests, "ConfigMap")["data"]["config.yaml"])
    labels = pod_template(manifests)["metadata"]["labels"]
    document = yaml.safe_load(file.read_text())
    given = document["adapter"]
    del given["serving"]  # its certificate, which `test_serving` has with a real API server
    file.write_text(yaml.safe_dump(document))
    with gpu_cluster(tmp_path, 1) as cluster:
        for pod in [each for each in cluster.fake.pods.values() if each["metadata"]["name"].startswith("pulsed-")]:
            cluster.fake.delete(pod["metadata"]["name"], pod["metadata"]["namespace"])
            pod["metadata"] |= {"labels": labels, "namespace": given["namespaces"][0]}
            cluster.fake.put(pod)
        with adapter(cluster, config=file) as made:
            cluster.scale(1)
            cluster.load(0.5)
            until(lambda: made.pods("gpu_real_utilization") == dict.fromkeys(cluster.pods, 0.5))
