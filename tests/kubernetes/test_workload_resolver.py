"""From pods to workloads, against an API server over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pulsed.kubernetes.api_client import AccessDenied, ApiClient, KubernetesError, ResourceNotFound
from pulsed.kubernetes.objects import PodMetadata, parse_kind, pod_metadata
from pulsed.kubernetes.workload_resolver import MISSING_SECONDS, RENEWAL_SECONDS, WorkloadReference, WorkloadResolver
from tests.support.clocks import ManualClock
from tests.support.kubernetes.exchanges import access_to
from tests.support.kubernetes.fake_api_server import FakeApiServer, pod, reference
from tests.support.waiting import SECONDS

WEB = reference("apps/v1", "ReplicaSet", "web-7d4")
BATCH = reference("batch/v1", "Job", "batch-1")
KINDS = tuple(
    map(
        parse_kind,
        (
            "StatefulSet.apps",
            "JobSet.jobset.x-k8s.io",
            "PyTorchJob.kubeflow.org",
            "RayCluster.ray.io",
            "RayJob.ray.io",
            "LeaderWorkerSet.leaderworkerset.x-k8s.io",
            "Rollout.argoproj.io",
            "TrainJob.trainer.kubeflow.org",
        ),
    )
)


class Resolving:
    """A resolver of the server; `top` resolves a pod of a controller."""

    def __init__(self, server: FakeApiServer, kinds: Sequence[Any] = ()) -> None:
        self.clock, self.server = ManualClock(), server
        self.client = ApiClient(access_to(server), timeout=SECONDS)
        self.resolver = WorkloadResolver(self.client, kinds, self.clock)

    async def top(self, owner: object, name: str = "p") -> WorkloadReference:
        return await self.resolver.resolve(read(name, owner))

    async def __aenter__(self) -> Resolving:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.client.close()

    def requested(self) -> list[str]:
        return [request.path.rsplit("/", 2)[1] for request in self.server.requests]


def read(name: str, owner: object) -> PodMetadata:
    return pod_metadata(pod(name, namespace="ml", owner=owner, labels={}), lambda label: True)


def put_replica_set(server: FakeApiServer, owner: object = None, **more: Any) -> None:
    server.put_object("apps/v1", "replicasets", "web-7d4", owner, **more)


@pytest.mark.parametrize(
    ("owner", "above", "workload", "requests"),
    [
        (None, None, WorkloadReference("Pod", "p"), []),
        (WEB, reference("apps/v1", "Deployment", "web"), WorkloadReference("Deployment", "web"), ["replicasets"]),
        (WEB, None, WorkloadReference("ReplicaSet", "web-7d4"), ["replicasets"]),
        (WEB, reference("x.io/v1", "Deployment", "web"), WorkloadReference("ReplicaSet", "web-7d4"), ["replicasets"]),
        (
            WEB,
            reference("apps/v1", "Deployment", "web", False),
            WorkloadReference("ReplicaSet", "web-7d4"),
            ["replicasets"],
        ),
        (
            WEB,
            reference("argoproj.io/v1alpha1", "Rollout", "web"),
            WorkloadReference("Rollout", "web"),
            ["replicasets"],
        ),
        (reference("apps/v1", "StatefulSet", "db"), None, WorkloadReference("StatefulSet", "db"), []),
        (reference("apps/v1", "DaemonSet", "agent"), None, WorkloadReference("DaemonSet", "agent"), []),
        (BATCH, reference("batch/v1", "CronJob", "nightly"), WorkloadReference("CronJob", "nightly"), ["jobs"]),
        (BATCH, None, WorkloadReference("Job", "batch-1"), ["jobs"]),
        (BATCH, reference("jobset.x-k8s.io/v1alpha2", "JobSet", "s"), WorkloadReference("Job", "batch-1"), ["jobs"]),
        (reference("kubeflow.org/v1", "PyTorchJob", "t"), None, WorkloadReference("PyTorchJob", "t"), []),
        (reference("x.io/v1", "Job", "other"), None, WorkloadReference("Job", "other"), []),
        (reference("v1", "Node", "node-a"), None, WorkloadReference("Node", "node-a"), []),
    ],
)
async def test_a_pod_has_the_workload_of_its_controller(
    server: FakeApiServer, owner: Any, above: object, workload: WorkloadReference, requests: list[str]
) -> None:
    put_replica_set(server, above)
    server.put_object("batch/v1", "jobs", "batch-1", above)
    async with Resolving(server) as resolving:
        assert await resolving.top(owner) == workload
        assert resolving.requested() == requests


@pytest.mark.parametrize(
    ("owner", "workload", "requests"),
    [
        (BATCH, WorkloadReference("TrainJob", "train"), ["jobs", "jobsets", "trainjobs"]),
        (reference("ray.io/v1", "RayCluster", "ray-x"), WorkloadReference("RayJob", "ray"), ["rayclusters", "rayjobs"]),
        (reference("kubeflow.org/v1", "PyTorchJob", "gone"), WorkloadReference("PyTorchJob", "gone"), ["pytorchjobs"]),
        (
            reference("apps/v1", "StatefulSet", "lws-0"),
            WorkloadReference("LeaderWorkerSet", "lws"),
            ["statefulsets", "pods", "statefulsets", "leaderworkersets"],
        ),
    ],
)
async def test_further_kinds_are_followed(
    server: FakeApiServer, owner: Any, workload: WorkloadReference, requests: list[str]
) -> None:
    server.put_object("batch/v1", "jobs", "batch-1", reference("jobset.x-k8s.io/v1alpha2", "JobSet", "set"))
    train = reference("trainer.kubeflow.org/v1alpha1", "TrainJob", "train")
    server.put_object("jobset.x-k8s.io/v1alpha2", "jobsets", "set", train)
    server.put_object("trainer.kubeflow.org/v1alpha1", "trainjobs", "train")
    server.put_object("ray.io/v1", "rayclusters", "ray-x", reference("ray.io/v1", "RayJob", "ray"))
    server.put_object("apps/v1", "statefulsets", "lws-0", reference("v1", "Pod", "leader"))
    server.put(pod("leader", namespace="ml", owner=reference("apps/v1", "StatefulSet", "lws")))
    group = reference("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "lws")
    server.put_object("apps/v1", "statefulsets", "lws", {**group, "uid": ""})
    async with Resolving(server, KINDS) as resolving:
        assert await resolving.top(owner) == workload
        assert resolving.requested() == requests


async def test_a_pod_of_a_replica_set_that_is_gone_is_its_own_workload(server: FakeApiServer) -> None:
    async with Resolving(server) as resolving:
        assert await resolving.top(WEB) == WorkloadReference("Pod", "p")
        assert await resolving.top(WEB, "q") == WorkloadReference("Pod", "q")
        assert len(server.requests) == 1
        resolving.clock.now += MISSING_SECONDS
        put_replica_set(server)
        assert await resolving.top(WEB) == WorkloadReference("ReplicaSet", "web-7d4")


async def test_another_object_with_the_name_does_not_count(server: FakeApiServer) -> None:
    put_replica_set(server, reference("apps/v1", "Deployment", "web"), uid="newer")
    async with Resolving(server) as resolving:
        assert await resolving.top(WEB) == WorkloadReference("Pod", "p")
        assert await resolving.top({**WEB, "uid": "newer"}) == WorkloadReference("Deployment", "web")


async def test_an_object_is_requested_once_until_its_time_is_over(server: FakeApiServer) -> None:
    put_replica_set(server, reference("apps/v1", "Deployment", "web"))
    async with Resolving(server) as resolving:
        found = await asyncio.gather(*(resolving.top(WEB, f"p{number}") for number in range(50)))
        assert set(found) == {WorkloadReference("Deployment", "web")}
        assert len(server.requests) == 1
        resolving.clock.now += RENEWAL_SECONDS
        put_replica_set(server, reference("apps/v1", "Deployment", "adopted"))
        assert await resolving.top(WEB) == WorkloadReference("Deployment", "adopted")


@pytest.mark.parametrize("fault", [401, 403, 429, 500])
async def test_a_failed_request_is_an_error_that_is_not_kept(server: FakeApiServer, fault: int) -> None:
    put_replica_set(server, reference("apps/v1", "Deployment", "web"))
    async with Resolving(server) as resolving:
        server.fault = fault
        with pytest.raises(AccessDenied if fault == 403 else KubernetesError, match=str(fault)):
            await resolving.top(WEB)
        server.fault = 0
        assert await resolving.top(WEB) == WorkloadReference("Deployment", "web")


async def test_controllers_in_a_circle_end_at_the_first(server: FakeApiServer) -> None:
    first, second = reference("ray.io/v1", "RayCluster", "a"), reference("ray.io/v1", "RayJob", "b")
    server.put_object("ray.io/v1", "rayclusters", "a", second)
    server.put_object("ray.io/v1", "rayjobs", "b", first)
    async with Resolving(server, KINDS) as resolving:
        assert await resolving.top(first) == WorkloadReference("RayCluster", "a")
        assert len(server.requests) == 2


async def test_a_long_chain_is_cut(server: FakeApiServer) -> None:
    for number in range(20):
        above = reference("ray.io/v1", "RayJob", f"j{number + 1}")
        server.put_object("ray.io/v1", "rayjobs", f"j{number}", above)
    async with Resolving(server, KINDS) as resolving:
        assert await resolving.top(reference("ray.io/v1", "RayJob", "j0")) == WorkloadReference("RayJob", "j0")
        assert len(server.requests) < 10


async def test_a_pod_that_does_not_exist_is_an_error(server: FakeApiServer) -> None:
    async with Resolving(server) as resolving:
        with pytest.raises(ResourceNotFound, match="404"):
            await resolving.client.get("/api/v1/namespaces/ml/pods/none")


async def test_the_pause_that_the_server_demands_is_kept(server: FakeApiServer) -> None:
    paused: list[float] = []
    clock = ManualClock()

    async def sleep(seconds: float) -> None:
        paused.append(seconds)
        clock.now += seconds

    client = ApiClient(access_to(server), clock=clock, sleep=sleep)
    put_replica_set(server)
    path = "/apis/apps/v1/namespaces/ml/replicasets/web-7d4"
    try:
        for status, header, expected in ((429, "7", [7]), (503, "9999", [300]), (500, "7", []), (429, "soon", [])):
            server.fault, server.retry_after = status, header
            paused.clear()
            with pytest.raises(KubernetesError, match=str(status)):
                await client.get(path)
            server.fault = 0
            await client.get(path)
            assert paused == expected
    finally:
        await client.close()
