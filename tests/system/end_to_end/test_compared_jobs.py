"""Recorded jobs, compared through the whole program."""

from __future__ import annotations

import json
import random
from pathlib import Path

from pulsed.owners.report.job_comparison import compared_jobs
from tests.support.daemon import pulsed, serving
from tests.support.recorded_jobs import JobRecord, replay_arguments, wait_for_end

GPUS, PAGES = 2, 240
LEVELS = {"gr": 0.85, "sm": 0.55, "tensor": 0.3, "dram": 0.45, "watts": 480.0}


def add_job(record: JobRecord, name: str, generator: random.Random, factor: float) -> None:
    """Add an hour of a job; GPUs differ by 1 %, samples by 2 %."""
    offsets = [generator.gauss(1.0, 0.01) for _ in range(GPUS)]
    for number in range(PAGES):
        noise = [offset + generator.gauss(0.0, 0.02) for offset in offsets]
        pages = [
            {key: value * factor * each for key, value in LEVELS.items()} | {"clock": 1755.0} for each in noise
        ]  # fmt: skip
        record.tick(name, number, name, pages)


def test_a_slower_job_differs_and_one_that_is_alike_does_not(tmp_path: Path) -> None:
    generator, jobs = random.Random(40), {"fast": 1.0, "alike": 1.02, "slower": 0.6}
    record = JobRecord(list(jobs))
    for name, factor in jobs.items():
        add_job(record, name, generator, factor)
    with serving(tmp_path, *replay_arguments(record.save(tmp_path / "jobs.rec"))) as daemon:
        wait_for_end(daemon)
        url = f"http://{daemon.address}"
        documents = [daemon.get(f"/jobs/{name}").json() for name in ("fast", "alike")]
        shown = json.loads(pulsed("job", "--compare", "fast", "alike", "--format", "json", url).stdout)["quantities"]
        text = pulsed("job", "--compare", "fast", "slower", url).stdout
    alike = compared_jobs(*documents)["quantities"]
    assert not any(each["differs"] for each in alike.values())
    assert {name: each["differs"] for name, each in shown.items()} == {
        name: each["differs"] for name, each in alike.items()
    }
    assert all((each["missing"] is None) is (each["differs"] is not None) for each in shown.values())
    assert (
        "Differs by more than the spread: real work, SM, tensor, DRAM, power, MFU, as dense BF16, FLOP/s of a GPU, as"
        in text
    )
