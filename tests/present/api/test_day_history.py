"""The minutes of a day: those of a history that keeps all samples, over restarts, and within their limit."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from math import floor
from typing import Any

import pytest

from pulsed.model.vocabulary import Reading
from pulsed.present.api.day_history import DayHistory, DayMinute, write_points
from pulsed.present.api.history import History
from tests.present.api.test_history_points import START, at, in_state
from tests.present.boards import Gpu, gpu

FIELDS = ("power_watts", "workload_class", "health_state")
BYTES = 8 * 2**20


def made(second: int, generator: random.Random) -> Gpu:
    """A GPU whose power and states change; power is missing now and then."""
    state = in_state(generator.choice(["idle", "memory_bound"]), generator.choice(["ok", "ok", "crit"]))
    watts = None if generator.random() < 0.1 else float(generator.randrange(100, 700))
    return state._replace(reading=state.reading._replace(power_watts=watts))


def fed(day: DayHistory, history: History, seconds: Sequence[int]) -> list[DayMinute]:
    generator, minutes = random.Random(7), []
    for second in seconds:
        tick = at(second, [made(second, generator)])
        if (minute := day.add(tick, history.add(tick))) is not None:
            minutes.append(minute)
    return minutes


def shown(day: DayHistory, history: History, count: int, seconds: float) -> Any:
    places = [("made", gpu(0).device)]
    written = write_points(history, day, places, history.fields, count, seconds, "here")
    return json.loads(asyncio.run(written))


@pytest.fixture(scope="module")
def histories() -> tuple[DayHistory, History, DayHistory, History]:
    """A day with the minutes of samples, and a history with all samples."""
    short, long = History(fields=FIELDS), History(86400.0, BYTES * 4, FIELDS)
    day, unused = DayHistory(short.fields, BYTES), DayHistory(long.fields, BYTES)
    samples = [second for second in range(5000) if not 1000 <= second < 1300]
    fed(day, short, samples)
    fed(unused, long, samples)
    return day, short, unused, long


@pytest.mark.parametrize(("count", "seconds"), [(60, 3600.0), (120, 3600.0), (30, 3600.0), (1440, 86400.0)])
def test_points_are_those_of_all_samples(
    histories: tuple[DayHistory, History, DayHistory, History], count: int, seconds: float
) -> None:
    """A point of less than a minute is its minute, but for the last 10 minutes."""
    day, short, unused, long = histories
    found = shown(day, short, count, seconds)
    places = [("made", gpu(0).device)]
    whole = json.loads(asyncio.run(write_points(long, unused, places, FIELDS, count, seconds, "here")))
    assert (found["time"], found["step_seconds"]) == (whole["time"], whole["step_seconds"])
    first = next(at for at, moment in enumerate(found["time"]) if moment >= START + 5000 - 3600)
    recent = next(at for at, moment in enumerate(found["time"]) if moment >= START + 4400)
    if found["step_seconds"] > 60:
        del whole["gpus"][0]["fields"]["workload_class"]  # the most frequent one of minutes, not of samples
    for name, values in whole["gpus"][0]["fields"].items():
        mine = found["gpus"][0]["fields"][name]
        parts = values.items() if isinstance(values, dict) else [("", values)]
        for part, expected in parts:
            got = mine[part] if part else mine
            begin = first + 2 if found["step_seconds"] >= 60 else recent
            assert got[begin:] == [
                pytest.approx(each, rel=0.02 if part == "mean" else 1e-4) if isinstance(each, float) else each
                for each in expected[begin:]
            ]


def test_a_gap_stays_a_gap() -> None:
    history = History(fields=FIELDS)
    day = DayHistory(history.fields, BYTES)
    fed(day, history, [*range(600), *range(1800, 3000)])
    found = shown(day, history, 60, 3600.0)
    means = dict(zip(found["time"], found["gpus"][0]["fields"]["power_watts"]["mean"], strict=True))
    assert [means[START + minute * 60.0] is None for minute in range(50)] == [False] * 10 + [True] * 20 + [False] * 20


def test_minutes_outlive_a_restart_also_with_other_fields() -> None:
    history = History(fields=FIELDS)
    day = DayHistory(history.fields, BYTES)
    minutes = fed(day, history, range(1200))
    assert len(minutes) == 19
    saved = json.loads(json.dumps([minute.dump() for minute in minutes]))
    after = History(fields=("temperature_celsius", "power_watts", "health_state"))
    second = DayHistory(after.fields, BYTES)
    generator = random.Random(1)
    for moment_now in range(1260, 1400):
        tick = at(moment_now, [made(moment_now, generator)])
        second.add(tick, after.add(tick))
    second.continue_from(second.earlier([DayMinute.load(each) for each in saved]))
    before = shown(day, history, 60, 3600.0)
    found = shown(second, after, 60, 3600.0)
    minute = {moment: at for at, moment in enumerate(found["time"])}
    old = {moment: at for at, moment in enumerate(before["time"])}
    fields, old_fields = found["gpus"][0]["fields"], before["gpus"][0]["fields"]
    for number in range(19):
        now, then = minute[START + number * 60.0], old[START + number * 60.0]
        assert fields["health_state"][now] == old_fields["health_state"][then]
        assert fields["power_watts"]["max"][now] == old_fields["power_watts"]["max"][then]
    assert found["gpus"][0]["fields"]["temperature_celsius"]["max"][minute[START]] is None
    assert found["gpus"][0]["fields"]["power_watts"]["max"][minute[START + 1200]] is None
    assert found["gpus"][0]["fields"]["power_watts"]["max"][minute[START + 1260]] is not None


GPU = {"kind": "gpu", "gpu": "0"}


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        {},
        {"minute": 1, "target": "x", "fields": [], "gpus": [[{}, []]]},
        {"minute": "x"},
        {"minute": 1, "target": "x", "fields": ["power_watts", "health_state"], "gpus": [[GPU, [1.0, 1.0, 1.0]]]},
    ],
)
def test_what_is_no_minute_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="not a minute"):
        DayMinute.load(wrong)


def test_many_gpus_have_fewer_minutes_and_a_gpu_that_is_gone_has_none_after_a_day() -> None:
    history = History(fields=FIELDS)
    day = DayHistory(history.fields, 20_000)
    for second in range(0, 7200, 30):
        tick = at(second, [gpu(number, power_watts=1.0) for number in range(10)])
        day.add(tick, history.add(tick))
    assert sum(len(each.rows) for each in day._gpus.values()) <= 20_000
    for minute in (1, 2):
        tick = at(floor(7200 + 86400 + 60 * minute), [gpu(0, power_watts=1.0)])
        day.add(tick, history.add(tick))
    assert len(day._gpus) == 1


def test_a_clock_that_goes_back_replaces_minutes() -> None:
    history = History(fields=FIELDS)
    day = DayHistory(history.fields, BYTES)
    fed(day, history, [*range(0, 600, 10), *range(300, 480, 10)])
    (rows,) = [each.rows for each in day._gpus.values()]
    assert len(rows) == 7 * day._struct.size


def test_a_forgotten_gpu_has_no_minutes() -> None:
    history = History(fields=FIELDS)
    day = DayHistory(history.fields, BYTES)
    fed(day, history, range(0, 600, 10))
    day.forget(gpu(0).device)
    assert day.newest("made", gpu(0).device) == 0.0


def test_a_minute_has_all_samples_however_little_the_history_keeps() -> None:
    history, day = History(1.0, fields=FIELDS), DayHistory(FIELDS, BYTES)
    for second in range(61):
        watts = 5000.0 if second == 3 else 100.0
        tick = at(second, [in_state("idle", "ok")._replace(reading=Reading(power_watts=watts))])
        ended = day.add(tick, history.add(tick))
    assert ended is not None
    ((_, values),) = ended.gpus
    assert values == ["idle", "ok", 100.0, pytest.approx((59 * 100.0 + 5000.0) / 60), 5000.0]


def test_a_gpu_that_is_forgotten_is_not_in_the_current_minute() -> None:
    history, day = History(fields=FIELDS), DayHistory(FIELDS, BYTES)
    day.add(first := at(0, [gpu(0), gpu(1)]), history.add(first))
    day.forget(gpu(1).device)
    ended = day.add(second := at(60, [gpu(0)]), history.add(second))
    assert ended is not None
    assert [device for device, _ in ended.gpus] == [gpu(0).device]
