"""Refuses pages of exporters that have the GPUs of another node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pulsed.errors import OtherNode, SourceError
from pulsed.model.raw_tick import Labels, Layout, RawTick
from pulsed.reader.exporter.source import ExporterSource
from pulsed.translate.identity import blocks_of, host_of, is_same_host

_SERVICE_REMEDY = (
    "If that is the name of the exporter's pod, set its variable NODE_NAME from spec.nodeName; if it is a node, the "
    "Service needs internalTrafficPolicy: Local; to read other nodes, set source.exporter.own_node: false"
)


class OwnNodeExporter:
    """An exporter whose pages should be those of one node, though its address may lead to another.

    Args:
        source: the exporter.
        node: name of the node.
        what: the exporter, for the error; empty: its target.
        remedy: what to do about a page of another node.
    """

    kind = "exporter"
    failures: tuple[type[SourceError], ...] = (*ExporterSource.failures, OtherNode)
    restarts = 0

    def __init__(self, source: ExporterSource, node: str, what: str = "", remedy: str = _SERVICE_REMEDY) -> None:
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
        if tick.layout is not self._read:
            self._read, self._layout, self._foreign = tick.layout, *self._examined(tick.layout)
        for host, series in self._foreign.items():
            if any(tick.values[position] is not None for position in series):
                raise OtherNode(f"{self._what} has the GPUs of node {host}, not of {self._node}", self._remedy)
        return replace(tick, layout=self._layout, target=self.target)

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
            host = self._host(dict(labels))
            if host and not is_same_host(host, self._node):
                foreign.setdefault(host, []).extend(positions)
            else:
                own[labels] = self._own(labels)
        if any(passed is not labels for labels, passed in own.items()):
            series = tuple(replace(each, labels=own.get(each.labels, each.labels)) for each in layout.series)
            layout = replace(layout, series=series)
        return layout, foreign
