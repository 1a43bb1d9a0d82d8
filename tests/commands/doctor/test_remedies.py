"""The lines that supply what is missing."""

from __future__ import annotations

import csv

import pytest
import yaml

from pulsed.commands.doctor.remedies import counters_line, steps
from pulsed.commands.doctor.source_check import SourceCheck
from pulsed.translate.fields import FIELDS, DcgmField


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field.id} {field.quantity}")
def test_a_line_has_the_three_cells_that_dcgm_exporter_counts(field: DcgmField) -> None:
    for modern in (False, True):
        line = counters_line(field.quantity, field, modern=modern)
        (cells,) = csv.reader([line], skipinitialspace=True, strict=True)
        name, kind, meaning = cells
        assert name in field.names
        assert name.startswith("DCGM_FI_")
        assert kind == ("counter" if field.quantity.endswith("_total") else "gauge")
        assert meaning
        assert '"' not in line


def test_a_line_can_use_the_new_name() -> None:
    (field,) = (field for field in FIELDS if field.id == 1002)
    assert counters_line("sm_active_ratio", field).startswith("DCGM_FI_PROF_SM_ACTIVE, gauge, ")
    assert counters_line("sm_active_ratio", field, modern=True).startswith("DCGM_FI_PROF_SM_UTIL_RATIO, gauge, ")


def test_what_is_shown_of_charts_is_yaml() -> None:
    given = ["DCGM_FI_PROF_SM_ACTIVE, gauge, Busy", "DCGM_FI_PROF_PIPE_FP64_ACTIVE, gauge, Busy"]
    texts = {step.do: "\n".join(step.lines) for step in steps(given, SourceCheck("exporter", "here"))}
    (chart,) = (text for text in texts.values() if text.startswith("customMetrics"))
    assert yaml.safe_load(chart)["customMetrics"].splitlines()[-2:] == given
    (operator,) = (text for text in texts.values() if text.startswith("dcgmExporter"))
    values = yaml.safe_load(operator)["dcgmExporter"]
    assert values["config"] == {"name": "metrics-config"}
    assert values["env"] == [{"name": "DCGM_EXPORTER_COLLECTORS", "value": "/etc/dcgm-exporter/dcgm-metrics.csv"}]


def test_nothing_to_add_is_nothing_to_do() -> None:
    assert steps([], SourceCheck("exporter", "here")) == ()
    assert steps(["refused"], SourceCheck("dcgmi", "here")) == ()
