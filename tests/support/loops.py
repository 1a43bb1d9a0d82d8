"""Tests that run on both event loops and leave nothing behind."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable

import pytest
import uvloop

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}

NewLoop = Callable[[], asyncio.AbstractEventLoop]


def on_both_loops(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test on both event loops, and see that it leaves nothing behind."""

    def run(new_loop: NewLoop, **arguments: object) -> None:
        run_on(new_loop, test(**arguments))

    taken = [inspect.Parameter("new_loop", inspect.Parameter.KEYWORD_ONLY)]
    taken += [one.replace(kind=one.KEYWORD_ONLY) for one in inspect.signature(test).parameters.values()]
    run.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    run.__name__ = test.__name__
    return pytest.mark.parametrize("new_loop", LOOPS.values(), ids=LOOPS.keys())(run)


def run_on(new_loop: NewLoop, test: Awaitable[None]) -> None:
    loop = new_loop()
    try:
        loop.run_until_complete(leaving_nothing(test))
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


async def leaving_nothing(test: Awaitable[None]) -> None:
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
