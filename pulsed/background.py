"""How work shares the time with the HTTP side: small pieces take turns in the event loop, large ones run in a thread.

There is one thread only: large pages are processed one after the other, which bounds memory, and the event loop waits
for the interpreter no longer than its switch interval (5 ms). Must not import any layer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")

TURN_SECONDS = 0.005
"""How long work may keep the event loop from its connections. A page of a megabyte is sent in several iterations of the
loop, each of which waits for the turns of all that is at work."""

_THREAD = ThreadPoolExecutor(1, thread_name_prefix="pulsed-background")


_turn_begun: float | None = None


async def turn() -> None:
    """Wait until work may be done in this iteration of the event loop.

    When many sources deliver at once, each iteration does work for `TURN_SECONDS`, and the rest waits for the next.
    """
    global _turn_begun
    while _turn_begun is not None and time.perf_counter() - _turn_begun > TURN_SECONDS:  # noqa: ASYNC110 (no event)
        await asyncio.sleep(0)
    if _turn_begun is None:
        _turn_begun = time.perf_counter()
        asyncio.get_running_loop().call_soon(_end_turn)


def _end_turn() -> None:
    global _turn_begun
    _turn_begun = None


async def in_background(work: Callable[[], _T]) -> _T:
    """Return what `work` returns, called in the thread.

    A cancellation drops work that has not begun. Otherwise it takes effect when the work is done, so that the
    canceller may use what the work changes.
    """
    job = _THREAD.submit(work)
    result = asyncio.wrap_future(job)
    try:
        return await asyncio.shield(result)
    except asyncio.CancelledError:
        if not job.cancel():
            await asyncio.wait({result})
        raise
    finally:
        del job, result  # an error refers to this frame, and they to the error: its page would wait for the collector
