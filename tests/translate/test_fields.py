from __future__ import annotations

import csv

import pytest

from pulsed.model.vocabulary import QUANTITIES
from pulsed.translate.fields import (
    AMBIGUOUS_NAME,
    BY_NAME,
    BY_SHORT,
    DERIVED,
    FIELDS,
    FIRST_BASE_UNIT_ID,
    TEXT_COLUMNS,
    sources,
)
from support.samples import SAMPLES, needs_samples
from tests.translate.field_table import FIELD_ROWS, FieldRow

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


def test_fields_mean_what_the_table_records() -> None:
    assert [FieldRow.of(field) for field in FIELDS] == FIELD_ROWS


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
    assert {column: int(short[column]["id"]) for column in TEXT_COLUMNS} == {
        "DVNAM": 50,
        "UUID#": 54,
        "PCBID": 57,
        "DRVER": 1,
    }
    assert {short[column]["type"] for column in TEXT_COLUMNS} == {"string"}
