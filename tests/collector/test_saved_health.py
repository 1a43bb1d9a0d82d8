"""Saved health of targets: restored once, and whatever is in it."""

from __future__ import annotations

import json

import pytest

from pulsed.collector.collector import Pipeline
from pulsed.collector.saved_health import SavedHealth
from pulsed.compute.gpu_table import GpuTable
from tests.support.tampering import tampered
from tools.bench.ticks import raw_ticks


def test_what_no_target_has_restored_is_kept() -> None:
    saved = SavedHealth()
    saved.load({"away": {"version": 2}, "not a target": 1})
    assert saved.dump({}) == {"away": {"version": 2}}


@pytest.mark.slow
def test_no_change_of_saved_health_stops_pulsed() -> None:
    ticks, first = raw_ticks(2, 4), Pipeline(GpuTable(), "node")
    for raw in ticks[:2]:
        first.process(raw)
    document = json.loads(json.dumps(SavedHealth().dump({"bench": first.health_evaluator})))
    for text, change in tampered(document, 300, seed=1):
        try:
            saved, pipeline = SavedHealth(), Pipeline(GpuTable(), "node")
            try:
                saved.load(json.loads(text))
            except ValueError:
                continue
            saved.restore("bench", pipeline.health_evaluator, ticks[1].time + 5.0)
            for raw in ticks[2:]:
                pipeline.process(raw)
            json.dumps(saved.dump({"bench": pipeline.health_evaluator}), allow_nan=False)
        except Exception as error:
            raise AssertionError(change) from error
