"""Settings of memory for a daemon, whose ticks and pages come and go. Must not import any layer."""

from __future__ import annotations

import contextlib
import ctypes
import gc

_M_MMAP_THRESHOLD = -3  # malloc.h of glibc
_LARGE_BYTES = 2**20


def configure_memory() -> None:
    """Configure garbage collector and allocator, after start-up.

    Objects of the start-up live as long as the process and are excluded from full collections. Ticks make many objects
    that live for one interval, without cycles, so collections may be rare.

    Blocks of 1 MiB and more, as of large pages, return to the system when they are freed. By default glibc would put
    them among the small ones once it has seen a few, where they leave holes: some 30 MB beside misbehaving
    exporters.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
