"""Versions of dcgm-exporter: parsed, concluded from pages, and the fields that they accept."""

from __future__ import annotations

import csv

import pytest

from pulsed.model.raw_tick import Layout, Series
from pulsed.translate.exporter_versions import exporter_version, in_words, name_for, versions_of
from pulsed.translate.fields import FIELDS, FIRST_BASE_UNIT_ID, sources
from support.samples import SAMPLES
from tests.translate.field_table import SINCE

FACTS = SAMPLES.parent / "dcgm" / "fields.tsv"


@pytest.mark.parametrize("text", ["4.5.2", "v4.5.2", "4.4.1-4.5.2", "4.4.1-4.5.2-ubuntu22.04", "4.4.1-4.5.2-ubi9"])
def test_a_version_is_part_of_the_tag_of_an_image(text: str) -> None:
    assert exporter_version(text) == (4, 5, 2)


@pytest.mark.parametrize("text", ["", "4", "4.5", "latest", "4.4.1-", "4.5.2.1", "4.4.1-4.5.2 "])
def test_anything_else_is_an_error_with_the_remedy(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a version of dcgm-exporter; give 4\.5\.2"):
        exporter_version(text)


def layout(*rows: tuple[str, str]) -> Layout:
    return Layout("exporter", tuple(Series(name, (("gpu", "0"), (label, "x"))) for name, label in rows))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("DCGM_FI_DEV_GPU_TEMP", "Hostname")], "4.8.2 or older"),
        ([("DCGM_FI_DEV_GPU_TEMP", "Hostname"), ("DCGM_FI_DEV_GPU_TEMP", "pci_bus_id")], "3.5.0 to 4.8.2"),
        ([("DCGM_FI_DEV_XID_ERRORS", "err_code")], "3.4.2 or newer"),
        ([("DCGM_FI_DEV_THRESHOLD_SRM", "Hostname")], "4.5.2 to 4.8.2"),
        ([("DCGM_FI_DEV_GPU_TEMP", "hostname")], "4.8.3 or newer"),
        ([("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", "hostname")], "4.8.4 or newer"),
        ([("DCGM_FI_DEV_GPU_TEMP_CELSIUS", "hostname")], "4.8.3 or newer"),
        ([("DCGM_FI_DEV_SM_CLOCK_HERTZ", "hostname")], "4.9.0"),
        ([("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "Hostname")], "4.8.2 or older"),
        ([("dcgm_gpu_temp", "uuid")], "of an unknown version"),
        ([("DCGM_FI_DEV_GPU_UTIL_RATIO", "hostname")], None),
        ([("go_goroutines", "hostname")], None),
    ],
)
def test_the_versions_that_can_have_made_a_page(rows: list[tuple[str, str]], expected: str | None) -> None:
    found = versions_of(layout(*rows))
    assert (in_words(*found) if found else None) == expected


def test_fields_are_accepted_since_the_version_that_the_table_records() -> None:
    assert {field.id: str(field.since) for field in FIELDS} == SINCE


@pytest.mark.parametrize(
    ("oldest", "newest", "name"),
    [
        ("4.0.0", "4.9.0", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"),
        ("3.9.9", "4.0.0", None),
        ("3.9.9", "3.9.9", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"),
    ],
)
def test_clock_event_reasons_have_another_name_before_dcgm_4(oldest: str, newest: str, name: str | None) -> None:
    (field,) = sources("clocks_event_reasons")
    assert name_for(field, exporter_version(oldest), exporter_version(newest)) == name


@pytest.mark.skipif(not FACTS.is_file(), reason=f"the table of DCGM's fields is not beside this checkout ({FACTS})")
def test_no_field_is_older_than_the_dcgm_that_it_came_with() -> None:
    """The first exporter that certainly accepts a field contains at least the DCGM that introduced it."""
    dcgm_of = {"<=2.3": "2.0.0", "2.4": "2.6.0", "3.0": "3.1.0", "3.1": "3.1.0", "3.2-3.3": "3.2.0"}
    dcgm_of |= {"4.0": "4.0.0", "4.1": "4.0.1", "4.2-4.5": "4.1.0", "4.6": "4.8.3"}
    with FACTS.open() as file:
        came = {
            int(row["id"]): exporter_version(dcgm_of[row["first_seen"]]) for row in csv.DictReader(file, delimiter="\t")
        }
    for field in FIELDS:
        if field.id < FIRST_BASE_UNIT_ID:
            assert field.since >= came[field.id], field
            assert name_for(field, field.since, field.since) in {*field.names}
