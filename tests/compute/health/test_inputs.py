"""Inputs of rules that are not readings."""

from __future__ import annotations

import pytest

from pulsed.compute.activity import activity_of
from pulsed.compute.health.inputs import GpuInputs, exporter_facts
from pulsed.model.tick import Extras
from pulsed.model.vocabulary import Reading


def test_before_the_first_sample_there_are_no_inputs() -> None:
    inputs = GpuInputs()
    assert (set(inputs.values), inputs.extras, inputs.measured_at, inputs.gap_seconds) == ({None}, None, 0.0, 0.0)
    assert inputs.value("health_watches") is None


@pytest.mark.parametrize(
    ("engine", "utilization", "activity"),
    [(None, None, None), (0.2, None, 0.2), (None, 0.3, 0.3), (0.2, 0.3, 0.3), (0.4, 0.3, 0.4), (0.0, None, 0.0)],
)
def test_activity_is_the_larger_of_two_inputs(
    engine: float | None, utilization: float | None, activity: float | None
) -> None:
    assert activity_of(Reading(graphics_engine_active_ratio=engine, gpu_utilization_ratio=utilization)) == activity


def test_video_engines_are_activity_that_neither_the_engine_nor_the_driver_counts() -> None:
    quiet = Reading(graphics_engine_active_ratio=0.0, gpu_utilization_ratio=0.0)
    assert activity_of(quiet._replace(encoder_utilization_ratio=0.0, decoder_utilization_ratio=0.46)) == 0.46
    assert activity_of(quiet._replace(encoder_utilization_ratio=0.09)) == 0.09
    assert activity_of(Reading(decoder_utilization_ratio=0.3)) == 0.3
    assert activity_of(Reading(encoder_utilization_ratio=0.0)) is None


EVENTS = (("hw_thermal", 3.0), ("hw_power_brake", 2.0))


@pytest.mark.parametrize(
    ("extras", "mask", "facts"),
    [
        (Extras(), None, (None, None, None)),
        (Extras(clock_events=EVENTS), None, (3.0, 2.0, None)),
        (Extras(clock_events=EVENTS[:1]), None, (3.0, 0.0, None)),
        (Extras(clock_events=EVENTS[1:]), None, (0.0, 2.0, None)),
        (Extras(clock_events=EVENTS), 0.0, (None, None, None)),
        (Extras(clock_events=(), xid_counts=()), None, (0.0, 0.0, 1.0)),
        (Extras(xid_counts=()), 0.0, (None, None, 1.0)),
        (Extras(xid_totals=()), None, (None, None, 1.0)),
    ],
)
def test_facts_of_the_exporter(
    extras: Extras, mask: float | None, facts: tuple[float | None, float | None, float | None]
) -> None:
    assert exporter_facts(extras, mask) == facts
