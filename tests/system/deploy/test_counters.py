"""The counters files: dcgm-exporter takes them, and they give pulsed what their README says."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from pulsed.present.counters_file import counters_file
from pulsed.translate.fields import BY_NAME
from tests.support.samples import SAMPLES
from tests.system.deploy.counters import OWN, default_names, gpu, lines
from tools.generate_counters import FILES, FOLDER

FACTS = SAMPLES.parent / "dcgm" / "fields.tsv"

each = pytest.mark.parametrize("name", FILES)


def asked(name: str) -> list[str]:
    """The metrics that a file asks for."""
    return [field for field, kind, _ in lines(FOLDER / name) if kind != "label"]


@each
def test_the_files_are_what_the_generator_writes(name: str) -> None:
    assert (FOLDER / name).read_text() == counters_file(FILES[name]), "old: python -m tools.generate_counters"


@pytest.mark.skipif(not FACTS.is_file(), reason=f"the table of DCGM's fields is not beside this checkout ({FACTS})")
@each
def test_dcgm_has_every_field_by_that_name(name: str) -> None:
    with FACTS.open() as file:
        known = {row["name"]: int(row["id"]) for row in csv.DictReader(file, delimiter="\t")}
    for metric in asked(name):
        if metric not in OWN:
            assert known[metric] == BY_NAME[metric][0].id


async def test_the_files_give_what_the_readme_says(tmp_path: Path) -> None:
    rows = re.findall(r"^\|(.+?)\|(\d+)\|([\d.]+)\|([\d.]+)\|$", (FOLDER / "README.md").read_text(), re.M)
    found = {}
    for counters, metrics, utilization, health in rows:
        names = asked(counters) if counters in FILES else default_names()
        found[counters] = shown = await gpu(names, tmp_path / counters)
        assert shown["real_utilization"]["coverage"] == pytest.approx(float(utilization))
        assert shown["health"]["coverage"] == pytest.approx(float(health), abs=0.06), "checks come and go"
        assert sum(value is not None for value in shown["metrics"].values()) == pytest.approx(int(metrics), abs=4)
        assert shown["health"]["state"] == "ok"
    new, classic, default = (found[name] for name in (*FILES, "the exporter's default"))
    assert new["real_utilization"]["missing_inputs"] == classic["real_utilization"]["missing_inputs"] == []
    assert new["saturation"]["missing"] == classic["saturation"]["missing"] == []
    assert len(default["saturation"]["missing"]) == 6, "as the README says"
    unknown = [check["id"] for check in new["health"]["checks"] if check["state"] == "unknown"]
    assert unknown == ["nvlink_down"], "its field has a series per link"
