"""The client, the watch and the resolver against the fake API server and a real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pulsed.collector.exporter_discovery import ExporterDiscovery
from pulsed.config.configuration import load
from pulsed.kubernetes import api_client
from pulsed.kubernetes.api_client import AccessDenied, ApiClient, KubernetesError, ResourceNotFound
from pulsed.kubernetes.objects import JsonObject, PodMetadata, parse_kind, pod_metadata
from pulsed.kubernetes.resource_watch import ResourceWatch
from pulsed.kubernetes.workload_resolver import WorkloadReference, WorkloadResolver
from tests.support.kubernetes.exchanges import PODS, Cluster, access_to
from tests.support.kubernetes.fake_api_server import pod, reference
from tests.support.waiting import eventually

NODE = {"fieldSelector": "spec.nodeName=node-a"}
KINDS = ("JobSet.jobset.x-k8s.io", "RayCluster.ray.io", "RayJob.ray.io", "StatefulSet.apps")
LEADER_WORKER_SET = "LeaderWorkerSet.leaderworkerset.x-k8s.io"


async def hurried(seconds: float) -> None:
    await asyncio.sleep(seconds / 100)


def client_of(cluster: Cluster) -> ApiClient:
    return ApiClient(access_to(cluster), limits=())


def read(item: JsonObject) -> PodMetadata:
    return pod_metadata(item, lambda label: True)


@asynccontextmanager
async def watching(
    cluster: Cluster, query: Mapping[str, str] = NODE, *, is_paged: bool = False
) -> AsyncIterator[ResourceWatch[PodMetadata]]:
    client = client_of(cluster)
    watch = ResourceWatch(client, PODS, query, read, sleep=hurried, is_paged=is_paged)
    task = asyncio.create_task(watch.run())
    try:
        yield watch
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])
        await client.close()


def names(watch: ResourceWatch[PodMetadata]) -> set[str]:
    return {name for _, name in watch.objects}


async def test_a_watch_follows_the_pods_of_a_node(cluster: Cluster) -> None:
    cluster.put(pod("one"))
    cluster.put(pod("elsewhere", node="node-b"))
    async with watching(cluster, {**NODE, "labelSelector": "app in (nvidia-dcgm-exporter, other)"}) as watch:
        await eventually(lambda: names(watch) == {"one"})
        cluster.put(pod("two"))
        await eventually(lambda: names(watch) == {"one", "two"})
        cluster.put(pod("two", labels={"app": "other"}))
        await eventually(lambda: watch.objects["gpu-operator", "two"].labels == {"app": "other"})
        cluster.put(pod("one", labels={"app": "third"}))
        await eventually(lambda: names(watch) == {"two"})
        cluster.delete("two")
        await eventually(lambda: names(watch) == set())


async def test_a_list_in_pages_is_complete(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_client, "PAGE_OBJECTS", 3)
    for number in range(8):
        cluster.put(pod(f"p{number}"))
    async with watching(cluster, is_paged=True) as watch:
        await eventually(lambda: len(watch.objects) == 8)


async def test_an_expired_version_is_listed_again(cluster: Cluster) -> None:
    cluster.put(pod("one"))
    async with watching(cluster) as watch:
        await eventually(lambda: names(watch) == {"one"})
        cluster.delete("one")
        cluster.put(pod("two"))
        cluster.compact()
        await eventually(lambda: names(watch) == {"two"} and not watch.error)


async def test_a_user_without_rights_has_a_remedy(cluster: Cluster) -> None:
    cluster.denied = True
    try:
        async with watching(cluster) as watch:
            await eventually(lambda: "403" in watch.error)
            assert "get, list and watch of pods" in watch.error
            assert 'cannot list resource "pods"' in watch.error
            cluster.denied = False
            await eventually(lambda: watch.is_listed and not watch.error)
    finally:
        cluster.denied = False


async def test_tokens_are_renewed_and_unknown_ones_refused(cluster: Cluster) -> None:
    cluster.put(pod("one"))
    client = client_of(cluster)
    path = f"{PODS.replace('/pods', '/namespaces/gpu-operator/pods')}/one"
    try:
        assert read(await client.get(path)).name == "one"
        cluster.token_file.write_text("unknown")
        with pytest.raises(KubernetesError, match="401"):
            await client.get(path)
        cluster.rotate("second")
        assert read(await client.get(path)).name == "one"
    finally:
        cluster.rotate("first")
        await client.close()


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/ml/pods/none",
        "/apis/apps/v1/namespaces/ml/replicasets/none",
        "/apis/none.io/v1/namespaces/ml/things/none",
    ],
)
async def test_what_does_not_exist_is_an_error_of_its_own(cluster: Cluster, path: str) -> None:
    client = client_of(cluster)
    try:
        with pytest.raises(ResourceNotFound, match="404"):
            await client.get(path)
        cluster.denied = True
        with pytest.raises(AccessDenied, match="403"):
            await client.get(path)
    finally:
        cluster.denied = False
        await client.close()


CHAINS = [
    ([("apps/v1", "deployments", "web"), ("apps/v1", "replicasets", "web-7d4")], ("Deployment", "web")),
    ([("argoproj.io/v1alpha1", "rollouts", "roll"), ("apps/v1", "replicasets", "roll-1")], ("Rollout", "roll")),
    ([("apps/v1", "replicasets", "alone")], ("ReplicaSet", "alone")),
    ([("apps/v1", "statefulsets", "db")], ("StatefulSet", "db")),
    ([("apps/v1", "daemonsets", "agent")], ("DaemonSet", "agent")),
    ([("batch/v1", "jobs", "batch-1")], ("Job", "batch-1")),
    ([("jobset.x-k8s.io/v1alpha2", "jobsets", "set"), ("batch/v1", "jobs", "set-0")], ("JobSet", "set")),
    ([("ray.io/v1", "rayjobs", "ray"), ("ray.io/v1", "rayclusters", "ray-x")], ("RayJob", "ray")),
    (
        [("leaderworkerset.x-k8s.io/v1", "leaderworkersets", "lws"), ("apps/v1", "statefulsets", "lws")],
        ("LeaderWorkerSet", "lws"),
    ),
    ([], ("Pod", "p")),
]
"""Objects, each the controller of the next, and the workload of a pod that the last one controls."""


@pytest.mark.parametrize(("chain", "workload"), CHAINS, ids=[" ".join(workload) for _, workload in CHAINS])
async def test_a_pod_has_a_workload(
    cluster: Cluster, chain: list[tuple[str, str, str]], workload: tuple[str, str]
) -> None:
    owner: object = ""
    for version, plural, name in chain:
        owner = cluster.put_object(version, plural, name, owner)
    cluster.put(pod("p", namespace="ml", owner=owner))
    client = client_of(cluster)
    resolver = WorkloadResolver(client, [parse_kind(kind) for kind in (*KINDS, LEADER_WORKER_SET)])
    try:
        found = read(await client.get("/api/v1/namespaces/ml/pods/p"))
        assert await resolver.resolve(found) == WorkloadReference(*workload)
    finally:
        await client.close()


async def test_a_pod_of_a_missing_replica_set_is_its_own_workload(cluster: Cluster) -> None:
    cluster.put(pod("p", namespace="ml", owner=reference("apps/v1", "ReplicaSet", "gone")))
    client = client_of(cluster)
    try:
        found = read(await client.get("/api/v1/namespaces/ml/pods/p"))
        assert await WorkloadResolver(client).resolve(found) == WorkloadReference("Pod", "p")
    finally:
        await client.close()


async def test_the_exporter_of_the_node_is_found(cluster: Cluster, tmp_path: Path) -> None:
    cluster.put(pod("here", "10.0.0.1"))
    cluster.put(pod("elsewhere", "10.0.0.2", node="node-b"))
    cluster.put(pod("other", "10.0.0.3", labels={"app": "web"}, owner=""))
    config = load(None, ["node=node-a", "source.kind=exporter", "source.exporter.discovery=kubernetes"], {})
    client = client_of(cluster)
    discovery = ExporterDiscovery(config, client)
    try:
        discovery.start()
        await discovery.settle()
        assert [endpoint.url for endpoint in discovery.endpoints] == ["http://10.0.0.1:9400/metrics"]
        cluster.delete("here")
        await eventually(lambda: not discovery.endpoints)
        assert "on node node-a matches app in (nvidia-dcgm-exporter, " in str(discovery.problem())
    finally:
        await discovery.stop()
        await client.close()
