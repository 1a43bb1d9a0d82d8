"""Boards rolled up from their MIG instances."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.activity import bounds_of
from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.layer import ComputeLayer
from pulsed.compute.mig_rollup import UNKNOWN_PROFILE, MigRollup, narrowed, shares_of, with_memory
from pulsed.compute.settings import ComputeSettings
from pulsed.model.gpu import Device, Entity
from pulsed.model.interval import between
from pulsed.model.result import Bounds, Inputs, Result
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import NOTHING, Reading
from pulsed.translate.translator import Translator
from tests.compute.readings import consistent, hidden, hide, many
from tests.support.samples import SAMPLES, needs_samples
from tests.support.ticks import results_of
from tests.translate.build import page_tick

A100, A100_40, H100, A30 = "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3", "NVIDIA A30"


def instance(number: int, profile: str, model: str) -> Device:
    return Device(Entity("mig", "0", "GPU-0", str(number), profile), model)


@pytest.mark.parametrize(
    ("profile", "model", "compute", "memory"),
    [
        ("1g.10gb", A100, (1 / 8, 1 / 7), (1 / 8, 1 / 8)),
        ("1g.10gb+me", A100, (1 / 8, 1 / 7), (1 / 8, 1 / 8)),
        ("1g.20gb", A100, (1 / 8, 1 / 7), (2 / 8, 2 / 8)),
        ("1g.10gb", A100_40, (1 / 8, 1 / 7), (2 / 8, 2 / 8)),
        ("3g.40gb", A100, (3 / 8, 3 / 7), (4 / 8, 4 / 8)),
        ("7g.80gb", A100, (1.0, 1.0), (1.0, 1.0)),
        ("1g.6gb", A30, (1 / 4, 1 / 4), (1 / 4, 1 / 4)),
        ("2g.12gb", A30, (2 / 4, 2 / 4), (2 / 4, 2 / 4)),
        ("3g.40gb", H100, (3 / 8.5, 4 / 8), (4 / 8, 4 / 8)),
        ("1g.12gb", "NVIDIA GH200 480GB", (1 / 8.5, 2 / 8), (1 / 8, 2 / 8)),
        ("1g.5gb", "", (1 / 8.5, 2 / 8), (1 / 8, 2 / 8)),
        ("2g.10gb", "", (2 / 8.5, 2 / 7), (2 / 8, 2 / 8)),
        ("3g.20gb", "", (3 / 8.5, 4 / 8), (4 / 8, 4 / 8)),
        ("4g.20gb", "", (4 / 8.5, 4 / 7), (4 / 8, 4 / 8)),
        ("7g.40gb", "", (1.0, 1.0), (1.0, 1.0)),
        ("2g.20gb", A100, (2 / 8, 2 / 7), (2 / 8, 2 / 8)),
        ("4g.40gb", A100, (4 / 8, 4 / 7), (4 / 8, 4 / 8)),
        ("4g.24gb", A30, (1.0, 1.0), (1.0, 1.0)),
        ("1g.24gb", "NVIDIA RTX PRO 5000 Blackwell", (1 / 2, 1 / 2), (1 / 2, 1 / 2)),
        ("2g.32gb", "NVIDIA RTX PRO 4500 Blackwell Server Edition", (1.0, 1.0), (1.0, 1.0)),
        ("1g.24gb", "NVIDIA RTX PRO 6000 Blackwell Server Edition", (1 / 4, 1 / 4), (1 / 4, 1 / 4)),
        ("1g.60gb", "NVIDIA Thor", (1 / 2, 1 / 2), (1 / 2, 1 / 2)),
        ("1g.47gb", "NVIDIA GB200", (0.75 / 4, 1 / 4), (1 / 4, 1 / 4)),
        ("1g.24gb", "NVIDIA GB200", (1 / 8.5, 1 / 7), (1 / 8, 1 / 8)),
        ("1g.67gb", "NVIDIA B300 SXM6 AC", (0.75 / 4, 1 / 4), (1 / 4, 1 / 4)),
        ("1g.35gb", "NVIDIA H200", (0.75 / 4, 1 / 4), (1 / 4, 1 / 4)),
        ("1g.20gb", H100, (0.75 / 4, 1 / 4), (1 / 4, 1 / 4)),
    ],
)
def test_shares(profile: str, model: str, compute: tuple[float, float], memory: tuple[float, float]) -> None:
    assert shares_of(profile, model)[:2] == (between(*compute), between(*memory))


@pytest.mark.parametrize("profile", ["", "8g.80gb", "MIG", "5g.x"])
def test_a_profile_that_is_unknown_can_be_all_of_the_board(profile: str) -> None:
    assert shares_of(profile, A100) == UNKNOWN_PROFILE == (between(0.0, 1.0), between(0.0, 1.0), None)


@pytest.mark.parametrize("size", ["0", "9" * 1000])
def test_absurd_sizes_of_memory_are_unknown(size: str) -> None:
    assert shares_of("1g.10gb", f"NVIDIA H100 {size}GB").memory == shares_of("1g.10gb", "NVIDIA H100").memory
    assert shares_of(f"1g.{'9' * 1000}gb", H100) == UNKNOWN_PROFILE


SMS = {
    A100: (108, {"1g.10gb": 14, "1g.20gb": 14, "2g.20gb": 28, "3g.40gb": 42, "4g.40gb": 56}),
    H100: (132, {"1g.10gb": 16, "1g.20gb": 26, "2g.20gb": 32, "3g.40gb": 60, "4g.40gb": 64}),
    A30: (56, {"1g.6gb": 14, "2g.12gb": 28}),
}
"""SMs of a board and of its profiles (`nvidia-smi mig -lgip`)."""


@many
@given(st.data())
def test_the_true_value_of_a_board_is_within_its_bounds(data: st.DataObject) -> None:
    """Whatever the partition is, whatever the instances do and hide, and whether SMs or slices are the weights."""
    model = data.draw(st.sampled_from(list(SMS)))
    total, profiles = SMS[model]
    slices, memory_slices = (4, 4) if model == A30 else (7, 8)
    instances, weights = [], []
    free, free_memory = slices, memory_slices
    for number, profile in enumerate(data.draw(st.lists(st.sampled_from(list(profiles)), min_size=1, max_size=7))):
        compute = int(profile[0])
        memory = compute if model == A30 else round(int(profile[3:-2]) / 10)
        if compute <= free and memory <= free_memory:
            free, free_memory = free - compute, free_memory - memory
            name = data.draw(st.sampled_from([profile, profile, ""]))
            instances.append(instance(number, name, model))
            weights.append((profiles[profile] / total, compute / slices, memory / memory_slices))
    by_sms = data.draw(st.booleans()) or model == H100  # DCGM weights with sevenths on A100
    readings = [data.draw(consistent()) for _ in instances]
    truths = [bounds_of(reading).low for reading in readings]
    shown = [bounds_of(hide(reading, data.draw(hidden))) for reading in readings]
    bounds = MigRollup(instances).bounds(shown)
    for name, low, high in zip(Inputs._fields, bounds.low, bounds.high, strict=True):
        of_board = sum(
            (memory if name == "dram" else sms if by_sms else share) * getattr(truth, name)
            for (sms, share, memory), truth in zip(weights, truths, strict=True)
        )
        assert low - 1e-9 <= of_board <= high + 1e-9


def test_the_unpartitioned_part_is_inactive_and_known() -> None:
    rollup = MigRollup([instance(1, "3g.40gb", A100), instance(2, "1g.10gb", A100)])
    assert rollup.unpartitioned == pytest.approx(3 / 7)
    full = Inputs(1.0, 1.0, 1.0, 1.0, 1.0)
    bounds = rollup.bounds([Bounds(full, full)] * 2)
    assert bounds.low == pytest.approx(Inputs(0.5, 0.5, 5 / 8, 0.5, 0.5))
    assert bounds.high == pytest.approx(Inputs(4 / 7, 4 / 7, 5 / 8, 4 / 7, 4 / 7))
    assert MigRollup([instance(1, "3g.40gb", A100), instance(2, "", A100)]).unpartitioned is None


def test_instances_of_unknown_profile_share_what_the_others_leave() -> None:
    rollup = MigRollup([instance(1, "4g.40gb", A100), instance(2, "", A100), instance(3, "", A100)])
    idle, busy = Inputs(*[0.0] * 5), Inputs(*[1.0] * 5)
    bounds = rollup.bounds([Bounds(idle, idle), Bounds(busy, busy), Bounds(busy, busy)])
    assert bounds.low == idle
    assert bounds.high == pytest.approx(Inputs(0.5, 0.5, 0.5, 0.5, 0.5))


def test_what_the_lowest_shares_leave_goes_to_the_most_active_instance_up_to_its_highest_share() -> None:
    rollup = MigRollup(
        [instance(number, profile, H100) for number, profile in enumerate(("3g.40gb", "3g.40gb", "1g.10gb"))]
    )
    bounds = rollup.bounds([Bounds(*[Inputs(*[value] * 5)] * 2) for value in (1.0, 0.5, 0.0)])
    assert bounds.low.sm == pytest.approx(3 / 8.5 * 1.5)
    assert bounds.high.sm == pytest.approx(4 / 8 + (1 - 4 / 8 - 1 / 8.5) * 0.5)


def test_instances_that_are_more_than_a_board_have_no_certain_share() -> None:
    rollup = MigRollup([instance(number, "1g.10gb", A100) for number in range(9)])
    busy, idle = (Bounds(*[Inputs(value, value, value, value, value)] * 2) for value in (1.0, 0.0))
    assert rollup.unpartitioned == 0.0
    assert rollup.bounds([busy] * 9) == Bounds(idle.low, busy.high)
    assert rollup.bounds([idle] * 9) == idle


def test_what_the_board_measures_itself_is_kept() -> None:
    own = Bounds(Inputs(0.0, 0.0, 0.29, 0.0, 0.0), Inputs(1.0, 1.0, 0.29, 0.2, 1.0))
    rolled_up = Bounds(Inputs(0.1, 0.1, 0.1, 0.3, 0.0), Inputs(0.2, 0.2, 0.2, 0.4, 0.0))
    assert narrowed(own, rolled_up) == Bounds(Inputs(0.1, 0.1, 0.29, 0.2, 0.0), Inputs(0.2, 0.2, 0.29, 0.3, 0.0))


@pytest.mark.parametrize("measured", [0.9, 0.301, 0.0])
def test_a_board_that_contradicts_its_instances_is_not_bounded_by_them(measured: float) -> None:
    """Some of its instances have no rows."""
    own = Bounds(Inputs(0.0, 0.0, measured, 0.0, 0.0), Inputs(1.0, 1.0, measured, 1.0, 1.0))
    rolled_up = Bounds(Inputs(0.1, 0.1, 0.11, 0.3, 0.0), Inputs(0.2, 0.2, 0.2, 0.4, 0.0))
    assert narrowed(own, rolled_up) == own


def computed(page: str, settings: ComputeSettings | None = None) -> Tick:
    return ComputeLayer(GpuTable(settings)).compute(Translator().translate(page_tick(page)))


def board(tick: Tick) -> Result:
    (found,) = [
        result
        for device, result in zip(tick.devices, results_of(tick), strict=True)
        if device.entity.kind == "gpu" and device.entity.gpu == "0"
    ]
    return found


FIELDS = ("GR_ENGINE_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE", "SM_ACTIVE", "PIPE_FP64_ACTIVE")


def page(*instances: tuple[str, float]) -> str:
    """Return rows of instances, each with its profile and the same activity everywhere, as on a default page."""
    lines = []
    for number, (profile, activity) in enumerate(instances):
        labels = f'{{gpu="0",UUID="GPU-0",modelName="{A100}",GPU_I_PROFILE="{profile}",GPU_I_ID="{number}"}}'
        lines.append(f"DCGM_FI_DEV_GPU_TEMP{labels} 40")
        lines += [f"DCGM_FI_PROF_{field}{labels} {activity}" for field in FIELDS]
    return "\n".join(lines) + "\n"


def test_one_of_four_instances_works() -> None:
    """It was 0..100 % and of unknown class."""
    one = board(computed(page(("2g.20gb", 0.0), ("2g.20gb", 1.0), ("2g.20gb", 0.0), ("1g.10gb", 0.0))))
    low, value, high, _ = one.real_utilization.ratio
    assert (low, high) == pytest.approx((0.25, 0.8 * 2 / 7 + 0.2 * 2 / 8))
    assert value is None
    assert one.saturation.ratio.high == 1.0  # PCIe is not on the page
    assert one.saturation.ratio.low == pytest.approx(0.25 / 0.8)
    assert one.mig_unpartitioned == pytest.approx(0.0)
    assert one.rollup_bounds is not None
    assert one.rollup_bounds.high.sm < 1.0


def test_a_board_at_work_with_a_row_of_one_instance_only() -> None:
    """The whole board runs a tensor kernel; dcgm-exporter 2.x wrote rows of the board and of one of seven instances."""
    labels = f'{{gpu="0",UUID="GPU-0",modelName="{A100}"}}'
    fields = {"GR_ENGINE_ACTIVE": 0.9956, "PIPE_TENSOR_ACTIVE": 0.9293, "DRAM_ACTIVE": 0.6908}
    rows = "".join(f"DCGM_FI_PROF_{field}{labels} {value}\n" for field, value in fields.items())
    rows += "".join(f"DCGM_FI_PROF_PCIE_{way}_BYTES{labels} 3e7\n" for way in ("TX", "RX"))
    busy = board(computed(page(("1g.10gb", 0.95)) + rows))
    assert busy.shown_class.workload_class == "tensor_heavy_compute"
    assert busy.real_utilization.ratio.low > 0.88
    assert busy.real_utilization.ratio.high > 0.91


def test_a_board_of_idle_instances_has_a_value_and_a_class() -> None:
    idle = board(computed(page(("3g.40gb", 0.0), ("3g.40gb", 0.0))))
    assert idle.real_utilization.ratio.value == 0.0
    assert idle.shown_class.workload_class == "idle"
    assert idle.mig_unpartitioned == pytest.approx(1 / 7)


def test_missing_counts_as_zero_where_that_is_configured() -> None:
    zero = board(computed(page(("3g.40gb", 1.0)), ComputeSettings(missing="zero")))
    assert zero.real_utilization.ratio.value == 0.0


def test_other_gpus_have_no_partition() -> None:
    whole = 'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0",modelName="NVIDIA A100-SXM4-80GB"} 40\n'
    assert board(computed(whole)).mig_unpartitioned is None
    assert board(computed(whole)).rollup_bounds is None
    assert computed(whole).gpus[0].reading._replace(temperature_celsius=None) == NOTHING


@needs_samples
@pytest.mark.parametrize(
    ("name", "lowest", "highest", "unpartitioned"),
    [
        ("exporter-3x-a100-mig-3inst-active.prom", 0.02, 0.1, 3 / 7),
        ("exporter-3x-a800-8gpu-mixed-mig.prom", 0.0, 0.0, 1 / 7),
    ],
)
def test_real_pages(name: str, lowest: float, highest: float, unpartitioned: float) -> None:
    found = board(computed((SAMPLES / "exporter" / name).read_text()))
    assert lowest <= found.real_utilization.ratio.low <= found.real_utilization.ratio.high <= highest
    assert found.mig_unpartitioned == pytest.approx(unpartitioned)


@needs_samples
def test_dcgm_rolls_up_the_same() -> None:
    """Two instances 3g.20gb of an A100 in DCGM's user guide, beside the value of the board."""
    rollup = MigRollup([instance(0, "3g.20gb", A100_40), instance(1, "3g.20gb", A100_40)])
    rows = [line.split() for line in (SAMPLES / "dmon" / "dmon-2x-a100-mig-group8.txt").read_text().splitlines()]
    ticks = [row for row in rows if row and row[0] in ("GPU", "GPU-I")]
    for whole, *parts in zip(ticks[::3], ticks[1::3], ticks[2::3], strict=True):
        values = [Inputs(float(row[2]), float(row[3]), 0.0, float(row[2]), 0.0) for row in parts]
        bounds = rollup.bounds([Bounds(value, value) for value in values])
        assert bounds.low.graphics_engine - 1e-3 <= float(whole[2]) <= bounds.high.graphics_engine + 1e-3
        assert bounds.low.tensor - 1e-3 <= float(whole[3]) <= bounds.high.tensor + 1e-3


@pytest.mark.parametrize(
    ("model", "profile", "count", "left"),
    [
        ("NVIDIA GB200", "1g.47gb", 4, 0.0),
        ("NVIDIA GB200", "1g.47gb", 3, 4 / 7),
        ("NVIDIA B300 SXM6 AC", "1g.67gb", 4, 0.0),
        ("NVIDIA B200", "1g.23gb", 6, 1 / 7),
        ("NVIDIA RTX PRO 5000 Blackwell", "1g.24gb", 2, 0.0),
        ("NVIDIA RTX PRO 5000 Blackwell", "1g.24gb", 1, 1 / 2),
        (A100, "1g.20gb", 4, 3 / 7),
    ],
)
def test_a_board_without_memory_for_another_instance_is_partitioned(
    model: str, profile: str, count: int, left: float
) -> None:
    rollup = MigRollup([instance(number, profile, model) for number in range(count)])
    assert rollup.unpartitioned == pytest.approx(left)


@pytest.mark.parametrize(
    ("model", "profile"),
    [
        ("NVIDIA RTX Pro 6000 Blackwell DC-4-96Q", "4g.96gb"),
        ("NVIDIA-RTX-Pro-6000-Blackwell-DC-1-24Q", "1g.24gb"),
        ("GRID A100-40C", "3g.20gb"),
        ("NVIDIA A100-1-5CME", ""),
    ],
)
def test_the_one_instance_of_a_guest_is_all_of_its_board(model: str, profile: str) -> None:
    entity = Entity("mig", "0", "GPU-0", "0", profile, is_guest=True)
    rollup = MigRollup([Device(entity, model)])
    assert rollup.unpartitioned == 0.0
    half = Inputs._make([0.5] * len(Inputs._fields))
    assert rollup.bounds([Bounds(half, half)]) == Bounds(half, half)


def test_a_board_of_four_slices_in_any_spelling() -> None:
    for model in ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "nvidia-rtx-pro-6000-blackwell-server-edition"):
        devices = [Device(Entity("mig", "0", "GPU-0", str(number), "1g.24gb"), model) for number in range(4)]
        assert MigRollup(devices).unpartitioned == 0.0


def test_the_memory_of_a_board_is_that_of_its_instances_where_it_has_none() -> None:
    parts = [Reading(memory_bytes=10.0, memory_used_bytes=2.0), Reading(memory_bytes=30.0, memory_used_bytes=8.0)]
    board = with_memory(Reading(), parts)
    assert (board.memory_bytes, board.memory_used_bytes, board.memory_used_ratio) == (40.0, 10.0, 0.25)
    own = Reading(memory_bytes=80.0, memory_used_bytes=11.0)
    assert with_memory(own, parts) is own
    assert with_memory(Reading(), [parts[0], Reading(memory_bytes=30.0)]).memory_used_bytes is None
