"""Background tasks: one that dies is logged, counted and started again; one that ends is not."""

from __future__ import annotations

import asyncio

import pytest

from pulsed import background_tasks
from pulsed.background_tasks import BackgroundTasks
from pulsed.present.exposition.telemetry import task_families
from tests.support.waiting import eventually


async def test_a_task_that_dies_is_started_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_tasks, "FIRST_PAUSE_SECONDS", 0.001)
    runs = 0

    async def dies_twice() -> None:
        nonlocal runs
        runs += 1
        if runs < 3:
            raise ValueError("broken")
        await asyncio.Event().wait()

    tasks = BackgroundTasks()
    assert list(task_families()) == []
    tasks.start("one", dies_twice)
    await eventually(lambda: runs == 3)
    await tasks.stop()
    (family,) = task_families()
    assert [(each.name, each.labels, each.value) for each in family.samples] == [
        ("pulsed_task_failures_total", {"task": "one"}, 2)
    ]
    assert [record.__dict__["task"] for record in caplog.records] == ["one", "one"]
    assert all(record.exc_info for record in caplog.records), "the log has the traceback"


async def test_a_task_that_ends_is_not_started_again(caplog: pytest.LogCaptureFixture) -> None:
    runs = 0

    async def ends() -> None:
        nonlocal runs
        runs += 1

    tasks = BackgroundTasks()
    tasks.start("one", ends)
    await asyncio.sleep(0.01)
    await tasks.stop()
    assert (runs, caplog.records) == (1, [])
