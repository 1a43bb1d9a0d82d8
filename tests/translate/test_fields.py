from __future__ import annotations

import csv

import pytest

from pulsed.translate.fields import (
    AMBIGUOUS_NAME,
    BY_NAME,
    BY_SHORT,
    DERIVED,
    FIELDS,
    FIRST_BASE_UNIT_ID,
    IDENTITY,
    sources,
)
from pulsed.translate.vocabulary import QUANTITIES
from tests.samples import SAMPLES, needs_samples

TABLE = SAMPLES.parent / "dcgm" / "fields.tsv"


def test_every_quantity_has_a_source_or_is_derived() -> None:
    assert {name for name in QUANTITIES if not sources(name)} <= set(DERIVED)


def test_every_field_and_derivation_fills_a_quantity() -> None:
    assert {field.quantity for field in FIELDS} <= set(QUANTITIES)
    assert set(DERIVED) <= set(QUANTITIES)


def test_the_preferred_source_comes_first() -> None:
    def ids(quantity: str) -> list[int]:
        return [field.id for field in sources(quantity)]

    assert ids("power_limit_watts") == [164, 160]
    assert ids("nvlink_transmit_bytes_per_second") == [1011, 843]
    assert ids("nvlink_receive_bytes_per_second") == [1012, 897]
    assert ids("pcie_transmit_bytes_per_second") == [1009, 200]
    assert ids("nvlink_replay_errors_total") == [429, 499]
    assert ids("nvlink_recovery_errors_total") == [439, 498]


def test_a_source_says_what_documentation_quotes() -> None:
    assert str(sources("tensor_active_ratio")[0]) == "1004 PROF_PIPE_TENSOR_ACTIVE"


def test_sources_of_no_quantity() -> None:
    with pytest.raises(KeyError, match="tensor_activity"):
        sources("tensor_activity")


@pytest.mark.parametrize("index", [BY_NAME, BY_SHORT])
def test_a_name_means_one_field(index: dict[str, tuple[object, ...]]) -> None:
    for fields in index.values():
        assert len({field.id for field in fields}) == 1  # type: ignore[attr-defined]


def test_fields_of_one_id_agree_but_for_the_quantity() -> None:
    for first in FIELDS:
        for second in FIELDS:
            if first.id == second.id:
                assert (first.names, first.short, first.unit, first.level) == (
                    second.names,
                    second.short,
                    second.unit,
                    second.level,
                )


def test_names_of_1x_are_all_taken() -> None:
    assert sum(name.startswith("dcgm_") for name in BY_NAME) == 39
    assert [field.id for field in BY_NAME["dcgm_gpu_utilization"]] == [203]


@pytest.mark.parametrize(
    ("name", "quantity"),
    [
        ("power_usage", "power_watts"),
        ("total_energy_consumption", "energy_joules_total"),
        ("gpu_temp", "temperature_celsius"),
        ("memory_temp", "memory_temperature_celsius"),
        ("sm_clock", "sm_clock_hertz"),
        ("memory_clock", "memory_clock_hertz"),
        ("xid_errors", "xid_last_code"),
        ("pcie_replay_counter", "pcie_replays_total"),
        ("fb_used", "memory_used_bytes"),
        ("fb_free", "memory_free_bytes"),
        ("mem_copy_utilization", "memory_utilization_ratio"),
        ("enc_utilization", "encoder_utilization_ratio"),
        ("dec_utilization", "decoder_utilization_ratio"),
        ("nvlink_bandwidth_total", "nvlink_bandwidth_bytes_per_second"),
        ("nvlink_flit_crc_error_count_total", "nvlink_crc_flit_errors_total"),
        ("nvlink_data_crc_error_count_total", "nvlink_crc_data_errors_total"),
        ("nvlink_replay_error_count_total", "nvlink_replay_errors_total"),
        ("nvlink_recovery_error_count_total", "nvlink_recovery_errors_total"),
        ("retired_pages_pending", "retired_pages_pending"),
        *((f"retired_pages_{kind}", f"retired_pages_{kind}_total") for kind in ("sbe", "dbe")),
        *(
            (f"ecc_{kind}_{life}_total", f"ecc_{kind}_{life}_total")
            for kind in ("sbe", "dbe")
            for life in ("volatile", "aggregate")
        ),
        *(
            (f"{kind}_violation", f"{kind}_violation_seconds_total")
            for kind in ("power", "thermal", "sync_boost", "board_limit", "reliability")
        ),
        ("low_util_violation", "low_utilization_violation_seconds_total"),
    ],
)
def test_names_of_1x_mean_these_quantities(name: str, quantity: str) -> None:
    assert [field.quantity for field in BY_NAME[f"dcgm_{name}"]] == [quantity]


@needs_samples
def test_the_table_agrees_with_dcgms() -> None:
    with TABLE.open(newline="") as file:
        rows = {int(row["id"]): row for row in csv.DictReader(file, delimiter="\t")}
    units = {"C": "°C", "KB/s": "kB/s", "B": "B", "BER": "ratio", "count": "count"}
    codes = {"bitmask", "bool", "enum", "code", "gen", "lanes"}
    for field in FIELDS:
        if field.id >= FIRST_BASE_UNIT_ID:
            continue
        row = rows[field.id]
        named = {row["name"], row["name_4_6"] or row["name"]} - {AMBIGUOUS_NAME}
        assert named <= set(field.names), field
        assert field.short == row["short"], field
        assert field.unit.type == row["type"], field
        expected = row["unit"]
        if expected == "percent":
            expected = "%"
        elif expected in codes:
            expected = "P-state" if field.id == 190 else "code"
        assert field.unit.name == units.get(expected, expected), field
        below = row["level"] in {"GPU_CI", "GPU_I"} and field.quantity != "xid_last_code"
        assert (field.level == "instance") == below, field


@needs_samples
def test_dmons_text_columns() -> None:
    with TABLE.open(newline="") as file:
        short = {row["short"]: row for row in csv.DictReader(file, delimiter="\t")}
    assert {column: int(short[column]["id"]) for column in IDENTITY} == {
        "DVNAM": 50,
        "UUID#": 54,
        "PCBID": 57,
        "DRVER": 1,
    }
    assert {short[column]["type"] for column in IDENTITY} == {"string"}
