"""From a pod to its workload: the object that users created, such as a Deployment.

The controller of a pod is known from the pod. What controls a ReplicaSet, a Job or a configured kind is requested once
per object and kept; it is requested again after a while. A request that failed is not kept.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

from pulsed.kubernetes.api_client import ApiClient, ResourceNotFound
from pulsed.kubernetes.objects import Controller, ObjectKind, PodMetadata, controller_of, uid_of

RENEWAL_SECONDS = 3600.0
"""How long the controller of an object is not requested again: it hardly ever changes."""

MISSING_SECONDS = 30.0
"""The same of an object that does not exist."""

MAX_OBJECTS = 4096
"""Objects whose controllers are kept; those that were requested first are dropped."""

MAX_STEPS = 8
"""A longer chain of controllers is cut."""

POD = ObjectKind("", "Pod")
_REPLICA_SET, _JOB = ObjectKind("apps", "ReplicaSet"), ObjectKind("batch", "Job")
_STATEFUL_SET = ObjectKind("apps", "StatefulSet")

CONTROLLERS: Mapping[ObjectKind, Collection[ObjectKind]] = {
    _REPLICA_SET: (ObjectKind("apps", "Deployment"), ObjectKind("argoproj.io", "Rollout")),
    _JOB: (ObjectKind("batch", "CronJob"),),
    POD: (),
}
"""Kinds whose objects are always requested, and the kinds of controllers that count above them."""


class WorkloadReference(NamedTuple):
    """What controls a pod; the pod itself if nothing does."""

    kind: str
    name: str


class KnownController(NamedTuple):
    """What controls an object that exists: `above`, None without one."""

    namespace: str
    object: Controller
    above: Controller | None


class _Known(NamedTuple):
    """The controller of an object, None without one; whether the object exists; when to request it again."""

    controller: Controller | None
    exists: bool
    renewal: float


class WorkloadResolver:
    """Resolves pods of one cluster.

    Args:
        kinds: further kinds that count as controllers, and whose objects are requested to find what controls them.
        clock: returns monotonic seconds.
    """

    def __init__(
        self, client: ApiClient, kinds: Collection[ObjectKind] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client, self._kinds, self._clock = client, frozenset(kinds), clock
        self._known: dict[tuple[str, Controller], _Known] = {}
        self._turns: dict[tuple[str, Controller], asyncio.Lock] = {}

    @property
    def known_controllers(self) -> Sequence[KnownController]:
        """The known controllers that exist, for `restore`."""
        return [KnownController(*key, entry.controller) for key, entry in self._known.items() if entry.exists]

    def restore(self, controllers: Iterable[KnownController]) -> None:
        """Use what an earlier run knew; it is requested again when it is used."""
        self._known |= {(each.namespace, each.object): _Known(each.above, True, self._clock()) for each in controllers}

    def walk(self, pod: PodMetadata, *, renews: bool = False) -> WorkloadReference | Controller:
        """Return the workload of a pod, or the object that has to be requested to find it.

        Args:
            renews: whether what is known is to be requested again once it is old.

        A pod of a ReplicaSet or Job that does not exist is its own workload.
        """
        first = reached = top = pod.controller
        if first is None or reached is None or top is None:
            return WorkloadReference(POD.name, pod.name)
        seen = {first}
        while reached.kind in CONTROLLERS or reached.kind in self._kinds:
            entry = self._known.get((pod.namespace, reached))
            if entry is None or (renews and entry.renewal <= self._clock()):
                return reached
            if not entry.exists and reached is first and first.kind in CONTROLLERS:
                return WorkloadReference(POD.name, pod.name)
            above = entry.controller
            if above is None or not self._is_accepted(above.kind, reached.kind):
                break
            if above in seen or len(seen) >= MAX_STEPS:
                return WorkloadReference(first.kind.name, first.name)
            seen.add(above)
            reached = above
            if above.kind != POD:
                top = above
        return WorkloadReference(top.kind.name, top.name)

    async def resolve(self, pod: PodMetadata) -> WorkloadReference:
        """Return the workload of a pod. Concurrent calls request each object once.

        Raises:
            KubernetesError: an object could not be requested.
        """
        while isinstance(reached := self.walk(pod, renews=True), Controller):
            key = pod.namespace, reached
            try:
                async with self._turns.setdefault(key, asyncio.Lock()):
                    if self.walk(pod, renews=True) == reached:
                        await self._look_up(*key)
            finally:
                self._turns.pop(key, None)  # those that wait have it
        return reached

    def _is_accepted(self, above: ObjectKind, below: ObjectKind) -> bool:
        """Return whether a controller counts. The StatefulSet of a LeaderWorkerSet's group belongs to a pod."""
        return above in self._kinds or above in CONTROLLERS.get(below, ()) or (above == POD and below == _STATEFUL_SET)

    async def _look_up(self, namespace: str, reference: Controller) -> None:
        entry = await self._request(namespace, reference)
        self._known.pop((namespace, reference), None)
        self._known[namespace, reference] = entry
        while len(self._known) > MAX_OBJECTS:
            del self._known[next(iter(self._known))]

    async def _request(self, namespace: str, reference: Controller) -> _Known:
        try:
            item = await self._client.get(object_path(namespace, reference))
        except ResourceNotFound:
            return _Known(None, False, self._clock() + MISSING_SECONDS)
        if reference.uid and uid_of(item) not in ("", reference.uid):  # another object that has its name now
            return _Known(None, False, self._clock() + MISSING_SECONDS)
        return _Known(controller_of(item), True, self._clock() + RENEWAL_SECONDS)


def object_path(namespace: str, reference: Controller) -> str:
    """Return the path of an object in the API.

    >>> object_path("ml", Controller(ObjectKind("apps", "ReplicaSet"), "v1", "web-7d4", ""))
    '/apis/apps/v1/namespaces/ml/replicasets/web-7d4'
    """
    group, version = reference.kind.group, reference.version
    root = f"/apis/{quote(group, safe='')}/{quote(version, safe='')}" if group else f"/api/{quote(version, safe='')}"
    name = quote(reference.name, safe="")
    return f"{root}/namespaces/{quote(namespace, safe='')}/{resource_name(reference.kind.name)}/{name}"


def resource_name(kind: str) -> str:
    """Return the plural of a kind as paths of the API have it, by the rule that custom resources follow.

    >>> [resource_name(kind) for kind in ("RayCluster", "NetworkPolicy", "Gateway", "Ingress")]
    ['rayclusters', 'networkpolicies', 'gateways', 'ingresses']
    """
    plural = kind.lower()
    if plural.endswith("y") and plural[-2:-1] not in "aeiou":
        plural = f"{plural[:-1]}ie"
    elif plural.endswith("s"):
        plural += "e"
    return quote(f"{plural}s", safe="")
