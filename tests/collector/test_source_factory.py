"""Targets of the sources of a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsed.collector.source_factory import open_sources, target_of
from pulsed.config.configuration import load


@pytest.mark.parametrize(
    ("interval", "speed", "seconds"), [(10, 1, 30.0), (10, 10, 3.0), (10, 60, 2.0), (0.1, 40, 2.0)]
)
def test_ticks_of_a_fast_replay_may_be_late(tmp_path: Path, interval: float, speed: float, seconds: float) -> None:
    path = tmp_path / "capture.txt"
    path.write_text("#Entity POWER\n         W\nGPU 0 300\n#Entity POWER\n         W\nGPU 0 310\n")
    settings = (f"source.replay.path={path}", f"source.replay.speed={speed}", f"source.interval={interval}")
    config = load(None, ("source.kind=replay", *settings), {})
    (source,) = open_sources(config)
    assert target_of(source, config).stale_after == pytest.approx(seconds)


@pytest.mark.parametrize(("interval", "seconds"), [("10s", 30.0), ("1s", 3.0), ("100ms", 2.0)])
def test_ticks_of_short_intervals_arrive_together(interval: str, seconds: float) -> None:
    config = load(None, ("source.kind=demo", f"source.interval={interval}"), {})
    (source,) = open_sources(config)
    target = target_of(source, config)
    assert target.stale_after == seconds
    target.set_source("demo", "demo", 0.1, 0)
    assert target.stale_after == 2.0
