"""Waiting for conditions: a limit is there for what never happens, not for a slow machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

SECONDS = 60.0
"""How long a test waits for what must happen. It passes at once where it happens; only a failure takes as long."""


def until(holds: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Return as soon as the condition holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"never came to hold in {seconds:g} s"
        time.sleep(0.05)


async def eventually(holds: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Return as soon as the condition holds; the event loop goes on meanwhile."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"never came to hold in {seconds:g} s"
        await asyncio.sleep(0.01)
