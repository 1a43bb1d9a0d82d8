"""The real API server of the tests is the same for each of them, whatever the last one left."""

from __future__ import annotations

from tests.support.kubernetes.fake_api_server import pod
from tests.support.kubernetes.real_api_server import APISERVICES, RealApiServer
from tests.support.waiting import until

GROUP = "custom.metrics.k8s.io"


def discovered(real: RealApiServer) -> set[str]:
    """Return the groups that the server has."""
    return {group["name"] for group in real.done("/apis")["groups"]}


def test_nothing_is_left_of_a_test(real: RealApiServer) -> None:
    before = discovered(real)
    owner = real.put_object("apps/v1", "deployments", "web")
    real.put_object("ray.io/v1", "rayclusters", "ray")
    real.put_object("batch/v1", "jobs", "train")
    real.put(pod("web-1", namespace="ml", owner=owner))
    scaler = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 2}
    autoscalers = "/apis/autoscaling/v1/namespaces/ml/horizontalpodautoscalers"
    real.done(autoscalers, {"metadata": {"name": "web"}, "spec": scaler})
    service = {"name": "metrics", "namespace": "ml", "port": 443}
    spec = {"type": "ExternalName", "externalName": "localhost"}
    real.done("/api/v1/namespaces/ml/services", {"metadata": {"name": "metrics"}, "spec": spec})
    registered = {"group": GROUP, "version": "v1beta2", "groupPriorityMinimum": 100, "versionPriority": 100}
    aggregated = {**registered, "service": service, "insecureSkipTLSVerify": True}
    real.done(APISERVICES, {"metadata": {"name": f"v1beta2.{GROUP}"}, "spec": aggregated})
    until(lambda: discovered(real) == before | {GROUP, "ray.io"})
    real.clear()
    until(lambda: discovered(real) == before | {"ray.io"})  # the list of groups follows
    kinds = (
        "/apis/apps/v1/deployments",
        "/apis/batch/v1/jobs",
        "/apis/ray.io/v1/rayclusters",
        "/api/v1/pods",
        autoscalers,
    )
    assert [real.done(kind)["items"] for kind in kinds] == [[], [], [], [], []]
    assert [each["metadata"]["name"] for each in real.done("/api/v1/services")["items"]] == ["kubernetes"]
