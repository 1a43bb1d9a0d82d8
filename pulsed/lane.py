"""Work that one request does at a time: a lock with limits for those that wait. Must not import any layer."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from math import inf


class LaneFull(Exception):
    """Too many requests wait, one has waited for too long, or its client is gone: it should come again later."""


class Lane:
    """A lock, first come, first served.

    Args:
        patience: seconds that a request waits at most.
        max_waiting: requests that may wait at once.
        max_per_client: requests of one client that may wait at once.
    """

    def __init__(self, patience: float, max_waiting: float = inf, max_per_client: float = inf) -> None:
        self._patience, self._max_waiting, self._max_per_client = patience, max_waiting, max_per_client
        self._lock, self._waiting = asyncio.Lock(), Counter[str]()

    async def acquire(self, client: str = "", is_gone: Callable[[], bool] = lambda: False) -> None:
        """Wait for the lock; `release` must follow. Raises `LaneFull`.

        Args:
            client: name of the client.
            is_gone: returns whether the client has disconnected.
        """
        if self._waiting.total() >= self._max_waiting or self._waiting[client] >= self._max_per_client:
            raise LaneFull
        self._waiting[client] += 1
        try:
            async with asyncio.timeout(self._patience):
                await self._lock.acquire()
        except TimeoutError:
            raise LaneFull from None
        finally:
            self._waiting -= Counter((client,))
        if is_gone():
            self._lock.release()
            raise LaneFull

    def release(self) -> None:
        """Let the next request begin."""
        self._lock.release()

    @contextlib.asynccontextmanager
    async def turn(self, client: str = "", is_gone: Callable[[], bool] = lambda: False) -> AsyncIterator[None]:
        """Hold the lock for a block. Raises `LaneFull`."""
        await self.acquire(client, is_gone)
        try:
            yield
        finally:
            self.release()
