"""Waiting for conditions: a limit is there for what never happens, not for a slow machine."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

SECONDS = 60.0
"""How long a test waits for what must happen. It passes at once where it happens; only a failure takes as long."""


def until(holds: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Return as soon as the condition holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"never came to hold in {seconds:g} s"
        time.sleep(0.05)


async def eventually(holds: Callable[[], bool], seconds: float = SECONDS, case: object = "a condition") -> None:
    """Return as soon as the condition holds; the event loop continues meanwhile."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{case} never came to hold in {seconds:g} s"
        await asyncio.sleep(0.01)


def returned(work: Callable[[], T], seconds: float = SECONDS) -> T:
    """Return what `work` returns, called in a thread of its own, because it may never return."""
    found: list[T | BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:  # noqa: BLE001 - raised by the caller's thread
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert found, f"never returned in {seconds:g} s"
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


async def cancelled_before_it_has_a_thread(writing: Coroutine[Any, Any, None], then: Callable[[], None]) -> None:
    """Run a coroutine that uses `asyncio.to_thread` while no thread is free, cancel it, and call a function."""
    loop, free = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))
    busy = loop.run_in_executor(None, free.wait)
    task = asyncio.create_task(writing)
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.wait([task])
    then()
    free.set()
    await busy
