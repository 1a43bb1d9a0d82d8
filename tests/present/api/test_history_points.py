"""Points of the history: held against a plain reduction, gaps, and the route."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from math import floor
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.health import Health
from pulsed.model.result import ShownClass
from pulsed.model.tick import Tick
from pulsed.present.api.day_history import DayHistory, write_points
from pulsed.present.api.history import History
from pulsed.present.api.history_points import HistoryPointsShape
from tests.present.api.test_application import Known
from tests.present.boards import SETTLED, TIME, Gpu, gpu, mig, tick
from tests.support.documents import has_shape
from tests.support.examples import examples

FIELDS = ("power_watts", "workload_class", "health_state")
START = floor(TIME / 60) * 60.0


def at(second: float, gpus: Sequence[Gpu], target: str = "made") -> Tick:
    made = tick(gpus, START + second)
    return replace(made, raw=replace(made.raw, clock=Monotonic(5000.0 + second), target=target))


def points(
    history: History, count: int, seconds: float, gpus: Sequence[Gpu] = (gpu(0),), target: str = "made"
) -> dict[str, Any]:
    places, day = [(target, each.device) for each in gpus], DayHistory(history.fields, 0)
    document: dict[str, Any] = json.loads(
        asyncio.run(write_points(history, day, places, history.fields, count, seconds, "here"))
    )
    return document


def in_state(workload: str, health: str) -> Gpu:
    result = SETTLED._replace(
        shown_class=ShownClass(workload, "memory", Unix(TIME)),
        health=Health(health, 0, 1.0, ()),  # type: ignore[arg-type] # a state as text
    )
    return gpu(0, result=result)


def test_minimum_mean_maximum_most_frequent_class_and_worst_health() -> None:
    history = History(fields=FIELDS)
    states = [("idle", "ok"), ("idle", "crit"), ("memory_bound", "ok"), ("memory_bound", "unknown")]
    for second, ((workload, health), watts) in enumerate(zip(states, (100.0, 400.0, None, 50.0), strict=True)):
        made = in_state(workload, health)
        history.add(at(second, [made._replace(reading=made.reading._replace(power_watts=watts))]))
    document = points(history, 2, 6.0)
    assert document["time"] == [START, START + 3]
    assert (document["seconds"], document["step_seconds"]) == (6.0, 3.0)
    assert points(history, 2, 4.0)["gpus"][0]["fields"] == {
        "power_watts": {"min": [100.0, 50.0], "mean": [250.0, 50.0], "max": [400.0, 50.0]},
        "workload_class": ["idle", "memory_bound"],
        "health_state": ["crit", "ok"],
    }


def test_a_gap_stays_a_gap_and_short_points_are_covered() -> None:
    history = History(fields=("power_watts",))
    for second in (0, 1, 2, 3, 20, 21, 22):
        history.add(at(second, [gpu(0, power_watts=100.0 + second)]))
    found = points(history, 46, 23.0)["gpus"][0]["fields"]["power_watts"]["mean"]
    covered = [100.0, 101.0, 101.0, 102.0, 102.0, 103.0, 103.0]
    after = [120.0, 121.0, 121.0, 122.0, 122.0]
    assert found == [None, *covered, *[None] * 33, *after]


def test_a_sample_without_a_value_is_none_and_zero_is_zero() -> None:
    history = History(fields=("power_watts",))
    for second, watts in enumerate((0.0, None, 7.0)):
        history.add(at(second, [gpu(0, power_watts=watts)]))
    found = points(history, 3, 3.0)["gpus"][0]["fields"]["power_watts"]
    assert found == {name: [0.0, None, 7.0] for name in ("min", "mean", "max")}


@examples(60)
@given(
    st.lists(st.tuples(st.floats(0.1, 8.0), st.none() | st.floats(0, 1000, width=32)), min_size=1, max_size=80),
    st.integers(2, 40),
)
@example([(1.1, None), (1.063, 0.0)], 22)  # at the edge of a point
def test_points_are_those_of_a_plain_list(samples: list[tuple[float, float | None]], count: int) -> None:
    history = History(fields=("power_watts",))
    second, clocks = 0.0, list[float]()
    for elapsed, watts in samples:
        second = round(second + elapsed, 3)
        history.add(at(second, [gpu(0, power_watts=watts)]))
        clocks.append(5000.0 + second)
    times = [START + second - (clocks[-1] - clock) for clock in clocks]  # by the clock, also at the edge of a point
    seconds = max(round(second, 1), 1.0)
    document = points(history, count, seconds)
    step = seconds / count
    axis = floor(times[-1] / step) - count + 1
    kept = [(at, watts) for at, (_, watts) in zip(times, samples, strict=True) if times[-1] - at <= seconds]
    found = document["gpus"][0]["fields"]["power_watts"]
    for index in range(count):
        mine = [watts for at, watts in kept if floor(at / step) - axis == index]
        if not mine:
            before = [at for at, _ in kept if floor(at / step) - axis < index]
            after = [(at, watts) for at, watts in kept if floor(at / step) - axis > index]
            is_covered = before and after and after[0][0] - before[-1] <= 3.000001
            mine = [after[0][1]] if is_covered else []
        known = [watts for watts in mine if watts is not None]
        assert found["max"][index] == (pytest.approx(max(known), abs=1e-3) if known else None)
        assert found["mean"][index] == (pytest.approx(sum(known) / len(known), abs=1e-3) if known else None)


async def test_several_gpus_share_one_axis() -> None:
    known = Known([gpu(0, power_watts=1.0), gpu(1), mig(2, 7)], [gpu(0, "node2", power_watts=2.0)])
    known.goes_on(0, [gpu(0, power_watts=3.0), gpu(1), mig(2, 7)])
    status, document, _ = await known.get("/history?seconds=10&points=10")
    assert status == 200
    assert has_shape(HistoryPointsShape, document)
    assert [(each["node"], each["gpu"], each["mig_id"]) for each in document["gpus"]] == [
        ("node1", "0", None),
        ("node1", "1", None),
        ("node1", "2", "7"),
        ("node2", "0", None),
    ]
    _, document, _ = await known.get("/history?seconds=10&points=10&gpu=0,2:7,0&fields=power_watts")
    assert [(each["node"], each["gpu"]) for each in document["gpus"]] == [
        ("node1", "0"),
        ("node2", "0"),
        ("node1", "2"),
    ]
    first, second, _ = [each["fields"]["power_watts"]["max"] for each in document["gpus"]]
    assert first[-2:] == [1.0, 3.0]
    assert second[-2:] == [2.0, None]
    _, document, _ = await known.get("/history?gpu=0&node=node2")
    assert [each["node"] for each in document["gpus"]] == ["node2"]


async def test_a_gpu_that_is_gone_keeps_its_points() -> None:
    known = Known([gpu(0), mig(2, 7, power_watts=5.0)])
    known.goes_on(0, [gpu(0)])
    _, document, _ = await known.get("/history?gpu=2:7&fields=power_watts&seconds=2&points=2")
    assert document["gpus"][0]["fields"]["power_watts"]["max"] == [5.0, None]
    _, document, _ = await known.get("/history")
    assert [each["gpu"] for each in document["gpus"]] == ["0"]


async def test_too_much_is_refused() -> None:
    known = Known([gpu(number) for number in range(257)])
    assert "257 GPUs; name at most 256" in await known.refused("/history", 400)
    names = ",".join(map(str, range(200)))
    assert "more than 100000" in await known.refused(f"/history?gpu={names}&points=2000", 400)
