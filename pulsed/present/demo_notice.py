"""The notice above data of the source `demo`, for people who may take it for real."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pulsed.model.gpu import DEMO_MARK

DEMO_NOTICE = "DEMO DATA: these GPUs do not exist"


def has_demo(gpus: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether any GPU of a document is simulated, by its product name."""
    return any(DEMO_MARK in (gpu["model"] or "") for gpu in gpus)


def demo_lines(gpus: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the notice as the first line of a text, if any GPU is simulated."""
    return [DEMO_NOTICE] if has_demo(gpus) else []
