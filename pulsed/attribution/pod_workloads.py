"""Completes the pods among owners from the Kubernetes API: UID, workload, labels.

The API server is read beside the ticks. While it does not answer, pods keep what is known of them, and new ones have no
workload.
"""

from __future__ import annotations

import asyncio
import logging
import random as random_module
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from urllib.parse import quote

from pulsed.attribution.attribution import SourceState
from pulsed.backoff import Backoff
from pulsed.kubernetes.api_client import AccessDenied, ApiClient, JsonObject, KubernetesError, ResourceNotFound
from pulsed.kubernetes.objects import Controller, ObjectKind, PodMetadata, pod_metadata
from pulsed.kubernetes.resource_watch import ResourceWatch
from pulsed.kubernetes.workload_resolver import KEPT_SECONDS, MISSING_SECONDS, POD, WorkloadReference, WorkloadResolver
from pulsed.model.owner import Owner

MAX_LABELS = 16
"""Labels of a pod that are kept."""


@dataclass(frozen=True, slots=True)
class PodSettings:
    """Which pods are read, and what of them.

    Attributes:
        node: whose pods are watched; pods of other nodes are requested, or listed if many of a namespace are due.
        name_labels: labels that name the workload, the first that a pod has.
        kinds: as for `WorkloadResolver`.
        labels: names of labels that owners get; a `*` at the end stands for any characters.
    """

    node: str
    name_labels: tuple[str, ...] = ()
    kinds: tuple[ObjectKind, ...] = ()
    labels: tuple[str, ...] = ()

    def is_shown(self, label: str) -> bool:
        """Return whether owners get a label."""
        return any(label.startswith(each[:-1]) if each.endswith("*") else label == each for each in self.labels)

    def shown(self, pod: PodMetadata) -> tuple[tuple[str, str], ...]:
        """Return the labels of a pod that owners get, in order of their names."""
        return tuple(pair for pair in sorted(pod.labels.items()) if self.is_shown(pair[0]))[:MAX_LABELS]

    def keeps(self, label: str) -> bool:
        """Return whether a label is of use."""
        return label in self.name_labels or self.is_shown(label)

    def workload(self, pod: PodMetadata, resolved: WorkloadReference) -> WorkloadReference:
        """Return the workload of a pod: a label of the pod may name it."""
        name = next((pod.labels[label] for label in self.name_labels if pod.labels.get(label)), resolved.name)
        return resolved._replace(name=name)


log = logging.getLogger(__name__)

NAME = "kubernetes"
"""Name of the source in `pulsed_attribution_*`."""

MAX_PODS = 16384
"""Pods that are resolved at a time; more have no workload."""

LISTED_PODS = 32
"""Pods of a namespace to request at a time from which on its pods are listed instead, some hundred a request."""

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""Names of namespaces and pods; labels of pages may hold anything."""


@dataclass(slots=True)
class _Pod:
    """A pod that is an owner.

    Attributes:
        uid: as its source has it; empty if that is unknown.
        is_wanted: whether it was looked up since the last sweep.
        due: monotonic time from which it is resolved again.
        pod: what was read of it.
        workload: None until it is resolved.
    """

    uid: str
    is_wanted: bool = True
    due: float = 0.0
    pod: PodMetadata | None = None
    workload: WorkloadReference | None = None

    @property
    def answer(self) -> tuple[PodMetadata | None, WorkloadReference | None]:
        return self.pod, self.workload


@dataclass(slots=True)
class _Failures:
    """Failed requests in a row, and when the next one may be made."""

    backoff: Backoff
    until: float = 0.0
    error: str = ""


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
        self._client, self._changed, self._clock, self._wall = client, changed, clock, wall
        self._resolver = WorkloadResolver(client, settings.kinds, clock)
        query = {"fieldSelector": f"spec.nodeName={settings.node}"}
        self._watch = ResourceWatch(client, "/api/v1/pods", query, self._read, self._seen, sleep=sleep, random=random)
        self._pods: dict[tuple[str, str], _Pod] = {}
        self._listed: dict[tuple[str, str], PodMetadata] = {}
        self._failures = _Failures(Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random))
        self._next_sweep = clock() + KEPT_SECONDS
        self._wake = asyncio.Event()
        self._is_settled, self._watch_error = False, ""
        self._state = SourceState(NAME)

    @property
    def state(self) -> SourceState:
        """Whether the API server answers, as of a source of attribution."""
        self._state.message = self._watch.error or self._failures.error
        self._state.up = self._watch.is_listed and not self._state.message
        return self._state

    def complete(self, owner: Owner) -> Owner:
        """Return an owner with what is known of its pod, and begin to resolve one that is not. Does not wait."""
        key = (owner.namespace, owner.name)
        if owner.kind != "pod" or not all(map(_NAME.fullmatch, key)):
            return owner
        known = self._pods.get(key)
        if known is None or (owner.uid and known.uid and owner.uid != known.uid):
            if known is None and len(self._pods) >= MAX_PODS:
                return owner
            known = self._pods[key] = _Pod(owner.uid, due=self._clock())
            if (watched := self._watched(key, known)) is not None:
                self._take(known, watched)
            else:
                self._wake.set()
        known.is_wanted, known.uid = True, known.uid or owner.uid
        pod, workload = known.answer
        if pod is None or (known.uid and pod.uid != known.uid):
            return owner
        kind, name = workload or ("", "")
        return replace(owner, uid=pod.uid, workload=name, workload_kind=kind, labels=self.settings.shown(pod))

    async def run(self) -> None:
        """Resolve pods until cancelled."""
        watching = asyncio.create_task(self._watch.run(), name="pods of the node")
        try:
            while True:
                await self._wait()
                try:
                    await self._resolve_due()
                except Exception:  # names are lost until the next attempt; ending here would freeze them for good
                    log.exception("internal error in the names of workloads; please report it")
                    self._count("internal")
                    self._failures.until = self._clock() + _LONGEST_PAUSE
                self._sweep()
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    def _read(self, item: JsonObject) -> PodMetadata:
        return pod_metadata(item, self.settings.keeps)

    def _seen(self) -> None:
        """Take over the pods of the watch."""
        was_settled, self._is_settled = self._is_settled, self._watch.is_listed or bool(self._watch.error)
        if not self._watch.error:
            self._state.last_success = self._wall()
        elif self._watch.error != self._watch_error:
            self._count("unavailable")
        self._watch_error = self._watch.error
        is_changed = False
        for key, known in self._pods.items():
            pod, before = self._watched(key, known), known.answer
            if pod is not None and pod != known.pod:
                self._take(known, pod)
                is_changed = is_changed or known.answer != before
            elif pod is None and known.pod is not None and known.workload is None:  # it was deleted
                known.due = self._clock() + MISSING_SECONDS
        if is_changed:
            self._changed()
        if not was_settled:
            self._wake.set()

    def _take(self, known: _Pod, pod: PodMetadata) -> None:
        """Take over what was read of a pod; resolve it at once if that needs no request."""
        if known.pod is not None and known.pod.controller != pod.controller:
            known.workload = None
        known.pod = pod
        found = self._resolver.walk(pod)
        if isinstance(found, WorkloadReference):
            known.workload = self.settings.workload(pod, found)
            known.due = self._clock() + KEPT_SECONDS
        else:
            known.due = self._clock()
            self._wake.set()

    async def _wait(self) -> None:
        """Wait until a pod is to be resolved, or the next sweep."""
        due = self._next_sweep
        if self._is_settled:
            due = min([due, *(max(known.due, self._failures.until) for known in self._pods.values())])
        pause = max(due - self._clock(), 0.0)
        waking = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait({waking}, timeout=pause)
        finally:
            waking.cancel()
        self._wake.clear()

    async def _resolve_due(self) -> None:
        """Make the requests that are due, in turn."""
        denied: set[ObjectKind] = set()
        self._listed.clear()
        while self._is_settled and self._clock() >= self._failures.until:
            due = sorted((known.due, key) for key, known in self._pods.items() if known.due <= self._clock())
            if not due:
                return
            for _, key in due:
                if self._clock() >= self._failures.until:
                    await self._resolve_next(key, denied)

    async def _resolve_next(self, key: tuple[str, str], denied: set[ObjectKind]) -> None:
        """Make the requests for a pod, if they are still due and not for a kind that was denied."""
        known = self._pods[key]
        if known.due > self._clock():
            return
        before, pod = known.answer, self._watched(key, known) or self._listed.get(key)
        known.due = self._clock() + _LONGEST_PAUSE
        if self._next_kind(pod) in denied:
            return
        try:
            await self._resolve(key, known)
        except AccessDenied as error:
            if pod is None and known.pod is not before[0]:  # it was read now, and what controls it was denied
                pod = known.pod
            denied.add(self._next_kind(pod))
            known.due = self._clock() + _LONGEST_PAUSE
            self._fail("forbidden", error)
        except KubernetesError as error:
            known.due = self._failures.until = self._clock() + self._failures.backoff.next()
            self._fail("unavailable", error)
        else:
            if not denied:
                self._failures.error = ""
                self._failures.backoff.reset()
        if known.answer != before:
            self._changed()

    def _next_kind(self, pod: PodMetadata | None) -> ObjectKind:
        """Return the kind of object that is requested next to resolve a pod, which is None until it is read."""
        found = self._resolver.walk(pod) if pod is not None else None
        return found.kind if isinstance(found, Controller) else POD

    def _watched(self, key: tuple[str, str], known: _Pod) -> PodMetadata | None:
        pod = self._watch.objects.get(key)
        return None if pod is not None and known.uid and pod.uid != known.uid else pod

    async def _resolve(self, key: tuple[str, str], known: _Pod) -> None:
        pod = self._watched(key, known) or self._listed.pop(key, None) or await self._requested(key)
        if pod is None:
            known.due = self._clock() + MISSING_SECONDS
            return
        self._take(known, pod)
        known.workload = self.settings.workload(pod, await self._resolver.resolve(pod))
        known.due = self._clock() + KEPT_SECONDS
        self._take_listed()

    async def _requested(self, key: tuple[str, str]) -> PodMetadata | None:
        """Request a pod, and with it many others of its namespace that are due; return None if it does not exist."""
        namespace, name = (quote(part, safe="") for part in key)
        path = f"/api/v1/namespaces/{namespace}/pods"
        now = self._clock()
        due = {
            other
            for other, known in self._pods.items()
            if other[0] == key[0]
            and known.due <= now
            and other not in self._listed
            and self._watched(other, known) is None
        }
        if len(due) < LISTED_PODS:
            try:
                return self._read(await self._client.get(f"{path}/{name}"))
            except ResourceNotFound:
                return None

        found: dict[tuple[str, str], PodMetadata] = {}

        def take(item: JsonObject) -> None:
            pod = self._read(item)
            if (pod.namespace, pod.name) in due or (pod.namespace, pod.name) == key:
                found[pod.namespace, pod.name] = pod

        await self._client.list(path, {}, take)
        requested = found.pop(key, None)
        for other in due - found.keys():
            self._pods[other].due = self._clock() + MISSING_SECONDS
        for other, pod in found.items():
            self._take(self._pods[other], pod)
        self._listed |= {other: pod for other, pod in found.items() if isinstance(self._resolver.walk(pod), Controller)}
        self._changed()
        return requested

    def _take_listed(self) -> None:
        """Take over listed pods whose workloads need no request any more."""
        resolved = [key for key, pod in self._listed.items() if isinstance(self._resolver.walk(pod), WorkloadReference)]
        for key in resolved:
            self._take(self._pods[key], self._listed.pop(key))
        if resolved:
            self._changed()

    def _fail(self, reason: str, error: KubernetesError) -> None:
        if (message := str(error)) != self._failures.error:
            log.warning("workloads of pods cannot be resolved", extra={"error": message})
        self._failures.error = message
        self._count(reason)

    def _count(self, reason: str) -> None:
        self._state.errors[reason] = self._state.errors.get(reason, 0) + 1

    def _sweep(self) -> None:
        """Forget pods that are no owners any more: all others are looked up again after every change."""
        if self._clock() < self._next_sweep:
            return
        self._next_sweep = self._clock() + KEPT_SECONDS
        self._pods = {key: known for key, known in self._pods.items() if known.is_wanted}
        for known in self._pods.values():
            known.is_wanted = False
        self._changed()
