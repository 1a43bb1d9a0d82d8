"""Keys and words that earlier versions had, each with what takes its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REMOVED: Final[Mapping[str, str]] = {
    "adapter": "scale with KEDA or prometheus-adapter: helm/pulsed/README.md#autoscaling",
}
"""By key, or by key and word, what to do instead."""


def replacement(key: str) -> str:
    """Return what to do instead of a key, or of a section that it is in; empty if it was not removed."""
    while key not in REMOVED and "." in key:
        key = key.rpartition(".")[0]
    return REMOVED.get(key, "")
