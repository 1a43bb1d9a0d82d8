"""Counters files: dcgm-exporter reads them, and no version gets a field that it refuses."""

from __future__ import annotations

import csv
import re

import pytest

from pulsed.present.counters_file import MAX_LINES, counters_file
from pulsed.translate.fields import ANY, BY_NAME, CLASSIC, FIELDS, FIRST_BASE_UNIT_ID, NEWEST, ExporterVersion, name_for
from tests.support.daemon import pulsed

VERSIONS = (ANY, ExporterVersion(2, 6, 10), ExporterVersion(3, 6, 1), ExporterVersion(4, 1, 3), CLASSIC, NEWEST)

each = pytest.mark.parametrize("version", VERSIONS, ids=str)


def rows(text: str) -> list[list[str]]:
    return [
        row
        for row in csv.reader(text.splitlines(), strict=True, skipinitialspace=True)
        if row and not row[0].startswith("#")
    ]


@each
@pytest.mark.parametrize("model", ["", "Tesla T4", "NVIDIA H100 80GB HBM3", "GeForce", 'a "b", c'])
def test_the_exporter_reads_it(version: ExporterVersion, model: str) -> None:
    """Go's encoding/csv with comments: three cells, no quotes; a field that comes twice is refused by DCGM."""
    text = counters_file(version, model)
    assert all('"' not in line for line in text.splitlines() if not line.startswith("# Written by"))
    found = rows(text)
    assert {len(row) for row in found} == {3}
    assert {row[1] for row in found} <= {"gauge", "counter", "label"}
    names = [row[0] for row in found]
    assert len(names) == len(set(names))
    assert len(names) <= MAX_LINES or version >= ExporterVersion(4, 8, 4)
    fields = [BY_NAME[name][0] for name in names if name in BY_NAME]
    assert len({field.id for field in fields}) == len(fields)
    assert {name for name in names if name not in BY_NAME} <= {
        "DCGM_FI_DRIVER_VERSION",
        "DCGM_FI_DEV_SERIAL",
        "DCGM_FI_DEV_VBIOS_VERSION",
        "DCGM_EXP_XID_ERRORS_COUNT",
        "DCGM_EXP_CLOCK_EVENTS_COUNT",
        "DCGM_EXP_GPU_HEALTH_STATUS",
        "DCGM_EXP_XID_ERRORS_TOTAL",
    }
    assert all(name_for(BY_NAME[name][0], version, version) == name for name in names if name in BY_NAME)


@each
def test_what_is_off_could_be_on(version: ExporterVersion) -> None:
    """Without its # a line is a good one, and no field of pulsed is left out."""
    content = counters_file(version).splitlines()
    off = [line[1:] for line in content if re.match(r"#DCGM_", line)]
    assert all(len(line.split(",")) == 3 for line in off)
    names = {line.split(",")[0] for line in [*off, *content]}
    assert {field.id for name in names for field in BY_NAME.get(name, ())} == {
        field.id for field in FIELDS if field.id < FIRST_BASE_UNIT_ID
    }


def test_dcgm_exporter_4_5_2_starts_with_its_file() -> None:
    """Without the names with which it does not, as netdata found by trying all of them."""
    names = {row[0].removeprefix("DCGM_FI_DEV_") for row in rows(counters_file(CLASSIC))}
    refused = {"GET_GPU_RECOVERY_ACTION", "FABRIC_HEALTH_MASK", "MEMORY_UNREPAIRABLE_FLAG", "NVLINK_GET_STATE"}
    refused |= {"PCIE_COUNT_CORRECTABLE_ERRORS", "NVLINK_ECC_DATA_ERROR_COUNT_TOTAL"}
    assert not refused & names
    assert not [name for name in names if "IMEX_" in name]
    newest = {row[0].removeprefix("DCGM_FI_DEV_") for row in rows(counters_file(NEWEST))}
    assert names < newest


@pytest.mark.parametrize(
    ("model", "absent", "present"),
    [
        ("Tesla T4", "NVLINK FABRIC MEMORY_TEMP REMAP", "RETIRED ECC_"),
        ("NVIDIA L40S", "NVLINK FABRIC MEMORY_TEMP RETIRED", "REMAP ECC_"),
        ("NVIDIA A100-SXM4-80GB", "FABRIC RETIRED", "NVLINK MEMORY_TEMP REMAP"),
        ("NVIDIA H100 PCIe", "FABRIC RETIRED", "NVLINK MEMORY_TEMP REMAP"),
        ("NVIDIA H100 80GB HBM3", "RETIRED", "NVLINK FABRIC MEMORY_TEMP REMAP"),
        ("NVIDIA GeForce RTX 4090", "NVLINK FABRIC RETIRED REMAP ECC_", "POWER_USAGE"),
        ("Something new", "", "NVLINK FABRIC MEMORY_TEMP REMAP RETIRED ECC_"),
    ],
)
def test_a_model_gets_what_it_can_have(model: str, absent: str, present: str) -> None:
    text = counters_file(NEWEST, model)
    for word in absent.split():
        assert not re.search(rf"^#?DCGM_\w*{word}", text, re.M), word
    for word in present.split():
        assert re.search(rf"^DCGM_\w*{word}", text, re.M), word
    assert ("This model is not in pulsed's tables" in text) == (model == "Something new")


def test_the_command_prints_it() -> None:
    finished = pulsed("counters", "--exporter-version", "3.3.9-3.6.1-ubuntu22.04", "--model", "Tesla T4")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout == counters_file(ExporterVersion(3, 6, 1), "Tesla T4")
    assert pulsed("counters").stdout == counters_file(CLASSIC)
    wrong = pulsed("counters", "--exporter-version", "latest")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "'latest' is not a version of dcgm-exporter; give 4.5.2" in wrong.stderr
