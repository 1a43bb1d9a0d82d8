"""Workloads of pods in a cluster of 1,000 nodes with 8 GPUs and 16 pods each: requests, CPU and memory of a node.

20 min of virtual time without sockets: every pod is replaced every 10 min, half of them by a pod of a new Job, which
costs a request.
"""

from __future__ import annotations

import asyncio
import gc
import random
import selectors
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pulsed.attribution.pod_workloads import PodSettings, PodWorkloads
from pulsed.kubernetes.api_client import ApiClient, ClusterAccess, JsonObject, WatchEvent
from pulsed.model.owner import Owner
from pulsed.model.owner import pod as owner_of
from tests.support.kubernetes.fake_api_server import Pod, pod, reference
from tools.bench.figure import Bar, Figure

NODES = 1000
GPU_PODS = 16
OTHER_PODS = 30
LIFE = 600.0
"""Seconds that a pod lives."""
SECONDS = 2 * LIFE


def run() -> Iterator[Figure]:
    loop = _VirtualLoop()
    asyncio.set_event_loop(loop)
    try:
        gc.collect()
        tracemalloc.start()
        nodes = [_Node(number) for number in range(NODES)]
        before = tracemalloc.get_traced_memory()[0]
        resolvers = [_Resolver(node) for node in nodes]
        tasks = [loop.create_task(resolver.pods.run()) for resolver in resolvers]
        loop.run_until_complete(_settle(resolvers))
        gc.collect()
        memory = (tracemalloc.get_traced_memory()[0] - before) / NODES
        tracemalloc.stop()
        first = sum(resolver.client.requests for resolver in resolvers)
        begun = time.process_time()
        loop.run_until_complete(_churn(resolvers))
        cpu = time.process_time() - begun
        requests = sum(resolver.client.requests for resolver in resolvers) - first
        resolved = sum(resolver.resolved for resolver in resolvers)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    note = f"{NODES:,} nodes, {GPU_PODS} pods with GPUs and {OTHER_PODS} others on each; {resolved:,} of pods resolved"
    yield Figure("requests of a node until its pods are resolved", first / NODES, "requests", note=note)
    yield Figure(
        "requests of a node, all pods new in 10 min", requests / NODES / SECONDS, "per second", None, Bar("value", 1)
    )
    yield Figure("requests of the cluster", requests / SECONDS, "per second")
    yield Figure("memory of a node", memory / 1000, "kB", None, Bar("value", 1000))
    yield Figure("CPU of a node", 100 * cpu / NODES / SECONDS, "% of a core", None, Bar("value", 0.1))


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes as soon as nothing else is to be done."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_InstantSelector(self))

    def time(self) -> float:
        return self.now


class _InstantSelector(selectors.SelectSelector):
    def __init__(self, loop: _VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._loop.now += max(timeout or 0.0, 1e-6)
        return super().select(0)


class _Node:
    """The pods of a node; `replace` ends one and starts its successor."""

    def __init__(self, number: int) -> None:
        self.name, self._random = f"node-{number}", random.Random(number)
        self.watchers: list[Callable[[WatchEvent], None]] = []
        self.pods: dict[str, Pod] = {}
        self.slots = [""] * GPU_PODS
        self._started = 0
        for other in range(OTHER_PODS):
            self._start(f"other-{number}-{other}", reference("apps/v1", "DaemonSet", f"agent-{other}"))
        for slot in range(GPU_PODS):
            self.replace(slot)

    def replace(self, slot: int) -> None:
        if old := self.pods.pop(self.slots[slot], None):
            self._tell("DELETED", old)
        self._started += 1
        name = self.slots[slot] = f"{self.name}-{slot}-{self._started}"
        is_job = slot % 2
        job, web = reference("batch/v1", "Job", f"job-{name}"), f"web-{self._random.randrange(100)}"
        self._start(name, job if is_job else reference("apps/v1", "ReplicaSet", web))

    def _start(self, name: str, owner: Mapping[str, Any]) -> None:
        self.pods[name] = new = pod(name, node=self.name, namespace="ml", owner=owner, labels={"team": "a"})
        self._tell("ADDED", new)

    def _tell(self, kind: str, item: Pod) -> None:
        for take in self.watchers:
            take(WatchEvent(kind, item))


class _CountingClient(ApiClient):
    """A client whose server is a node's pods, and has every controller; counts requests, answers in 10 ms."""

    def __init__(self, node: _Node) -> None:
        super().__init__(ClusterAccess("https://127.0.0.1"))
        self._node, self.requests = node, 0

    async def list(self, path: str, query: Mapping[str, str], take: Callable[[JsonObject], None]) -> str:
        await self._answer()
        for item in self._node.pods.values():
            take(item)
        return "1"

    async def get(self, path: str) -> JsonObject:
        await self._answer()
        name = path.rsplit("/", 1)[1]
        above = "Deployment" if "replicasets" in path else "CronJob"
        group = "apps/v1" if above == "Deployment" else "batch/v1"
        return {"metadata": {"uid": f"uid-{name}", "ownerReferences": [reference(group, above, f"of-{name}")]}}

    async def watch(
        self,
        path: str,
        query: Mapping[str, str],
        version: str,
        seconds: int,
        begun: Callable[[], None],
        take: Callable[[WatchEvent], None],
    ) -> None:
        await self._answer()
        self._node.watchers.append(take)
        begun()
        try:
            await asyncio.sleep(seconds)
        finally:
            self._node.watchers.remove(take)

    async def _answer(self) -> None:
        self.requests += 1
        await asyncio.sleep(0.01)


class _Resolver:
    """The workloads of a node's pods, looked up as the ticks of its GPUs do: after every change."""

    def __init__(self, node: _Node) -> None:
        self.node, self.client, self.resolved = node, _CountingClient(node), 0
        settings = PodSettings(node.name, (), (), ("team",))
        self.pods = PodWorkloads(self.client, settings, self.look_up, clock=asyncio.get_event_loop().time)

    def owners(self) -> list[Owner]:
        return [self.pods.complete(owner_of("ml", name, "main")) for name in self.node.slots]

    def look_up(self) -> None:
        self.owners()

    def is_resolved(self) -> bool:
        return all(owner.workload for owner in self.owners())


async def _settle(resolvers: list[_Resolver]) -> None:
    for resolver in resolvers:
        resolver.look_up()
    await asyncio.sleep(60)
    assert all(resolver.is_resolved() for resolver in resolvers)


async def _churn(resolvers: list[_Resolver]) -> None:
    """Replace a pod of every node every `LIFE / GPU_PODS` seconds, and look whether the one before was resolved."""
    for turn in range(int(SECONDS / LIFE * GPU_PODS)):
        for resolver in resolvers:
            resolver.node.replace(turn % GPU_PODS)
            resolver.look_up()
        await asyncio.sleep(LIFE / GPU_PODS)
        for resolver in resolvers:
            resolver.resolved += bool(resolver.owners()[turn % GPU_PODS].workload)
