"""Tests that leave no socket and no task behind."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable


def leaves_nothing(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own, and see that it leaves nothing behind."""

    @functools.wraps(test)
    def run(**arguments: object) -> None:
        run_in_loop(test(**arguments))

    return run


def run_in_loop(test: Awaitable[None]) -> None:
    asyncio.run(_leaving_nothing(test))


async def _leaving_nothing(test: Awaitable[None]) -> None:
    before = sockets()
    await test
    for _ in range(500):
        if sockets() == before and len(asyncio.all_tasks()) == 1:
            return
        await asyncio.sleep(0.01)
    assert sockets() == before
    assert asyncio.all_tasks() == {asyncio.current_task()}


def sockets() -> set[str]:
    links = (os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd"))
    return {link for link in links if "socket:" in link}
