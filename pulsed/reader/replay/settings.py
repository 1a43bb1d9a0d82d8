"""Settings of the source `replay`: a recording, and how it is played."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from pulsed.model.raw_tick import MAX_GPUS

DEFAULT_START = 1767225600.0
"""The time of the first tick unless another is given: 2026-01-01T00:00:00Z."""


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """A recording, and how it is played.

    Attributes:
        path: a record, a capture, a page, a folder of pages, or a CSV.
        columns: short names of a capture that has no header.
        speed: 1 as recorded, 10 ten times as fast, 0 as fast as the reader takes it.
        loop: start over at the end; time goes on increasing.
        interval: seconds between two ticks, not of a record; by default the usual one of its kind. CSV has its own
            times: there it is what they are held against, by default the usual distance.
        start: Unix seconds of the first tick, except of a record and a CSV.
        max_gpus: most entities of a tick, except of a record and a CSV.
    """

    path: str | os.PathLike[str]
    columns: Sequence[str] = ()
    speed: float = 1.0
    loop: bool = False
    interval: float | None = None
    start: float = DEFAULT_START
    max_gpus: int = MAX_GPUS
