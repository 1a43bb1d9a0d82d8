"""Hangs and stragglers of recorded jobs, through the whole program."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.support.daemon import Daemon, pulsed, serving
from tests.support.recorded_jobs import JobRecord, Values, replay_arguments, wait_for_end

MINUTE = 4
"""Pages."""

WORK = {"gr": 0.97, "sm": 0.8, "tensor": 0.5, "dram": 0.4, "pcie_tx": 3e8, "pcie_rx": 2e8, "nvlink_tx": 4e10,
        "nvlink_rx": 4e10, "watts": 560.0, "clock": 1755.0, "memory": 50000.0}  # fmt: skip
SPIN = WORK | {"gr": 1.0, "sm": 0.2, "tensor": 0.0, "dram": 0.001, "pcie_tx": 1e5, "pcie_rx": 1e5, "nvlink_tx": 0.0,
               "nvlink_rx": 0.0, "watts": 160.0}  # fmt: skip
IDLE = SPIN | {"gr": 0.0, "sm": 0.0, "dram": 0.0, "watts": 85.0}
WITHOUT_DRAM = {name: value for name, value in SPIN.items() if name != "dram"}
LIGHT = WORK | {"sm": 0.4, "tensor": 0.25, "dram": 0.2, "watts": 350.0}
SLOW = WORK | {"sm": 0.9, "tensor": 0.75, "clock": 1170.0}

Phase = tuple[int, Mapping[int, Values], Values]
"""Minutes, what some GPUs do, and what the others do."""

JOBS: Mapping[str, tuple[Phase, ...]] = {
    "start": ((60, {2: IDLE}, SPIN),),
    "without-dram": ((30, {}, WORK), (50, {1: WITHOUT_DRAM}, SPIN)),
    "checkpoint": ((60, {}, WORK), (15, {0: IDLE}, SPIN)),
    "light-stage": ((30, {1: LIGHT}, WORK),),
    "throttled": ((30, {3: SLOW}, WORK),),
}
GPUS = 4


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that has replayed all jobs, each on a node of its own, and one on two nodes, of which `b` dies."""
    folder, noise = tmp_path_factory.mktemp("findings"), random.Random(40)
    record = JobRecord([*JOBS, "a", "b"])

    def gpu(values: Values) -> Values:
        return {
            name: value * noise.uniform(0.99, 1.01) if name in ("sm", "tensor", "watts", "dram") else value
            for name, value in values.items()
        }

    courses = {
        job: [(some, others) for minutes, some, others in phases for _ in range(minutes * MINUTE)]
        for job, phases in JOBS.items()
    }
    for number in range(90 * MINUTE):
        for job, course in courses.items():
            if number < len(course):
                some, others = course[number]
                record.tick(job, number, job, [gpu(some.get(at) or others) for at in range(GPUS)])
        if number >= 70 * MINUTE:
            continue
        is_dead = number >= 30 * MINUTE
        record.tick("a", number, "two-nodes", [gpu(SPIN if is_dead else WORK) for _ in range(GPUS)])
        if not is_dead:
            record.tick("b", number, "two-nodes", [gpu(WORK) for _ in range(GPUS)])
    with serving(folder, *replay_arguments(record.save(folder / "jobs.rec"))) as daemon:
        wait_for_end(daemon)
        yield daemon


def published(daemon: Daemon, family: str, node: str) -> list[str]:
    return re.findall(rf'^{family}{{node="{node}",.*}} (\d)$', daemon.get("/metrics").text, re.MULTILINE)


def advice(daemon: Daemon, job: str, id: str) -> list[Any]:
    return [each for each in daemon.get(f"/jobs/{job}").json()["advice"] if each["id"] == id]


@pytest.mark.slow
def test_a_job_hangs_from_its_start(replayed: Daemon) -> None:
    assert published(replayed, "pulsed_gpu_hang_suspected", "start") == ["1"] * GPUS
    (found,) = advice(replayed, "start", "hang")
    assert "; GPU start/2 alone is idle" in found["evidence"]


@pytest.mark.slow
def test_a_checkpoint_of_15_minutes_is_no_hang(replayed: Daemon) -> None:
    assert published(replayed, "pulsed_gpu_hang_suspected", "checkpoint") == ["0"] * GPUS
    assert advice(replayed, "checkpoint", "hang") == []


@pytest.mark.slow
def test_the_node_that_died_is_named(replayed: Daemon) -> None:
    (found,) = advice(replayed, "two-nodes", "hang")
    assert found["evidence"].endswith("; node b has been silent since 00:29:45 UTC")
    assert published(replayed, "pulsed_gpu_hang_suspected", "a") == ["1"] * GPUS
    assert published(replayed, "pulsed_gpu_hang_suspected", "b") == []
    gpus = replayed.get("/jobs/two-nodes").json()["gpus"]
    assert {gpu["last_work_time"] for gpu in gpus} == {"2026-01-01T00:29:45.000Z"}
    assert [gpu["findings"]["hang"]["state"] for gpu in gpus] == ["suspected"] * GPUS + ["not_judged"] * GPUS


@pytest.mark.slow
def test_a_hang_that_cannot_be_judged_has_no_series_and_a_reason(replayed: Daemon) -> None:
    assert published(replayed, "pulsed_gpu_hang_suspected", "without-dram") == []
    reason = "no DRAM_ACTIVE of GPU without-dram/1"
    assert {"finding": "hang", "missing": reason} in replayed.get("/jobs/without-dram").json()["not_judged"]
    report = pulsed("job", "without-dram", f"http://{replayed.address}").stdout
    assert f"whether it hangs (not evaluated: {reason})" in report


@pytest.mark.slow
def test_a_lighter_stage_is_no_straggler_and_the_imbalance_is_shown(replayed: Daemon) -> None:
    assert published(replayed, "pulsed_gpu_straggler", "light-stage") == []
    missing = {each["finding"]: each["missing"] for each in replayed.get("/jobs/light-stage").json()["not_judged"]}
    assert missing.keys() == {"straggler"}
    assert re.search(r"do different work: tensor 2\d% \(GPU light-stage/1\) to [45]\d% ", missing["straggler"])
    assert advice(replayed, "light-stage", "straggler") == []


@pytest.mark.slow
def test_a_gpu_with_the_same_work_at_a_lower_clock_is_a_straggler(replayed: Daemon) -> None:
    assert published(replayed, "pulsed_gpu_straggler", "throttled") == ["0", "0", "0", "1"]
    (found,) = advice(replayed, "throttled", "straggler")
    assert "GPU 3: slower than its peers for 10 min, with the same work: SM clock 1170 MHz" in found["evidence"]
