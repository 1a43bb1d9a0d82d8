"""The three clocks: a time of one is never a time of another. Durations are plain seconds, as `float`.

The difference of two times of a clock is a duration; a time and a duration make a time only by name: `Monotonic(...)`.
"""

from __future__ import annotations

from math import inf
from typing import NewType

Unix = NewType("Unix", float)
"""Seconds since 1970, of the source or of this host; it may be set, also back."""

Monotonic = NewType("Monotonic", float)
"""Seconds of the monotonic clock of this host, or of a capture that is replayed; it is never set."""

GpuSeconds = NewType("GpuSeconds", float)
"""Seconds of one GPU's own clock: since its first sample, also while it is absent, over restarts of pulsed."""

EPOCH, UNIX_NEVER = Unix(0.0), Unix(-inf)
START, MONOTONIC_NEVER = Monotonic(0.0), Monotonic(-inf)
GPU_START, GPU_NEVER = GpuSeconds(0.0), GpuSeconds(-inf)
