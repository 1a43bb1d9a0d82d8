from __future__ import annotations

import itertools
import math
import operator
from dataclasses import fields, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pulsed.compute import classifier as workload_module
from pulsed.compute.activity import bounds_of
from pulsed.compute.class_table import DEFAULT_THRESHOLDS, RULES, VARIABLES, ClassThresholds, Profile, rules_of
from pulsed.compute.classifier import Classifier, traffic
from pulsed.compute.products import c2c_of
from pulsed.compute.settings import PRESETS, ComputeSettings, RealUtilizationSettings, Weights, WorkloadSettings
from pulsed.model.gpu import Device
from pulsed.model.interval import between, exactly
from pulsed.model.result import Bounds, Inputs, Workload
from pulsed.model.vocabulary import CLASSES, NOTHING, UNKNOWN, Reading, Value
from tests.compute.readings import (
    C2C,
    C2C_RATE,
    GUEST,
    INPUTS,
    INSTANCE,
    MEMORY_RATE,
    NEAR_EDGES,
    PCIE,
    RATIO_INPUTS,
    SUPERCHIP,
    SUPERCHIP_INSTANCE,
    WHOLE,
    arbitrary,
    consistent,
    devices,
    hidden,
    hide,
    many,
    rates,
    ratios,
    result_of,
)

BOTTLENECK = {rule.name: rule.bottleneck for rule in RULES}
profiles: st.SearchStrategy[Profile] = st.sampled_from(["pulsed", "kempnerpulse"])
PROFILES = (ComputeSettings(), ComputeSettings(workload=WorkloadSettings("kempnerpulse")))


def cascade(
    ru: float, sm: float, tensor: float, dram: float, gr: float, fp64: float, io: bool, profile: Profile = "pulsed"
) -> str:
    """The class table once more, written as one would read it aloud."""
    if ru < 0.05 and gr < 0.05 and dram < 0.05 and not io:
        return "idle"
    if tensor >= 0.5 and sm >= 0.6:
        return "tensor_heavy_compute"
    if dram >= 0.65 and profile == "pulsed":
        return "memory_bound"
    if tensor >= 0.15 and sm >= 0.4:
        return "tensor_compute"
    if fp64 >= 0.2 and sm >= 0.5:
        return "fp64_hpc_compute"
    if io and sm < 0.3:
        return "io_or_data_loading"
    if dram >= 0.5 and sm < 0.5:
        return "memory_bound"
    if sm >= 0.8:
        return "compute_heavy"
    if sm >= 0.5:
        return "compute_active"
    if dram >= 0.4:
        return "memory_active"
    if gr >= 0.4 and sm < 0.25:
        return "busy_low_sm_use"
    if gr < 0.15 and sm < 0.15 and dram < 0.15:
        return "low_utilization"
    return "mixed_or_moderate"


def full(
    sm: float, tensor: float, dram: float, gr: float, fp64: float = 0.0, sent: float = 0.0, received: float = 0.0
) -> Reading:
    return Reading(
        sm_active_ratio=sm,
        tensor_active_ratio=tensor,
        dram_active_ratio=dram,
        graphics_engine_active_ratio=gr,
        fp64_active_ratio=fp64,
        pcie_transmit_bytes_per_second=sent,
        pcie_receive_bytes_per_second=received,
    )


def expected(reading: Reading, weights: Weights = PRESETS["ai"], profile: Profile = "pulsed") -> str:
    """The class of a reading with all inputs of the table."""
    sm, tensor, dram, gr, fp64 = (min(max(getattr(reading, name), 0.0), 1.0) for name in RATIO_INPUTS)
    ru = weights.sm * sm + weights.tensor * tensor + weights.dram * dram + weights.graphics_engine * gr
    links = PCIE if profile == "kempnerpulse" else (*PCIE, *C2C)
    io = max(getattr(reading, name) or 0.0 for name in links) >= 1e9
    return cascade(ru, sm, tensor, dram, gr, fp64, io, profile)


def just_below(threshold: float) -> float:
    return math.nextafter(threshold, 0.0)


def workload(reading: Reading, options: ComputeSettings | None = None, device: Device = WHOLE) -> Workload:
    return result_of(reading, options, device).workload


@pytest.mark.parametrize(
    ("reading", "name"),
    [
        # 1 idle: just below on every condition, then each at its threshold
        (full(0.04, 0.0, just_below(0.05), just_below(0.05), sent=just_below(1e9)), "idle"),
        (full(0.05, 0.04, 0.04, 0.05), "low_utilization"),
        (full(0.04, 0.0, 0.05, 0.04), "low_utilization"),
        (full(0.04, 0.0, 0.0, 0.04, sent=1e9), "io_or_data_loading"),
        (full(0.04, 0.0, 0.0, 0.04, received=1e9), "io_or_data_loading"),
        (full(0.14, 0.14, 0.0, 0.0), "low_utilization"),  # RU 0.098; noise: SM above the engine
        # 2 and 3 tensor
        (full(0.6, 0.5, 0.0, 1.0), "tensor_heavy_compute"),
        (full(0.6, just_below(0.5), 0.0, 1.0), "tensor_compute"),
        (full(just_below(0.6), 0.5, 0.0, 1.0), "tensor_compute"),
        (full(0.4, 0.15, 0.0, 1.0), "tensor_compute"),
        (full(0.4, just_below(0.15), 0.0, 1.0), "mixed_or_moderate"),
        (full(just_below(0.4), 0.15, 0.0, 1.0), "mixed_or_moderate"),
        # 2b device memory at its practical peak, whatever the SMs show
        (full(1.0, 0.0, 0.9, 1.0), "memory_bound"),  # a copy kernel on all SMs
        (full(0.9, 0.2, 0.8, 1.0), "memory_bound"),  # decoding of a language model
        (full(1.0, 0.0, 0.65, 1.0), "memory_bound"),
        (full(1.0, 0.0, just_below(0.65), 1.0), "compute_heavy"),
        (full(0.6, 0.5, 0.65, 1.0), "tensor_heavy_compute"),
        (full(0.6, just_below(0.5), 0.65, 1.0), "memory_bound"),
        (full(0.6, just_below(0.5), just_below(0.65), 1.0), "tensor_compute"),
        (full(0.5, 0.0, 0.65, 1.0, fp64=0.2), "memory_bound"),
        (full(0.1, 0.0, 0.65, 1.0, sent=1e9), "memory_bound"),
        # 4 fp64
        (full(0.5, 0.0, 0.0, 1.0, fp64=0.2), "fp64_hpc_compute"),
        (full(0.5, 0.0, 0.0, 1.0, fp64=just_below(0.2)), "compute_active"),
        (full(just_below(0.5), 0.0, 0.0, 1.0, fp64=0.2), "mixed_or_moderate"),
        # 5 io
        (full(just_below(0.3), 0.0, 0.6, 1.0, sent=1e9), "io_or_data_loading"),
        (full(0.3, 0.0, 0.6, 1.0, sent=1e9), "memory_bound"),
        (full(0.1, 0.0, 0.0, 0.2, sent=just_below(1e9), received=just_below(1e9)), "mixed_or_moderate"),
        # 6 memory bound
        (full(just_below(0.5), 0.0, 0.5, 1.0), "memory_bound"),
        (full(0.5, 0.0, 0.5, 1.0), "compute_active"),
        (full(0.3, 0.0, just_below(0.5), 1.0), "memory_active"),
        # 7 and 8 compute
        (full(0.8, 0.0, 0.6, 1.0), "compute_heavy"),
        (full(just_below(0.8), 0.0, 0.6, 1.0), "compute_active"),
        # 9 memory active
        (full(0.3, 0.0, 0.4, 1.0), "memory_active"),
        (full(0.3, 0.0, just_below(0.4), 1.0), "mixed_or_moderate"),
        # 10 busy, low SM use
        (full(just_below(0.25), 0.0, 0.0, 0.4), "busy_low_sm_use"),
        (full(0.25, 0.0, 0.0, 0.4), "mixed_or_moderate"),
        (full(0.2, 0.0, 0.0, just_below(0.4)), "mixed_or_moderate"),
        # 11 low
        (full(just_below(0.15), 0.0, just_below(0.15), just_below(0.15)), "low_utilization"),
        (full(0.14, 0.0, 0.14, 0.15), "mixed_or_moderate"),
        (full(0.14, 0.0, 0.15, 0.14), "mixed_or_moderate"),
        (full(0.15, 0.0, 0.14, 0.14), "mixed_or_moderate"),
    ],
)
def test_every_row_at_its_thresholds(reading: Reading, name: str) -> None:
    assert expected(reading) == name
    assert workload(reading) == Workload(name, BOTTLENECK[name])


@pytest.mark.slow
def test_every_threshold_in_every_row() -> None:
    """All combinations of values just below, at and just above the thresholds of each input."""
    near = {
        "sm": [x for t in (0.15, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8) for x in (just_below(t), t)],
        "tensor": [x for t in (0.15, 0.5) for x in (just_below(t), t)],
        "dram": [x for t in (0.05, 0.15, 0.4, 0.5, 0.65) for x in (just_below(t), t)],
        "gr": [x for t in (0.05, 0.15, 0.4) for x in (just_below(t), t)],
        "fp64": [just_below(0.2), 0.2],
        "sent": [just_below(1e9), 1e9],
    }
    for values in itertools.product(*near.values()):
        reading = full(**dict(zip(near, values, strict=True)))
        assert workload(reading).raw_class == expected(reading)
        reading = reading._replace(memory_utilization_ratio=0.0)
        assert workload(reading, PROFILES[1]).raw_class == expected(reading, profile="kempnerpulse")


def test_t4_page_is_settled_without_sm() -> None:
    reading = full(0.0, 0.0, 0.04, 0.156, 0.0, 3e6, 7e6)._replace(
        sm_active_ratio=None, fp64_active_ratio=None, gpu_utilization_ratio=0.91, memory_utilization_ratio=0.73
    )
    assert workload(reading) == Workload("mixed_or_moderate", "mixed")
    assert (
        workload(reading, ComputeSettings(workload=WorkloadSettings("kempnerpulse"))).raw_class == "io_or_data_loading"
    )


def test_nothing_known_could_be_anything() -> None:
    assert workload(NOTHING) == Workload(UNKNOWN, UNKNOWN, CLASSES)
    without_io = tuple(name for name in CLASSES if name != "io_or_data_loading")
    assert workload(NOTHING, device=INSTANCE) == Workload(UNKNOWN, UNKNOWN, without_io)


def test_the_bottleneck_that_all_candidates_share_is_known() -> None:
    reading = full(0.9, 0.0, 0.1, 0.9)._replace(tensor_active_ratio=None)
    assert workload(reading) == Workload(
        UNKNOWN, "compute", ("tensor_heavy_compute", "tensor_compute", "compute_heavy")
    )


def test_missing_traffic_is_open_on_a_whole_gpu_only() -> None:
    idle = full(0.0, 0.0, 0.0, 0.01)
    for missing in (set(PCIE), {PCIE[0]}, {PCIE[1]}):
        reading = hide(idle, missing)
        assert workload(reading) == Workload(UNKNOWN, UNKNOWN, ("idle", "io_or_data_loading"))
        assert workload(reading, device=INSTANCE).raw_class == "idle"
        assert workload(reading, device=GUEST).raw_class == "idle"
    one = idle._replace(pcie_transmit_bytes_per_second=2e9, pcie_receive_bytes_per_second=None)
    assert workload(one).raw_class == "io_or_data_loading"
    assert workload(one, device=INSTANCE).raw_class == "idle"


def c2c(sent: float | None, received: float | None) -> dict[str, float | None]:
    return dict(zip(C2C, (sent, received), strict=True))


@pytest.mark.parametrize("device", [SUPERCHIP, WHOLE])
def test_traffic_between_chips_is_io(device: Device) -> None:
    """A GH200 loads its data over NVLink-C2C: 100 GB/s are 2 % of its memory's bandwidth, and PCIe is quiet."""
    loading = full(0.0, 0.0, 0.021, 0.0)
    for link in (c2c(0.0, 100e9), c2c(1e9, 0.0), c2c(None, 1e9)):
        assert workload(loading._replace(**link), device=device) == Workload("io_or_data_loading", "io")
    little = loading._replace(**c2c(just_below(1e9), just_below(1e9)))
    assert workload(little, device=device).raw_class == "idle"


def test_traffic_between_chips_does_not_exist_below_a_whole_gpu() -> None:
    loading = full(0.0, 0.0, 0.021, 0.0)._replace(**c2c(0.0, 100e9))
    assert workload(loading, device=SUPERCHIP_INSTANCE).raw_class == "idle"
    assert workload(loading._replace(**c2c(None, None)), device=SUPERCHIP_INSTANCE).raw_class == "idle"


def test_the_kempnerpulse_profile_has_no_traffic_between_chips() -> None:
    kempnerpulse = ComputeSettings(workload=WorkloadSettings("kempnerpulse"))
    reading = full(0.0, 0.0, 0.021, 0.0)._replace(memory_utilization_ratio=0.1)
    for link in (c2c(0.0, 100e9), c2c(None, None)):
        assert workload(reading._replace(**link), kempnerpulse, SUPERCHIP).raw_class == "idle"


def test_missing_traffic_between_chips_is_open_on_a_superchip_only() -> None:
    maybe = full(0.0, 0.0, 0.021, 0.0)
    open_ = Workload(UNKNOWN, UNKNOWN, ("idle", "io_or_data_loading"))
    for link in (c2c(None, None), c2c(0.0, None), c2c(None, 0.0)):
        assert workload(maybe._replace(**link), device=SUPERCHIP) == open_
        assert workload(maybe._replace(**link)).raw_class == "idle"
        assert workload(maybe._replace(**link), ComputeSettings(missing="zero"), SUPERCHIP).raw_class == "idle"
    computing = full(0.9, 0.6, 0.3, 1.0)
    assert workload(computing, device=SUPERCHIP).raw_class == "tensor_heavy_compute"


@pytest.mark.parametrize("model", ["NVIDIA GH200 480GB", "NVIDIA GH200 144G HBM3e", "NVIDIA GB200", "NVIDIA GB300"])
def test_an_idle_superchip_is_idle_without_the_counter_of_its_link(model: str) -> None:
    """dcgm-exporter's stock page lacks it. Idle GPUs show up to 0.00006 of DRAM activity, which 1 GB/s exceeds."""
    device = replace(SUPERCHIP, model=model)
    for dram, engine in ((0.0, 0.0), (62e-6, 0.0), (100e-6, 0.0), (0.0, 0.002)):
        assert workload(full(0.0, 0.0, dram, engine), device=device).raw_class == "idle"
    assert workload(full(0.0, 0.0, 0.001, 0.0), device=device).candidates == ("idle", "io_or_data_loading")
    stock = full(0.0, 0.0, 2e-6, 0.0)._replace(sm_active_ratio=None, fp64_active_ratio=None)
    assert workload(stock, device=device).raw_class == "idle"


def test_the_kempnerpulse_profile_takes_a_busy_memory_for_a_copy_engine() -> None:
    kempnerpulse = ComputeSettings(workload=WorkloadSettings("kempnerpulse"))
    reading = full(0.1, 0.0, 0.1, 0.2)
    assert workload(reading._replace(memory_utilization_ratio=0.4)).raw_class == "mixed_or_moderate"
    assert workload(reading._replace(memory_utilization_ratio=0.4), kempnerpulse).raw_class == "io_or_data_loading"
    below = reading._replace(memory_utilization_ratio=just_below(0.4))
    assert workload(below, kempnerpulse).raw_class == "mixed_or_moderate"
    assert workload(reading, kempnerpulse).candidates == ("io_or_data_loading", "mixed_or_moderate")
    assert workload(reading, replace(kempnerpulse, missing="zero")).raw_class == "mixed_or_moderate"
    assert workload(reading._replace(memory_utilization_ratio=0.9), kempnerpulse, INSTANCE).raw_class != (
        "io_or_data_loading"
    )


@pytest.mark.parametrize(
    ("device", "values", "expected"),
    [
        (WHOLE, {"pcie": (3e9, 5e9)}, (5e9, 5e9)),
        (WHOLE, {"pcie": (0.0, 0.0)}, (0.0, 0.0)),
        (WHOLE, {"pcie": (None, 5e9)}, (5e9, math.inf)),
        (WHOLE, {"pcie": (0.0, None)}, (0.0, math.inf)),
        (WHOLE, {"pcie": (3e9, 5e9), "c2c": (2e9, 7e9)}, (7e9, 7e9)),
        (WHOLE, {"pcie": (0.0, 0.0), "c2c": (0.0, None)}, (0.0, 0.0)),
        (SUPERCHIP, {"pcie": (0.0, 0.0), "c2c": (2e9, 7e9)}, (7e9, 7e9)),
        (SUPERCHIP, {"pcie": (0.0, 0.0), "c2c": (None, 7e9)}, (7e9, 4.9e12 / 2 + 450e9 / 4)),
        (SUPERCHIP, {"pcie": (0.0, 0.0), "c2c": (0.0, None)}, (0.0, 4.9e12 / 2 + 450e9 / 4)),
        (INSTANCE, {"pcie": (3e9, 5e9)}, (0.0, 0.0)),
    ],
)
def test_traffic_is_the_largest_direction_or_what_the_missing_one_can_be(
    device: Device, values: dict[str, tuple[Value, Value]], expected: tuple[float, float]
) -> None:
    names = [f"{link}_{way}_bytes_per_second" for link in values for way in ("transmit", "receive")]
    known = [value for ways in values.values() for value in ways]
    reading = Reading(dram_active_ratio=0.5, graphics_engine_active_ratio=0.25, **dict(zip(names, known, strict=True)))
    found = traffic(device, reading, bounds_of(reading).high, ComputeSettings(), c2c_of(device.model))
    assert (found.low, found.high) == expected
    low = max([value for value in known if value is not None]) if device.whole else 0.0
    settings = ComputeSettings("zero")
    assert traffic(device, reading, bounds_of(reading).high, settings, c2c_of(device.model)) == exactly(low)


def test_custom_thresholds() -> None:
    thresholds = ClassThresholds(memory_bound_dram_ratio=0.3, memory_bound_sm_ratio=0.7, compute_heavy_sm_ratio=2.0)
    options = ComputeSettings(workload=WorkloadSettings(thresholds=thresholds))
    assert workload(full(just_below(0.7), 0.0, 0.3, 1.0), options).raw_class == "memory_bound"
    assert workload(full(0.7, 0.0, 0.3, 1.0), options).raw_class == "compute_active"
    assert workload(full(1.0, 0.0, 0.0, 1.0), options).raw_class == "compute_active"
    unknown = workload(full(0.6, 0.0, 0.3, 1.0)._replace(sm_active_ratio=None), options)
    assert unknown.candidates == ("memory_bound", "compute_active")
    later = ComputeSettings(
        workload=WorkloadSettings(thresholds=ClassThresholds(memory_bound_saturated_dram_ratio=0.8))
    )
    assert workload(full(1.0, 0.0, 0.79, 1.0), later).raw_class == "compute_heavy"
    assert workload(full(1.0, 0.0, 0.8, 1.0), later).raw_class == "memory_bound"


def test_both_rules_of_a_class_lead_to_one_candidate() -> None:
    """Half of the device memory's time or all of it, on less than half of the SMs: memory-bound either way."""
    reading = full(0.4, 0.0, 0.9, 1.0, fp64=0.0)._replace(dram_active_ratio=None)
    assert workload(reading).candidates == ("memory_bound", "memory_active", "mixed_or_moderate")
    noisy = Bounds(Inputs(0.4, 0.0, 0.55, 1.0, 0.0), Inputs(0.4, 0.0, 0.9, 1.0, 0.0))
    assert Classifier(DEFAULT_THRESHOLDS).classify(noisy, between(0.3, 0.5), exactly(0.0)) == Workload(
        "memory_bound", "memory"
    )


def test_custom_weights_move_the_edge_of_idle() -> None:
    # SM above the engine: noise, but then real utilization alone keeps the GPU from being idle.
    reading = full(0.1, 0.0, 0.0, 0.04)
    assert workload(reading).raw_class == "idle"
    assert (
        workload(
            reading, ComputeSettings(real_utilization=RealUtilizationSettings("custom", Weights(1, 0, 0, 0)))
        ).raw_class
        == "low_utilization"
    )


def test_it_forgets_rather_than_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_module, "REMEMBERED", 2)
    table = Classifier(DEFAULT_THRESHOLDS)

    def classified(sm: float) -> Workload:
        bounds = Bounds(Inputs(sm, 0.0, 0.0, 0.5, 0.0), Inputs(1.0, 0.2, 0.2, 1.0, 0.0))
        return table.classify(bounds, between(0.3, 0.4), between(0.0, math.inf))

    first, second = classified(0.0), classified(0.35)
    assert classified(0.0) is first
    assert classified(0.35) is second
    classified(0.9)  # one more than are remembered
    assert classified(0.0) == first
    assert classified(0.0) is not first


COMPARE = {"<": operator.lt, ">=": operator.ge}

edges = st.one_of(st.sampled_from([0.0, 0.05, 0.15, 0.2, 0.4, 0.5, 0.8]), st.floats(0, 1.2))
tables = st.builds(
    ClassThresholds, **{field.name: edges for field in fields(ClassThresholds) if field.name != "io_bytes_per_second"}
)


@many
@given(st.one_of(st.just(DEFAULT_THRESHOLDS), tables), profiles, st.tuples(*[ratios] * 6), rates, ratios)
def test_cells_equal_a_walk_of_the_table(
    thresholds: ClassThresholds, profile: Profile, values: tuple[float, ...], io: float, media: float
) -> None:
    inputs = Inputs(*values[:5])
    by_name = dict(zip(VARIABLES, (*values, io, media), strict=True))
    walked = next(
        rule.name
        for rule in rules_of(profile)
        if all(
            COMPARE[condition.comparison](by_name[condition.variable], getattr(thresholds, condition.threshold))
            for condition in rule.conditions
        )
    )
    result = Classifier(thresholds, profile).classify(Bounds(inputs, inputs), exactly(values[5]), exactly(io), media)
    assert result == Workload(walked, BOTTLENECK[walked])


@many
@given(consistent(), hidden, hidden, devices, st.sampled_from(PROFILES), st.just(DEFAULT_THRESHOLDS) | tables)
def test_sound_whatever_is_hidden(
    reading: Reading,
    some: set[str],
    more: set[str],
    device: Device,
    profile: ComputeSettings,
    thresholds: ClassThresholds,
) -> None:
    options = replace(profile, workload=replace(profile.workload, thresholds=thresholds))
    if device is not SUPERCHIP:
        reading = hide(reading, set(C2C))  # no link
    truth = workload(reading, options, device)
    assert truth.raw_class in CLASSES
    inner = workload(hide(reading, some), options, device)
    outer = workload(hide(reading, some | more), options, device)
    for result in (inner, outer):
        if result.raw_class == UNKNOWN:
            assert truth.raw_class in result.candidates
            assert result.bottleneck in (UNKNOWN, truth.bottleneck)
        else:
            assert result == truth
    assert possible(inner) <= possible(outer)


def possible(result: Workload) -> set[str]:
    return set(result.candidates) or {result.raw_class}


@many
@given(arbitrary(), devices, st.sampled_from(PROFILES), st.just(DEFAULT_THRESHOLDS) | tables)
def test_well_formed_whatever_is_read(
    reading: Reading, device: Device, profile: ComputeSettings, thresholds: ClassThresholds
) -> None:
    result = workload(reading, replace(profile, workload=replace(profile.workload, thresholds=thresholds)), device)
    if result.raw_class == UNKNOWN:
        assert len(result.candidates) >= 2
        assert list(result.candidates) == [name for name in CLASSES if name in result.candidates]
        shared = {BOTTLENECK[name] for name in result.candidates}
        assert {result.bottleneck} == (shared if len(shared) == 1 else {UNKNOWN})
    else:
        assert replace(result, has_other_work=False) == Workload(result.raw_class, BOTTLENECK[result.raw_class])


@pytest.mark.parametrize(
    ("engine", "sm", "dram", "more"), [(0.18, 0.62, 0.03, ()), (0.34, 0.76, None, ("memory_bound",))]
)
def test_inputs_that_contradict_physics_hide_no_class(
    engine: float, sm: float, dram: float | None, more: tuple[str, ...]
) -> None:
    reading = Reading(
        graphics_engine_active_ratio=engine, sm_active_ratio=sm, dram_active_ratio=dram, fp64_active_ratio=0.87
    )
    found = Classifier(DEFAULT_THRESHOLDS).classify(bounds_of(reading), between(0.0, 1.0), exactly(0.0))
    assert found.candidates == ("tensor_heavy_compute", "tensor_compute", "fp64_hpc_compute", *more)


@many
@given(arbitrary(), st.sampled_from(list(PRESETS.values())))
def test_missing_inputs_as_zero_give_the_plain_cascade(reading: Reading, weights: Weights) -> None:
    filled = reading._replace(
        **{name: 0.0 for name in INPUTS if getattr(reading, name) is None and name != "graphics_engine_active_ratio"}
    )
    if filled.graphics_engine_active_ratio is None:
        filled = filled._replace(graphics_engine_active_ratio=filled.gpu_utilization_ratio)
    name = expected(filled, weights)
    assert workload(reading, ComputeSettings("zero", RealUtilizationSettings("custom", weights))) == Workload(
        name, BOTTLENECK[name]
    )


GRID = sorted({*NEAR_EDGES, *(step / 25 for step in range(26))})


def obeys_physics(reading: Reading) -> bool:
    sm, tensor, dram, gr, fp64 = (getattr(reading, name) for name in RATIO_INPUTS)
    busy, memory = (getattr(reading, f"{name}_utilization_ratio") for name in ("gpu", "memory"))
    stands = min(gr, busy) <= 0 and min(dram, memory) <= 0
    is_still = stands and max(getattr(reading, name) for name in PCIE) > 0  # but with traffic
    c2c = max(getattr(reading, name) for name in C2C)
    return bool(
        busy + 0.005 >= gr >= sm >= max(tensor, fp64)  # percents are rounded
        and memory + 0.005 >= dram
        and not is_still
        and c2c <= MEMORY_RATE * dram + C2C_RATE * gr
    )


LINKS = {"io": PCIE, "c2c": C2C}


@many
@given(consistent(), st.sets(st.sampled_from([*RATIO_INPUTS, *LINKS]), min_size=1, max_size=2))
def test_no_needless_unknown(reading: Reading, missing: set[str]) -> None:
    """Fill the missing inputs in every way on a grid: what is reached is exactly what is named."""
    # Occupancy and the other pipes would only tie SM down between the points of the grid.
    reading = reading._replace(fp32_active_ratio=None, fp16_active_ratio=None, sm_occupancy_ratio=None)
    least = [1e9 / MEMORY_RATE, 1e9 / C2C_RATE]  # that traffic between the chips needs
    grid = sorted({*GRID, *least, *(value for name in INPUTS if (value := getattr(reading, name)) is not None)} - {1e9})
    grid = [value for value in grid if value <= 1]
    choices: list[list[dict[str, float]]] = []
    for name in sorted(missing):
        if name in LINKS:
            choices.append([dict.fromkeys(LINKS[name], rate) for rate in (0.0, 1e9)])
        else:
            choices.append([{name: value} for value in grid])
    reached = set()
    for combination in itertools.product(*choices):
        filled = reading
        for chosen in combination:
            filled = filled._replace(**chosen)
        if obeys_physics(filled):
            reached.add(expected(filled))
    assume(reached)
    names = {name for item in missing for name in LINKS.get(item, (item,))}
    assert possible(workload(hide(reading, names), device=SUPERCHIP)) == reached
