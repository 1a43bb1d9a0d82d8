"""The example values of platforms, and values of the first chart: valid, read as meant, with the least rights."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from pulsed.reader.exporter import ExporterTarget
from tests.system.deploy.chart import CHART, Refused, complaints, container, pod_template, render
from tests.system.deploy.install import KUBERNETES
from tests.system.deploy.test_helm import check_restricted, configured, pods

EXAMPLES = CHART / "examples"
PLATFORMS = ("aks", "eks", "gke", "gpu-operator", "mig", "openshift", "time-slicing")
OLD = Path(__file__).with_name("values-0.1.0.yaml")


def values(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / f"values-{name}.yaml").read_text())
    return found


def test_these_are_all_examples() -> None:
    assert {path.stem.removeprefix("values-") for path in EXAMPLES.glob("values-*.yaml")} == set(PLATFORMS)
    readme = (CHART / "README.md").read_text()
    assert all(f"(examples/values-{name}.yaml)" in readme for name in PLATFORMS)


@pytest.mark.parametrize("kubernetes", KUBERNETES)
@pytest.mark.parametrize("name", PLATFORMS)
def test_an_example_is_valid(name: str, kubernetes: str, tmp_path: Path) -> None:
    manifests = render(values(name))
    assert complaints(manifests, kubernetes) == []
    config = configured(manifests, tmp_path)
    assert (config.source.kind, config.source.exporter.discovery) == ("exporter", "kubernetes")
    assert config.attribution.workloads.enabled


@pytest.mark.parametrize("name", [name for name in PLATFORMS if name not in ("openshift", "time-slicing")])
def test_an_example_passes_the_restricted_standard(name: str) -> None:
    for pod in pods(render(values(name))):
        check_restricted(pod, has_token="restartPolicy" not in pod)


def test_openshift_assigns_users_and_groups() -> None:
    for pod in pods(render(values("openshift"))):
        assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        pod["securityContext"] |= {"runAsUser": 1000680000}
        check_restricted(pod, has_token="restartPolicy" not in pod)


def test_time_slicing_mounts_the_directory_of_the_kubelet_and_nothing_else() -> None:
    manifests = render(values("time-slicing"))
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


def test_all_values_of_the_first_chart_are_read_as_then(tmp_path: Path) -> None:
    manifests = render(yaml.safe_load(OLD.read_text()))
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
    with pytest.raises(Refused, match="without adapter: use `helm upgrade --reset-then-reuse-values`"):
        render({}, chart)
