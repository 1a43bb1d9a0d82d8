"""Newest points at the end of a history are as if the whole had been read again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pulsed.apps.top.feed import newest_points, with_newest
from pulsed.present.api.history import History
from pulsed.present.api.routes.history import write_points
from tests.present.api.test_history_points import at, in_state
from tests.present.boards import gpu
from tests.support.examples import examples


def read(history: History, seconds: float, count: int, numbers: tuple[int, ...] = (0, 1)) -> Any:
    windows = [history.window("made", gpu(number).device, seconds) for number in numbers]
    loop = asyncio.new_event_loop()
    try:
        return json.loads(loop.run_until_complete(write_points(history, windows, history.fields, count, seconds, "n")))
    finally:
        loop.close()


def sample(history: History, second: float) -> None:
    states = (("idle", "ok"), ("memory_bound", "warn"))[int(second) % 3 == 0]
    first = in_state(*states)
    history.add(at(second, [first._replace(reading=first.reading._replace(power_watts=100 + second)), gpu(1)]))


@examples(25)
@given(
    st.lists(st.sampled_from([0.5, 1.0, 1.0, 1.0, 2.0, 9.0]), min_size=1, max_size=30), st.sampled_from([20, 40, 80])
)
def test_the_newest_points_are_those_of_the_whole(steps: list[float], count: int) -> None:
    history = History(fields=("power_watts", "workload_class", "health_state"))
    second = 0.0
    for _ in range(60):
        second += 1.0
        sample(history, second)
    shown = read(history, 40.0, count)
    for step in steps:
        second += step
        sample(history, second)
        whole = read(history, 40.0, count)
        moved = with_newest(shown, read(history, *newest_points(shown)))
        shown = whole if moved is None else dict(moved)
        assert shown["time"] == whole["time"]
        edge = max(len(shown["time"]) // 20, 1)  # the oldest point may be read in part only
        for one, other in zip(shown["gpus"], whole["gpus"], strict=True):
            assert one["fields"]["power_watts"]["mean"][edge:] == other["fields"]["power_watts"]["mean"][edge:]
            assert one["fields"]["workload_class"][edge:] == other["fields"]["workload_class"][edge:]
            assert len(one["fields"]["health_state"]) == count


def test_points_that_do_not_follow_are_refused() -> None:
    history = History(fields=("power_watts",))
    for second in range(30):
        sample(history, float(second))
    shown = read(history, 20.0, 20)
    assert with_newest(shown, read(history, 6.0, 6)) is not None
    assert with_newest(shown, read(history, 6.0, 12)) is None
    assert with_newest(shown, read(history, 6.0, 6, (0,))) is None
    sample(history, 60.0)
    assert with_newest(shown, read(history, 6.0, 6)) is None
