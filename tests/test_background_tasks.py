"""Background tasks: one that dies is logged, counted and started again; one that ends is not."""

from __future__ import annotations

import asyncio

import pytest

from pulsed import background_tasks
from pulsed.background_tasks import BackgroundTasks, Backoff, aligned_sleep, next_multiple
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


async def test_a_task_is_started_again_only_once_it_has_ended() -> None:
    runs, end = 0, asyncio.Event()

    async def ends() -> None:
        nonlocal runs
        runs += 1
        await end.wait()

    tasks = BackgroundTasks()
    for _ in range(2):
        tasks.start_ended("one", ends)
        await asyncio.sleep(0)
    assert runs == 1
    end.set()
    await asyncio.sleep(0.01)
    tasks.start_ended("one", ends)
    await asyncio.sleep(0)
    assert runs == 2
    await tasks.stop()


@pytest.mark.parametrize(
    ("seconds", "now", "expected"),
    [(1.0, 7.0, 8.0), (1.0, 7.49, 8.0), (1.0, 7.5, 9.0), (1.0, 6.999, 8.0), (2.0, 7.5, 10.0), (0.1, 7.31, 7.4)],
)
def test_the_multiple_is_half_an_interval_to_one_and_a_half_later(seconds: float, now: float, expected: float) -> None:
    assert next_multiple(seconds, now) == pytest.approx(expected)
    assert 0.5 * seconds <= expected - now <= 1.5 * seconds


def test_sleeps_that_begin_at_different_times_end_together() -> None:
    assert {next_multiple(0.5, begun) for begun in (7.0, 7.05, 7.1, 6.9)} == {7.5}


async def test_a_sleep_lasts_until_the_multiple() -> None:
    loop = asyncio.get_running_loop()
    due = next_multiple(0.1, loop.time())
    await aligned_sleep(0.1)
    assert loop.time() >= due - 0.002  # timers have a resolution of a millisecond


def test_pauses_double_up_to_the_longest_and_begin_anew() -> None:
    pauses = Backoff(1.0, 60.0, lambda: 0.0)
    assert [pauses.next() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    pauses.reset()
    assert pauses.next() == 1


def test_chance_shortens_a_pause_by_half_at_most() -> None:
    numbers = iter([0.0, 0.5, 0.999])
    pauses = Backoff(4.0, 4.0, lambda: next(numbers))
    assert pauses.next() == 4.0
    assert pauses.next() == 3.0
    assert 2.0 < pauses.next() < 2.01
