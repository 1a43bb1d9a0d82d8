"""Completes the pods among owners from the Kubernetes API: UID, workload, labels.

The API server is read in the background. While it does not answer, pods keep their known workloads, also from before a
restart, and new pods have none.
"""

from __future__ import annotations

import asyncio
import logging
import random as random_module
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pulsed.background_tasks import FAILURES, Backoff
from pulsed.kubernetes.api_client import AccessDenied, ApiClient, KubernetesError
from pulsed.kubernetes.objects import Controller, JsonObject, ObjectKind, PodMetadata, pod_metadata
from pulsed.kubernetes.resource_watch import ResourceWatch
from pulsed.kubernetes.workload_resolver import (
    MISSING_SECONDS,
    KnownController,
    WorkloadReference,
    WorkloadResolver,
)
from pulsed.model.clocks import Unix
from pulsed.model.owner import Owner
from pulsed.owners.attribution.source import SourceState

log = logging.getLogger(__name__)

NAME = "kubernetes"
"""Name of the source in `pulsed_attribution_*`."""

MAX_PODS = 16384
"""Pods that are resolved at a time; more have no workload."""

MAX_LABELS = 16
"""Labels of a pod that are kept."""

MAX_CONCURRENT = 10
"""Requests to the API server at a time."""

FORGOTTEN_SECONDS = 600.0
"""A pod is forgotten if it was not looked up for so long, and up to twice as long."""

_FIRST_PAUSE, _MAX_PAUSE = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class PodSettings:
    """Which pods are read, and what of them.

    Attributes:
        node: the node whose pods are watched; empty: all nodes.
        name_labels: labels that name the workload, the first that a pod has.
        kinds: as for `WorkloadResolver`.
        labels: names of labels that owners get; a `*` at the end stands for any characters.
    """

    node: str
    name_labels: tuple[str, ...] = ()
    kinds: tuple[ObjectKind, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def query(self) -> Mapping[str, str]:
        """The selector of the pods."""
        return {"fieldSelector": f"spec.nodeName={self.node}"} if self.node else {}

    def read(self, item: JsonObject) -> PodMetadata:
        """Return what is used of a pod in JSON."""
        return pod_metadata(item, lambda label: label in self.name_labels or self._is_shown(label))

    def shown(self, pod: PodMetadata) -> tuple[tuple[str, str], ...]:
        """Return the labels of a pod that owners get, in order of their names."""
        return tuple(pair for pair in sorted(pod.labels.items()) if self._is_shown(pair[0]))[:MAX_LABELS]

    def workload(self, pod: PodMetadata, resolved: WorkloadReference) -> WorkloadReference:
        """Return the workload of a pod: a label of the pod may name it."""
        name = next((pod.labels[label] for label in self.name_labels if pod.labels.get(label)), resolved.name)
        return resolved._replace(name=name)

    def _is_shown(self, label: str) -> bool:
        return any(label.startswith(each[:-1]) if each.endswith("*") else label == each for each in self.labels)


class KnownPods(NamedTuple):
    """Known pods that are owners; `time` is the Unix time of the last confirmation, if there was one."""

    time: Unix | None = None
    pods: Sequence[PodMetadata] = ()
    controllers: Sequence[KnownController] = ()


@dataclass(slots=True)
class _OwnerPod:
    """A pod that is an owner.

    Attributes:
        pod: as last read; None until it is.
        workload: None until it is resolved.
        is_wanted: whether it was looked up since the last sweep.
    """

    pod: PodMetadata | None = None
    workload: WorkloadReference | None = None
    is_wanted: bool = True


class PodWorkloads:
    """The pods that are owners of GPUs.

    Args:
        changed: called when owners are others than before.
        clock: returns monotonic seconds.
        wall: returns the Unix time.
    """

    def __init__(
        self,
        client: ApiClient,
        settings: PodSettings,
        changed: Callable[[], None] = lambda: None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = random_module.random,
    ) -> None:
        self.settings = settings
        self._changed, self._clock, self._wall = changed, clock, wall
        self._resolver = WorkloadResolver(client, settings.kinds, clock)
        self._watch = ResourceWatch(
            client,
            "/api/v1/pods",
            settings.query,
            settings.read,
            self._update_watched,
            is_paged=not settings.node,
            sleep=sleep,
            random=random,
        )
        self._owners: dict[tuple[str, str], _OwnerPod] = {}
        self._denied: dict[ObjectKind, float] = {}  # until when these kinds are not requested again
        self._backoff, self._paused_until = Backoff(_FIRST_PAUSE, _MAX_PAUSE, random), 0.0
        self._next_sweep = clock() + FORGOTTEN_SECONDS
        self._wake = asyncio.Event()
        self._state, self._error = SourceState(NAME), ""

    @property
    def known_pods(self) -> KnownPods:
        """The known pods now, for `restore` by a later run."""
        pods = [owner_pod.pod for owner_pod in self._owners.values() if owner_pod.pod is not None]
        return KnownPods(self._state.last_success, pods, self._resolver.known_controllers)

    def restore(self, saved_pods: KnownPods) -> None:
        """Use what an earlier run knew, until the API server answers."""
        self._state.last_success = saved_pods.time
        self._resolver.restore(saved_pods.controllers)
        for pod in saved_pods.pods[:MAX_PODS]:
            owner = self._owners[pod.namespace, pod.name] = _OwnerPod(is_wanted=False)
            self._update_pod(owner, pod)

    @property
    def state(self) -> SourceState:
        """Whether the API server answers, as of a source of attribution."""
        self._state.message = self._watch.error or self._error
        self._state.up = self._watch.is_listed and not self._state.message
        return self._state

    def complete(self, owner: Owner) -> Owner:
        """Return an owner with what is known of its pod, and begin to resolve one that is not. Does not wait."""
        if owner.kind != "pod":
            return owner
        key = (owner.namespace, owner.name)
        owner_pod = self._owners.get(key)
        if owner_pod is None:
            if len(self._owners) >= MAX_PODS:
                return owner
            owner_pod = self._owners[key] = _OwnerPod()
            self._update_pod(owner_pod, self._watch.objects.get(key))
            self._wake.set()
        owner_pod.is_wanted = True
        if owner_pod.pod is None or owner.uid not in ("", owner_pod.pod.uid):
            return owner
        kind, name = owner_pod.workload or ("", "")
        labels = self.settings.shown(owner_pod.pod)
        allocated = owner_pod.pod.allocated if owner.allocated is None else owner.allocated
        return replace(
            owner, uid=owner_pod.pod.uid, workload=name, workload_kind=kind, labels=labels, allocated=allocated
        )

    async def run(self) -> None:
        """Watch and resolve pods until cancelled."""
        watching = asyncio.create_task(self._watch.run(), name="watch of pods")
        try:
            while True:
                if self._clock() >= self._paused_until:
                    try:
                        await self._resolve_all()
                    except Exception:  # names are lost until the next attempt; ending here would freeze them for good
                        FAILURES["workloads"] += 1
                        log.exception("internal error in the names of workloads; please report it")
                        self._count("internal")
                        self._paused_until = self._clock() + _MAX_PAUSE
                self._sweep()
                await self._wait()
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    def _update_watched(self) -> None:
        """Take over the pods of the watch."""
        if not self._watch.error:
            self._state.last_success = Unix(self._wall())
        else:
            self._count("forbidden" if self._watch.is_denied else "unavailable")
        changed = [
            key for key, owner_pod in self._owners.items() if self._update_pod(owner_pod, self._watch.objects.get(key))
        ]
        if changed:
            self._wake.set()
            self._changed()

    def _update_pod(self, owner_pod: _OwnerPod, pod: PodMetadata | None) -> bool:
        """Take over what was read of a pod, and resolve it if that needs no request; return whether its owner changed.

        The data of a pod outlives it.
        """
        if pod is None or pod is owner_pod.pod:
            return False
        before = owner_pod.pod
        if before is not None and before.controller != pod.controller:
            owner_pod.workload = None
        owner_pod.pod = pod
        return self._name(owner_pod) or pod != before

    def _name(self, owner_pod: _OwnerPod) -> bool:
        """Name the workload of a pod if that needs no request; return whether the name changed."""
        workload = self._resolver.walk(owner_pod.pod) if owner_pod.pod is not None else None
        if owner_pod.pod is None or not isinstance(workload, WorkloadReference):
            return False
        before, owner_pod.workload = owner_pod.workload, self.settings.workload(owner_pod.pod, workload)
        return owner_pod.workload != before

    async def _resolve_all(self) -> None:
        """Request what is missing to name the workloads of all owners, each object once."""
        self._denied = {kind: until for kind, until in self._denied.items() if until > self._clock()}
        waiting: dict[tuple[str, Controller], list[_OwnerPod]] = {}
        for owner_pod in self._owners.values():
            if owner_pod.pod is not None and owner_pod.is_wanted:
                missing = self._resolver.walk(owner_pod.pod, renews=True)
                if isinstance(missing, Controller):
                    waiting.setdefault((owner_pod.pod.namespace, missing), []).append(owner_pod)
        limit = asyncio.Semaphore(MAX_CONCURRENT)

        async def name(pods: Sequence[_OwnerPod]) -> None:
            async with limit:
                if pods[0].pod is not None and self._clock() >= self._paused_until:
                    await self._request(pods[0].pod)
            named = [self._name(owner_pod) for owner_pod in pods]
            if any(named):
                self._changed()

        await asyncio.gather(*map(name, waiting.values()))
        if self._clock() < self._paused_until:
            return
        if not self._denied:
            self._error = ""
        self._backoff.reset()

    async def _request(self, pod: PodMetadata) -> None:
        """Request what controls a pod, unless it is known, or of a kind that was denied."""
        controller = self._resolver.walk(pod, renews=True)
        if not isinstance(controller, Controller) or controller.kind in self._denied:
            return
        try:
            await self._resolver.resolve(pod)
        except AccessDenied as error:
            if isinstance(denied := self._resolver.walk(pod, renews=True), Controller):
                self._denied[denied.kind] = self._clock() + _MAX_PAUSE
            self._fail("forbidden", error)
        except KubernetesError as error:
            if self._clock() >= self._paused_until:  # requests that failed at the same time count once
                self._paused_until = self._clock() + self._backoff.next()
            self._fail("unavailable", error)

    async def _wait(self) -> None:
        """Wait until there is a new pod, the pause after a failure is over, or objects may have other controllers."""
        pause = self._paused_until - self._clock()
        waking = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait({waking}, timeout=pause if pause > 0.0 else MISSING_SECONDS)
        finally:
            waking.cancel()
        self._wake.clear()

    def _fail(self, reason: str, error: KubernetesError) -> None:
        if (message := str(error)) != self._error:
            log.warning("workloads of pods cannot be resolved", extra={"error": message})
        self._error = message
        self._count(reason)

    def _count(self, reason: str) -> None:
        self._state.errors[reason] = self._state.errors.get(reason, 0) + 1

    def _sweep(self) -> None:
        """Remove pods that no longer own a GPU: all others are resolved again after every change."""
        if self._clock() < self._next_sweep:
            return
        self._next_sweep = self._clock() + FORGOTTEN_SECONDS
        self._owners = {key: owner_pod for key, owner_pod in self._owners.items() if owner_pod.is_wanted}
        for owner_pod in self._owners.values():
            owner_pod.is_wanted = False
        self._changed()
