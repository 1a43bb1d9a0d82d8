"""The HPA controller of a real kube-controller-manager, with the metrics of the examples' queries.

The test answers as the metrics servers of KEDA (External) and of prometheus-adapter (Object) do.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificates import make
from tests.support.http_servers import QuietHandler, running
from tests.support.kubernetes.real_api_server import APISERVICES, RealApiServer
from tests.support.prometheus import Prometheus
from tests.support.waiting import until
from tests.system.deploy.worlds import (
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

CONTROLLERS = (
    "--controllers=horizontalpodautoscaling",
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-downscale-stabilization=1s",
    "--kube-api-qps=200",
    "--kube-api-burst=400",
)
SERVICE = {"name": "metrics", "namespace": "default"}
METRICS = ("custom.metrics.k8s.io/v1beta2", "external.metrics.k8s.io/v1beta1")
EXTERNAL = re.compile(r"/apis/external\.metrics\.k8s\.io/v1beta1/namespaces/([^/]+)/s(\d)-prometheus")
OBJECT = re.compile(r"/apis/custom\.metrics\.k8s\.io/v1beta2/namespaces/([^/]+)/(\w+)\.apps/([^/]+)/(\w+)")
AT = "2026-01-01T00:00:00Z"

RECIPES = ("keda", "infer")
"""Names of the scaled workloads: by a HorizontalPodAutoscaler as KEDA makes one, and by that of the example."""

REPLICAS_WITHOUT_METRICS = 4

SCALED = {name: world for name, world in WORLDS.items() if world.replicas != 0}
"""At 0 replicas the controller does nothing: KEDA wakes a workload."""


@contextlib.contextmanager
def metrics_server(folder: Path, prometheus: Prometheus) -> Iterator[int]:
    """Answer the metrics APIs by the examples' queries; yield the port."""
    names = {namespace_of(name): name for name in WORLDS}

    def external(namespace: str, number: str) -> list[dict[str, object]]:
        query = keda_queries(names[namespace])[int(number)]
        return [{"metricName": f"s{number}-prometheus", "timestamp": AT, "value": value} for value in ask(query)]

    def of_object(namespace: str, plural: str, name: str, metric: str) -> list[dict[str, object]]:
        kind = WORLDS[names[namespace]].kind
        assert plural == f"{kind.lower()}s"
        query = adapter_query(adapter_rules(kind), metric, namespace, name)
        described = {"kind": kind, "namespace": namespace, "name": name, "apiVersion": "apps/v1"}
        rest = {"describedObject": described, "metric": {"name": metric}, "timestamp": AT}
        return [{**rest, "value": value} for value in ask(query)]

    def ask(query: str) -> list[str]:
        return [f"{round(1000 * float(found['value'][1]))}m" for found in prometheus.ask(query)]

    answers: Mapping[re.Pattern[str], tuple[str, Callable[..., list[dict[str, object]]]]] = {
        EXTERNAL: ("ExternalMetricValueList", external),
        OBJECT: ("MetricValueList", of_object),
    }

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            version = "/".join(path.split("/")[2:4])
            document: dict[str, object] = {"kind": "APIResourceList", "groupVersion": version, "resources": []}
            for pattern, (kind, answer) in answers.items():
                if match := pattern.fullmatch(path):
                    items = answer(*match.groups())
                    document = {"kind": kind, "apiVersion": version, "metadata": {}, "items": items}
            body = json.dumps(document).encode()
            # Both metrics servers answer with an error if a query has no result.
            self.send_response(500 if document.get("items") == [] else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make("localhost").write(folder, "metrics"))
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with running(server):
        yield server.server_port


def register(real: RealApiServer, port: int) -> None:
    """Have the API server pass the metrics APIs on to a port of this machine."""
    spec = {"type": "ExternalName", "externalName": "localhost"}
    real.done("/api/v1/namespaces/default/services", {"metadata": {"name": SERVICE["name"]}, "spec": spec})
    for group, version in (each.split("/") for each in METRICS):
        registered = {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100}
        aggregated = {**registered, "service": {**SERVICE, "port": port}, "insecureSkipTLSVerify": True}
        real.done(APISERVICES, {"metadata": {"name": f"{version}.{group}"}, "spec": aggregated})
    until(lambda: all(real.request(f"/apis/{each}")[0] == 200 for each in METRICS))


def autoscalers(world: World) -> dict[str, dict[str, Any]]:
    """Return the specification of each recipe's HorizontalPodAutoscaler."""
    scaled = example("scaledobject")["spec"]
    metrics = [
        {
            "type": "External",
            "external": {
                "metric": {"name": f"s{number}-prometheus"},
                "target": {"type": trigger["metricType"], "averageValue": trigger["metadata"]["threshold"]},
            },
        }
        for number, trigger in enumerate(triggers())
    ]
    keda = {"minReplicas": scaled["minReplicaCount"], "maxReplicas": scaled["maxReplicaCount"], "metrics": metrics}
    infer: dict[str, Any] = example("hpa")["spec"]
    infer["metrics"][0]["object"]["describedObject"]["kind"] = world.kind
    target = {"apiVersion": "apps/v1", "kind": world.kind}
    found = {"keda": keda, "infer": infer}
    return {name: {**found[name], "scaleTargetRef": {**target, "name": name}} for name in RECIPES}


def deploy(real: RealApiServer, name: str, world: World) -> None:
    """Create the workloads of a world with their replicas, and the autoscalers."""
    namespace, plural = namespace_of(name), f"{world.kind.lower()}s"
    real.need_namespace(namespace)
    replicas = world.replicas or REPLICAS_WITHOUT_METRICS
    for workload, autoscaler in autoscalers(world).items():
        labels = {"app": workload}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "server", "image": "server"}]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        if world.kind == "StatefulSet":
            spec["serviceName"] = workload
        path = f"/apis/apps/v1/namespaces/{namespace}/{plural}"
        real.done(path, {"metadata": {"name": workload}, "spec": spec})
        # No controller runs that would do so.
        real.patched(f"{path}/{workload}/status", {"status": {"replicas": replicas}})
        path = f"/apis/autoscaling/v2beta2/namespaces/{namespace}/horizontalpodautoscalers"
        real.done(path, {"metadata": {"name": workload}, "spec": autoscaler})


@pytest.fixture(scope="module")
def deployed(running_api_server: RealApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealApiServer]:
    """All worlds in one Prometheus and on one API server, with the controller."""
    real, folder = running_api_server, tmp_path_factory.mktemp("autoscaling")
    real.clear()
    with prometheus_of_worlds(folder) as prometheus, metrics_server(folder, prometheus) as port:
        register(real, port)
        for name, world in SCALED.items():
            deploy(real, name, world)
        with real.controllers(*CONTROLLERS):
            yield real
        real.clear()


def status(real: RealApiServer, name: str, workload: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the status of an autoscaler, and its conditions by their type."""
    path = f"/apis/autoscaling/v2beta2/namespaces/{namespace_of(name)}/horizontalpodautoscalers/{workload}"
    found: dict[str, Any] = real.done(path).get("status", {})
    return found, {each["type"]: each for each in found.get("conditions") or ()}


def replicas(real: RealApiServer, name: str, workload: str) -> int:
    """Return the replicas that a workload shall have."""
    plural = f"{WORLDS[name].kind.lower()}s"
    spec = real.done(f"/apis/apps/v1/namespaces/{namespace_of(name)}/{plural}/{workload}")["spec"]
    return int(spec["replicas"])


def milli(quantity: str) -> int:
    """Return thousandths of a quantity."""
    return int(quantity[:-1]) if quantity.endswith("m") else 1000 * int(quantity)


def decided(real: RealApiServer, name: str, workload: str) -> tuple[object, ...]:
    """Return whether an autoscaler has metrics, the averages that it read, and the replicas that it set."""
    found, conditions = status(real, name, workload)
    metrics = [each for each in found.get("currentMetrics") or () if each["type"]]
    averages = {milli(each[each["type"].lower()]["current"]["averageValue"]) for each in metrics}
    return conditions.get("ScalingActive", {}).get("status"), averages, replicas(real, name, workload)


def expected(world: World) -> tuple[object, ...]:
    """Return the same as the table of worlds has it."""
    if world.wanted is None or world.scale is None or world.replicas is None:
        return "False", set[int](), REPLICAS_WITHOUT_METRICS
    # KEDA removes the last replica.
    return "True", {math.ceil(1000 * world.scale / world.replicas)}, max(world.wanted, 1)


@pytest.mark.slow
@pytest.mark.parametrize("workload", RECIPES)
def test_the_controller_asks_for_the_right_replicas(deployed: RealApiServer, workload: str) -> None:
    wanted = {name: expected(world) for name, world in SCALED.items()}

    def found() -> dict[str, tuple[object, ...]]:
        return {name: decided(deployed, name, workload) for name in SCALED}

    with contextlib.suppress(AssertionError):
        until(lambda: found() == wanted)
    assert found() == wanted
