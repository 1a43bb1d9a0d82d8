"""Recorded jobs that are alike, and one that is not, compared through the whole program."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from math import exp, sqrt
from pathlib import Path

import pytest

from pulsed.present.job_comparison import compared_jobs
from tests.support.daemon import pulsed, serving
from tests.support.recorded_jobs import INTERVAL, JobRecord, replay_arguments, wait_for_end

GPUS, PAGES, JOBS = 2, 240, 21
SLOW = 600.0
"""Seconds in which the load of a job changes: an hour has few independent values."""

LEVELS = {"gr": 0.85, "sm": 0.55, "tensor": 0.3, "dram": 0.45, "watts": 480.0}


def add_job(record: JobRecord, name: str, generator: random.Random, factor: float, change: float) -> None:
    """Add an hour of a job whose load changes by 5 % in `change` seconds; GPUs differ by 1 %, samples by 2 %."""
    keep = exp(-INTERVAL / change) if change else 0.0
    load, offsets = generator.gauss(0.0, 0.05), [generator.gauss(0.0, 0.01) for _ in range(GPUS)]
    for number in range(PAGES):
        load = keep * load + sqrt(1.0 - keep * keep) * generator.gauss(0.0, 0.05)
        noise = [1.0 + load + offset + generator.gauss(0.0, 0.02) for offset in offsets]
        pages = [
            {key: value * factor * each for key, value in LEVELS.items()} | {"clock": 1755.0} for each in noise
        ]  # fmt: skip
        record.tick(name, number, name, pages)


@pytest.mark.slow
def test_one_of_20_pairs_of_jobs_that_are_alike_differs_at_most(tmp_path: Path) -> None:
    generator = random.Random(40)
    alike = [f"j{number}" for number in range(JOBS)]
    record = JobRecord([*alike, "fast", "slower"])
    for name in alike:
        add_job(record, name, generator, 1.0, SLOW)
    for name, factor in (("fast", 1.0), ("slower", 0.6)):
        add_job(record, name, generator, factor, 0.0)
    with serving(tmp_path, *replay_arguments(record.save(tmp_path / "jobs.rec"))) as daemon:
        wait_for_end(daemon)
        url = f"http://{daemon.address}"
        documents = [daemon.get(f"/jobs/{name}").json() for name in alike]
        shown = json.loads(pulsed("job", "--compare", *alike[:2], "--format", "json", url).stdout)["quantities"]
        text = pulsed("job", "--compare", "fast", "slower", url).stdout
    found = [compared_jobs(*pair)["quantities"] for pair in pairwise(documents)]
    assert sum(any(each["differs"] for each in quantities.values()) for quantities in found) <= 1
    assert {name: each["differs"] for name, each in shown.items()} == {
        name: each["differs"] for name, each in found[0].items()
    }
    assert all((each["missing"] is None) is (each["differs"] is not None) for each in shown.values())
    assert "Differs beyond noise: real work, SM, tensor, DRAM, power, MFU, as dense BF16, FLOP/s of a GPU, as" in text
    assert "at most" not in text
