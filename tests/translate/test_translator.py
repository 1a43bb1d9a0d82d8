from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.errors import TooManyGpus
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import Dialect, Epoch, KernelEvent, Layout, RawValue, Series
from pulsed.model.vocabulary import NOTHING, POSITION, Reading
from pulsed.reader.exposition.parser import PageParser
from pulsed.translate.fields import AMBIGUOUS_NAME, FIELDS, DcgmField
from pulsed.translate.identity import blocks_of, exporter_entities
from pulsed.translate.page_units import PageUnits
from pulsed.translate.plan import Plan, plans
from pulsed.translate.translator import Translator
from pulsed.translate.units import RATIO_ABOVE_ONE, RATIO_ABSURD, RATIO_UNIT_UNKNOWN
from tests.support.ticks import anomalies_of, extras_of, readings_of
from tests.translate.build import Row, by_key, page_tick, present, raw_tick, tick
from tools.bench.pages import exporter_page

GPU = {"gpu": "0", "UUID": "GPU-a", "modelName": "NVIDIA H100 80GB HBM3"}
INSTANCE = {**GPU, "GPU_I_ID": "3", "GPU_I_PROFILE": "1g.10gb"}
DMON = {"entity": "GPU", "id": "0"}
PERCENT_HELP = {AMBIGUOUS_NAME: "GPU utilization (in %)."}
RATIO_HELP = {AMBIGUOUS_NAME: "Ratio of time the GPU was busy (0-1)."}
BLANKS: list[RawValue] = [
    *(2147483632.0 + kind for kind in range(4)),
    *(2147483632 + kind for kind in range(4)),
    *(140737488355328.0 + kind for kind in range(4)),
    *(9223372036854775792 + kind for kind in range(4)),
    float(9223372036854775794),
    math.nan,
    math.inf,
    -math.inf,
    "ERROR - FAILED TO CONVERT TO STRING",
    "<<<NOT_SUPPORTED>>>",
    None,
]


def reading(*rows: Row, dialect: Dialect = "exporter") -> Reading:
    """The reading of the only device; of nothing if there is none."""
    canonical = Translator().translate(tick(rows, dialect))
    return canonical.gpus[0].reading if readings_of(canonical) else NOTHING


def spellings(field: DcgmField) -> list[tuple[str, Dialect]]:
    names: list[tuple[str, Dialect]] = [(name, "exporter") for name in field.names]
    return [*names, (field.short, "dmon")] if field.short else names


def test_all_spellings_of_a_field_give_the_same_reading() -> None:
    for field in FIELDS:
        value = max(min(field.unit.high, 3.0) / 2, field.unit.low)
        expected = value * field.unit.multiply / field.unit.divide
        for name, dialect in spellings(field):
            raw = tick([(name, GPU if dialect == "exporter" else DMON, value)], dialect, RATIO_HELP)
            (one,) = readings_of(Translator().translate(raw))
            assert one[POSITION[field.quantity]] == expected, name
            assert set(present(one)) <= {also.quantity for also in FIELDS if name in (*also.names, also.short)}, name


def test_instances_on_a_page_in_lower_case_stay_apart() -> None:
    page = "".join(
        f'dcgm_fi_prof_sm_active{{gpu="0",uuid="GPU-a",modelname="NVIDIA-H100-80GB-HBM3",gpu_i_profile="1g.10gb",'
        f'gpu_i_id="{number}",hostname="n"}} 0.{number}\n'
        for number in range(7, 10)
    )
    canonical = Translator("n").translate(page_tick(page))
    assert [(device.entity.mig_id, device.entity.mig_profile) for device in canonical.devices] == [
        (str(number), "1g.10gb") for number in range(7, 10)
    ]
    assert [each.sm_active_ratio for each in readings_of(canonical)] == [0.7, 0.8, 0.9]


def test_no_blank_ever_comes_out_as_a_number() -> None:
    for field in FIELDS:
        for name, dialect in spellings(field):
            for labels in (GPU, INSTANCE) if dialect == "exporter" else (DMON, {"entity": "GPU-I", "id": "3"}):
                translator = Translator()
                first = tick([(name, labels, BLANKS[0])], dialect)
                for blank in BLANKS:
                    canonical = translator.translate(raw_tick(first.layout, [blank]))
                    assert set(readings_of(canonical)) <= {NOTHING}, (name, labels, blank)


@given(st.sampled_from(FIELDS), st.floats() | st.integers() | st.text() | st.none())
def test_no_value_is_too_odd(field: DcgmField, value: RawValue) -> None:
    for number in present(reading((field.names[0], GPU, value))).values():
        assert math.isfinite(number)
        assert number >= 0 or field.quantity == "temperature_margin_celsius"


def test_both_dialects_read_the_same() -> None:
    cells = {
        ("GPUTL", "DCGM_FI_DEV_GPU_UTIL"): 91.0,
        ("TOTEC", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"): 15152422938.0,
        ("FBUSD", "DCGM_FI_DEV_FB_USED"): 5120.0,
        ("FBFRE", "DCGM_FI_DEV_FB_FREE"): 9791.0,
        ("DRAMA", "DCGM_FI_PROF_DRAM_ACTIVE"): 0.093,
        ("PVIOL", "DCGM_FI_DEV_POWER_VIOLATION"): 1500.0,
        ("NBWLT", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"): 4068.0,
    }
    page = reading(*((name, GPU, value) for (_, name), value in cells.items()))
    row = reading(*((short, DMON, value) for (short, _), value in cells.items()), dialect="dmon")
    assert page == row
    assert page.energy_joules_total == 15152422.938
    assert page.power_violation_seconds_total == 1.5e-6


def test_labels_change_nothing_of_a_reading_in_dmon_by_column_order() -> None:
    one = reading(("POWER", DMON, 70.0), ("TMPTR", DMON, 30.0), dialect="dmon")
    assert one == reading(("TMPTR", DMON, 30.0), ("POWER", DMON, 70.0), ("NIXDA", DMON, 1.0), dialect="dmon")


# --- units per page


@pytest.mark.parametrize(
    ("rows", "help_", "expected"),
    [
        ([(AMBIGUOUS_NAME, GPU, 1.0)], PERCENT_HELP, 0.01),
        ([(AMBIGUOUS_NAME, GPU, 1.0)], RATIO_HELP, 1.0),
        ([(AMBIGUOUS_NAME, GPU, 1.0)], {}, None),
        ([(AMBIGUOUS_NAME, GPU, 55.0)], {}, 0.55),
        ([(AMBIGUOUS_NAME, GPU, 0.55)], {}, 0.55),
        ([(AMBIGUOUS_NAME, GPU, 0.0)], {}, 0.0),
    ],
)
def test_the_utilization_that_changed_its_unit(rows: list[Row], help_: dict[str, str], expected: float | None) -> None:
    canonical = Translator().translate(tick(rows, help_=help_))
    assert canonical.gpus[0].reading.gpu_utilization_ratio == expected
    assert anomalies_of(canonical) == ({0: (RATIO_UNIT_UNKNOWN,)} if expected is None else {})


def test_only_the_fields_of_dcgm_47_show_its_unit() -> None:
    for field in [field for field in FIELDS if field.quantity != "gpu_utilization_ratio"]:
        rows: list[Row] = [(AMBIGUOUS_NAME, GPU, 1.0), (field.names[0], GPU, 5.0)]
        found = Translator().translate(tick(rows, help_=PERCENT_HELP)).gpus[0].reading
        assert found.gpu_utilization_ratio == (1.0 if field.id >= 1600 else 0.01), field


def test_a_page_of_dcgm_47() -> None:
    # Made from NVIDIA's field reference: no real page of dcgm-exporter 4.9 was at hand.
    new = Translator().translate(
        page_tick(
            """\
# HELP DCGM_FI_DEV_GPU_UTIL_RATIO GPU utilization.
# TYPE DCGM_FI_DEV_GPU_UTIL_RATIO gauge
DCGM_FI_DEV_GPU_UTIL_RATIO{gpu="0",UUID="GPU-a",DCGM_FI_SYSTEM_DRIVER_VERSION="590.1",hostname="n"} 0.91
DCGM_FI_DEV_MEMORY_UTIL_RATIO{gpu="0",UUID="GPU-a",DCGM_FI_SYSTEM_DRIVER_VERSION="590.1",hostname="n"} 0.73
DCGM_FI_DEV_SM_CLOCK_HERTZ{gpu="0",UUID="GPU-a",DCGM_FI_SYSTEM_DRIVER_VERSION="590.1",hostname="n"} 6.6e+08
DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL{gpu="0",UUID="GPU-a",DCGM_FI_SYSTEM_DRIVER_VERSION="590.1",hostname="n"} 15152422
DCGM_FI_DEV_FB_CAPACITY_BYTES{gpu="0",UUID="GPU-a",DCGM_FI_SYSTEM_DRIVER_VERSION="590.1",hostname="n"} 16106127360
DCGM_FI_DEV_FB_USED_BYTES{gpu="0",UUID="GPU-a",DCGM_FI_SYSTEM_DRIVER_VERSION="590.1",hostname="n"} 5368709120
DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND{gpu="0",UUID="GPU-a",hostname="n"} 4068000000
DCGM_FI_DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL{gpu="0",UUID="GPU-a",hostname="n"} 12.5
DCGM_FI_DEV_BOARD_POWER_WATTS{gpu="0",UUID="GPU-a",hostname="n"} 68.244
"""
        )
    )
    old = Translator().translate(
        tick(
            [
                ("DCGM_FI_DEV_GPU_UTIL", GPU, 91.0),
                ("DCGM_FI_DEV_MEM_COPY_UTIL", GPU, 73.0),
                ("DCGM_FI_DEV_SM_CLOCK", GPU, 660.0),
                ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", GPU, 15152422000.0),
                ("DCGM_FI_DEV_FB_TOTAL", GPU, 15360.0),
                ("DCGM_FI_DEV_FB_USED", GPU, 5120.0),
                ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", GPU, 4068.0),
                ("DCGM_FI_DEV_POWER_VIOLATION", GPU, 12.5e9),
                ("DCGM_FI_DEV_POWER_USAGE", GPU, 68.244),
            ]
        )
    )
    assert readings_of(new) == readings_of(old)
    assert new.devices[0].driver_version == "590.1"


# --- preferences and derivations


def test_the_limit_in_force_before_the_requested_one() -> None:
    enforced, requested = ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", GPU), ("DCGM_FI_DEV_POWER_MGMT_LIMIT", GPU)
    assert reading((*requested, 500.0), (*enforced, 700.0)).power_limit_watts == 700.0
    only = reading((*requested, 500.0), (*enforced, None))
    assert (only.power_limit_watts, only.power_limit_requested_watts) == (500.0, 500.0)


def test_an_absurd_value_gives_way_to_the_next_field() -> None:
    one = reading(
        ("DCGM_FI_PROF_NVLINK_TX_BYTES", GPU, -1.0),
        ("DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_TOTAL", GPU, 12.0),
        ("DCGM_FI_PROF_NVLINK_RX_BYTES", GPU, 5.0),
        ("DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_TOTAL", GPU, 12.0),
    )
    assert one.nvlink_transmit_bytes_per_second == 12e6
    assert one.nvlink_receive_bytes_per_second == 5.0


MIB = 2.0**20


@pytest.mark.parametrize(
    ("total", "used", "free", "reserved", "size", "ratio"),
    [
        (1000.0, 100.0, 850.0, 50.0, 1000.0, 0.1),
        (None, 100.0, 850.0, 50.0, 1000.0, 0.1),
        (None, 100.0, None, 50.0, None, 0.25),
        (None, 100.0, 900.0, None, None, 0.25),  # reported elsewhere on the page, not here
        (0.0, 100.0, 850.0, 50.0, 1000.0, 0.1),
        (1000.0, None, None, None, 1000.0, 0.25),
        (1000.0, 1100.0, None, None, 1000.0, 1.0),
    ],
)
def test_size_and_use_of_memory(
    total: float | None,
    used: float | None,
    free: float | None,
    reserved: float | None,
    size: float | None,
    ratio: float,
) -> None:
    one = reading(
        ("DCGM_FI_DEV_FB_TOTAL", GPU, total),
        ("DCGM_FI_DEV_FB_USED", GPU, used),
        ("DCGM_FI_DEV_FB_FREE", GPU, free),
        ("DCGM_FI_DEV_FB_RESERVED", GPU, reserved),
        ("DCGM_FI_DEV_FB_USED_PERCENT", GPU, 0.25),
    )
    assert one.memory_bytes == (None if size is None else size * MIB)
    assert one.memory_used_ratio == ratio


def test_size_of_memory_on_pages_that_never_had_reserved_memory() -> None:
    one = reading(("DCGM_FI_DEV_FB_USED", GPU, 100.0), ("DCGM_FI_DEV_FB_FREE", GPU, 300.0))
    assert (one.memory_bytes, one.memory_used_ratio) == (400 * MIB, 0.25)


@pytest.mark.parametrize(
    ("single", "flit", "data", "expected"),
    [(7.0, 1.0, 2.0, 7.0), (None, 1.0, 2.0, 3.0), (None, 1.0, None, None), (None, None, 2.0, None)],
)
def test_nvlink_crc_errors(
    single: float | None, flit: float | None, data: float | None, expected: float | None
) -> None:
    one = reading(
        ("DCGM_FI_DEV_NVLINK_ERROR_DL_CRC", GPU, single),
        ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", GPU, flit),
        ("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", GPU, data),
    )
    assert one.nvlink_crc_errors_total == expected
    assert (one.nvlink_crc_flit_errors_total, one.nvlink_crc_data_errors_total) == (flit, data)


def test_zeros_that_mean_nothing_and_zeros_that_do() -> None:
    one = reading(
        ("DCGM_FI_DEV_MEMORY_TEMP", GPU, 0.0),
        ("DCGM_FI_DEV_PCIE_LINK_GEN", GPU, 0.0),
        ("DCGM_FI_DEV_SLOWDOWN_TEMP", GPU, 0.0),
        ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", GPU, 0.0),
        ("DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT", GPU, 0.0),
        ("DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER_FLOAT", GPU, 1e-9),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", GPU, 0.0),
        ("DCGM_FI_DEV_XID_ERRORS", GPU, 0.0),
        ("DCGM_FI_DEV_GPU_TEMP", GPU, 0.0),
    )
    assert present(one) == {
        "nvlink_symbol_bit_error_ratio": 1e-9,
        "nvlink_bandwidth_bytes_per_second": 0.0,
        "xid_last_code": 0.0,
        "temperature_celsius": 0.0,
    }


# --- several rows for one quantity


def test_the_row_of_the_whole_device_before_those_of_its_pods() -> None:
    name = "DCGM_FI_DEV_GPU_UTIL"
    rows: list[Row] = [
        (name, {**GPU, "pod": "a", "vgpu": "0"}, 70.0),
        (name, GPU, 60.0),
        (name, {**GPU, "pod": "b", "vgpu": "1"}, 10.0),
    ]
    assert reading(*rows).gpu_utilization_ratio == 0.6
    assert reading(rows[0], rows[2]).gpu_utilization_ratio == 0.7


def test_rows_repeated_per_job_count_once() -> None:
    rows = [("DCGM_FI_DEV_POWER_USAGE", {**GPU, "hpc_job": job}, 300.0) for job in ("1", "2", "3")]
    assert reading(*rows).power_watts == 300.0


# --- MIG


def test_what_instances_repeat_is_the_boards_once() -> None:
    other = {**INSTANCE, "GPU_I_ID": "5"}
    canonical = Translator().translate(
        tick(
            [
                ("DCGM_FI_DEV_POWER_USAGE", INSTANCE, 78.174),
                ("DCGM_FI_DEV_POWER_USAGE", other, 78.446),
                ("DCGM_FI_DEV_XID_ERRORS", {**INSTANCE, "err_code": "0"}, 0.0),
                ("DCGM_FI_DEV_XID_ERRORS", {**other, "err_code": "31"}, 31.0),
                ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", INSTANCE, 0.25),
                ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", other, 0.75),
                ("DCGM_FI_DEV_FB_USED", INSTANCE, 10.0),
            ]
        )
    )
    found = {key: present(one) for key, (_, one) in by_key(canonical).items()}
    assert found == {
        ("0", ""): {"power_watts": 78.446, "xid_last_code": 31.0},
        ("0", "3"): {"graphics_engine_active_ratio": 0.25, "memory_used_bytes": 10 * MIB},
        ("0", "5"): {"graphics_engine_active_ratio": 0.75},
    }


def test_the_boards_own_rows_come_before_what_instances_repeat() -> None:
    rows: list[Row] = [("DCGM_FI_DEV_POWER_USAGE", INSTANCE, 300.0), ("DCGM_FI_DEV_POWER_USAGE", GPU, 290.0)]
    assert reading(*rows).power_watts == 290.0
    assert reading(rows[0], ("DCGM_FI_DEV_POWER_USAGE", GPU, None)).power_watts == 300.0


# --- anomalies


def test_ratios_above_one() -> None:
    canonical = Translator().translate(
        tick(
            [
                ("DCGM_FI_PROF_SM_ACTIVE", {**GPU, "gpu": "1", "UUID": "GPU-b"}, 1.0),
                ("DCGM_FI_PROF_SM_ACTIVE", GPU, 1.294),
                ("DCGM_FI_DEV_GPU_UTIL", GPU, 429496729.0),
                ("DCGM_FI_PROF_SM_ACTIVE", INSTANCE, 1.294),
                ("DCGM_FI_PROF_DRAM_ACTIVE", INSTANCE, 1.2),
            ]
        )
    )
    assert [one.sm_active_ratio for one in readings_of(canonical)] == [None, 1.0, 1.0]
    assert canonical.gpus[0].reading.gpu_utilization_ratio is None
    assert anomalies_of(canonical) == {0: (RATIO_ABSURD,), 1: (RATIO_ABOVE_ONE,)}


def test_a_gpu_with_nothing_but_blanks_is_there_and_anomalies_stand_at_the_right_position() -> None:
    name = "DCGM_FI_PROF_SM_ACTIVE"
    rows: list[Row] = [
        (name, {"gpu": "0"}, 9223372036854775794),  # blanks that old exporters print: the GPU says nothing
        (name, {"gpu": "1"}, 1.01),
    ]
    canonical = Translator().translate(tick(rows))
    assert [device.entity.gpu for device in canonical.devices] == ["0", "1"]
    assert canonical.gpus[0].reading == NOTHING
    assert anomalies_of(canonical) == {1: (RATIO_ABOVE_ONE,)}


# --- from tick to tick


def test_a_lost_gpu_is_left_out_and_comes_back() -> None:
    name = "DCGM_FI_DEV_GPU_TEMP"
    first = tick([(name, {"gpu": "0"}, 40.0), (name, {"gpu": "1"}, 41.0)])
    translator = Translator()
    both = translator.translate(first)
    without = translator.translate(raw_tick(first.layout, [40.0, None]))
    again = translator.translate(raw_tick(first.layout, [40.0, 42.0]))
    assert [device.entity.gpu for device in without.devices] == ["0"]
    assert len(readings_of(without)) == 1
    assert again.devices == both.devices
    assert [one.temperature_celsius for one in readings_of(again)] == [40.0, 42.0]


def test_devices_are_equal_while_nothing_changes() -> None:
    parser, translator = PageParser(), Translator()
    ticks = [translator.translate(page_tick(exporter_page(4, 40, seed).decode(), parser)) for seed in range(4)]
    assert all(one.devices == ticks[0].devices for one in ticks)
    assert len({tuple(readings_of(one)) for one in ticks}) == 4
    # A new series makes a new layout, not new devices.
    more = translator.translate(page_tick(exporter_page(4, 41, 5).decode(), parser))
    assert more.devices == ticks[0].devices
    assert more.gpus[0].reading.sm_clock_max_hertz == 1.98e9


def test_gpus_with_equal_series_share_one_plan_on_all_nodes() -> None:
    def plans_of(node: str) -> tuple[Plan, ...]:
        layout = PageParser().parse(exporter_page(2, 40, 0, node)).layout
        return plans(layout, exporter_entities(layout, blocks_of(layout), "", {}), PageUnits())

    one, other = plans_of("n0"), plans_of("n1")
    assert len(one) == 2
    assert len({id(plan) for plan in (*one, *other)}) == 1


def test_a_new_layout_is_read_anew() -> None:
    translator = Translator()
    assert translator.translate(tick([("TMPTR", DMON, 40.0)], "dmon")).gpus[0].reading.temperature_celsius == 40.0
    assert translator.translate(tick([("POWER", DMON, 70.0)], "dmon")).gpus[0].reading.power_watts == 70.0


def test_the_tick_keeps_what_it_was_made_from() -> None:
    raw = tick([("DCGM_FI_DEV_GPU_TEMP", GPU, 40.0)])
    canonical = Translator().translate(raw)
    assert (canonical.layout, canonical.values, canonical.raw.rejected) == (raw.layout, raw.values, raw.rejected)
    assert (canonical.target, canonical.time, canonical.clock, canonical.interval) == (
        raw.target,
        raw.time,
        raw.clock,
        raw.interval,
    )


def test_a_page_without_a_gpu() -> None:
    canonical = Translator().translate(tick([("go_goroutines", {}, 9.0)]))
    assert (canonical.devices, readings_of(canonical), anomalies_of(canonical)) == ((), [], {})


def test_one_text_among_numbers_costs_only_itself() -> None:
    one = reading(
        ("DCGM_FI_DEV_GPU_TEMP", GPU, "ERROR - FAILED TO CONVERT TO STRING"), ("DCGM_FI_DEV_FB_FREE", GPU, 1.0)
    )
    assert present(one) == {"memory_free_bytes": MIB}


REPEATED: tuple[RawValue, ...] = (None, 0.0, 0.5, 1.0, 1.02, 40.0, 97.0, 203.0, 3e9, 1e20, "N/A", BLANKS[0], BLANKS[-4])
"""Values that come again in any order."""

NAMES = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_FB_TOTAL",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
    "DCGM_EXP_XID_ERRORS_TOTAL",
)


@given(st.lists(st.lists(st.sampled_from(REPEATED), min_size=2 * len(NAMES), max_size=2 * len(NAMES)), max_size=12))
def test_earlier_ticks_do_not_change_what_a_tick_means(ticks: list[list[RawValue]]) -> None:
    """Once the units are proven."""
    gpus: list[dict[str, str]] = [{"gpu": gpu, "UUID": f"GPU-{gpu}"} for gpu in "01"]
    labels = [(name, gpu | ({"xid": "48"} if "XID" in name else {})) for gpu in gpus for name in NAMES]
    layout = tick([(name, of, None) for name, of in labels]).layout
    in_percent = raw_tick(layout, [40.0 if name.endswith(("UTIL", "SM_ACTIVE")) else None for name, _ in labels])

    def proven() -> Translator:
        made = Translator()
        for _ in range(3):
            made.translate(in_percent)
        return made

    translator = proven()
    for values in ticks:
        raw, another = raw_tick(layout, values), proven()
        seen, fresh = translator.translate(raw), another.translate(raw)
        assert (seen.devices, readings_of(seen), anomalies_of(seen)) == (
            fresh.devices,
            readings_of(fresh),
            anomalies_of(fresh),
        )
        assert extras_of(seen) == extras_of(fresh)


def test_a_tick_that_repeats_the_one_before_is_as_if_it_were_read_anew() -> None:
    layout = Layout(
        "exporter",
        tuple(Series(name, tuple(GPU.items())) for name in ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_PROF_SM_ACTIVE")),
    )
    first = raw_tick(layout, [50.0, 7.0])
    repeated = replace(first, clock=Monotonic(first.clock + 1.0), epoch=Epoch(engine="2"))
    translator = Translator()
    before = translator.translate(first, ())
    event = KernelEvent("xid", 79, Unix(1.0), "")
    found = translator.translate(repeated, (event,))
    assert readings_of(found) == readings_of(before)
    assert found == Translator().translate(repeated, (event,))
    assert anomalies_of(found) == {0: (RATIO_ABSURD,)}
    translator.configure(0)
    with pytest.raises(TooManyGpus):
        translator.translate(repeated)


def test_a_gpu_with_rows_of_the_exporters_own_collectors_only_was_dropped_by_dcgm() -> None:
    """dcgm-exporter 4.8 gives these rows the labels of another GPU."""
    own = [{"gpu": str(n), "UUID": f"GPU-{n}", "DCGM_FI_DEV_SERIAL": f"serial {n}"} for n in range(2)]
    watch = {"health_watch": "PCIE", "health_error_code": "DCGM_FR_OK"}
    whole: list[Row] = [("DCGM_FI_DEV_GPU_TEMP", labels, 40.0) for labels in own]
    whole += [("DCGM_EXP_GPU_HEALTH_STATUS", labels | watch, 0.0) for labels in own]
    dropped = [*whole[:1], whole[2], (whole[3][0], own[1] | watch | {"DCGM_FI_DEV_SERIAL": "serial 0"}, 0.0)]
    translator = Translator()
    assert [row.presence for row in translator.translate(tick(whole)).gpus] == ["listed", "listed"]
    first, second = translator.translate(tick(dropped)).gpus
    assert (first.presence, first.device.serial) == ("listed", "serial 0")
    assert (second.presence, second.device.serial, second.reading) == ("lost", "serial 1", NOTHING)
    assert second.extras is not None
    assert second.extras.health_watches is None, "DCGM repeats what it had"
    assert Translator().translate(tick(dropped)).gpus[1].device.serial == "", "never that of another GPU"
    alone = Translator().translate(tick(dropped[2:])).gpus
    assert [row.presence for row in alone] == ["listed"], "the counters file has no field of DCGM"
