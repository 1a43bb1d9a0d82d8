from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.activity import bounds_of, zero_filled
from pulsed.model.computed_tick import Bounds, Inputs
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
