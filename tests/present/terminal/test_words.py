"""Words and tables of the terminal hold what compute and the API declare."""

from __future__ import annotations

from itertools import chain

from pulsed.compute.class_table import RULES
from pulsed.model.health import STATES
from pulsed.present.api.sample_fields import FIELDS
from pulsed.present.terminal.charts import PLOTS
from pulsed.present.terminal.focus import HISTORY_FIELDS
from pulsed.present.terminal.model import SUMMARY_FIELDS
from pulsed.present.terminal.words import BOTTLENECK_MARKS, HEALTH_MARKS


def test_bottlenecks_are_those_of_the_classes() -> None:
    assert {rule.bottleneck for rule in RULES} == set(BOTTLENECK_MARKS)
    assert set(HEALTH_MARKS) | {"unknown"} == set(STATES)


def test_all_fields_exist() -> None:
    assert {*SUMMARY_FIELDS, *HISTORY_FIELDS, *chain(*PLOTS)} <= set(FIELDS)
    assert len(PLOTS) == 9
