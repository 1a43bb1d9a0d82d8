from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.real_utilization import SETTLED
from pulsed.compute.settings import PRESETS, ComputeSettings, Preset, RealUtilizationSettings, Weights
from pulsed.config.configuration import load
from pulsed.errors import ConfigError
from pulsed.model.interval import Interval, exactly
from pulsed.model.result import RealUtilization
from pulsed.model.vocabulary import NOTHING, Reading
from tests.compute.readings import INPUTS, arbitrary, consistent, hidden, hide, many, result_of

T4 = Reading(  # a T4 without SM activity: nvidia-smi says 91 % busy
    gpu_utilization_ratio=0.91,
    memory_utilization_ratio=0.73,
    graphics_engine_active_ratio=0.156,
    tensor_active_ratio=0.0,
    dram_active_ratio=0.04,
    pcie_transmit_bytes_per_second=3e6,
    pcie_receive_bytes_per_second=7e6,
)

# Whole numbers keep the sums of scaled weights at those of the presets, which are what coverage is compared with.
weight_sets = st.one_of(
    st.sampled_from(list(PRESETS.values())),
    st.lists(st.integers(0, 100), min_size=4, max_size=4).filter(any).map(lambda values: Weights(*values)),
    st.lists(st.floats(0, 1), min_size=4, max_size=4).filter(lambda w: sum(w) > 1e-3).map(lambda w: Weights(*w)),
)


def utilization(reading: Reading, options: ComputeSettings | None = None) -> RealUtilization:
    return result_of(reading, options).real_utilization


def test_presets_are_those_of_the_documentation() -> None:
    assert {
        "ai": Weights(0.35, 0.35, 0.20, 0.10),
        "hpc": Weights(0.45, 0.15, 0.25, 0.15),
        "mem": Weights(0.35, 0.10, 0.40, 0.15),
    } == PRESETS
    assert PRESETS["ai"].sm == 0.35
    assert RealUtilizationSettings().chosen_weights() == PRESETS["ai"]


@pytest.mark.parametrize("position", range(4))
def test_an_input_without_weight_is_not_missing(position: int) -> None:
    names = ("sm_active_ratio", "tensor_active_ratio", "dram_active_ratio", "graphics_engine_active_ratio")
    weights = Weights(*(0.0 if each == position else 1.0 for each in range(4)))
    expected = tuple(name for each, name in enumerate(names) if each != position)
    assert (
        utilization(NOTHING, ComputeSettings(real_utilization=RealUtilizationSettings("custom", weights))).ratio.missing
        == expected
    )


def test_custom_weights_are_scaled_to_one() -> None:
    assert Weights(2, 1, 1, 0).scaled() == Weights(0.5, 0.25, 0.25, 0.0)


@pytest.mark.parametrize(
    "weights",
    ["sm: -1, dram: 1", "sm: 0, tensor: 0", "sm: .nan, dram: 1", "sm: .inf, dram: 1", "sm: 1e308, dram: 1e308"],
)
def test_weights_that_cannot_be_scaled_are_refused(weights: str) -> None:
    with pytest.raises(ConfigError, match="real_utilization"):
        load(None, [f"compute.real_utilization.weights={{{weights}}}"], {})


@pytest.mark.parametrize(("preset", "expected"), [("ai", 0.445), ("hpc", 0.47), ("mem", 0.43)])
def test_complete_inputs_give_the_formula(preset: Preset, expected: float) -> None:
    reading = Reading(
        sm_active_ratio=0.5, tensor_active_ratio=0.4, dram_active_ratio=0.2, graphics_engine_active_ratio=0.9
    )
    result = utilization(reading, ComputeSettings(real_utilization=RealUtilizationSettings(preset)))
    assert result.ratio.value == pytest.approx(expected)
    assert result.ratio.low == result.ratio.value == result.ratio.high
    assert (result.coverage, result.ratio.missing) == (1.0, ())


def test_bounds_that_are_equal_are_a_value_whatever_the_coverage() -> None:
    settings = ComputeSettings(
        real_utilization=RealUtilizationSettings("custom", Weights(0.2, 0.0, 0.0, 0.8))
    )  # busy SMs keep the graphics engine busy
    full, part = (utilization(Reading(sm_active_ratio=ratio), settings) for ratio in (1.0, 0.9))
    assert (full.ratio.value, full.ratio.low, full.ratio.high, full.coverage) == (1.0, 1.0, 1.0, 0.2)
    assert part.ratio.value is None
    assert [part.ratio.low, part.ratio.high] == pytest.approx([0.9, 0.98])


def test_t4_page_is_not_busy() -> None:
    result = utilization(T4)
    assert result.ratio.missing == ("sm_active_ratio",)
    assert result.coverage == 0.65
    assert result.ratio.value is not None
    assert result.ratio.low <= result.ratio.value <= result.ratio.high < 0.1


def test_gpu_utilization_stands_in_for_the_engine_but_only_bounds_it() -> None:
    reading = Reading(sm_active_ratio=0.2, tensor_active_ratio=0.0, dram_active_ratio=0.0, gpu_utilization_ratio=0.8)
    result = utilization(reading)
    assert result.ratio.missing == ("graphics_engine_active_ratio",)
    assert result.coverage == 1.0
    assert result.ratio.value == pytest.approx(0.35 * 0.2 + 0.1 * 0.8)
    assert result.ratio.high == pytest.approx(0.35 * 0.2 + 0.1 * 0.805)  # a rounded percent
    assert result.ratio.low == pytest.approx(0.35 * 0.2 + 0.1 * 0.2)


def test_nothing_known_has_bounds_and_no_value() -> None:
    missing = ("sm_active_ratio", "tensor_active_ratio", "dram_active_ratio", "graphics_engine_active_ratio")
    assert utilization(NOTHING) == RealUtilization(Interval(0.0, None, 1.0, missing), 0.0)
    anything = ComputeSettings(real_utilization=RealUtilizationSettings(min_coverage=0.0))
    assert utilization(NOTHING, anything).ratio.value is None


@pytest.mark.parametrize(
    ("settings", "value"),
    [
        (RealUtilizationSettings("mem"), 0.5),
        (RealUtilizationSettings("mem", min_coverage=0.51), None),
        (RealUtilizationSettings("ai"), None),
    ],
)
def test_the_value_ends_where_coverage_ends(settings: RealUtilizationSettings, value: float | None) -> None:
    half = Reading(sm_active_ratio=0.5, graphics_engine_active_ratio=0.5)  # 0.35 + 0.15 of `mem`
    assert utilization(half, ComputeSettings(real_utilization=settings)).ratio.value == value


def test_a_fully_busy_gpu_is_exactly_full() -> None:
    busy = Reading(
        sm_active_ratio=1.0, tensor_active_ratio=1.0, dram_active_ratio=1.0, graphics_engine_active_ratio=1.0
    )
    for preset in PRESETS:
        assert utilization(busy, ComputeSettings(real_utilization=RealUtilizationSettings(preset))).ratio.value == 1.0


def test_coverage_compares_as_on_paper() -> None:
    weights = Weights(sm=0.1, tensor=0.2, dram=0.3, graphics_engine=0.4)
    reading = Reading(sm_active_ratio=0.5, tensor_active_ratio=0.5, dram_active_ratio=0.5)
    assert (
        utilization(
            reading, ComputeSettings(real_utilization=RealUtilizationSettings("custom", weights, min_coverage=0.6))
        ).coverage
        == 0.6
    )


def test_the_value_is_kept_inside_the_bounds() -> None:
    # The mean over the present inputs, 0.75, forgets that SM cannot be above the engine.
    weights = Weights(sm=0.5, tensor=0.0, dram=0.4, graphics_engine=0.1)
    reading = Reading(dram_active_ratio=0.9, graphics_engine_active_ratio=0.1)
    result = utilization(
        reading, ComputeSettings(real_utilization=RealUtilizationSettings("custom", weights, min_coverage=0.4))
    )
    assert result.ratio.value == result.ratio.high == pytest.approx(0.5 * 0.1 + 0.4 * 0.9 + 0.1 * 0.1)


def test_an_input_without_weight_is_not_missed() -> None:
    weights = Weights(sm=1, tensor=0, dram=1, graphics_engine=0)
    result = utilization(
        Reading(sm_active_ratio=0.3, dram_active_ratio=0.7),
        ComputeSettings(real_utilization=RealUtilizationSettings("custom", weights)),
    )
    assert result == RealUtilization(exactly(0.5), 1.0)


def test_missing_zero_takes_it_for_a_fact_but_says_what_it_took() -> None:
    result = utilization(Reading(sm_active_ratio=0.4), ComputeSettings(missing="zero"))
    assert result.ratio.value == result.ratio.low == result.ratio.high == pytest.approx(0.14)
    assert result.coverage == 0.35
    assert result.ratio.missing == ("tensor_active_ratio", "dram_active_ratio", "graphics_engine_active_ratio")
    assert utilization(NOTHING, ComputeSettings(missing="zero")).ratio.value == 0.0


@many
@given(consistent(), hidden, hidden, weight_sets, st.floats(0, 1))
def test_bounds_hold_the_truth(
    reading: Reading, some: set[str], more: set[str], weights: Weights, min_coverage: float
) -> None:
    options = ComputeSettings(real_utilization=RealUtilizationSettings("custom", weights, min_coverage))
    truth = utilization(reading, options)
    inner = utilization(hide(reading, some), options)
    outer = utilization(hide(reading, some | more), options)
    assert truth.ratio.value is not None
    assert truth.ratio.low == truth.ratio.value == truth.ratio.high
    assert outer.ratio.low <= inner.ratio.low <= truth.ratio.value <= inner.ratio.high <= outer.ratio.high
    assert outer.coverage <= inner.coverage <= truth.coverage == 1.0
    assert set(inner.ratio.missing) <= set(outer.ratio.missing)


@many
@given(arbitrary(), weight_sets, st.floats(0, 1))
def test_the_value_lies_within_the_bounds(reading: Reading, weights: Weights, min_coverage: float) -> None:
    result = utilization(
        reading, ComputeSettings(real_utilization=RealUtilizationSettings("custom", weights, min_coverage))
    )
    assert 0 <= result.ratio.low <= result.ratio.high <= 1
    is_covered = result.coverage >= min_coverage and result.coverage > 0
    assert (result.ratio.value is not None) == (is_covered or result.ratio.high - result.ratio.low <= SETTLED)
    if result.ratio.value is not None:
        assert result.ratio.low <= result.ratio.value <= result.ratio.high


@many
@given(arbitrary(), weight_sets)
def test_missing_zero_equals_zeros(reading: Reading, weights: Weights) -> None:
    filled = reading._replace(
        **{name: 0.0 for name in INPUTS if getattr(reading, name) is None and name != "graphics_engine_active_ratio"}
    )
    if filled.graphics_engine_active_ratio is None:
        filled = filled._replace(graphics_engine_active_ratio=filled.gpu_utilization_ratio)
    zero = utilization(reading, ComputeSettings("zero", RealUtilizationSettings("custom", weights)))
    assert (
        zero.ratio.value
        == zero.ratio.low
        == zero.ratio.high
        == utilization(filled, ComputeSettings(real_utilization=RealUtilizationSettings("custom", weights))).ratio.value
    )
