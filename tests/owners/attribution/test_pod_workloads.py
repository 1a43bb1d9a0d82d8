"""Pods among owners get their workloads beside the ticks, at few requests, and keep them while the API server fails."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from pulsed.kubernetes import api_client, resource_watch
from pulsed.kubernetes.api_client import ApiClient
from pulsed.kubernetes.settings import KubernetesSettings
from pulsed.model.owner import Owner
from pulsed.model.owner import pod as owner_of
from pulsed.owners.attribution.pod_workloads import FORGOTTEN_SECONDS, PodSettings, PodWorkloads
from tests.support.clocks import ManualClock
from tests.support.freezing_proxy import FreezingProxy
from tests.support.kubernetes.exchanges import access_to
from tests.support.kubernetes.fake_api_server import FakeApiServer, pod, reference
from tests.support.waiting import SECONDS, eventually

SET = reference("apps/v1", "ReplicaSet", "web-7d4")
SETTINGS = PodSettings("node-a", ("app.kubernetes.io/name",), (), ("team", "example.com/*"))


class Clock:
    """The real time, and what a test adds to it."""

    def __init__(self) -> None:
        self.added = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.added


class Cluster:
    """Pods that a server has, and the owners that they are."""

    def __init__(self, server: FakeApiServer, pods: PodWorkloads, clock: Clock) -> None:
        self.server, self.pods, self.clock = server, pods, clock

    def owner(self, name: str, uid: str = "") -> Owner:
        return self.pods.complete(owner_of("ml", name, "main", uid))

    def workload(self, name: str, uid: str = "") -> tuple[str, str]:
        found = self.owner(name, uid)
        return found.workload_kind, found.workload

    async def has(self, name: str, kind: str, workload: str) -> None:
        await eventually(lambda: self.workload(name) == (kind, workload))

    def paths(self) -> list[str]:
        return [request.path for request in self.server.requests if "watch" not in request.query]


async def hurried(seconds: float) -> None:
    await asyncio.sleep(seconds / 100)


@asynccontextmanager
async def resolving(server: FakeApiServer, settings: PodSettings = SETTINGS, **more: Any) -> AsyncIterator[Cluster]:
    clock, known = Clock(), more.pop("known", None)
    client = ApiClient(more.pop("access", access_to(server)), timeout=more.pop("timeout", 2))
    pods = PodWorkloads(client, settings, clock=clock, sleep=more.pop("sleep", hurried), **more)
    if known is not None:
        pods.restore(known)
    task = asyncio.create_task(pods.run())
    try:
        yield Cluster(server, pods, clock)
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])
        await client.close()


def put(server: FakeApiServer, name: str, owner: object = SET, **more: Any) -> None:
    server.put(pod(name, namespace="ml", owner=owner, **{"labels": {}, **more}))


def put_deployment(server: FakeApiServer) -> None:
    server.put_object("apps/v1", "replicasets", "web-7d4", reference("apps/v1", "Deployment", "web"))


async def test_pods_of_the_node_need_one_list_and_one_request(server: FakeApiServer) -> None:
    put_deployment(server)
    for name in ("a", "b", "c"):
        put(server, name)
    put(server, "alone", None)
    async with resolving(server) as cluster:
        for name in ("a", "b", "c"):
            await cluster.has(name, "Deployment", "web")
        await cluster.has("alone", "Pod", "alone")
        assert cluster.owner("a").uid == "uid-a"
        assert cluster.paths() == ["/api/v1/pods", "/apis/apps/v1/namespaces/ml/replicasets/web-7d4"]
        assert cluster.pods.state.up


@pytest.mark.parametrize(("jobs", "seconds"), [(8, 3.0), (56, 10.0)])
async def test_the_pods_of_a_node_are_named_soon_after_a_start(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch, jobs: int, seconds: float
) -> None:
    """At the real rate, beside four requests of the discovery of exporters."""
    monkeypatch.undo()
    clock = ManualClock()
    begun = clock.now

    async def sleep(seconds: float) -> None:
        clock.now += seconds

    names = [f"job-{number}" for number in range(jobs)]
    for name in names:
        server.put_object("batch/v1", "jobs", name, reference("batch/v1", "CronJob", "nightly"))
        put(server, name, reference("batch/v1", "Job", name))
    client = ApiClient(access_to(server), timeout=SECONDS, clock=clock, sleep=sleep)
    pods = PodWorkloads(client, SETTINGS)
    for _ in range(4):
        await client.get("/api/v1/namespaces/ml/pods/job-0")
    task = asyncio.create_task(pods.run())
    owners = [owner_of("ml", name, "main") for name in names]
    await eventually(lambda: {pods.complete(owner).workload for owner in owners} == {"nightly"})
    task.cancel()
    await asyncio.wait([task])
    await client.close()
    assert clock.now - begun <= seconds


async def test_objects_are_requested_beside_each_other(server: FakeApiServer) -> None:
    names = [f"job-{number}" for number in range(20)]
    for name in names:
        server.put_object("batch/v1", "jobs", name)
        put(server, name, reference("batch/v1", "Job", name))
    async with resolving(server, timeout=SECONDS) as cluster:
        await cluster.has("none", "", "")
        await eventually(lambda: bool(cluster.pods.state.up))
        server.delay = 0.5
        begun = time.monotonic()
        await eventually(lambda: [cluster.workload(name) for name in names] == [("Job", name) for name in names])
        assert time.monotonic() - begun < 20 * server.delay / 2


async def test_what_an_earlier_run_knew_is_used_until_the_api_server_answers(server: FakeApiServer) -> None:
    put_deployment(server)
    put(server, "a", labels={"team": "vision"})
    async with resolving(server) as cluster:
        await cluster.has("a", "Deployment", "web")
        known = cluster.pods.known_pods
    assert known.time is not None
    server.fault = 500
    async with resolving(server, known=known) as cluster:
        assert cluster.workload("a") == ("Deployment", "web")
        assert cluster.owner("a").labels == (("team", "vision"),)
        assert cluster.workload("a", "newer") == ("", ""), "another pod that has its name now"
        assert cluster.pods.state.last_success == known.time
        await eventually(lambda: bool(cluster.pods.state.message))
        assert not cluster.pods.state.up
        server.put_object("apps/v1", "replicasets", "web-7d4", reference("apps/v1", "Deployment", "adopted"))
        server.fault = 0
        await cluster.has("a", "Deployment", "adopted")
        await eventually(lambda: bool(cluster.pods.state.up))


async def test_other_owners_are_left_as_they_are(server: FakeApiServer) -> None:
    async with resolving(server) as cluster:
        job = Owner("slurm_job", "4711")
        assert cluster.pods.complete(job) is job


@pytest.mark.parametrize(
    ("owner", "labels", "kind", "name"),
    [
        (SET, {"app.kubernetes.io/name": "my-app"}, "Deployment", "my-app"),
        (None, {"app.kubernetes.io/name": "my-app"}, "Pod", "my-app"),
        (SET, {"app.kubernetes.io/name": ""}, "Deployment", "web"),
    ],
)
async def test_a_label_names_the_workload(
    server: FakeApiServer, owner: object, labels: dict[str, str], kind: str, name: str
) -> None:
    put_deployment(server)
    put(server, "a", owner, labels=labels)
    async with resolving(server) as cluster:
        await cluster.has("a", kind, name)


async def test_allowed_labels_are_those_of_the_owner(server: FakeApiServer) -> None:
    labels = {"team": "vision", "example.com/tier": "gold", "secret": "x", "team.io": "y"}
    put(server, "a", None, labels=labels)
    async with resolving(server) as cluster:
        await cluster.has("a", "Pod", "a")
        assert cluster.owner("a").labels == (("example.com/tier", "gold"), ("team", "vision"))
        put(server, "a", None, labels={"team": "speech"})
        await eventually(lambda: cluster.owner("a").labels == (("team", "speech"),))


@pytest.mark.parametrize(("node", "far"), [("node-a", ("", "")), ("", ("Deployment", "web"))])
async def test_pods_of_other_nodes_are_known_where_all_nodes_are_watched(
    server: FakeApiServer, node: str, far: tuple[str, str]
) -> None:
    put_deployment(server)
    put(server, "near", None)
    put(server, "far", node="node-b")
    async with resolving(server, replace(SETTINGS, node=node)) as cluster:
        cluster.owner("far")
        await cluster.has("near", "Pod", "near")
        await cluster.has("far", *far)
        cluster.owner("none")
        requested = ["/apis/apps/v1/namespaces/ml/replicasets/web-7d4"] if far[0] else []
        assert cluster.paths() == ["/api/v1/pods", *requested]


@pytest.mark.parametrize(("namespace", "name"), [("", "a"), ("ml", ""), ("..", ".."), ("ml", "a/../b"), ("ml", "A")])
async def test_what_a_page_names_is_in_no_request(server: FakeApiServer, namespace: str, name: str) -> None:
    put(server, "real", None)
    async with resolving(server) as cluster:
        odd = Owner("pod", "odd", namespace=namespace, name=name)
        assert cluster.pods.complete(odd) is odd
        await cluster.has("real", "Pod", "real")
        assert cluster.pods.complete(odd) is odd
        assert cluster.paths() == ["/api/v1/pods"]


async def test_pods_have_their_labels_also_without_the_right_to_find_their_workloads(server: FakeApiServer) -> None:
    server.denied_paths = ("/replicasets/",)
    names = [f"p{number}" for number in range(5)]
    for name in names:
        put(server, name, labels={"team": "vision"})
    async with resolving(server) as cluster:
        await eventually(lambda: all(cluster.owner(name).labels == (("team", "vision"),) for name in names))
        await eventually(lambda: cluster.pods.state.errors.get("forbidden", 0) == 1)
        put(server, "later", labels={"team": "vision"})
        await eventually(lambda: cluster.owner("later").labels == (("team", "vision"),))
        assert cluster.workload("p1") == ("", "")
        assert len(cluster.paths()) == 2, "a list of the node, and one ReplicaSet"


async def test_a_pod_of_the_same_name_is_another_one(server: FakeApiServer) -> None:
    put(server, "a", reference("apps/v1", "StatefulSet", "db"))
    async with resolving(server) as cluster:
        await eventually(lambda: cluster.workload("a", "uid-a") == ("StatefulSet", "db"))
        assert cluster.workload("a", "newer") == ("", "")
        put(server, "a", reference("apps/v1", "StatefulSet", "other"), uid="newer")
        await eventually(lambda: cluster.workload("a", "newer") == ("StatefulSet", "other"))


async def test_what_is_known_of_a_pod_outlives_it(server: FakeApiServer) -> None:
    put(server, "a", None)
    async with resolving(server) as cluster:
        await cluster.has("a", "Pod", "a")
        server.delete("a", "ml")
        put(server, "b", None)
        await cluster.has("b", "Pod", "b")
        assert cluster.workload("a") == ("Pod", "a")


async def test_pods_that_are_no_owners_any_more_are_forgotten(server: FakeApiServer) -> None:
    calls: list[None] = []
    for name in ("a", "b"):
        put(server, name, None)
    async with resolving(server, changed=lambda: calls.append(None)) as cluster:
        await cluster.has("a", "Pod", "a")
        await cluster.has("b", "Pod", "b")
        server.delete("a", "ml")
        put(server, "c", None)
        await cluster.has("c", "Pod", "c")  # and so the watch has no `a` any more
        for number in range(2):
            before = len(calls)
            cluster.clock.added += FORGOTTEN_SECONDS + 1
            cluster.owner(f"wakes-{number}")
            await eventually(lambda before=before: len(calls) > before)  # type: ignore[misc]
            assert cluster.workload("b") == ("Pod", "b")
        assert cluster.workload("a") == ("", "")


@pytest.mark.parametrize("fault", [401, 403, 429, 500])
async def test_names_stay_while_the_api_server_refuses(server: FakeApiServer, fault: int) -> None:
    put_deployment(server)
    put(server, "a")
    async with resolving(server) as cluster:
        await cluster.has("a", "Deployment", "web")
        server.fault = fault
        server.cut()
        await eventually(lambda: not cluster.pods.state.up)
        cluster.owner("new")
        await asyncio.sleep(0.1)
        assert cluster.workload("a") == ("Deployment", "web")
        assert cluster.workload("new") == ("", "")
        assert sum(cluster.pods.state.errors.values()) > 0
        server.fault = 0
        put(server, "new", None)
        await cluster.has("new", "Pod", "new")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch on which nothing arrives for a second is ended."""
    for module in (api_client, resource_watch):
        monkeypatch.setattr(module, "SILENT_SECONDS", 1.0)


@pytest.mark.usefixtures("impatient")
async def test_a_frozen_connection_takes_the_state_down(server: FakeApiServer) -> None:
    put(server, "a", None)
    async with FreezingProxy(urlsplit(server.url).port or 0).running() as proxy:
        access = replace(access_to(server), server=f"https://127.0.0.1:{proxy.port}")
        async with resolving(server, access=access, timeout=1) as cluster:
            await cluster.has("a", "Pod", "a")
            proxy.freeze()
            await eventually(lambda: not cluster.pods.state.up)
            assert "did not answer in 1 s" in cluster.pods.state.message
            assert cluster.workload("a") == ("Pod", "a")
            put(server, "b", None)
            proxy.thaw_new()
            await cluster.has("b", "Pod", "b")
            assert cluster.pods.state.up


@pytest.mark.usefixtures("impatient")
async def test_a_half_open_connection_is_replaced_without_an_error(server: FakeApiServer) -> None:
    """As where a firewall has forgotten a connection: only new ones work."""
    put(server, "a", None)
    async with FreezingProxy(urlsplit(server.url).port or 0).running() as proxy:
        access = replace(access_to(server), server=f"https://127.0.0.1:{proxy.port}")
        async with resolving(server, access=access) as cluster:
            await cluster.has("a", "Pod", "a")
            await eventually(lambda: server.requests[-1].query.get("watch") == "true")
            put(server, "accepted", None)
            await cluster.has("accepted", "Pod", "accepted")
            proxy.freeze_open()
            put(server, "b", None)
            await cluster.has("b", "Pod", "b")
            assert cluster.pods.state.errors == {}
            assert cluster.paths() == ["/api/v1/pods"], "the next watch continues where the frozen one ended"


def test_a_frozen_connection_is_seen_within_90_seconds() -> None:
    assert api_client.SILENT_SECONDS > 60, "real API servers send a bookmark a minute"
    assert api_client.SILENT_SECONDS + 1.0 + KubernetesSettings().timeout < 90


async def test_a_failed_request_is_repeated_and_no_other_name_is_used(server: FakeApiServer) -> None:
    put_deployment(server)
    put(server, "a")
    put(server, "alone", None)
    server.denied_paths = ("/replicasets/",)
    async with resolving(server) as cluster:
        cluster.owner("a")
        await cluster.has("alone", "Pod", "alone")
        await eventually(lambda: cluster.pods.state.errors.get("forbidden", 0) == 1)
        assert cluster.workload("a") == ("", "")
        assert not cluster.pods.state.up
        assert "403 Forbidden for /apis/apps/v1" in cluster.pods.state.message
        server.denied_paths = ()
        cluster.clock.added += 61.0
        put(server, "wakes", None)
        cluster.owner("wakes")
        await cluster.has("a", "Deployment", "web")
        await eventually(lambda: cluster.pods.state.up)


async def test_a_renewed_token_and_an_expired_list_change_nothing(server: FakeApiServer) -> None:
    put(server, "a", None)
    async with resolving(server) as cluster:
        await cluster.has("a", "Pod", "a")
        server.rotate("second")
        server.compact()
        put(server, "b", None)
        await cluster.has("b", "Pod", "b")
        assert cluster.workload("a") == ("Pod", "a")


@pytest.mark.slow
async def test_pods_that_churn_cost_no_more_requests_than_allowed(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    stop = threading.Event()

    def churn() -> None:
        for number in range(10**6):
            if stop.wait(0.02):
                return
            name = f"set-{number}"
            server.put_object("apps/v1", "replicasets", name, reference("apps/v1", "Deployment", "web"))
            put(server, f"p{number}", reference("apps/v1", "ReplicaSet", name) if number % 2 else None)
            if number >= 30:
                server.delete(f"p{number - 30}", "ml")
            if number % 100 == 50:
                server.cut()

    thread = threading.Thread(target=churn)
    begun = time.monotonic()
    async with resolving(server, sleep=asyncio.sleep) as cluster:
        thread.start()
        seen: set[str] = set()
        while server.version < 700:
            for _, name in list(server.pods):
                if cluster.workload(name)[0]:
                    seen.add(name)
            await asyncio.sleep(0.05)
        stop.set()
        thread.join()
        seconds = time.monotonic() - begun
        assert len(server.requests) <= min(each.burst + seconds / each.seconds for each in api_client.REQUEST_LIMITS)
        assert len(seen) > 20
