"""The examples of autoscaling: valid for Kubernetes and KEDA, and right with the shipped rules in a real Prometheus."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from tests.support.nightly import nightly_after
from tests.support.prometheus import Prometheus
from tests.support.waiting import until
from tests.system.deploy.chart import CHART, complaints
from tests.system.deploy.install import KUBERNETES
from tests.system.deploy.worlds import (
    EXAMPLES,
    TARGET,
    WORLDS,
    World,
    adapter_query,
    adapter_rules,
    example,
    keda_queries,
    namespace_of,
    prometheus_of_worlds,
    triggers,
)

MANIFESTS = ("hpa", "scaledobject")

REQUIRED = {"serverAddress", "query", "threshold"}
OPTIONAL = {
    "activationThreshold", "namespace", "customHeaders", "ignoreNullValues", "queryParameters", "unsafeSsl", "timeout",
    "authModes",
}  # fmt: skip
"""Parameters of KEDA's Prometheus scaler, from its documentation: to its CRD they are any texts."""

TOLERANCE = 0.1


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with prometheus_of_worlds(tmp_path_factory.mktemp("worlds")) as server:
        yield server


def test_these_are_all_examples() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.yaml") if not path.stem.startswith("values-")}
    assert names == {*MANIFESTS, "prometheus-adapter-values"}
    readme = (CHART / "README.md").read_text()
    assert all(f"(examples/{name}.yaml)" in readme for name in names)


@pytest.mark.parametrize("kubernetes", nightly_after(1, KUBERNETES[::-1]))
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


@pytest.mark.parametrize("name", WORLDS)
def test_keda_asks_for_the_right_replicas(server: Prometheus, name: str) -> None:
    for query in keda_queries(name):
        check(server, query, WORLDS[name], TARGET)


def test_an_idle_workload_is_inactive_and_others_are_not(server: Prometheus) -> None:
    activation = float(triggers()[0]["metadata"]["activationThreshold"])
    active = {name: [(answer(server, query) or 0) > activation for query in keda_queries(name)] for name in WORLDS}
    inactive = {name for name, each in active.items() if not any(each)}
    assert inactive == {"no pods", "idle", "no kube-state-metrics"}


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
