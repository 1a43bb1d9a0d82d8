"""The examples of autoscaling: valid for Kubernetes and KEDA, and right with the shipped rules in a real Prometheus."""

from __future__ import annotations

import math
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.exporters import Exporter, exporting
from tests.support.prometheus import Prometheus, prometheus
from tests.support.waiting import until
from tests.system.deploy.chart import CHART, Manifest, complaints
from tests.system.deploy.install import KUBERNETES

ROOT = CHART.parents[1]
EXAMPLES = CHART / "examples"
MANIFESTS = ("hpa", "scaledobject")

REQUIRED = {"serverAddress", "query", "threshold"}
OPTIONAL = {
    "activationThreshold", "namespace", "customHeaders", "ignoreNullValues", "queryParameters", "unsafeSsl", "timeout",
    "authModes",
}  # fmt: skip
"""Parameters of KEDA's Prometheus scaler, from its documentation: to its CRD they are any texts."""

SCRAPES = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules.yaml]
scrape_configs: [{{job_name: pulsed, honor_labels: true, static_configs: [{{targets: ["{address}"]}}]}}]
"""

TARGET, TOLERANCE = 0.6, 0.1


def example(name: str) -> Manifest:
    """Return an example."""
    found: Manifest = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    return found


def triggers() -> list[Mapping[str, Any]]:
    """Return the triggers of the ScaledObject."""
    found: list[Mapping[str, Any]] = example("scaledobject")["spec"]["triggers"]
    return found


def test_these_are_all_examples() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.yaml") if not path.stem.startswith("values-")}
    assert names == {*MANIFESTS, "prometheus-adapter-values"}
    readme = (CHART / "README.md").read_text()
    assert all(f"(examples/{name}.yaml)" in readme for name in names)


@pytest.mark.parametrize("kubernetes", KUBERNETES)
@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_are_valid(name: str, kubernetes: str) -> None:
    assert complaints([example(name)], kubernetes) == []


def test_the_judge_of_keda_finds_what_is_wrong() -> None:
    wrong = example("scaledobject")
    wrong["spec"]["minReplicas"] = 1
    assert complaints([wrong], KUBERNETES[-1]) == ["ScaledObject/spec/minReplicas: unknown"]
    wrong = example("scaledobject")
    wrong["spec"]["maxReplicaCount"] = "8"
    assert "maxReplicaCount" in complaints([wrong], KUBERNETES[-1])[0]


def test_triggers_have_documented_parameters() -> None:
    for trigger in triggers():
        assert (trigger["type"], trigger["metricType"]) == ("prometheus", "AverageValue")
        assert REQUIRED <= trigger["metadata"].keys() <= REQUIRED | OPTIONAL
        assert all(isinstance(value, str) for value in trigger["metadata"].values())
        assert float(trigger["metadata"]["threshold"]) == TARGET
        assert trigger["metadata"]["ignoreNullValues"] == "false", "no answer would be 0"


@dataclass
class World:
    """A workload: its replicas by kube-state-metrics, and its pods with the values of their GPUs.

    Attributes:
        replicas: None without kube-state-metrics.
        pods: by pod the value of each of its GPUs, None of a GPU without one; a silent pod is absent.
        copies: instances of kube-state-metrics.
        is_split: whether the GPUs of a pod are MIG instances.
        scale: what the rules shall give; None for no answer.
        wanted: the replicas that an autoscaler shall ask for; None if it has no metric.
    """

    replicas: int | None
    pods: Mapping[str, list[float | None]]
    scale: float | None
    wanted: int | None
    kind: str = "Deployment"
    copies: int = 1
    is_split: bool = False
    others: Mapping[str, list[float | None]] = field(default_factory=dict)

    def page(self, namespace: str) -> Iterator[str]:
        """Yield the samples of daemons and kube-state-metrics."""
        yield self.history(namespace)
        if self.replicas is not None:
            kind = self.kind.lower()
            for copy in range(self.copies):
                labels = f'namespace="{namespace}",{kind}="infer",instance="{copy}"'
                yield f"kube_{kind}_status_replicas{{{labels}}} {self.replicas}"
        gpu = 0
        for workload, pods in (("infer", self.pods), ("other", self.others)):
            for pod, values in pods.items():
                for value in values:
                    gpu += 1
                    of_gpu = f'node="{namespace}",gpu="{gpu}",uuid="GPU-{gpu}"'
                    if self.is_split:
                        of_gpu = f'node="{namespace}",gpu="0",uuid="GPU-0",mig_id="{gpu}"'
                    owner = f'namespace="{namespace}",pod="{pod}",container="c",workload="{workload}"'
                    owner += f',workload_kind="{self.kind}"'
                    yield f'pulsed_gpu_owner_info{{{of_gpu},kind="pod",{owner}}} 1'
                    if value is not None:
                        for name in ("real_utilization", "saturation"):
                            yield f"pulsed_gpu_{name}_ratio{{{of_gpu}}} {value}"

    def history(self, namespace: str) -> str:
        """Return the sample of a daemon that had a pod of the workload."""
        labels = f'namespace="{namespace}",workload="infer",workload_kind="{self.kind}"'
        return f"pulsed_workload_pods{{{labels}}} 1"


def pods(*values: float | None) -> dict[str, list[float | None]]:
    """Return pods with a GPU each."""
    return {f"infer-{number}": [value] for number, value in enumerate(values)}


WORLDS: Mapping[str, World] = {
    "all busy": World(4, pods(0.9, 0.9, 0.9, 0.9), 3.6, 6),
    "one silent, others busy": World(4, pods(0.9, 0.9, 0.9), 2.7, 5),
    "one silent, others little used": World(4, pods(0.2, 0.2, 0.2), 1.6, 3),
    "two silent, two idle": World(4, pods(0, 0), 2.0, 4),
    "all silent": World(4, {}, 2.4, 4),
    "no pods": World(0, {}, 0, 0),
    "rollout, the new pod silent": World(5, pods(0.9, 0.9, 0.9, 0.9), 3.6, 6),
    "rollout, new pods little used": World(5, pods(0.9, 0.9, 0.1, 0.1, 0.1), 2.1, 4),
    "half of the pods pending, others full": World(8, pods(1, 1, 1, 1), 4.8, 8),
    "half of the pods pending, others little used": World(8, pods(0.2, 0.2, 0.2, 0.2), 4.8, 8),
    "woken": World(1, {}, 0.6, 1),
    "idle": World(1, pods(0), 0, 0),
    "no kube-state-metrics": World(None, pods(0.9), None, None),
    # besides
    "half-known pod of a StatefulSet": World(1, {"infer-0": [0.1, None]}, 0.6, 1, "StatefulSet"),
    "MIG": World(2, {"a": [0.9, 0.9], "b": [0.8, 0.8]}, 1.7, 3, is_split=True),
    "two kube-state-metrics": World(2, pods(0.9, 0.9), 1.8, 3, copies=2),
    "two pods of a GPU that another workload uses": World(2, pods(0.9, 0.9), 1.8, 3, others=pods(0.1)),
}


def namespace_of(name: str) -> str:
    return re.sub(r"\W+", "-", name).lower()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """All worlds, each in a namespace, in one Prometheus with the shipped rules."""
    folder: Path = tmp_path_factory.mktemp("worlds")
    rules = (ROOT / "deploy/prometheus/rules/pulsed.yaml").read_text()
    assert "interval: 15s" in rules
    (folder / "rules.yaml").write_text(re.sub(r"interval: \w+", "interval: 1s", rules))
    worlds = {namespace_of(name): world for name, world in WORLDS.items()}
    page = Exporter("\n".join([*(world.history(name) for name, world in worlds.items()), ""]))
    with exporting({"metrics": page}) as url:
        config = SCRAPES.format(address=urllib.parse.urlsplit(url).netloc)
        with prometheus(folder, config) as server:
            server.wait_for(f"count(workload:pulsed_pods:sum) == {len(worlds)}")
            page.body = "\n".join([*(line for name, world in worlds.items() for line in world.page(name)), ""])
            lines = sum(world.scale is not None for world in worlds.values())
            server.wait_for(f"count(workload:pulsed_saturation_ratio:scale) == {lines}")
            known = {name for name, world in worlds.items() if world.pods and world.scale is not None}
            until(
                lambda: (
                    {
                        series["metric"]["namespace"]
                        for series in server.ask("count by (namespace) (pod:pulsed_saturation_ratio:mean)")
                    }
                    >= known - {namespace_of("half-known pod of a StatefulSet")}
                )
            )
            yield server


def replicas(value: float, current: int, target: float) -> int:
    """Return the replicas of the HorizontalPodAutoscaler for an AverageValue of an Object or External metric.

    https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details; at 0 replicas KEDA
    asks whether the value exceeds the activation threshold.
    """
    if current and abs(1 - value / (target * current)) <= TOLERANCE:
        return current
    return math.ceil(round(value / target, 6))


def answer(server: Prometheus, query: str) -> float | None:
    """Return the only value of a query; None without an answer."""
    found = server.ask(query)
    assert len(found) <= 1, "an autoscaler takes one value"
    return float(found[0]["value"][1]) if found else None


def check(server: Prometheus, query: str, world: World, target: float) -> None:
    """Check the value of a query once the rules are evaluated, and the replicas that it asks for."""
    if world.scale is None:
        assert answer(server, query) is None
        return
    until(lambda: answer(server, query) == pytest.approx(world.scale, abs=1e-6))
    value = answer(server, query)
    assert value is not None
    assert world.replicas is not None
    assert replicas(value, world.replicas, target) == world.wanted


def keda_queries(name: str) -> list[str]:
    """Return the queries of the ScaledObject for a world."""
    return [
        trigger["metadata"]["query"]
        .replace('namespace="ml"', f'namespace="{namespace_of(name)}"')
        .replace('"Deployment"', f'"{WORLDS[name].kind}"')
        for trigger in triggers()
    ]


@pytest.mark.parametrize("name", WORLDS)
def test_keda_asks_for_the_right_replicas(server: Prometheus, name: str) -> None:
    for query in keda_queries(name):
        check(server, query, WORLDS[name], TARGET)


def test_an_idle_workload_is_inactive_and_others_are_not(server: Prometheus) -> None:
    activation = float(triggers()[0]["metadata"]["activationThreshold"])
    active = {name: [(answer(server, query) or 0) > activation for query in keda_queries(name)] for name in WORLDS}
    inactive = {name for name, each in active.items() if not any(each)}
    assert inactive == {"no pods", "idle", "no kube-state-metrics"}


def adapter_rules(kind: str) -> Mapping[str, Any]:
    """Return the rule of prometheus-adapter for a kind of workload."""
    rules = example("prometheus-adapter-values")["rules"]["custom"]
    (found,) = (rule for rule in rules if f'workload_kind="{kind}"' in rule["seriesQuery"])
    assert found["resources"]["overrides"]["workload"] == {"group": "apps", "resource": kind.lower()}
    return dict(found)


def adapter_query(rule: Mapping[str, Any], metric: str, namespace: str, workload: str) -> str:
    """Return the query that prometheus-adapter makes of a rule for a metric of an object."""
    pattern = rule["name"]["matches"]
    (series,) = (
        each
        for each in ("workload:pulsed_real_utilization_ratio:scale", "workload:pulsed_saturation_ratio:scale")
        if re.sub(pattern, rule["name"]["as"].replace("${1}", r"\1"), each) == metric
    )
    parts = {
        "<<.Series>>": series,
        "<<.LabelMatchers>>": f'namespace="{namespace}",workload="{workload}"',
        "<<.GroupBy>>": "workload",
    }
    query = str(rule["metricsQuery"])
    for placeholder, part in parts.items():
        query = query.replace(placeholder, part)
    assert "<<" not in query
    return query


@pytest.mark.parametrize("name", WORLDS)
def test_prometheus_adapter_and_keda_agree(server: Prometheus, name: str) -> None:
    world = WORLDS[name]
    (metric,) = example("hpa")["spec"]["metrics"]
    target = metric["object"]["target"]
    assert (target["type"], target["averageValue"]) == ("AverageValue", "600m")
    described = metric["object"]["describedObject"]["name"]
    rule = adapter_rules(world.kind)
    query = adapter_query(rule, metric["object"]["metric"]["name"], namespace_of(name), described)
    check(server, query, world, TARGET)
    if world.scale is not None:
        found = server.ask(f"group by (namespace) ({rule['seriesQuery']})")
        assert namespace_of(name) in {series["metric"]["namespace"] for series in found}
