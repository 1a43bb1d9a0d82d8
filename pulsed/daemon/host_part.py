"""A part of this host, which is read in a thread of its own, as the read may hang."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from pulsed.daemon_thread import SharedCall

log = logging.getLogger(__name__)

_T = TypeVar("_T")

READ_SECONDS = 10.0
"""Timeout of a part, in seconds. A part that takes longer is unknown; its thread continues."""


class HostPart(SharedCall[_T]):
    """A part of this host.

    Args:
        name: for the log.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"host {name}")
        self._name = name
        self._is_failing = False

    async def read(self, read: Callable[[], _T]) -> _T | None:
        """Return what a function returns in the thread; None if it fails or hangs, which is logged once."""
        try:
            async with asyncio.timeout(READ_SECONDS):
                facts = await self.call(read)
        except OSError as error:  # or a TimeoutError
            if not self._is_failing:
                fields = {"part": self._name, "error": str(error) or "it hangs"}
                log.warning("a part of the host cannot be read", extra=fields)
            self._is_failing = True
            return None
        self._is_failing = False
        return facts
