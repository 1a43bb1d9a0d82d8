from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.activity import CycleRatios, bounds_of, zero_filled
from pulsed.model.result import Bounds, Inputs
from pulsed.model.vocabulary import NOTHING, Reading
from tests.compute.readings import arbitrary, consistent, hidden, hide, many


def interval(bounds: Bounds, name: str) -> tuple[float, float]:
    return getattr(bounds.low, name), getattr(bounds.high, name)


def test_nothing_known_is_anything() -> None:
    assert bounds_of(NOTHING) == Bounds(Inputs(0, 0, 0, 0, 0), Inputs(1, 1, 1, 1, 1))


def test_complete_inputs_are_points() -> None:
    bounds = bounds_of(
        Reading(
            sm_active_ratio=0.5,
            tensor_active_ratio=0.4,
            dram_active_ratio=0.3,
            graphics_engine_active_ratio=0.6,
            fp64_active_ratio=0.1,
        )
    )
    assert bounds.low == Inputs(0.5, 0.4, 0.3, 0.6, 0.1)
    assert bounds.high is bounds.low


def test_present_inputs_are_clamped() -> None:
    # A MIG instance's ratio was captured at 1.294.
    assert interval(bounds_of(Reading(sm_active_ratio=1.294)), "sm") == (1, 1)
    assert interval(bounds_of(Reading(dram_active_ratio=-0.1)), "dram") == (0, 0)


def test_sm_lies_between_the_busiest_pipe_and_the_engine() -> None:
    for pipe in ("tensor", "fp64", "fp32", "fp16"):
        reading = Reading(graphics_engine_active_ratio=0.8, **{f"{pipe}_active_ratio": 0.3})
        assert interval(bounds_of(reading), "sm") == (0.3, 0.8)
    assert interval(bounds_of(Reading(sm_occupancy_ratio=0.2)), "sm") == (0.2, 1)


def test_gpu_utilization_is_a_ceiling_only_where_the_engine_is_missing() -> None:
    ceiling = Reading(gpu_utilization_ratio=0.6)
    assert interval(bounds_of(ceiling), "graphics_engine") == (0, 0.605)
    assert interval(bounds_of(ceiling), "sm") == (0, 0.605)
    assert interval(bounds_of(ceiling), "tensor") == (0, 0.605)
    measured = ceiling._replace(graphics_engine_active_ratio=0.7)
    assert interval(bounds_of(measured), "graphics_engine") == (0.7, 0.7)
    assert interval(bounds_of(measured), "sm") == (0, 0.7)


def test_memory_utilization_is_a_ceiling_only_where_dram_is_missing() -> None:
    assert interval(bounds_of(Reading(memory_utilization_ratio=0.4)), "dram") == (0, 0.405)
    assert interval(bounds_of(Reading(memory_utilization_ratio=0.4, dram_active_ratio=0.5)), "dram") == (0.5, 0.5)


def test_pipes_are_at_most_sm() -> None:
    bounds = bounds_of(Reading(sm_active_ratio=0.4, graphics_engine_active_ratio=0.9))
    assert interval(bounds, "tensor") == (0, 0.4)
    assert interval(bounds, "fp64") == (0, 0.4)


def test_the_engine_is_at_least_sm() -> None:
    assert interval(bounds_of(Reading(sm_active_ratio=0.4)), "graphics_engine") == (0.4, 1)
    assert interval(bounds_of(Reading(tensor_active_ratio=0.3)), "graphics_engine") == (0.3, 1)


def test_conflicting_evidence_spans_what_it_says() -> None:
    noisy = Reading(tensor_active_ratio=0.6, graphics_engine_active_ratio=0.5)
    assert interval(bounds_of(noisy), "sm") == (0.5, 0.6)
    noisy = Reading(tensor_active_ratio=0.6, gpu_utilization_ratio=0.5)
    assert interval(bounds_of(noisy), "sm") == (0.505, 0.6)
    assert interval(bounds_of(noisy), "graphics_engine") == (0.505, 0.6)
    noisy = Reading(sm_active_ratio=0.6, gpu_utilization_ratio=0.5)
    assert interval(bounds_of(noisy), "graphics_engine") == (0.505, 0.6)


def test_zero_filled() -> None:
    assert zero_filled(NOTHING).high == Inputs(0, 0, 0, 0, 0)
    filled = zero_filled(Reading(sm_active_ratio=0.2, gpu_utilization_ratio=0.9))
    assert filled.low == Inputs(0.2, 0, 0, 0.9, 0)
    assert zero_filled(Reading(gpu_utilization_ratio=0.9, graphics_engine_active_ratio=0.0)).low.graphics_engine == 0


@many
@given(arbitrary())
def test_never_inverted_and_in_range(reading: Reading) -> None:
    low, high = bounds_of(reading)
    assert all(0 <= floor <= ceiling <= 1 for floor, ceiling in zip(low, high, strict=True))


@many
@given(consistent(), hidden, hidden)
def test_hiding_never_narrows_and_the_truth_stays_inside(reading: Reading, some: set[str], more: set[str]) -> None:
    truth = bounds_of(reading).low
    inner = bounds_of(hide(reading, some))
    outer = bounds_of(hide(reading, some | more))
    for name in Inputs._fields:
        (a, b), (c, d) = interval(inner, name), interval(outer, name)
        assert c <= a <= getattr(truth, name) <= b <= d


@many
@given(st.floats(0, 1))
def test_a_lone_input_is_kept_exactly(value: float) -> None:
    assert interval(bounds_of(Reading(dram_active_ratio=value)), "dram") == (value, value)


def counters(elapsed: float | None, sm: float | None = None, tensor: float | None = None) -> Reading:
    return Reading(sm_elapsed_cycles_total=elapsed, sm_active_cycles_total=sm, tensor_active_cycles_total=tensor)


@pytest.mark.parametrize(
    ("before", "now", "measured"),
    [
        (counters(1e12, 1e11, 1e10), counters(1e12 + 400, 1e11 + 100, 1e10), {"sm": 0.25, "tensor": 0.0}),
        (counters(0, 0, 0), counters(400, 400, 100), {"sm": 1.0, "tensor": 0.25}),
        (counters(0, 0, 0), counters(400, 420, 420.1), {"sm": 1.0}),  # counters are not read at the same instant
        (counters(0, 9, 9), counters(400, 8.9, 9), {"tensor": 0.0}),  # one fell
        (counters(0, None, 0), counters(400, 100), {}),
        (counters(0, 0), counters(None, 100), {}),
        (counters(None, 0), counters(400, 100), {}),
        (counters(400, 0), counters(399, 100), {}),
        (counters(400, 0), counters(400, 0), {}),
    ],
)
def test_activity_between_two_samples_is_the_share_of_the_elapsed_cycles(
    before: Reading, now: Reading, measured: dict[str, float]
) -> None:
    ratios = CycleRatios()
    assert ratios.update(before, is_repeated=False) == ({}, False)
    found = ratios.update(now, is_repeated=False)
    assert found == ({f"{name}_active_ratio": share for name, share in measured.items()}, bool(measured))
    assert ratios.measured == found


def test_cycle_counters_that_stand_still_repeat_the_activity_of_a_page_that_repeats() -> None:
    ratios = CycleRatios()
    ratios.update(counters(0, 0), is_repeated=False)
    ratios.update(counters(400, 100), is_repeated=False)
    assert ratios.update(counters(400, 100), is_repeated=True) == ({"sm_active_ratio": 0.25}, False)
    assert ratios.update(counters(400, 100), is_repeated=False) == ({}, False)
    assert ratios.update(counters(800, 300), is_repeated=False) == ({"sm_active_ratio": 0.5}, True), "since the last"
    assert ratios.update(counters(100, 50), is_repeated=False) == ({}, False)
    assert ratios.update(counters(200, 150), is_repeated=False) == ({"sm_active_ratio": 1.0}, True), "since the reset"


def test_energy_and_memory_are_known_of_a_gap_with_the_activity_of_its_cycles() -> None:
    ratios = CycleRatios()
    ratios.update(counters(0, 0), is_repeated=False)
    now = counters(400, 100)._replace(energy_joules_total=5.0, memory_used_bytes=7.0, temperature_celsius=40.0)
    assert ratios.update(now, is_repeated=False).of_gap(now) == Reading(
        sm_active_ratio=0.25, energy_joules_total=5.0, memory_used_bytes=7.0
    )
