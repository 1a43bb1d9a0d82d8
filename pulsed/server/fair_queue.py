"""Turns for work that one request does at a time, given to the clients in rotation.

A client with many requests delays the others by one of its requests each, and cannot take their places: when the queue
is full, the client with the most waiting requests loses its newest one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple


class QueueFull(Exception):
    """There are too many requests for the turn, or it took too long: the client should try again later."""


class _Request(NamedTuple):
    turn: asyncio.Future[bool]  # not an exception: its traceback would refer to the future, a cycle
    is_gone: Callable[[], bool]

    def refuse(self) -> None:
        if not self.turn.done():
            self.turn.set_result(False)


class FairQueue:
    """A lock that is handed to waiting clients in rotation, at most once per iteration of the event loop.

    Args:
        most_waiting: requests that may wait at once.
        patience: seconds that a request waits at most.
    """

    def __init__(self, most_waiting: int, patience: float) -> None:
        self._most_waiting, self._patience = most_waiting, patience
        self._waiting: OrderedDict[str, deque[_Request]] = OrderedDict()
        self._is_taken = False

    async def acquire(self, client: str, is_gone: Callable[[], bool] = lambda: False) -> None:
        """Wait for the turn; `release` must follow. Raises `QueueFull`, also while waiting.

        Args:
            client: name of the client.
            is_gone: returns whether the client has disconnected: then the request is refused.
        """
        if not self._is_taken:
            self._is_taken = True
            try:
                await asyncio.sleep(0)  # requests of this iteration of the loop wait for it
            except asyncio.CancelledError:
                self.release()
                raise
            return
        self._make_room(client)
        loop = asyncio.get_running_loop()
        request = _Request(loop.create_future(), is_gone)
        self._waiting.setdefault(client, deque()).append(request)
        timer = loop.call_later(self._patience, request.refuse)
        try:
            if not await request.turn:
                raise QueueFull
        except asyncio.CancelledError:
            if not request.turn.cancelled() and request.turn.result():
                self.release()  # the turn came at the same time
            raise
        finally:
            timer.cancel()
            self._keep(lambda each: each is not request)

    def release(self) -> None:
        """Give the turn to the next client."""
        while self._waiting:
            client, requests = self._waiting.popitem(last=False)
            request = requests.popleft()
            if requests:
                self._waiting[client] = requests
            if request.turn.done():
                continue
            if not request.is_gone():
                request.turn.set_result(True)
                return
            request.refuse()
        self._is_taken = False

    def _make_room(self, client: str) -> None:
        """Refuse requests of clients that are gone, and if needed the newest one of the client with the most.

        Raises `QueueFull` if that is the one that comes.
        """
        if self._count() >= self._most_waiting:
            self._keep(lambda each: not each.is_gone())
        if self._count() >= self._most_waiting:
            most = max(self._waiting.values(), key=len)
            if len(most) <= len(self._waiting.get(client, ())) + 1:
                raise QueueFull
            most.pop().refuse()

    def _count(self) -> int:
        return sum(map(len, self._waiting.values()))

    def _keep(self, is_kept: Callable[[_Request], bool]) -> None:
        """Refuse all requests but some."""
        for client, requests in list(self._waiting.items()):
            kept = deque(each for each in requests if is_kept(each))
            if len(kept) == len(requests):
                continue
            for each in requests:
                if not is_kept(each):
                    each.refuse()
            if kept:
                self._waiting[client] = kept
            else:
                del self._waiting[client]
