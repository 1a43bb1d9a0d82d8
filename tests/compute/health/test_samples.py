"""Real pages and captures: health of them is never an exception, and nothing is ok without its inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.health_evaluator import HealthEvaluator
from pulsed.compute.target_gpus import Tracker
from pulsed.model.raw_tick import RawTick
from pulsed.translate.translator import Translator
from tests.support.samples import SAMPLES, needs_samples
from tests.translate.build import dmon_ticks, page_tick

FILES = sorted(path for path in SAMPLES.rglob("*") if path.is_file() and path.name != "README.md")


def _ticks(path: Path) -> list[RawTick]:
    text = path.read_text(encoding="utf-8", errors="replace")
    return dmon_ticks(text) if "dmon" in path.parts else [page_tick(text)]


@needs_samples
@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_samples_can_be_judged(path: Path) -> None:
    translator, table = Translator("n"), GpuTable()
    tracker = Tracker(table)
    evaluator = HealthEvaluator(table, tracker)
    for raw in _ticks(path)[:200]:
        canonical = translator.translate(raw)
        tracked = tracker.track(canonical)
        assert evaluator.evaluate(canonical, tracked) == []
        for state in tracked.states:
            for check in table.health_of(state.board).health.checks:
                assert check.state != "ok" or check.covered
                assert check.state in ("unknown", "ok") or (check.message and check.remedy)
