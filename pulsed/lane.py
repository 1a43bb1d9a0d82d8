"""Work that one request does at a time: a lock with limits for those that wait. Must not import any layer."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from math import inf


class LaneFull(Exception):
    """Too many requests wait, one has waited for too long, or its client is gone: it should come again later."""


class FairSemaphore:
    """A semaphore that serves its clients by turns, and the requests of one in their order.

    So a client waits for one request of each other client, however many these have.
    """

    def __init__(self, value: int) -> None:
        self._free = value
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def acquire(self, client: str) -> None:
        """Wait for a turn; `release` must follow."""
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue = self._waiting.setdefault(client, deque())
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Let the next request begin."""
        while self._waiting:
            client, queue = next(iter(self._waiting.items()))
            turn = queue.popleft()
            if queue:
                self._waiting.move_to_end(client)
            else:
                del self._waiting[client]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Lane:
    """A lock that serves its clients by turns.

    Args:
        patience: seconds that a request waits at most.
        max_waiting: requests that may wait at once, in addition to the first one of each client.
        max_per_client: requests of one client that may wait at once.
    """

    def __init__(self, patience: float, max_waiting: float = inf, max_per_client: float = inf) -> None:
        self._patience, self._max_waiting, self._max_per_client = patience, max_waiting, max_per_client
        self._lock, self._waiting = FairSemaphore(1), Counter[str]()

    async def acquire(self, client: str = "", is_gone: Callable[[], bool] = lambda: False) -> None:
        """Wait for the lock; `release` must follow. Raises `LaneFull`.

        Args:
            client: name of the client.
            is_gone: returns whether the client has disconnected.
        """
        own = self._waiting[client]
        if own >= self._max_per_client or (own and self._waiting.total() >= self._max_waiting):
            raise LaneFull
        self._waiting[client] += 1
        try:
            async with asyncio.timeout(self._patience):
                await self._lock.acquire(client)
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
