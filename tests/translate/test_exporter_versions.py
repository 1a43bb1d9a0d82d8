"""Versions of dcgm-exporter: parsed, concluded from pages, and the fields that they accept."""

from __future__ import annotations

import pytest

from pulsed.model.raw_tick import Layout, Series
from pulsed.translate.fields import FIELDS, exporter_version, in_words, name_for, sources, versions_of


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
        ([("DCGM_FI_DEV_SM_CLOCK", "hostname"), ("DCGM_FI_DEV_GPU_TEMP", "hostname")], "4.8.2 or older"),
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


def test_versions_before_2_and_after_the_newest_are_no_answer() -> None:
    assert versions_of(layout(("dcgm_gpu_temp", "uuid"))) == ((2, 0, 0), (4, 9, 0))


def test_a_page_without_addresses_of_gpus_is_older_than_those() -> None:
    labels = (("gpu", "0"), ("UUID", "GPU-1"), ("device", "nvidia0"), ("modelName", "x"), ("Hostname", "n"))
    page = Layout("exporter", (Series("DCGM_FI_DEV_GPU_TEMP", labels),))
    found = versions_of(page)
    assert found is not None
    assert in_words(*found) == "3.4.2 or older"


def test_a_field_has_a_name_in_the_first_version_that_accepts_it() -> None:
    for field in FIELDS:
        assert name_for(field, field.since, field.since) in field.names


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
