"""What the recording rules compute in a real PromQL engine is what Compute computes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from pulsed.compute.class_table import ClassThresholds
from pulsed.compute.derived_results import recorded_numbers
from pulsed.compute.peaks import RESOURCES
from pulsed.compute.settings import ComputeSettings, RealUtilizationSettings, Weights, WorkloadSettings
from pulsed.configuration import load
from pulsed.model.computed_tick import Result
from pulsed.model.vocabulary import Reading
from pulsed.present.promql.rule_set import RuleSelection, document
from pulsed.present.promql.rule_types import IdentityLabels
from tests.present.promql.promtool import check, plain, selector
from tests.present.promql.vectors import Gpu, edge_gpus, make, random_gpus, results

CUSTOM = ComputeSettings(
    real_utilization=RealUtilizationSettings("custom", Weights(1, 2, 0, 1), min_coverage=0.75),
    workload=WorkloadSettings(
        thresholds=ClassThresholds(
            idle_real_utilization_ratio=0.1,
            tensor_compute_tensor_ratio=0.33,
            tensor_compute_sm_ratio=0.2,
            fp64_hpc_compute_fp64_ratio=0.6,
            memory_bound_sm_ratio=0.7,
            compute_heavy_sm_ratio=0.65,
            busy_low_sm_use_graphics_engine_ratio=0.2,
            io_bytes_per_second=5e8,
        )
    ),
)
NOISY = ComputeSettings(
    workload=WorkloadSettings(
        thresholds=ClassThresholds(
            tensor_heavy_compute_sm_ratio=0.2,
            tensor_compute_sm_ratio=0.1,
            tensor_compute_tensor_ratio=0.3,
            low_utilization_sm_ratio=0.3,
            low_utilization_graphics_engine_ratio=0.1,
        )
    ),
    saturation=load(
        None,
        [
            "compute.saturation.peaks={default: {tensor: 0.8}, ampere: {pcie: 2.0e10, fp16: 0.5}, "
            "ada: {dram: 0.7, nvlink: 3.0e9}, blackwell: {c2c: 2.0e10}}"
        ],
        {},
    ).compute.saturation,
)
"""With boxes that only noise can reach, and peaks that differ between architectures."""

LABELS = "gpu, GPU_I_ID"
BATCH = 100
"""GPUs of a world: promtool takes more than twice as long for twice as many."""


def series(gpus: list[Gpu]) -> Iterator[tuple[str, str]]:
    for gpu in gpus:
        for name, labels, value in gpu.rows:
            assert isinstance(value, int | float)
            yield selector(name, labels), plain(value)


def wanted(reading: Reading, result: Result) -> Iterator[tuple[str, dict[str, str], float]]:
    """What the rules are to say of a GPU, as series of their own."""
    utilization = result.real_utilization
    yield "wanted_low", {}, utilization.lower
    yield "wanted_high", {}, utilization.upper
    yield "wanted_coverage", {}, utilization.coverage
    if utilization.ratio is not None:
        yield "wanted_mean", {}, utilization.ratio
    workload = result.workload
    for name in workload.candidates or (workload.raw_class,):
        yield "wanted_possible", {"class": name}, 1
    yield "wanted_class", {"class": workload.raw_class}, 1
    yield "wanted_bottleneck", {"bottleneck": workload.bottleneck}, 1
    saturation = result.saturation
    yield "wanted_saturation_low", {}, saturation.lower
    yield "wanted_saturation_high", {}, saturation.upper
    yield "wanted_limiting", {"resource": saturation.limiting_resource}, 1
    if saturation.ratio is not None:
        yield "wanted_saturation", {}, saturation.ratio
    for number in recorded_numbers():
        value = number.get(reading, result)
        if value is not None:
            yield f"wanted_{number.name}", {}, value
    for resource, value in zip(RESOURCES, saturation.resources, strict=True):
        if value is not None:
            yield "wanted_resource", {"resource": resource}, value


def both(one: str, other: str, labels: str) -> list[str]:
    """Give expressions that have no answer when both vectors have the same series."""
    return [f"({one}) unless on ({labels}) ({other})", f"({other}) unless on ({labels}) ({one})"]


def same(recorded: str, other: str, labels: str = LABELS) -> list[str]:
    """Give expressions that have no answer when both vectors have the same series with the same values."""
    return [*both(recorded, other, labels), f"abs({recorded} - on ({labels}) {other}) > 1e-12"]


WRONG = [
    *same("gpu:pulsed_real_utilization_ratio:low", "wanted_low"),
    *same("gpu:pulsed_real_utilization_ratio:high", "wanted_high"),
    *same("gpu:pulsed_real_utilization_coverage_ratio:sum", "wanted_coverage"),
    *same("gpu:pulsed_real_utilization_ratio:mean", "wanted_mean"),
    *both("gpu:pulsed_workload_class:possible", "wanted_possible", LABELS + ", class"),
    *both("gpu:pulsed_workload_class:raw == 1", "wanted_class", LABELS + ", class"),
    *both("gpu:pulsed_bottleneck:raw == 1", "wanted_bottleneck", LABELS + ", bottleneck"),
    f"count by ({LABELS}) (gpu:pulsed_workload_class:raw) != 13",
    f"count by ({LABELS}) (gpu:pulsed_bottleneck:raw) != 6",
    "absent(gpu:pulsed_workload_class:raw)",
    *same("gpu:pulsed_resource_saturation_ratio:raw", "wanted_resource", LABELS + ", resource"),
    *same("gpu:pulsed_saturation_ratio:low", "wanted_saturation_low"),
    *same("gpu:pulsed_saturation_ratio:high", "wanted_saturation_high"),
    *same("gpu:pulsed_saturation_ratio:max", "wanted_saturation"),
    *chain.from_iterable(same(f"gpu:pulsed_{each.name}:raw", f"wanted_{each.name}") for each in recorded_numbers()),
    *both("gpu:pulsed_limiting_resource:raw == 1", "wanted_limiting", LABELS + ", resource"),
    f"count by ({LABELS}) (gpu:pulsed_limiting_resource:raw) != 11",
]


def inputs(gpus: list[Gpu], of: Mapping[str, tuple[Reading, Result]]) -> Iterator[tuple[str, str]]:
    yield from series(gpus)
    for gpu in gpus:
        labels = {name: gpu.labels[name] for name in ("gpu", "GPU_I_ID") if name in gpu.labels}
        for name, more, value in wanted(*of[gpu.number]):
            yield selector(name, {**labels, **more}), plain(value)


def recording(settings: ComputeSettings, **choice: object) -> str:
    return document(settings, replace(RuleSelection("recording", "dcgm"), **choice))  # type: ignore[arg-type]


def disagreement(folder: Path, gpus: list[Gpu], settings: ComputeSettings, rules: str = "") -> str:
    of = results(gpus, settings)
    assert len(of) == len(gpus)
    batches = [inputs(gpus[start : start + BATCH], of) for start in range(0, len(gpus), BATCH)]
    return check(folder, rules or recording(settings), batches, {0: WRONG})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "settings"),
    [
        (400, ComputeSettings()),
        (150, CUSTOM),
        (250, NOISY),
        (150, ComputeSettings("zero", RealUtilizationSettings("hpc"))),
        (150, ComputeSettings("bounds", RealUtilizationSettings("mem"), WorkloadSettings("kempnerpulse"))),
        (100, ComputeSettings("zero", RealUtilizationSettings(min_coverage=0.0), WorkloadSettings("kempnerpulse"))),
    ],
    ids=["default", "custom", "noisy", "zero", "kempnerpulse", "zero and kempnerpulse"],
)
def test_rules_say_what_compute_says(tmp_path: Path, count: int, settings: ComputeSettings) -> None:
    gpus = [*random_gpus(count, seed=count), *edge_gpus(count, settings, seed=1)]
    of = results(gpus, settings).values()
    assert len({result.workload.raw_class for _, result in of}) >= 12  # nothing is tested by never being reached
    assert disagreement(tmp_path, gpus, settings) == ""


MUTANTS = {
    "a threshold is taken for part of the other side": (
        "gpu:pulsed_sm_active_ratio:high >= 0.8",
        "gpu:pulsed_sm_active_ratio:high > 0.8",
    ),
    "a class has another threshold": (
        "gpu:pulsed_dram_active_ratio:low < 0.4\n",
        "gpu:pulsed_dram_active_ratio:low < 0.41\n",
    ),
    "a weight is off": ("0.35 * gpu:pulsed_tensor_active_ratio:low", "0.3501 * gpu:pulsed_tensor_active_ratio:low"),
    "a little above 1 counts as nothing": (">= 0 <= 1.05", ">= 0 <= 1"),
    "an instance has the traffic of its board": ('{GPU_I_ID="", modelName', "{modelName"),
    "a pipe is no floor": ("|gpu:pulsed_fp16_active_ratio:max", ""),
    "a missing direction is no traffic": ("or Inf *", "or 0 *"),
    "another peak": ("0.87 * gpu:pulsed_seen", "0.86 * gpu:pulsed_seen"),
    "another link": (" * 0.935", " * 0.936"),
    "half of both directions is one": (
        "_bandwidth_bytes_per_second:max / 2 unless",
        "_bandwidth_bytes_per_second:max / 3 unless",
    ),
    "the last resource wins a tie": ('{resource=~"tensor|fp64"}) == 1', '{resource=~"tensor|fp64"}) == 2'),
    "nothing limits what is missing": ("|gpu:pulsed_resource_saturation_ratio:high", ""),
    "another coverage is enough": ("coverage_ratio:sum >= 0.5", "coverage_ratio:sum >= 0.6"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_a_wrong_rule_is_noticed(tmp_path: Path, mutant: tuple[str, str]) -> None:
    rules = recording(ComputeSettings())
    assert mutant[0] in rules
    edges = list(edge_gpus(60, ComputeSettings(), seed=2))
    gpus = [*random_gpus(60, seed=6), *edges[1::8], *edges[7::8]]  # those that notice all mutants
    equal = {"sm_active_ratio": 0.5, "dram_active_ratio": 0.1, "fp64_active_ratio": 0.4, "fp32_active_ratio": 0.4}
    gpus.append(make(len(gpus) + 1000, equal, random.Random(1)))
    assert "FAILED" in disagreement(tmp_path, gpus, ComputeSettings(), rules.replace(*mutant))


@pytest.mark.slow
def test_noise_that_is_taken_for_physics_is_noticed(tmp_path: Path) -> None:
    rules = recording(NOISY)
    assert "gpu:pulsed_physics:contradicted" not in recording(ComputeSettings())
    gpus = list(random_gpus(200, seed=400))
    wrong = rules.replace("and (group by", "or (group by")
    assert wrong != rules
    assert "FAILED" in disagreement(tmp_path, gpus, NOISY, wrong)


def ask(
    folder: Path, rows: list[tuple[str, dict[str, str], float]], expected: Mapping[str, float | None], by: str = ""
) -> str:
    """Say what is wrong when these rows are to give these recorded series of one GPU; None: no such series."""
    labels = tuple(by.split(",")) if by else IdentityLabels().labels
    empty = []
    for series_, value in expected.items():
        empty += [series_] if value is None else [f"abs({series_} - {value}) > 1e-12", f"absent({series_})"]
    lines = [(selector(name, each), plain(value)) for name, each, value in rows]
    return check(folder, recording(ComputeSettings(), identity=IdentityLabels(labels)), [lines], {0: empty})


GPU = {"gpu": "0", "UUID": "GPU-0", "Hostname": "node", "modelName": "Tesla T4"}


def test_both_spellings_and_repeated_rows_are_one_gpu(tmp_path: Path) -> None:
    rows = [
        ("DCGM_FI_PROF_SM_ACTIVE", GPU, 0.5),
        ("DCGM_FI_PROF_SM_UTIL_RATIO", GPU, 0.5),
        ("DCGM_FI_PROF_SM_UTIL_RATIO", {**GPU, "pod": "a", "vgpu": "1"}, 0.6),
        ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", {**GPU, "pod": "b"}, 0.7),
    ]
    expected = {
        "gpu:pulsed_sm_active_ratio:max": 0.6,
        "gpu:pulsed_graphics_engine_active_ratio:max": 0.7,
        "count(gpu:pulsed_seen:group)": 1.0,
    }
    assert ask(tmp_path, rows, expected) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "base_units", "expected"),
    [
        (55.0, False, 0.55),
        (0.3, False, 0.3),
        (1.0, False, None),
        (1.0, True, 1.0),
        (0.5, True, 0.5),
        (55.0, True, None),
    ],
)
def test_a_name_that_means_percent_or_ratio(
    tmp_path: Path, value: float, base_units: bool, expected: float | None
) -> None:
    rows = [("DCGM_FI_DEV_GPU_UTIL_RATIO", GPU, value)]
    if base_units:
        rows.append(("DCGM_FI_DEV_SM_CLOCK_HERTZ", GPU, 1e9))
    assert ask(tmp_path, rows, {"gpu:pulsed_gpu_utilization_ratio:max": expected}) == ""


def test_any_labels_tell_gpus_apart(tmp_path: Path) -> None:
    rows = [
        ("DCGM_FI_PROF_SM_ACTIVE", {"rack": rack, "slot": slot, "noise": f"{rack}{slot}{part}"}, 0.9)
        for rack in "ab"
        for slot in "12"
        for part in "xy"
    ]
    expected = {
        "count(gpu:pulsed_sm_active_ratio:max)": 4.0,
        'gpu:pulsed_sm_active_ratio:max{rack="a", slot="2"}': 0.9,
        'count(gpu:pulsed_workload_class:raw{rack="a", slot="2"} >= 0)': 13.0,
    }
    assert ask(tmp_path, rows, expected, by="rack,slot") == ""


def test_instances_of_one_board_are_apart(tmp_path: Path) -> None:
    rows = [
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", {**GPU, "GPU_I_ID": mig, "GPU_I_PROFILE": "1g.5gb"}, share)
        for mig, share in (("7", 0.2), ("8", 1.3))
    ]
    expected = {
        'gpu:pulsed_graphics_engine_active_ratio:max{GPU_I_ID="7"}': 0.2,
        'gpu:pulsed_graphics_engine_active_ratio:max{GPU_I_ID="8"}': 1.0,
        "sum(gpu:pulsed_pcie_larger_bytes_per_second:high)": 0.0,
    }
    assert ask(tmp_path, rows, expected) == ""
