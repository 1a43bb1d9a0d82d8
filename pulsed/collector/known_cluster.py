"""What is known of the Kubernetes cluster, kept over a restart: exporters of this node, and workloads of its pods.

The API server may be out of reach when pulsed starts; until it answers, this is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pulsed.collector.state_file import Draft, StateFile
from pulsed.kubernetes.exporter_pods import ExporterEndpoint
from pulsed.owners.attribution.pod_workloads import KnownPods
from pulsed.pauses import aligned_sleep

if TYPE_CHECKING:
    from pydantic import TypeAdapter

VERSION = 1

WRITE_SECONDS = 5.0
"""Seconds between two writes of what has changed."""

_YEAR_10000 = 253402300800.0


@dataclass(frozen=True, slots=True)
class KnownCluster:
    """What is known of a cluster.

    Attributes:
        found_by: as `exporter_discovery.found_by` of the run that found the exporters.
        exporters: of this node.
    """

    found_by: str = ""
    exporters: tuple[ExporterEndpoint, ...] = ()
    pods: KnownPods = field(default_factory=KnownPods)


class KnownClusterFile:
    """The file.

    Attributes:
        status: whether it is written.
        loaded: what it had at the start.
    """

    def __init__(self, file: StateFile) -> None:
        self._file, self.status = file, file.status
        self.loaded = KnownCluster()
        file.load(self._accept)
        self._written = self.loaded

    def write(self, known: KnownCluster) -> None:
        """Write what has changed."""
        self._save(known, self._changed(known))

    async def write_regularly(self, known: Callable[[], KnownCluster]) -> None:
        """Write every `WRITE_SECONDS` what has changed, until cancelled."""
        while True:
            await aligned_sleep(WRITE_SECONDS)
            newest = known()
            await asyncio.to_thread(self._save, newest, self._changed(newest))

    def _changed(self, known: KnownCluster) -> Draft | None:
        if known == self._written:
            return None
        return self._file.draft({"version": VERSION, **_adapter().dump_python(known, mode="json")})

    def _save(self, known: KnownCluster, draft: Draft | None) -> None:
        """Write what has changed, if anything has; may be done in a thread."""
        if draft is not None and self._file.save(draft):
            self._written = known

    def _accept(self, document: Mapping[str, object]) -> None:
        if document.get("version") != VERSION:
            raise ValueError(f"version {document.get('version')!r} instead of {VERSION}")
        loaded = _adapter().validate_python(document)  # its error is a ValueError
        if loaded.pods.time is not None and not 0.0 <= loaded.pods.time < _YEAR_10000:
            raise ValueError(f"{loaded.pods.time!r} is not a time")
        for exporter in loaded.exporters:
            if not urlsplit(exporter.url).hostname:
                raise ValueError(f"{exporter.url!r:.80} is not a URL")
        self.loaded = loaded


@cache
def _adapter() -> TypeAdapter[KnownCluster]:
    from pydantic import TypeAdapter  # most hosts have no cluster

    return TypeAdapter(KnownCluster)
