"""A hook in a real run: the owner of a GPU that is held and idle is told once."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.support.daemon import serving
from tests.support.recorded_jobs import INTERVAL, JobRecord, replay_arguments
from tests.support.waiting import until
from tests.system.end_to_end.test_report import BUSY, IDLE


@pytest.mark.slow
def test_the_owner_of_a_held_idle_gpu_is_told_once(tmp_path: Path) -> None:
    record = JobRecord(["gpu1"])
    for number in range(int(90 * 60 / INTERVAL)):
        record.tick("gpu1", number, "4711", [BUSY, BUSY if number * INTERVAL < 600.0 else IDLE])
    hook, told = tmp_path / "hook", tmp_path / "told"
    hook.write_text(f"#!/bin/sh\ncat >>{told}\n")
    hook.chmod(0o755)
    with serving(
        tmp_path,
        *replay_arguments(record.save(tmp_path / "jobs.rec")),
        f"--set=notify.exec=[{hook}]",
        "--web.external-url=https://gpus.example.org/node",
        "--web.route-prefix=/",
    ) as daemon:
        until(lambda: told.exists() and told.read_bytes().endswith(b"\n"))
        time.sleep(11.0)  # another look
        page = daemon.get("/metrics").text
    (document,) = map(json.loads, told.read_text().splitlines())
    assert document["title"].startswith("Job 4711: GPU gpu1/1: idle for the last 1 h 20 min, after it had worked")
    assert document["url"] == "https://gpus.example.org/node/#/job/4711"
    assert "What to do" in document["text"]
    assert 'pulsed_notifications_total{receiver="exec",result="sent"} 1' in page
