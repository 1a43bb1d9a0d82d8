"""The table of DCGM's fields: complete, consistent, and in agreement with DCGM's headers."""

from __future__ import annotations

import csv
import re
from typing import NamedTuple

import pytest

from pulsed.model.vocabulary import QUANTITIES
from pulsed.translate.fields import (
    AMBIGUOUS_NAME,
    BY_NAME,
    BY_SHORT,
    DERIVED,
    FIELDS,
    FIRST_BASE_UNIT_ID,
    GROUPS,
    TEXT_COLUMNS,
    TEXT_NAMES,
    DcgmField,
    ExporterVersion,
    fields_named,
    fields_to_watch,
    sources,
    spelling,
    superchip_fields,
)
from tests.support.dmon_writer import FIELD_TABLE
from tests.support.samples import SAMPLES, needs_samples

FACTS = SAMPLES.parent / "dcgm" / "fields.tsv"

CLASSIC_FIELDS = [field for field in FIELDS if field.id < FIRST_BASE_UNIT_ID]


class HeaderRow(NamedTuple):
    """A field in DCGM's headers, in the versions in which it has this name."""

    id: str
    short: str
    former_short: str
    width: str
    type: str
    level: str
    since: str
    until: str
    name: str


HEADER_ROWS = [HeaderRow(*line.split("\t")) for line in FIELD_TABLE.read_text().splitlines()]


def header_rows(field: DcgmField) -> list[HeaderRow]:
    return [row for row in HEADER_ROWS if int(row.id) == field.id]


def test_every_quantity_has_a_source_or_is_derived() -> None:
    assert {name for name in QUANTITIES if not sources(name)} <= set(DERIVED)


def test_every_field_and_derivation_fills_a_quantity() -> None:
    assert {field.quantity for field in FIELDS} <= set(QUANTITIES)
    assert set(DERIVED) <= set(QUANTITIES)


@pytest.mark.parametrize(
    ("quantity", "ids"),
    [
        ("power_limit_watts", [164, 160]),
        ("nvlink_transmit_bytes_per_second", [1011, 843]),
        ("nvlink_receive_bytes_per_second", [1012, 897]),
        ("pcie_transmit_bytes_per_second", [1009, 200]),
        ("nvlink_replay_errors_total", [429, 499]),
        ("nvlink_recovery_errors_total", [439, 498]),
    ],
)
def test_the_preferred_source_comes_first(quantity: str, ids: list[int]) -> None:
    assert [field.id for field in sources(quantity)] == ids


def test_a_source_is_named_by_its_number_and_name() -> None:
    assert str(sources("tensor_active_ratio")[0]) == "1004 PROF_PIPE_TENSOR_ACTIVE"


def test_an_unknown_quantity_has_no_sources() -> None:
    with pytest.raises(KeyError, match="tensor_activity"):
        sources("tensor_activity")


@pytest.mark.parametrize("index", [BY_NAME, BY_SHORT])
def test_a_name_means_one_field(index: dict[str, tuple[DcgmField, ...]]) -> None:
    for fields in index.values():
        assert len({field.id for field in fields}) == 1


UNITS_BY_ENDING = {
    "_bytes_per_second": {"B/s", "kB/s", "MB/s"},
    "_bytes(_total)?": {"B", "MiB"},
    "_joules_total": {"J", "mJ"},
    "_seconds_total": {"s", "ns"},
    "_ratio": {"ratio", "%"},
    "_cycles_total": {"cycles"},
    "_watts": {"W"},
    "_celsius": {"°C"},
    "_hertz": {"Hz", "MHz"},
    "performance_state": {"P-state"},
    "": {"count", "code"},
}


def test_the_unit_fits_the_name_of_the_quantity() -> None:
    for field in FIELDS:
        units = next(units for ending, units in UNITS_BY_ENDING.items() if re.search(f"{ending}$", field.quantity))
        assert field.unit.name in units, field


def test_base_unit_fields_need_no_conversion() -> None:
    for field in FIELDS:
        if field.id >= FIRST_BASE_UNIT_ID:
            assert (field.unit.multiply, field.unit.divide, field.short) == (1.0, 1.0, ""), field


def test_a_field_agrees_with_dcgms_headers() -> None:
    for field in CLASSIC_FIELDS:
        rows = header_rows(field)
        assert rows, field
        for row in rows:
            name, _, number = field.short.partition(".")  # the second of two columns of a name
            assert number in ("", "2"), field
            assert (name, field.unit.type) == (row.short, {"int": "int64", "double": "double"}[row.type]), field
            assert row.name in field.names, field
            below = row.level in {"GPU_CI", "GPU_I"} and field.quantity != "xid_last_code"
            assert (field.level == "instance") == below, field


def test_texts_agree_with_dcgms_headers() -> None:
    rows = {row.short: row for row in HEADER_ROWS if row.short in TEXT_COLUMNS}
    assert {short: (int(row.id), row.type) for short, row in rows.items()} == {
        "DVNAM": (50, "string"),
        "UUID#": (54, "string"),
        "PCBID": (57, "string"),
        "DRVER": (1, "string"),
        "SRNUM": (53, "string"),
        "VBVER": (85, "string"),
    }
    assert all(row.name in TEXT_NAMES[TEXT_COLUMNS[short]] for short, row in rows.items())


def test_no_exporter_accepts_a_field_before_the_dcgm_that_it_came_with() -> None:
    """The first exporter that certainly accepts a field contains at least the DCGM that introduced it."""
    for field in CLASSIC_FIELDS:
        exporters = {"2.0": "2.0.0", "2.4": "2.6.0", "3.0": "3.1.0", "3.1": "3.1.0", "3.2": "3.2.0", "4.0": "4.0.0"}
        exporters |= {"4.1": "4.0.1", "4.2": "4.1.0", "4.6": "4.8.3"}
        came = min(exporters[row.since] for row in header_rows(field))
        assert field.since >= ExporterVersion(*map(int, came.split("."))), field


@needs_samples
def test_units_and_names_agree_with_the_facts_about_dcgm() -> None:
    with FACTS.open(newline="") as file:
        rows = {int(row["id"]): row for row in csv.DictReader(file, delimiter="\t")}
    units = {"C": "°C", "KB/s": "kB/s", "B": "B", "BER": "ratio", "count": "count", "percent": "%"}
    units |= dict.fromkeys(("bitmask", "bool", "enum", "code", "gen", "lanes"), "code")
    for field in CLASSIC_FIELDS:
        row = rows[field.id]
        named = {row["name"], row["name_4_6"] or row["name"]} - {AMBIGUOUS_NAME}
        assert named <= set(field.names), field
        assert field.unit.name == ("P-state" if field.id == 190 else units.get(row["unit"], row["unit"])), field


def test_the_groups_in_the_order_of_importance() -> None:
    assert {name: (group.fast, group.slow, group.superchip) for name, group in GROUPS.items()} == {
        "core": (
            (
                *(1001, 1002, 1004, 1005, 1003, 1006, 1007, 1008, 1009, 1010, 203, 204),
                *(155, 156, 150, 140, 100, 101, 112, 252, 251, 253),
                *(1014, 1013, 1015, 1016, 190, 67),
            ),
            (1, 54, 113, 114, 164, 160, 161, 162, 163, 110, 111, 66, 74),
            (1076, 1078),
        ),
        "health": (
            (230, 240, 241),
            (
                *(310, 311, 312, 313, 393, 394, 395, 396, 390, 391, 392, 385, 386, 387, 388, 389),
                *(202, 235, 236, 237, 238, 158, 159, 151, 152, 153, 242, 243, 244, 245, 246, 247, 300, 301, 84, 191),
                *(1420, 1421, 1422, 1423, 1424, 342, 343, 344, 345, 346, 1501, 1507, 1523, 170, 171, 174, 175, 1432),
                *(53, 85),
            ),
            (),
        ),
        "nvlink": ((1011, 1012, 449), (409, 419, 429, 439, 497, 498, 499, 1206, 1211, 1212, 1213, 1214), ()),
        "media": ((206, 207, 102), (115,), ()),
    }


def test_no_field_is_watched_twice() -> None:
    ids = [field for group in GROUPS.values() for field in (*group.fast, *group.slow, *group.superchip)]
    assert len(ids) == len(set(ids))


def test_own_fields_come_behind_the_groups_and_make_slow_ones_fast() -> None:
    fast, slow = fields_to_watch(["nvlink"], [409, 1011, 1017])
    assert fast == (1011, 1012, 449, 409, 1017)
    assert 409 not in slow
    assert 419 in slow


def test_fields_of_superchips_are_watched_beside_the_others() -> None:
    assert superchip_fields(GROUPS) == (1076, 1078)
    assert not {1076, 1078} & {*fields_to_watch(GROUPS)[0]}


def test_the_default_is_light_enough_for_ten_times_a_second() -> None:
    fast, _ = fields_to_watch(GROUPS)
    assert len(fast) <= 40


RATES = ("DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES")
"""Rates, whose counters have the same names with `_TOTAL`."""


def test_a_renamed_metric_is_of_the_same_fields() -> None:
    for name in sorted(BY_NAME):
        bare = re.sub("_total$", "", name, flags=re.IGNORECASE)
        names = {bare, name.lower(), f"{name.lower()}_total", f"{name}_total", name.replace("_", ".")}
        for renamed in names if bare.upper() not in RATES else {name.replace("_", ".")}:
            assert [field.id for field in fields_named(renamed)] == [field.id for field in BY_NAME[name]], renamed


@pytest.mark.parametrize("name", RATES)
def test_a_total_in_lower_case_may_be_a_rate_or_its_counter(name: str) -> None:
    assert fields_named(name.lower()) == BY_NAME[name]
    assert fields_named(f"{name}_total") == BY_NAME[name]
    assert fields_named(f"{name}_TOTAL") != BY_NAME[name]
    assert fields_named(f"{name.lower()}_total") == ()


@pytest.mark.parametrize("name", ["up", "process_cpu_seconds_total", "pulsed_gpu_info", "nvidia_gpu_temp", ""])
def test_other_metrics_keep_their_names(name: str) -> None:
    assert (spelling(name), fields_named(name)) == (name, ())
