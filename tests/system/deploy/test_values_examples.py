"""The example values of platforms, and values of the first chart: valid, read as meant, with the least rights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from pulsed.reader.exporter import ExporterTarget
from tests.support.nightly import nightly_after
from tests.system.deploy.cases import MONITORS
from tests.system.deploy.chart import CHART, Refused, complaints, container, only, pod_template, render
from tests.system.deploy.install import KUBERNETES
from tests.system.deploy.test_helm import check_restricted, configured, pods, removed_values

EXAMPLES = CHART / "examples"
PLATFORMS = (
    "aks", "aks-managed", "argocd", "azure-monitor", "datadog", "eks", "gke", "gke-autopilot", "google-prometheus",
    "gpu-operator", "mig", "openshift", "rancher", "time-slicing", "victoria-metrics",
)  # fmt: skip
OLD = Path(__file__).with_name("values-0.1.0.yaml")


def values(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / f"values-{name}.yaml").read_text())
    return found


def test_these_are_all_examples() -> None:
    assert {path.stem.removeprefix("values-") for path in EXAMPLES.glob("values-*.yaml")} == set(PLATFORMS)
    readme = (CHART / "README.md").read_text()
    assert all(f"(examples/values-{name}.yaml)" in readme for name in PLATFORMS)


@pytest.mark.parametrize("kubernetes", nightly_after(1, KUBERNETES[::-1]))
@pytest.mark.parametrize("name", PLATFORMS)
def test_an_example_is_valid(name: str, kubernetes: str, tmp_path: Path) -> None:
    manifests = render(values(name))
    assert complaints(manifests, kubernetes) == []
    config = configured(manifests, tmp_path)
    discovery = "static" if name == "aks-managed" else "kubernetes"
    assert (config.source.kind, config.source.exporter.discovery) == ("exporter", discovery)
    assert config.attribution.workloads.enabled
    assert render(values(name)) == manifests


@pytest.mark.parametrize(
    "name", [name for name in PLATFORMS if name not in ("openshift", "time-slicing", "aks-managed")]
)
def test_an_example_passes_the_restricted_standard(name: str) -> None:
    for pod in pods(render(values(name))):
        check_restricted(pod, has_token="restartPolicy" not in pod)


def test_openshift_assigns_users_and_groups() -> None:
    for pod in pods(render(values("openshift"))):
        assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        pod["securityContext"] |= {"runAsUser": 1000680000}
        check_restricted(pod, has_token="restartPolicy" not in pod)


@pytest.mark.parametrize("name", ["time-slicing", "aks-managed"])
def test_the_directory_of_the_kubelet_is_mounted_and_nothing_else(name: str) -> None:
    manifests = render(values(name))
    (pod,) = (pod for pod in pods(manifests) if "restartPolicy" not in pod)
    (volume,) = (volume for volume in pod["volumes"] if "hostPath" in volume)
    assert volume["hostPath"] == {"path": "/var/lib/kubelet/pod-resources", "type": "Directory"}
    assert container(manifests)["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("gke", {"cloud.google.com/gke-accelerator": "nvidia-l4"}),
        ("eks", {"k8s.amazonaws.com/accelerator": "nvidia-a10g"}),
        ("eks", {"eks.amazonaws.com/instance-gpu-manufacturer": "nvidia"}),
        ("eks", {"karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia"}),
        ("aks", {"kubernetes.azure.com/accelerator": "nvidia"}),
        ("aks", {"karpenter.azure.com/sku-gpu-manufacturer": "nvidia"}),
        ("openshift", {"feature.node.kubernetes.io/pci-10de.present": "true"}),
        ("gpu-operator", {"nvidia.com/gpu.present": "true"}),
    ],
)
def test_the_nodes_of_a_platform_are_selected(name: str, labels: dict[str, str]) -> None:
    spec = pod_template(render(values(name)))["spec"]
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms = [term["matchExpressions"][0] for term in required["nodeSelectorTerms"]]
    matching = [
        term
        for term in terms
        if term["key"] in labels and (term["operator"] == "Exists" or labels[term["key"]] in term["values"])
    ]
    assert len(matching) == 1
    assert spec["tolerations"] == [{"operator": "Exists"}], "clouds, teams and Karpenter have taints of their own"


def test_autopilot_gets_no_pod_that_selects_or_tolerates_gpu_nodes(tmp_path: Path) -> None:
    """Autopilot refuses such DaemonSets, and tolerations of GPUs without a request of them."""
    manifests = render(values("gke-autopilot"))
    for pod in pods(manifests):
        assert not {"tolerations", "nodeSelector"} & pod.keys()
        assert "nodeAffinity" not in pod.get("affinity", {})
    assert configured(manifests, tmp_path).source.exporter.kubernetes.nodes == "all"


def test_owners_keep_their_namespace_with_google_managed_prometheus() -> None:
    """Without an empty list the labels of pulsed's pod replace those of owners."""
    (monitoring,) = [each for each in render(values("google-prometheus")) if each["kind"] == "ClusterPodMonitoring"]
    assert monitoring["spec"]["targetLabels"] == {"metadata": []}
    labels = pod_template(render(values("google-prometheus")))["metadata"]["labels"].items()
    assert monitoring["spec"]["selector"]["matchLabels"].items() <= labels


def test_azure_has_monitors_of_its_own_with_limits() -> None:
    monitor = only(render(values("azure-monitor")), "PodMonitor")
    assert monitor["apiVersion"] == "azmonitoring.coreos.com/v1"
    spec = monitor["spec"]
    assert (spec["labelLimit"], spec["labelNameLengthLimit"], spec["labelValueLengthLimit"]) == (63, 511, 1023)


def test_victoria_metrics_scrapes_as_the_monitors_do() -> None:
    (scrape,) = [each for each in render(values("victoria-metrics")) if each["kind"] == "VMPodScrape"]
    (endpoint,) = scrape["spec"]["podMetricsEndpoints"]
    (other,) = only(render(MONITORS["PodMonitor"]), "PodMonitor")["spec"]["podMetricsEndpoints"]
    *kept, dropped = other["relabelings"]
    assert endpoint["relabelConfigs"][:-1] == kept
    assert set(endpoint["relabelConfigs"][-1]["regex"].split("|")) < set(dropped["regex"].split("|"))
    assert (endpoint["honorLabels"], endpoint["port"]) == (other["honorLabels"], other["port"])


def test_the_check_of_datadog_reads_the_page() -> None:
    template = pod_template(render(values("datadog")))
    ((name, text),) = [each for each in template["metadata"]["annotations"].items() if "datadoghq" in each[0]]
    (one,) = template["spec"]["containers"]
    assert name == f"ad.datadoghq.com/{one['name']}.checks"
    check = json.loads(text)["openmetrics"]
    assert check["ignore_autodiscovery_tags"] is True
    (instance,) = check["instances"]
    assert f":{one['ports'][0]['containerPort']}/metrics" in instance["openmetrics_endpoint"]


def old_values() -> dict[str, Any]:
    """Return all values of the first chart that this one has."""
    found: dict[str, Any] = yaml.safe_load(OLD.read_text())
    for path in removed_values():
        *sections, name = path.split(".")
        section = found
        for each in sections:
            section = section.get(each, {})
        section.pop(name, None)
    return found


def test_all_values_of_the_first_chart_are_read_as_then(tmp_path: Path) -> None:
    manifests = render(old_values())
    assert complaints(manifests, KUBERNETES[-1]) == []
    config = configured(manifests, tmp_path)
    assert config.source.exporter.targets == (ExporterTarget("http://10.0.0.7:9400/metrics"),)
    assert not any("Role" in manifest["kind"] for manifest in manifests)
    for pod in pods(manifests):
        check_restricted(pod)


def test_reused_values_of_the_first_chart_have_a_remedy(tmp_path: Path) -> None:
    """As with `helm upgrade --reuse-values`, which knows no default of the new chart."""
    chart = tmp_path / "pulsed"
    shutil.copytree(CHART, chart)
    shutil.copy(OLD, chart / "values.yaml")
    with pytest.raises(Refused, match="without attribution: use `helm upgrade --reset-then-reuse-values`"):
        render({}, chart)
