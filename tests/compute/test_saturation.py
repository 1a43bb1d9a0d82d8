from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.activity import bounds_of
from pulsed.compute.peaks import LINKS, RESOURCES, peaks_by_architecture
from pulsed.compute.products import c2c_of, nvlink_of
from pulsed.compute.saturation import LIMITING_RESOURCES, NONE, SATURATION, UNKNOWN, Saturator, pcie_peak
from pulsed.compute.settings import ComputeSettings
from pulsed.model.interval import Interval
from pulsed.model.result import Saturation
from pulsed.model.vocabulary import Reading
from tests.compute.readings import C2C, INPUTS, at_most, consistent, hide, many, rates

A100 = "NVIDIA A100-SXM4-40GB"
H100 = "NVIDIA H100 80GB HBM3"
GH200 = "NVIDIA GH200 480GB"
MODELS = ("", "Tesla T4", A100, H100, "NVIDIA H100 NVL", GH200, "NVIDIA GB200")

PIPES = ("tensor", "fp64", "fp32", "fp16", "integer")
LINK_FIELDS = ("pcie_link_generation", "pcie_link_generation_max", "pcie_link_width", "pcie_link_width_max")
NVLINK_RATES = (
    "nvlink_transmit_bytes_per_second",
    "nvlink_receive_bytes_per_second",
    "nvlink_bandwidth_bytes_per_second",
)
CLOCKS = ("sm_clock_hertz", "sm_clock_max_hertz")
ALL_INPUTS = (*INPUTS, "integer_active_ratio", *NVLINK_RATES, *LINK_FIELDS, *CLOCKS)

LOADED = Reading(
    sm_active_ratio=0.8,
    graphics_engine_active_ratio=0.9,
    tensor_active_ratio=0.465,
    fp64_active_ratio=0.1,
    fp32_active_ratio=0.2,
    fp16_active_ratio=0.3,
    integer_active_ratio=0.4,
    dram_active_ratio=0.2,
    pcie_transmit_bytes_per_second=1e9,
    pcie_receive_bytes_per_second=2e9,
    pcie_link_generation=4.0,
    pcie_link_width=16.0,
    nvlink_transmit_bytes_per_second=138e9,
    nvlink_receive_bytes_per_second=27.6e9,
)


def of(reading: Reading, model: str = A100, whole: bool = True) -> Saturation:
    return Saturator(model, whole).saturation(reading, bounds_of(reading))


def named(saturation: Saturation) -> tuple[float | None, str]:
    return saturation.ratio.value, saturation.limiting_resource


def share(saturation: Saturation, resource: str) -> float | None:
    return saturation.resources[RESOURCES.index(resource)]


def test_all_inputs_known_give_all_shares() -> None:
    saturation = of(LOADED)
    pcie = 2e9 / (16 * 16e9 / 8 * 128 / 130 * 0.935)
    assert saturation.resources[:-1] == pytest.approx((0.5, 0.1, 0.2, 0.3, 0.4, 0.25, pcie, 0.5))
    assert saturation.resources[-1] is None, "an A100 has no link to a processor of its own board"
    assert saturation.ratio.value == pytest.approx(0.5)
    assert saturation.compute == pytest.approx(0.5)
    assert saturation.memory == pytest.approx(0.25)
    assert saturation.ratio.missing == ()


def test_the_link_of_a_superchip() -> None:
    loading = LOADED._replace(c2c_transmit_bytes_per_second=1e9, c2c_receive_bytes_per_second=450e9 * 0.83 * 0.9)
    saturation = of(loading, GH200)
    assert saturation.ratio.value == pytest.approx(0.9)
    assert saturation.limiting_resource == "c2c"
    assert saturation.ratio.missing == ("nvlink",)
    unread = of(LOADED, GH200)
    assert (share(unread, "c2c"), unread.ratio.missing) == (None, ("nvlink", "c2c"))


def test_the_link_of_a_superchip_whose_peak_is_unknown() -> None:
    busy = LOADED._replace(c2c_transmit_bytes_per_second=1e9, c2c_receive_bytes_per_second=90e9)
    saturation = of(busy, "NVIDIA GB200")
    assert (share(saturation, "c2c"), saturation.ratio.missing) == (None, ("c2c",))
    quiet = LOADED._replace(c2c_transmit_bytes_per_second=0.0, c2c_receive_bytes_per_second=0.0)
    assert share(of(quiet, "NVIDIA GB200"), "c2c") == 0.0
    peaks = peaks_by_architecture({"blackwell": {"c2c": 180e9}})
    configured = Saturator("NVIDIA GB200", True, peaks).saturation(busy, bounds_of(busy))
    assert share(configured, "c2c") == 0.5


def test_traffic_between_chips_of_an_unknown_superchip_has_no_peak() -> None:
    busy = LOADED._replace(c2c_transmit_bytes_per_second=1e9, c2c_receive_bytes_per_second=90e9)
    assert of(busy, "NVIDIA VR200").ratio.missing == ("nvlink", "c2c")


def test_a_tie_goes_to_the_first() -> None:
    saturation = of(LOADED._replace(tensor_active_ratio=0.0, fp32_active_ratio=0.7, fp16_active_ratio=0.7))
    assert (saturation.ratio.value, saturation.limiting_resource) == (0.7, "fp32")


def test_t4_page_with_nvml_time_shares_only() -> None:
    reading = Reading(gpu_utilization_ratio=0.8, memory_utilization_ratio=0.5, sm_clock_hertz=1.59e9)
    assert of(reading, "Tesla T4") == Saturation(
        Interval(0.0, None, 1.0, (*PIPES, "dram", "pcie")), UNKNOWN, (None,) * 9, None, None
    ), "and a T4 has no NVLink to miss"


def test_default_page_of_dcgm_exporter() -> None:
    reading = Reading(graphics_engine_active_ratio=0.9, tensor_active_ratio=0.186, dram_active_ratio=0.6)
    ampere, hopper = of(reading), of(reading, H100)
    assert (ampere.ratio.value, hopper.ratio.value) == pytest.approx((0.75, 0.6 / 0.87))
    assert ampere.limiting_resource == hopper.limiting_resource == "dram"
    assert ampere.compute == pytest.approx(0.2)
    assert ampere.ratio.missing == ("fp64", "fp32", "fp16", "integer", "pcie", "nvlink")


def test_memory_at_its_practical_peak_is_saturated() -> None:
    reading = Reading(tensor_active_ratio=0.1, dram_active_ratio=0.83)
    assert named(of(reading)) == (1.0, "dram")


def test_a_mig_instance_has_no_links() -> None:
    saturation = of(LOADED._replace(pcie_receive_bytes_per_second=29e9), whole=False)
    assert saturation.resources[-3:] == (None, None, None)
    assert saturation.ratio.missing == ()
    assert saturation.ratio.value == pytest.approx(0.5)
    assert saturation.limiting_resource == "tensor"


def test_an_idle_gpu_has_no_limiting_resource_if_all_are_known() -> None:
    reading = Reading(graphics_engine_active_ratio=0.0, tensor_active_ratio=0.0, dram_active_ratio=0.0)
    assert named(of(reading)) == (0.0, UNKNOWN), "the links may be busy"
    assert named(of(reading, whole=False)) == (0.0, NONE)


def test_without_inputs_there_is_no_saturation() -> None:
    assert named(of(Reading())) == (None, UNKNOWN)


# Without a pipe and memory together: published only where physics leaves no room above.

LINKS_QUIET = Reading(
    pcie_transmit_bytes_per_second=0.0, pcie_receive_bytes_per_second=0.0, nvlink_bandwidth_bytes_per_second=0.0
)


def test_missing_pipes_are_no_nearer_their_limit_than_a_nearly_idle_engine_allows() -> None:
    quiet = LINKS_QUIET._replace(dram_active_ratio=0.4)
    assert named(of(quiet)) == (None, UNKNOWN)
    assert named(of(quiet._replace(gpu_utilization_ratio=0.3))) == (0.5, "dram")
    assert named(of(quiet._replace(gpu_utilization_ratio=0.9, graphics_engine_active_ratio=0.3))) == (0.5, "dram")
    assert named(of(quiet._replace(gpu_utilization_ratio=0.9, sm_active_ratio=0.3))) == (0.5, "dram")
    assert named(of(quiet._replace(sm_active_ratio=0.48))) == (None, UNKNOWN), "0.48 of tensor is above 0.5 of its peak"


def test_missing_memory_is_no_nearer_its_limit_than_its_time_share_allows() -> None:
    pipes = LINKS_QUIET._replace(fp32_active_ratio=0.6, sm_active_ratio=0.5)
    assert named(of(pipes)) == (None, UNKNOWN)
    assert named(of(pipes._replace(memory_utilization_ratio=0.5))) == (None, UNKNOWN)
    assert named(of(pipes._replace(memory_utilization_ratio=0.4))) == (0.6, "fp32")


def test_a_missing_link_is_bounded_by_nothing() -> None:
    reading = Reading(dram_active_ratio=0.4, sm_active_ratio=0.1)
    assert named(of(reading)) == (None, UNKNOWN)
    assert named(of(reading, whole=False)) == (0.5, "dram")


def test_nothing_can_exceed_a_full_resource() -> None:
    assert named(of(Reading(dram_active_ratio=0.8))) == (1.0, "dram")


# The links.


@pytest.mark.parametrize(
    ("link", "generation", "width"),
    [
        ({"pcie_link_generation": 4.0, "pcie_link_width": 16.0}, 4, 16),
        ({"pcie_link_generation": 1.0, "pcie_link_generation_max": 4.0, "pcie_link_width": 16.0}, 4, 16),
        ({"pcie_link_generation_max": 4.0, "pcie_link_width": 4.0, "pcie_link_width_max": 16.0}, 4, 16),
        ({"pcie_link_generation": 3.0, "pcie_link_generation_max": 0.0, "pcie_link_width": 8.0}, 3, 8),
    ],
)
def test_pcie_is_measured_by_the_link_that_it_can_train_to(link: dict[str, float], generation: int, width: int) -> None:
    reading = Reading(pcie_transmit_bytes_per_second=1e8, pcie_receive_bytes_per_second=3e9, **link)
    peak = pcie_peak(generation, width)
    assert peak is not None
    assert share(of(reading), "pcie") == pytest.approx(3e9 / peak)


def test_pcie_of_an_unknown_link_is_known_only_while_nothing_moves() -> None:
    reading = Reading(pcie_transmit_bytes_per_second=0.0, pcie_receive_bytes_per_second=0.0)
    assert share(of(reading), "pcie") == 0.0
    assert share(of(reading._replace(pcie_receive_bytes_per_second=1.0)), "pcie") is None


def test_one_direction_alone_settles_only_a_full_link() -> None:
    reading = Reading(pcie_link_generation=3.0, pcie_link_width=16.0)
    assert share(of(reading._replace(pcie_receive_bytes_per_second=1e9)), "pcie") is None
    assert share(of(reading._replace(pcie_transmit_bytes_per_second=15.5e9)), "pcie") == 1.0
    assert share(of(Reading(nvlink_receive_bytes_per_second=280e9)), "nvlink") == 1.0


@pytest.mark.parametrize(
    ("both", "expected"), [(0.0, 0.0), (100e9, None), (551e9, None), (552e9, 1.0), (600e9, 1.0), (math.nan, None)]
)
def test_the_sum_of_both_nvlink_directions_is_sure_at_the_ends_only(both: float, expected: float | None) -> None:
    assert share(of(Reading(nvlink_bandwidth_bytes_per_second=both)), "nvlink") == expected


def test_the_sum_does_not_complete_one_nvlink_direction_which_was_measured_at_another_time() -> None:
    reading = Reading(nvlink_bandwidth_bytes_per_second=200e9, nvlink_receive_bytes_per_second=100e9)
    assert share(of(reading), "nvlink") is None


def test_directions_go_before_their_sum() -> None:
    reading = Reading(**dict(zip(NVLINK_RATES, (27.6e9, 13.8e9, 41.4e9), strict=True)))
    assert share(of(reading), "nvlink") == pytest.approx(0.1)


def test_nvlink_of_a_bridged_board_needs_an_override() -> None:
    reading = Reading(nvlink_transmit_bytes_per_second=3e11, nvlink_receive_bytes_per_second=1e11)
    peaks = peaks_by_architecture({"hopper": {"nvlink": 6e11}})
    assert share(of(reading, "NVIDIA H100 NVL"), "nvlink") is None
    assert share(
        Saturator("NVIDIA H100 NVL", True, peaks).saturation(reading, bounds_of(reading)), "nvlink"
    ) == pytest.approx(0.5)
    assert share(Saturator(H100, True, peaks).saturation(reading, bounds_of(reading)), "nvlink") == pytest.approx(0.5)


def test_overrides_replace_the_peaks() -> None:
    peaks = peaks_by_architecture({"default": {"dram": 0.5, "pcie": 4e9}})
    saturation = Saturator(A100, True, peaks).saturation(LOADED._replace(pcie_link_generation=None), bounds_of(LOADED))
    assert saturation.memory == pytest.approx(0.4)
    assert share(saturation, "pcie") == pytest.approx(0.5)


# Tensor throughput.


# Properties.

anything = st.fixed_dictionaries({}, optional=dict.fromkeys(ALL_INPUTS, st.none() | st.floats() | st.floats(0, 1)))


@many
@given(anything, st.sampled_from(MODELS), st.booleans())
def test_any_input_gives_ratios_or_nothing(values: dict[str, float | None], model: str, whole: bool) -> None:
    saturation = of(Reading(**values), model, whole)
    known = [value for value in saturation.resources if value is not None]
    for value in (*known, saturation.ratio.value):
        assert value is None or 0.0 <= value <= 1.0
    assert saturation.limiting_resource in LIMITING_RESOURCES
    if saturation.ratio.value is None:
        assert saturation.limiting_resource == UNKNOWN
    else:
        assert saturation.ratio.value == max(known)
        nothing = NONE if saturation.ratio.high == 0 else UNKNOWN
        expected = (
            nothing if saturation.ratio.value == 0 else RESOURCES[saturation.resources.index(saturation.ratio.value)]
        )
        assert saturation.limiting_resource == expected
    assert saturation.ratio.low == max(known, default=0.0)
    assert saturation.ratio.low <= saturation.ratio.high <= 1.0
    pipes = [value for value in saturation.resources[: len(PIPES)] if value is not None]
    assert saturation.compute == max(pipes, default=None)
    assert saturation.memory == share(saturation, "dram")
    row = nvlink_of(model)
    absent = set() if whole else set(LINKS)
    if c2c_of(model) is None and all(values.get(name) is None for name in C2C):
        absent.add("c2c")
    if row is not None and row.links == 0:
        absent.add("nvlink")
    unknown = {name for name, value in zip(RESOURCES, saturation.resources, strict=True) if value is None}
    assert set(saturation.ratio.missing) == unknown - absent
    assert absent <= unknown


@st.composite
def loads(draw: st.DrawFn) -> Reading:
    """Everything that saturation looks at, as physics has it."""
    reading = draw(consistent())
    transmit, receive = draw(rates), draw(rates)
    return reading._replace(
        integer_active_ratio=draw(at_most(reading.sm_active_ratio or 0.0)),
        nvlink_transmit_bytes_per_second=transmit,
        nvlink_receive_bytes_per_second=receive,
        nvlink_bandwidth_bytes_per_second=transmit + receive,
        pcie_link_generation=draw(st.sampled_from([None, 1.0, 5.0])),
        pcie_link_width=16.0,
    )


def on(model: str, reading: Reading) -> Reading:
    """Give the reading of a product: superchips alone have the link between chips."""
    return reading if c2c_of(model) else hide(reading, set(C2C))


measured = st.sets(st.sampled_from((*INPUTS, "integer_active_ratio", *NVLINK_RATES)))


@many
@given(loads(), measured, measured, st.sampled_from(MODELS), st.booleans())
def test_more_known_inputs_never_lower_the_ratio(
    reading: Reading, hidden: set[str], more: set[str], model: str, whole: bool
) -> None:
    reading = on(model, reading)
    more_known = of(hide(reading, hidden), model, whole).ratio.value
    less_known = of(hide(reading, hidden | more), model, whole).ratio.value
    assert less_known is None or (more_known is not None and more_known >= less_known)


@many
@given(loads(), measured, st.sampled_from(MODELS), st.booleans())
def test_the_truth_lies_between_the_bounds(reading: Reading, hidden: set[str], model: str, whole: bool) -> None:
    reading = on(model, reading)
    full, part = of(reading, model, whole), of(hide(reading, hidden), model, whole)
    assert part.ratio.low <= full.ratio.low <= part.ratio.high


@many
@given(loads(), measured, st.sampled_from(MODELS), st.booleans())
def test_a_ratio_without_a_pipe_or_memory_is_the_final_one(
    reading: Reading, hidden: set[str], model: str, whole: bool
) -> None:
    reading = on(model, reading)
    full, part = of(reading, model, whole), of(hide(reading, hidden), model, whole)
    if part.ratio.value is not None and (part.compute is None or part.memory is None):
        assert part.ratio.value == full.ratio.value


def test_a_ratio_needs_a_pipe_and_the_memory() -> None:
    pipes = ("tensor", "fp64", "fp32", "fp16", "integer")
    assert SATURATION.inputs(ComputeSettings()) == (
        tuple(f"{pipe}_active_ratio" for pipe in pipes),
        ("dram_active_ratio",),
    )
