"""Keys and words that earlier versions had, each with what takes its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_TARGETS = "list the exporters in source.exporter.targets, each as a URL or {url, labels}; changes are read at once"

REMOVED: Final[Mapping[str, str]] = {
    "adapter": "scale with KEDA or prometheus-adapter: helm/pulsed/README.md#autoscaling",
    "source.exporter.discovery: file": _TARGETS,
    "source.exporter.discovery: http": _TARGETS,
    "source.exporter.discovery: dns": _TARGETS,
    "source.exporter.file": _TARGETS,
    "source.exporter.http": _TARGETS,
    "source.exporter.dns": _TARGETS,
    "source.exporter.shard": "run one daemon per node, or give each daemon its own source.exporter.targets",
}
"""By key, or by key and word, what to do instead."""


def replacement(key: str) -> str:
    """Return what to do instead of a key, or of a section that it is in; empty if it was not removed."""
    while key not in REMOVED and "." in key:
        key = key.rpartition(".")[0]
    return REMOVED.get(key, "")
