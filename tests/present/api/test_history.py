"""What is kept of the last minutes: held against a plain list, and within its bounds."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.errors import UsageError
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.gpu import names_of
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import QUANTITIES
from pulsed.present.api.history import History, HistoryShape
from pulsed.present.api.sample_fields import DEFAULT_FIELDS, FIELDS
from pulsed.present.settings import HISTORY_BYTES
from tests.present.boards import FLICKER, OPEN, SETTLED, TIME, Gpu, busy_gpus, gpu, mig, tick
from tests.support.clocks import ManualClock
from tests.support.documents import has_shape
from tests.support.examples import examples
from tests.support.ticks import readings_of

NAMES = ("workload_class", "raw_class", "health_state", "real_utilization_ratio", "sm_active_ratio", "power_watts")

HEAD = {"gpu": "0", "uuid": None, "mig_id": None, "node": "n", "interval_seconds": 1.0, "seconds": 600.0}


def at(clock: float, gpus: Sequence[Gpu], target: str = "made", time: float | None = None) -> Tick:
    """A tick that is taken at this moment of the source's clock."""
    made = tick(gpus, TIME + clock if time is None else time)
    return replace(made, raw=replace(made.raw, clock=Monotonic(clock), target=target))


def told(history: History, number: int = 0, seconds: float = inf, target: str = "made") -> dict[str, Any]:
    """What is answered for a GPU."""
    window = history.window(target, gpu(number).device, seconds)
    text = asyncio.run(history.write(window, history.fields, HEAD)).decode()
    document: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    return document


def test_a_window_has_every_sample_with_its_fields() -> None:
    history = History(fields=NAMES)
    history.add(at(0, [gpu(0, sm_active_ratio=0.123456, power_watts=700.123), gpu(1)]))
    history.add(at(1, [gpu(0, result=OPEN), gpu(1)]))
    history.add(at(2, [gpu(0, result=FLICKER, power_watts=0.0), gpu(1)]))
    assert told(history) == HEAD | {
        "time": [TIME, TIME + 1, TIME + 2],
        "fields": {
            "workload_class": ["memory_bound", "unknown", "idle"],
            "raw_class": ["memory_bound", "unknown", "memory_bound"],
            "health_state": ["warn", "unknown", FLICKER.health.state],
            "real_utilization_ratio": [0.62, None, 0.62],
            "sm_active_ratio": [0.123456, None, None],
            "power_watts": [700.123, None, 0.0],
        },
    }
    assert told(history, seconds=1)["time"] == [TIME + 1, TIME + 2]
    assert told(history, seconds=0.5)["time"] == [TIME + 2]
    assert told(history, 7) == HEAD | {"time": [], "fields": {name: [] for name in NAMES}}
    assert told(history, target="elsewhere")["time"] == []


def test_the_answer_has_its_shape() -> None:
    history = History()
    history.add(at(0, busy_gpus(1, 1)))
    document = told(history)
    assert list(document["fields"]) == list(DEFAULT_FIELDS)
    assert has_shape(HistoryShape, document)


def test_what_no_json_number_can_be_is_null() -> None:
    history = History(fields=("sm_active_ratio", "power_watts", "energy_joules_total"))
    strange = [nan, inf, -inf, 1e300, 10**400, None]
    for clock, value in enumerate(strange):
        history.add(at(clock, [gpu(0, sm_active_ratio=value, power_watts=1.5, energy_joules_total=value)]))
    fields = told(history)["fields"]
    assert fields["sm_active_ratio"] == [None] * len(strange)
    assert fields["power_watts"] == [1.5] * len(strange)
    assert all(value is None for value in fields["energy_joules_total"])


def test_counters_and_bytes_are_exact() -> None:
    history = History(fields=("energy_joules_total", "memory_used_bytes", "dram_active_ratio"))
    history.add(at(0, [gpu(0, energy_joules_total=439879638.639, memory_used_bytes=85899345921.0)]))
    fields = told(history)["fields"]
    assert fields["energy_joules_total"] == [439879638.639]
    assert fields["memory_used_bytes"] == [85899345921.0]
    assert fields["dram_active_ratio"] == [None]


@pytest.mark.parametrize(
    "fields", [("power_watts",), ("raw_class",), ("saturation_ratio",), FIELDS, ("power_watts",) * 2]
)
def test_any_fields_may_be_kept(fields: tuple[str, ...]) -> None:
    history = History(fields=fields)
    history.add(at(0, busy_gpus(2, 1)))
    assert set(told(history, 1)["fields"]) == set(fields)


def test_an_unknown_field_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"'sm_activ' is not a field\. Did you mean sm_active_ratio"):
        History(fields=("sm_activ",))


def test_all_default_fields_exist() -> None:
    assert set(DEFAULT_FIELDS) <= set(FIELDS)
    assert set(QUANTITIES) < set(FIELDS)
    assert len(set(DEFAULT_FIELDS)) == len(DEFAULT_FIELDS)


def test_a_gpu_that_has_gone_is_remembered_until_it_is_too_old() -> None:
    history = History(seconds=10, fields=NAMES)
    history.add(at(0, [gpu(0), gpu(1)]))
    history.add(at(1, [gpu(0)]))
    assert history.find("1", None, "here") == history.find("1", "node1", "here") == [("made", gpu(1).device)]
    assert history.find("1", "node2", "here") == []
    assert told(history, 1)["time"] == [TIME]
    for clock in range(2, 12):
        history.add(at(clock, [gpu(0)]))
    assert history.find("1", None, "here") == []
    assert told(history, 1)["time"] == []
    assert len(told(history)["time"]) == 11
    history.add(at(12, [gpu(0), gpu(1)]))
    assert told(history, 1)["time"] == [TIME + 12]
    for clock in range(13, 40):
        history.add(at(clock, [gpu(0), gpu(1)]))
    assert len(told(history)["time"]) == len(told(history, 1)["time"]) == 11


def test_a_forgotten_gpu_has_no_history() -> None:
    history = History()
    history.add(at(0, [gpu(0), gpu(1), mig(1, 7)]))
    history.add(at(1, [gpu(0), gpu(1), mig(1, 7)], target="other"))
    history.forget(gpu(1).device)
    history.add(at(2, [gpu(0)]))
    assert history.find("1", None, "here") == history.find("1:7", None, "here") == []
    assert told(history, 1)["time"] == []
    assert told(history, 0)["time"] == [TIME, TIME + 2]
    history.add(at(3, [gpu(0), gpu(1)]))
    assert told(history, 1)["time"] == [TIME + 3]


def test_a_target_that_has_gone_is_forgotten_by_this_process_s_clock() -> None:
    clock = ManualClock()
    history = History(seconds=10, fields=NAMES, now=clock)
    history.add(at(5, [gpu(0)], "gone"))
    clock.now += 10
    assert told(history, target="gone")["time"] == [TIME + 5]
    clock.now += 0.1
    assert told(history, target="gone")["time"] == []
    assert history.find("0", None, "here") == []
    assert history.size == 0


def test_a_replay_looks_back_as_far_as_its_capture() -> None:
    """Fifty minutes in one moment: the source's clock counts."""
    history = History(seconds=60, fields=NAMES, now=ManualClock())
    for clock in range(0, 3000, 15):
        history.add(at(clock, [gpu(0)]))
    assert told(history)["time"] == [TIME + clock for clock in (2925, 2940, 2955, 2970, 2985)]


def test_a_wall_clock_that_steps_changes_nothing() -> None:
    history = History(seconds=60, fields=NAMES)
    steps = [TIME, TIME + 1, TIME - 86400, TIME - 86399, TIME + 1e6]
    for clock, time in enumerate(steps):
        history.add(at(clock, [gpu(0)], time=time))
    assert told(history)["time"] == steps
    assert told(history, seconds=2)["time"] == steps[2:]


def test_a_source_that_starts_over_goes_on() -> None:
    history = History(seconds=60, fields=NAMES)
    for clock in (5000, 5001, 3, 4):
        history.add(at(clock, [gpu(0)]))
    assert told(history)["time"] == [TIME + clock for clock in (5000, 5001, 3, 4)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]),
            st.sampled_from([0.0, 0.1, 1.0, 4.0]),
            st.dictionaries(st.integers(0, 3), st.none() | st.floats(0, 1000), max_size=4),
        ),
        max_size=25,
    )
)
@examples(100)
def test_samples_are_those_of_a_list_within_the_time_limit(
    ticks: list[tuple[str, float, dict[int, float | None]]],
) -> None:
    limit, clock = 5.0, ManualClock()
    history = History(seconds=limit, fields=("energy_joules_total",), now=clock)
    kept: dict[tuple[str, int], list[tuple[float, float | None]]] = {}
    for target, pause, values in ticks:
        clock.now += pause
        gpus = [gpu(number, energy_joules_total=value) for number, value in values.items()]
        history.add(at(clock.now, gpus, target))
        for number, value in values.items():
            kept.setdefault((target, number), []).append((clock.now, value))
    for (target, number), samples in kept.items():
        expected = [(TIME + then, value) for then, value in samples if clock.now - then <= limit]
        answer = told(history, number, target=target)
        found = zip(answer["time"], answer["fields"]["energy_joules_total"], strict=True)
        assert [(round(time, 3), value) for time, value in found] == [(round(t, 3), v) for t, v in expected]
    clock.now += 2 * limit
    assert history.find("0", None, "here") == []
    assert history.size == 0


def test_beyond_its_bytes_the_oldest_go_first() -> None:
    history = History(max_bytes=20_000)
    for clock in range(200):
        history.add(at(clock, busy_gpus(4, clock)))
        assert history.size <= 20_000
    times = told(history)["time"]
    assert times == [TIME + clock for clock in range(200 - len(times), 200)]
    assert len(times) > 15


@pytest.mark.slow
def test_a_fleet_stays_within_its_bytes() -> None:
    """2,000 GPUs of 250 targets: what is counted is at least what is there."""
    limit = 2 * 2**20
    fleet = [at(0, busy_gpus(8, 1, f"node{number}"), f"target {number}") for number in range(250)]
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        history = History(max_bytes=limit)
        for clock in range(12):
            for each in fleet:
                history.add(
                    replace(each, raw=replace(each.raw, clock=Monotonic(float(clock)), time=Unix(TIME + clock)))
                )
            assert history.size <= limit
            assert tracemalloc.get_traced_memory()[0] - before < limit
    finally:
        tracemalloc.stop()
    window = history.window("target 7", fleet[7].devices[3], inf)
    times = json.loads(asyncio.run(history.write(window, (), {})))["time"]
    assert times == [TIME + clock for clock in range(12 - len(times), 12)]
    assert times


def test_ten_minutes_of_eight_gpus_at_ten_hertz_fit() -> None:
    history = History()
    made = [readings_of(tick(busy_gpus(8, seed))) for seed in range(100)]
    first = tick(busy_gpus(8, 0))
    for number in range(7000):
        clock, readings = number / 10, made[number % len(made)]
        rows = [replace(row, reading=reading) for row, reading in zip(first.gpus, readings, strict=True)]
        history.add(replace(first, raw=replace(first.raw, clock=Monotonic(clock), time=Unix(TIME + clock)), gpus=rows))
    assert told(history, 3)["time"] == [round(TIME + number / 10, 3) for number in range(999, 7000)]
    assert history.size <= HISTORY_BYTES


def test_a_limit_below_one_tick_keeps_nothing() -> None:
    history = History(max_bytes=1000)
    for clock in range(5):
        history.add(at(clock, busy_gpus(8, clock)))
        assert history.size == 0
    assert told(history)["time"] == []


async def test_a_long_answer_lets_others_run() -> None:
    history = History()
    made = tick(busy_gpus(1, 1))
    for number in range(3000):
        history.add(replace(made, raw=replace(made.raw, clock=Monotonic(number / 10), time=Unix(TIME + number / 10))))
    turns, done = 0, False

    async def others() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    window = history.window("made", made.devices[0], inf)
    history.add(replace(made, raw=replace(made.raw, clock=Monotonic(900.0))))  # what is being written stays as it is
    document = json.loads(await history.write(window, history.fields, {}))
    done = True
    await beside
    assert turns > 10
    assert len(document["time"]) == 3000
    assert {len(column) for column in document["fields"].values()} == {3000}


def test_names() -> None:
    whole, slice_ = gpu(3).device, mig(0, 7).device
    assert names_of(whole) == ("3", "GPU-node1-0003")
    assert names_of(slice_) == ("0:7", "GPU-node1-0000:7", "MIG-0-7")
    history = History(fields=NAMES)
    history.add(at(0, [gpu(0), mig(0, 7), mig(0, 8)]))
    assert [device for _, device in history.find("0:7", None, "here")] == [slice_]
    assert [device for _, device in history.find("0", None, "here")] == [gpu(0).device]


def test_the_same_gpu_by_two_targets_is_kept_twice_and_found_once() -> None:
    history = History(fields=NAMES)
    history.add(at(0, [gpu(0)], "first"))
    history.add(at(9, [gpu(0, result=SETTLED)], "second"))
    assert told(history, target="first")["time"] == [TIME]
    assert told(history, target="second")["time"] == [TIME + 9]
    assert len(history.find("0", None, "here")) == 1
