"""What would supply missing quantities, and how to use it."""

from __future__ import annotations

from itertools import pairwise

import pytest
import yaml

from pulsed.apps.doctor.remedies import FILE, Supply, outdated, steps, supply
from pulsed.apps.doctor.source_check import SourceCheck
from pulsed.config.configuration import Config
from pulsed.model.gpu import Device, Entity
from pulsed.model.vocabulary import QUANTITIES
from pulsed.translate.fields import ANY, BY_NAME, CLASSIC, NEWEST, ExporterVersion, name_for

VERSIONS = (ANY, *(ExporterVersion(*v) for v in ((3, 1, 0), (3, 6, 1), (4, 1, 0), (4, 5, 2), (4, 8, 4))), NEWEST)


def exporter(oldest: ExporterVersion, newest: ExporterVersion) -> SourceCheck:
    return SourceCheck("exporter", "here", exporter_versions=(oldest, newest))


@pytest.mark.parametrize(("oldest", "newest"), [*pairwise(VERSIONS), *((each, each) for each in VERSIONS)])
def test_no_version_in_the_range_refuses_a_line(oldest: ExporterVersion, newest: ExporterVersion) -> None:
    found = supply(QUANTITIES, exporter(oldest, newest), Config())
    names = [line.partition(",")[0] for line in found.lines]
    assert len(names) == len(set(names))
    assert names
    for name in names:
        assert name in {name_for(field, version, version) for field in BY_NAME[name] for version in (oldest, newest)}
    assert all(since > oldest for name, since in found.newer if name != "DCGM_FI_DEV_CLOCKS_EVENT_REASONS")
    assert not {name for name, _ in found.newer} & set(names)


def test_what_dcgm_exporter_4_5_2_refuses_is_never_a_line() -> None:
    """The fields with which it does not start, as netdata found by trying all of them."""
    refused = {"GET_GPU_RECOVERY_ACTION", "FABRIC_HEALTH_MASK", "MEMORY_UNREPAIRABLE_FLAG"}
    refused |= {"PCIE_COUNT_CORRECTABLE_ERRORS"}
    wanted = {BY_NAME[f"DCGM_FI_DEV_{name}"][0].quantity for name in refused}
    for version in (version for version in VERSIONS if version <= CLASSIC):
        found = supply(wanted, exporter(version, version), Config())
        assert found.lines == ()
        assert {name.removeprefix("DCGM_FI_DEV_") for name, _ in found.newer} == refused


def test_a_field_that_was_renamed_has_the_name_of_the_version() -> None:
    def line(oldest: ExporterVersion, newest: ExporterVersion) -> tuple[str, ...]:
        found = supply(["clocks_event_reasons"], exporter(oldest, newest), Config())
        return tuple(each.partition(",")[0] for each in found.lines)

    old, new = ExporterVersion(3, 6, 1), ExporterVersion(4, 5, 2)
    assert line(old, old) == ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",)
    assert line(new, new) == ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS",)
    assert line(old, new) == ()


def test_a_quantity_is_computed_where_its_own_field_is_too_new() -> None:
    (field,) = BY_NAME["DCGM_FI_DEV_NVLINK_ERROR_DL_CRC"]
    old = ExporterVersion(3, 6, 1)
    assert field.since > old
    found = supply(["nvlink_crc_errors_total"], exporter(old, old), Config())
    assert [line.partition(",")[0].rpartition("NVLINK_")[2] for line in found.lines] == [
        "CRC_FLIT_ERROR_COUNT_TOTAL",
        "CRC_DATA_ERROR_COUNT_TOTAL",
    ]


def test_what_is_shown_of_charts_is_yaml() -> None:
    given = Supply(("DCGM_FI_PROF_SM_ACTIVE, gauge, Busy",))
    found = [*steps(given, exporter(CLASSIC, CLASSIC), {"Tesla T4"})]
    texts = [line for step in found for line in step.lines]
    assert f"pulsed counters --exporter-version 4.5.2 --model 'Tesla T4' > {FILE}" in texts
    assert len(texts) == len(set(texts)), "each line once"
    (operator,) = (step.lines for step in found if step.lines[:1] and "configmap" in step.lines[0])
    values = yaml.safe_load("\n".join(operator[1:]))["dcgmExporter"]
    assert values["config"] == {"name": "metrics-config"}
    assert values["env"] == [{"name": "DCGM_EXPORTER_COLLECTORS", "value": "/etc/dcgm-exporter/dcgm-metrics.csv"}]
    assert any("counters-pulsed-classic.csv" in step.do for step in found)


def test_nothing_to_add_is_nothing_to_do() -> None:
    assert [*steps(Supply(), exporter(ANY, NEWEST), {""})] == []
    assert [*steps(Supply(("refused",)), SourceCheck("dcgmi", "here"), {""})] == []


@pytest.mark.parametrize(
    ("model", "newest", "first"),
    [
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", (3, 4, 2), "4"),
        ("NVIDIA GeForce RTX 5090", (3, 6, 1), "4"),
        ("NVIDIA H100 80GB HBM3", (2, 6, 10), "3"),
        ("NVIDIA H100 80GB HBM3", (3, 1, 0), None),
        ("NVIDIA B200", (4, 1, 0), None),
        ("NVIDIA GeForce RTX 4090", (2, 6, 10), None),
        ("NVIDIA GB10", (3, 4, 2), None),
        ("Tesla T4", (2, 6, 10), None),
    ],
)
def test_a_dcgm_that_does_not_know_a_product_is_to_be_updated(
    model: str, newest: tuple[int, int, int], first: str | None
) -> None:
    page = exporter(ANY, ExporterVersion(*newest))
    engine = SourceCheck("dcgmi", "localhost", version="dcgmi {0}.{1}.{2}, host engine {0}.{1}.{2}".format(*newest))
    for probe, program in ((page, "dcgm-exporter"), (engine, "DCGM")):
        found = outdated(probe, [Device(Entity("gpu", "0"), model=model)])
        assert found.endswith(f"Update to {program} {first} or newer") if first else found == ""


def test_nothing_is_known_of_sources_without_a_version() -> None:
    device = Device(Entity("gpu", "0"), model="NVIDIA B200")
    assert outdated(SourceCheck("dcgmi", "host"), [device]) == ""
    assert outdated(SourceCheck("nvml", "here", version="2.1"), [device]) == ""
