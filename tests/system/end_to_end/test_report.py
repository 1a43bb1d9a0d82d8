"""`pulsed report` and `pulsed jobs` of two real daemons: their sums are those of the reports of the jobs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon, free_port, pulsed, serving
from tests.support.recorded_jobs import JobRecord, replay_arguments, wait_for_end

BUSY = {"gr": 0.9, "sm": 0.7, "tensor": 0.4, "dram": 0.5, "watts": 500.0, "clock": 1700.0}
IDLE = {"gr": 0.0, "sm": 0.0, "tensor": 0.0, "dram": 0.0, "watts": 100.0, "clock": 1700.0}
SINCE = "--since=36500d"
PRICES = ("--set=prices.gpu_hour=2", "--set=prices.kwh=0.5")


def record_of(node: str, *jobs: tuple[str, dict[str, float]]) -> JobRecord:
    """Return jobs that follow each other on the two GPUs of a node, an hour each."""
    record = JobRecord([node])
    for number in range(240 * len(jobs)):
        job, values = jobs[number // 240]
        record.tick(node, number, job, [BUSY, values])
    return record


def report(*arguments: str) -> str:
    return pulsed("report", SINCE, *arguments).stdout


@pytest.mark.slow
def test_a_report_of_two_daemons_is_the_sum_of_their_jobs(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    first = record_of("gpu1", ("both", IDLE), ("one", BUSY)).save(tmp_path / "1" / "jobs.rec")
    second = record_of("gpu2", ("both", BUSY), ("two", IDLE)).save(tmp_path / "2" / "jobs.rec")
    with (
        serving(tmp_path / "1", *replay_arguments(first), *PRICES) as one,
        serving(tmp_path / "2", *replay_arguments(second), *PRICES) as two,
    ):
        daemons = (one, two)
        for daemon in daemons:
            wait_for_end(daemon)
        urls = [daemon.address for daemon in daemons]
        accounts = [account_of(daemon, name) for daemon in daemons for name in jobs_of(daemon)]
        found = json.loads(report("--format=json", "--by=node", *urls))
        rows = list(csv.DictReader(io.StringIO(report("--format=csv", "--by=node", *urls))))
        text = report(*urls, f"localhost:{free_port()}")
        table = pulsed("jobs", SINCE, "--diagnose", *urls).stdout
    assert {row["node"]: row["jobs"] for row in found["rows"]} == {"gpu1": 2, "gpu2": 2, "(no owner)": 0}
    for row in (row for row in found["rows"] if row["jobs"]):
        of_node = [account for account in accounts if account["gpus"][0]["node"] == row["node"]]
        totals = [account["total"] for account in of_node]
        assert row["gpu_seconds"] == pytest.approx(sum(each["gpu_seconds"] for each in totals))
        assert row["held_idle_seconds"] == pytest.approx(
            sum(sum(each["counters"]["idle_seconds"].values()) for each in totals)
        )
        assert row["real_utilization_seconds"] == pytest.approx(
            sum(each["counters"]["real_utilization_seconds"] or 0.0 for each in totals)
        )
        energy = sum(sum(each["counters"]["class_energy_joules"].values()) + each["bridged_joules"] for each in totals)
        assert row["energy_joules"] == pytest.approx(energy)
        cost = sum(account["cost"]["gpu_time"] + (account["cost"]["energy"] or 0.0) for account in of_node)
        expected = {"currency": "EUR", "total": pytest.approx(cost), "allocated": None, "is_lower_bound": False}
        assert row["cost"] == expected
    assert [float(row["gpu_seconds"]) for row in rows] == [
        pytest.approx(row["gpu_seconds"], abs=0.001) for row in found["rows"]
    ]
    worst = {job["owner"]["id"]: job for job in found["worst"]}
    assert worst["both"]["gpu_count"] == 4  # of both nodes
    assert worst["both"]["gpu_seconds"] == pytest.approx(
        sum(account["total"]["gpu_seconds"] for account in accounts if account["owner"]["id"] == "both")
    )
    assert worst["two"]["finding"].startswith("idle_gpu: GPU 1: idle ")
    assert "Most held idle time" in text
    assert "\ntwo " in table
    assert "idle_gpu: GPU 1: idle " in table


def jobs_of(daemon: Daemon) -> list[str]:
    return [job["owner"]["id"] for job in daemon.get("/jobs").json()["jobs"]]


def account_of(daemon: Daemon, name: str) -> Any:
    return daemon.get(f"/jobs/{name}").json()
