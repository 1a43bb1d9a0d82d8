"""Refuses pages of exporters that have the GPUs of another node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pulsed.errors import OtherNode, SourceError
from pulsed.reader.exporter.source import ExporterSource
from pulsed.reader.tick import Labels, Layout, RawTick
from pulsed.translate.identity import is_loopback, is_same_host

_HOST_LABELS = ("Hostname", "hostname")
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
        pod: name of the exporter's pod: exporters without NODE_NAME publish it as the host. Empty if it is unknown.
    """

    kind = "exporter"
    failures: tuple[type[SourceError], ...] = (*ExporterSource.failures, OtherNode)
    restarts = 0

    def __init__(
        self, source: ExporterSource, node: str, what: str = "", remedy: str = _SERVICE_REMEDY, pod: str = ""
    ) -> None:
        self._source, self.target, self.interval = source, source.target, source.interval
        self._node, self._what, self._remedy, self._pod = node, what or source.target, remedy, pod
        self._read: Layout | None = None
        self._layout = Layout("exporter", ())
        self._foreign: Mapping[str, Sequence[int]] = {}

    async def read(self) -> RawTick:
        """Read the page, with the node in place of the pod's name.

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

    def _examined(self, layout: Layout) -> tuple[Layout, Mapping[str, Sequence[int]]]:
        """Return the layout with the node's name, and the positions of other hosts' series.

        A layout keeps series that are gone.
        """
        foreign: dict[str, list[int]] = {}
        labels: dict[Labels, Labels] = {}
        for position, series in enumerate(layout.series):
            for name, host in series.labels:
                if name not in _HOST_LABELS or not host or is_loopback(host) or is_same_host(host, self._node):
                    continue
                if host != self._pod:
                    foreign.setdefault(host, []).append(position)
                elif series.labels not in labels:
                    labels[series.labels] = tuple(
                        (key, self._node if key in _HOST_LABELS else value) for key, value in series.labels
                    )
        if labels:
            series_here = (replace(each, labels=labels.get(each.labels, each.labels)) for each in layout.series)
            layout = replace(layout, series=tuple(series_here))
        return layout, foreign
