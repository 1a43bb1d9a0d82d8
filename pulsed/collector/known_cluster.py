"""What is known of the Kubernetes cluster, kept over a restart: exporters of this node, and workloads of its pods.

The API server may be out of reach when pulsed starts; until it answers, this is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from pulsed.kubernetes.exporter_pods import ExporterEndpoint
from pulsed.owners.attribution.pod_workloads import KnownPods

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


_ADAPTER = TypeAdapter(KnownCluster)


def dump(cluster: KnownCluster) -> object:
    """Return what is known of a cluster as JSON."""
    return _ADAPTER.dump_python(cluster, mode="json")


def load(saved: object) -> KnownCluster:
    """Return what `dump` has returned in an earlier run. Raises `ValueError` if it is something else."""
    loaded = _ADAPTER.validate_python(saved)  # its error is a ValueError
    if loaded.pods.time is not None and not 0.0 <= loaded.pods.time < _YEAR_10000:
        raise ValueError(f"{loaded.pods.time!r} is not a time")
    for exporter in loaded.exporters:
        if not urlsplit(exporter.url).hostname:
            raise ValueError(f"{exporter.url!r:.80} is not a URL")
    return loaded
