"""Settings of memory for a daemon, whose ticks and pages come and go. Must not import any layer."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
from collections.abc import Callable
from typing import Literal

_M_MMAP_THRESHOLD = -3  # malloc.h of glibc
_LARGE_BYTES = 2**20

THRESHOLDS = (10_000, 5, 5)
"""Of the three generations: a collection holds the interpreter for some 10 ms per 50,000 objects that it looks at."""

MANY_GPUS, THRESHOLDS_OF_MANY = 1000, (200_000, 1000, 100)
"""From so many GPUs on, the objects of one interval are no garbage yet when a collection looks at them."""

LONG_SECONDS = 0.08
"""A full collection that takes longer excludes what it found alive from later ones."""


def configure_memory(gpus: Callable[[], int] = int) -> None:
    """Configure garbage collector and allocator, after start-up.

    Args:
        gpus: returns how many the process has; by default none.

    Objects of the start-up live as long as the process and are excluded from full collections. Ticks make many objects
    that live for one interval, without cycles, so collections may be rare. The state of 10,000 GPUs is a million
    objects, which would hold the interpreter, and with it the event loop, for half a second: see `LONG_SECONDS`. It has
    no cycles either, so that reference counts free it.

    Blocks of 1 MiB and more, as of large pages, return to the system when they are freed. By default glibc would put
    them among the small ones once it has seen a few, where they leave holes: some 30 MB beside misbehaving
    exporters.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(FullCollections(gpus=gpus))
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


class FullCollections:
    """Keeps full collections short, and makes them rare where there are many GPUs; a callback of `gc`.

    Args:
        long_seconds: time of the processor from which on a full collection is long.
        gpus: returns how many the process has; None: the thresholds stay.
    """

    def __init__(self, long_seconds: float = LONG_SECONDS, gpus: Callable[[], int] | None = None) -> None:
        self._long_seconds, self._begun, self._gpus = long_seconds, 0.0, gpus

    def __call__(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        """Take the begin or the end of a collection."""
        if info["generation"] == 0:
            return
        if phase == "stop" and self._gpus is not None:
            gc.set_threshold(*(THRESHOLDS_OF_MANY if self._gpus() >= MANY_GPUS else THRESHOLDS))
        if info["generation"] != 2:
            return
        if phase == "start":
            self._begun = time.thread_time()
        elif time.thread_time() - self._begun > self._long_seconds:
            gc.freeze()
