"""Refuses pages of exporters: those with the GPUs of another node, and those with a GPU that two exporters show.

Exporters are known by the names of their targets, which stay when a pod is replaced.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pulsed.errors import DuplicateGpu, OtherNode, SourceError
from pulsed.model.label_names import with_known_names
from pulsed.model.raw_tick import Labels, Layout, RawTick
from pulsed.reader.exporter.source import ExporterSource
from pulsed.reader.source import Source
from pulsed.translate.identity import blocks_of, exporter_entities, host_of, is_same_host

_SERVICE_REMEDY = (
    "If that is the name of the exporter's pod, set its variable NODE_NAME from spec.nodeName; if it is a node, the "
    "Service needs internalTrafficPolicy: Local; to read other nodes, set source.exporter.own_node: false"
)


class OwnNodeExporter(Source):
    """An exporter that should serve the pages of one node, though its address may lead to another.

    Args:
        source: the exporter.
        node: name of the node.
        what: the exporter, for the error; empty: its target.
        remedy: what to do about a page of another node.
    """

    kind = "exporter"
    failures: tuple[type[SourceError], ...] = (*ExporterSource.failures, OtherNode)

    def __init__(self, source: Source, node: str, what: str = "", remedy: str = _SERVICE_REMEDY) -> None:
        self._source, self.target, self.interval = source, source.target, source.interval
        self._node, self._what, self._remedy = node, what or source.target, remedy
        self._read: Layout | None = None
        self._layout = Layout("exporter", ())
        self._foreign: Mapping[str, Sequence[int]] = {}

    async def read(self) -> RawTick:
        """Read the page.

        Raises as `ExporterSource.read`, and `OtherNode` for a page of another node.
        """
        tick = await self._source.read()
        if tick.layout != self._read:
            self._read, self._layout, self._foreign = tick.layout, *self._examined(tick.layout)
        for host, series in self._foreign.items():
            if any(tick.values[position] is not None for position in series):
                raise OtherNode(f"{self._what} has the GPUs of node {host}, not of {self._node}", self._remedy)
        return replace(tick, layout=self._layout, target=self.target)

    def is_same(self, other: Source) -> bool:
        """Return whether the other one reads the same exporter for the same node."""
        return (
            type(other) is type(self)
            and isinstance(other, OwnNodeExporter)
            and self._node == other._node
            and self._source.is_same(other._source)
        )

    async def close(self) -> None:
        """Close the connection. Safe to call twice."""
        await self._source.close()

    def _host(self, labels: Mapping[str, str]) -> str:
        """Return the host that a row is of; empty if it names none."""
        return host_of(labels)

    def _own(self, labels: Labels) -> Labels:
        """Return the labels of a row of this node as they are passed on."""
        return labels

    def _examined(self, layout: Layout) -> tuple[Layout, Mapping[str, Sequence[int]]]:
        """Return the layout as it is passed on, and the positions of other hosts' series.

        A layout keeps series that are gone.
        """
        foreign: dict[str, list[int]] = {}
        own: dict[Labels, Labels] = {}
        for labels, positions in blocks_of(layout).items():
            host = self._host(dict(with_known_names(labels)))
            if host and not is_same_host(host, self._node):
                foreign.setdefault(host, []).extend(positions)
            else:
                own[labels] = self._own(labels)
        if any(passed is not labels for labels, passed in own.items()):
            series = tuple(replace(each, labels=own.get(each.labels, each.labels)) for each in layout.series)
            layout = replace(layout, series=series)
        return layout, foreign


KEPT_SECONDS = 30.0
"""How long the GPUs of an exporter without a pod stay its own: a DaemonSet replaces a pod within seconds."""

_REMEDY = (
    "Delete the exporter that is not the node's, or exclude it by source.exporter.kubernetes.namespaces or .selectors; "
    f"the GPUs are read again {KEPT_SECONDS:g} s after its pod is gone"
)


class GpuName(NamedTuple):
    """The names of a GPU on a page; either may be empty."""

    uuid: str
    number: str


def gpus_of(tick: RawTick, node: str) -> frozenset[GpuName]:
    """Return the GPUs of an exporter's page, including GPUs that have only MIG instances on it.

    Args:
        node: of the exporter.
    """
    # A layout keeps series that are gone.
    return frozenset(
        GpuName(subject.entity.uuid, subject.entity.gpu)
        for subject in exporter_entities(tick.layout, blocks_of(tick.layout), node, {})
        if any(tick.values[position] is not None for position, _ in subject.series)
    )


class _Claim(NamedTuple):
    """The GPUs of an exporter's last page, and the pod that it came from."""

    pod: str
    gpus: frozenset[GpuName]


class GpuClaims:
    """The GPUs of all exporters of a node.

    Args:
        patience: seconds that a page waits for the first pages of other exporters.
        clock: returns monotonic seconds.
    """

    def __init__(self, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience, self._clock = patience, clock
        self._claims: dict[str, _Claim] = {}
        self._present: frozenset[str] = frozenset()
        self._gone_at: dict[str, float] = {}
        self._tried: set[str] = set()
        self._untried: set[str] = set()
        self._all_tried = asyncio.Event()

    def expect(self, read: Collection[str], present: Collection[str]) -> None:
        """Set which exporters are read, and which have a pod on the node, ready or not."""
        self._present, now = frozenset(present), self._clock()
        self._gone_at = {each: self._gone_at.get(each, now) for each in self._claims.keys() - self._present}
        self._tried.intersection_update(read)
        self._untried = set(read) - self._tried - self._claims.keys()
        self._note_tried()

    def tried(self, target: str) -> None:
        """Note that an exporter has been read, or could not be."""
        self._tried.add(target)
        self._untried.discard(target)
        self._note_tried()

    async def claim(self, target: str, pod: str, gpus: frozenset[GpuName]) -> None:
        """Register the GPUs of an exporter's page after the other exporters were tried.

        Raises:
            DuplicateGpu: another exporter shows one of them.
        """
        if target in self._present:
            self._claims[target] = _Claim(pod, gpus)
        self.tried(target)
        if self._untried:
            waiting = asyncio.ensure_future(self._all_tried.wait())
            try:
                await asyncio.wait({waiting}, timeout=self._patience)
            finally:
                waiting.cancel()
        for other, claim in self._others(target).items():
            if shared := _shared(gpus, claim.gpus):
                (_, one), (_, another) = sorted([(target, pod), (other, claim.pod)])
                more = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
                raise DuplicateGpu(
                    f"the pods {one} and {another} both show {shared[0]}{more}: none of their GPUs is read", _REMEDY
                )

    def _others(self, target: str) -> Mapping[str, _Claim]:
        """Return the claims of other exporters, without those whose pods have been gone for long."""
        now = self._clock()
        for each in [each for each, gone_at in self._gone_at.items() if now - gone_at >= KEPT_SECONDS]:
            del self._gone_at[each], self._claims[each]
        return {each: claim for each, claim in self._claims.items() if each != target}

    def _note_tried(self) -> None:
        if self._untried:
            self._all_tried.clear()
        else:
            self._all_tried.set()


def _shared(gpus: frozenset[GpuName], others: frozenset[GpuName]) -> list[str]:
    """Return the names of the GPUs that are in both: equal in their UUIDs, or where one has none in their numbers."""
    uuids, numbers = {each.uuid.casefold() for each in others}, {each.number for each in others}
    without_uuid = {each.number for each in others if not each.uuid}
    return sorted(
        each.uuid or f"GPU {each.number}"
        for each in gpus
        if (each.uuid.casefold() in uuids if each.uuid else each.number in numbers) or each.number in without_uuid
    )
