"""The counters files: dcgm-exporter takes them, and they give pulsed what their README says."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from pulsed.translate.fields import BY_NAME, FIELDS, FIRST_BASE_UNIT_ID
from tests.deploy.counters import OWN, default_names, gpu, lines
from tests.samples import SAMPLES
from tools.generate_counters import DRIVER, EDITIONS, FOLDER, REFUSED, ROOM, Edition, text

FACTS = SAMPLES.parent / "dcgm" / "fields.tsv"

each = pytest.mark.parametrize("edition", EDITIONS, ids=lambda edition: edition.name)

NAMES = [edition.name for edition in EDITIONS]


def asked(name: str) -> list[str]:
    """The metrics that a file asks for."""
    return [field for field, kind, _ in lines(FOLDER / name) if kind != "label"]


@each
def test_the_files_are_what_the_generator_writes(edition: Edition) -> None:
    assert (FOLDER / edition.name).read_text() == text(edition), "old: python -m tools.generate_counters"


@each
def test_the_exporter_can_read_it(edition: Edition) -> None:
    """Go's encoding/csv with comments: three cells, no quotes; a field that comes twice is refused by DCGM."""
    content = (FOLDER / edition.name).read_text()
    assert '"' not in "".join(line for line in content.splitlines() if not line.startswith("#"))
    rows = [row for row in csv.reader(content.splitlines(), strict=True) if row and not row[0].startswith("#")]
    assert {len(row) for row in rows} == {3}
    assert {row[1].strip() for row in rows} <= {"gauge", "counter", "label"}
    names = [row[0] for row in rows]
    assert len(names) == len(set(names)) <= ROOM
    ids = [BY_NAME[name][0].id for name in names if name in BY_NAME]
    assert len(ids) == len(set(ids))
    assert set(names) - set(BY_NAME) == {DRIVER.split(",")[0], *(name for name in names if name in OWN)}


@each
def test_what_is_off_could_be_on(edition: Edition) -> None:
    """Taking the # away gives a good line, and no field of pulsed's is left out."""
    content = (FOLDER / edition.name).read_text().splitlines()
    off = [line[1:] for line in content if re.match(r"#DCGM_", line)]
    assert all(len(line.split(",")) == 3 for line in off)
    names = {line.split(",")[0] for line in [*off, *content]}
    assert {field.id for name in names for field in BY_NAME.get(name, ())} == {
        field.id for field in FIELDS if field.id < FIRST_BASE_UNIT_ID
    }


def test_the_classic_edition_has_nothing_that_its_exporters_refuse() -> None:
    new, classic = (set(asked(edition.name)) for edition in EDITIONS)
    assert classic < new
    assert not {BY_NAME[name][0].id for name in classic if name in BY_NAME} & REFUSED
    # The names with which dcgm-exporter 4.4.1-4.5.2 does not start, as netdata found by trying.
    refused = {"GET_GPU_RECOVERY_ACTION", "FABRIC_HEALTH_MASK", "MEMORY_UNREPAIRABLE_FLAG", "NVLINK_GET_STATE"}
    refused |= {"PCIE_COUNT_CORRECTABLE_ERRORS", "NVLINK_ECC_DATA_ERROR_COUNT_TOTAL"}
    assert not {f"DCGM_FI_DEV_{name}" for name in refused} & classic
    assert not [name for name in classic if "_IMEX_" in name]


@pytest.mark.skipif(not FACTS.is_file(), reason=f"the table of DCGM's fields is not beside this checkout ({FACTS})")
@each
def test_dcgm_has_every_field_by_that_name(edition: Edition) -> None:
    with FACTS.open() as file:
        known = {row["name"]: int(row["id"]) for row in csv.DictReader(file, delimiter="\t")}
    for name in asked(edition.name):
        if name not in OWN:
            assert known[name] == BY_NAME[name][0].id


async def test_the_files_give_what_the_readme_says(tmp_path: Path) -> None:
    rows = re.findall(r"^\| (.+?) \| (\d+) \| ([\d.]+) \| ([\d.]+) \|$", (FOLDER / "README.md").read_text(), re.M)
    found = {}
    for counters, metrics, utilization, health in rows:
        names = asked(counters) if counters in NAMES else default_names()
        found[counters] = shown = await gpu(names, tmp_path / counters)
        assert shown["real_utilization"]["coverage"] == pytest.approx(float(utilization))
        assert shown["health"]["coverage"] == pytest.approx(float(health), abs=0.06), "checks come and go"
        assert sum(value is not None for value in shown["metrics"].values()) == pytest.approx(int(metrics), abs=4)
        assert shown["health"]["state"] == "ok"
    new, classic, default = (found[name] for name in (*NAMES, "the exporter's default"))
    assert new["real_utilization"]["missing_inputs"] == classic["real_utilization"]["missing_inputs"] == []
    assert new["saturation"]["missing"] == classic["saturation"]["missing"] == []
    assert len(default["saturation"]["missing"]) == 6, "as the README says"
    assert not [check["id"] for check in new["health"]["checks"] if check["state"] == "unknown"]
