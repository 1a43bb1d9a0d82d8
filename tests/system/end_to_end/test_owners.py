"""Owners of GPUs in a real daemon."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from itertools import count
from pathlib import Path
from typing import Any

from pulsed.owners.accounting.account import FREE
from pulsed.owners.report.text_table import DEMO_NOTICE
from tests.support.daemon import Daemon, pulsed, serving
from tests.support.waiting import SECONDS, until

ROOT = Path(__file__).parents[3]

PAGE = """\
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100"} 300
DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-b",modelName="NVIDIA H100"} 70
"""


def test_the_job_of_a_mapping_directory_is_the_owner_of_its_gpu(tmp_path: Path) -> None:
    page, jobs = tmp_path / "page.prom", tmp_path / "jobs"
    page.write_text(PAGE)
    jobs.mkdir()
    (jobs / "GPU-a").write_text("job_id=4711\nuser=ann\n")
    settings = [f"source.exporter.targets={page}", f"attribution.jobs.directories={jobs}"]
    settings += ["source.kind=exporter", "source.interval=1", "attribution.jobs.interval=50ms"]
    with serving(tmp_path, *(f"--set={each}" for each in settings)) as daemon:

        def job(gpu: str) -> str | None:
            found: str | None = daemon.get(f"/gpus/{gpu}").json()["attribution"]["slurm_job"]
            return found

        until(lambda: job("0") == "4711")
        assert job("1") is None
        assert f'pulsed_attribution_up{{source="{jobs}"}} 1' in daemon.get("/metrics").text
        assert 'kind="slurm_job",user="ann",job_id="4711"} 1' in daemon.get("/metrics").text
        assert 'pulsed_job_gpus{job_id="4711",user="ann"} 1' in daemon.get("/metrics").text
        (jobs / "GPU-a").rename(jobs / "GPU-b")
        until(lambda: job("0") is None)
        assert job("1") == "4711"
        (jobs / "GPU-b").unlink()
        jobs.rmdir()
        until(lambda: job("1") is None)
        assert "pulsed_job_gpus" not in daemon.get("/metrics").text
        until(lambda: f'pulsed_attribution_up{{source="{jobs}"}} 0' in daemon.get("/metrics").text)


def test_the_account_of_a_job_over_a_restart_to_its_end(tmp_path: Path) -> None:
    page, jobs, state = tmp_path / "page.prom", tmp_path / "jobs", tmp_path / "state"
    page.write_text(PAGE)
    jobs.mkdir()
    (jobs / "GPU-a").write_text("job_id=4711\nuser=ann\n")
    settings = [f"source.exporter.targets={page}", f"attribution.jobs.directories={jobs}", f"state_dir={state}"]
    settings += ["source.kind=exporter", "source.interval=1", "attribution.jobs.interval=50ms"]
    arguments = [f"--set={each}" for each in settings]

    watts = count(300)

    def account(daemon: Daemon) -> Any:
        page.write_text(PAGE.replace(" 300", f" {next(watts)}"))  # as of a GPU that works
        answer = daemon.get("/jobs/4711")
        return answer.json() if answer.status == 200 else {"total": {"gpu_seconds": 0.0}, "state": None}

    with serving(tmp_path, *arguments) as daemon:
        until(lambda: account(daemon)["total"]["gpu_seconds"] >= 2.0)
        first = account(daemon)
        assert (first["owner"]["user"], first["state"], first["end"]) == ("ann", "running", None)
        assert [each["owner"]["id"] for each in daemon.get("/jobs?user=ann").json()["jobs"]] == ["4711"]
        assert daemon.get("/jobs?user=bob").json()["jobs"] == []
        assert daemon.get("/jobs/4712").status == 404
        assert daemon.get("/jobs?state=old").status == 400
        assert daemon.stop() == 0
        before = first["total"]["gpu_seconds"]
    with serving(tmp_path, *arguments) as daemon:
        until(lambda: account(daemon)["total"]["gpu_seconds"] >= before + 2.0)
        assert account(daemon)["begin"] == first["begin"]
        (jobs / "GPU-a").unlink()
        until(lambda: account(daemon)["state"] == "ended")
        assert [each["owner"]["id"] for each in daemon.get("/jobs?state=ended").json()["jobs"]] == ["4711"]
        assert daemon.stop() == 0
    (ended,) = state.glob("jobs-*.ndjson")
    (line,) = [line for line in ended.read_text().splitlines() if json.loads(line)["owner"]["id"] != FREE.id]
    assert json.loads(line)["owner"] == {"kind": "slurm_job", "id": "4711", "begin": _begin(line), "user": "ann"}


def test_the_jobs_of_the_demo(tmp_path: Path) -> None:
    with serving(tmp_path, "--source=demo", "--set=source.interval=100ms") as daemon:
        url = daemon.address
        until(lambda: len(daemon.get("/jobs").json()["jobs"]) == 6)
        assert len(pulsed("job", url).stdout.splitlines()) == 8
        report = pulsed("job", "4711", url).stdout
        assert report.startswith(f"{DEMO_NOTICE}\nJob 4711   3 x H100, 1 node, ")
        assert pulsed("job", url).stdout.startswith(f"{DEMO_NOTICE}\nJOB ")
        assert " pulsed/1 demo=1 gpus=3 " in pulsed("job", "4711", url, "--format=line").stdout
        assert pulsed("health", url).stdout.startswith(f"{DEMO_NOTICE}\n")
        check = subprocess.run(
            [ROOT / "deploy/health/check_pulsed.sh", url], capture_output=True, text=True, check=False
        )
        assert f" - {DEMO_NOTICE}; " in check.stdout
        for name in ("pod:demo/demo-search-6b5f7c8d9-p4wzn", "demo/demo-search-6b5f7c8d9-p4wzn"):
            shared = json.loads(pulsed("job", name.rpartition("/")[2], url, "--format", "json").stdout)
            assert [each["shared_by"] for each in shared["gpus"]] == [2]
            assert json.loads(pulsed("job", name, url, "--format", "json").stdout)["begin"] == shared["begin"]


def _begin(line: str) -> float:
    begin: float = json.loads(line)["begin"]
    return begin


def test_events_of_owners(tmp_path: Path) -> None:
    page, jobs = tmp_path / "page.prom", tmp_path / "jobs"
    page.write_text(PAGE)
    jobs.mkdir()
    settings = [f"source.exporter.targets={page}", f"attribution.jobs.directories={jobs}"]
    settings += ["source.kind=exporter", "source.interval=1", "attribution.jobs.interval=50ms"]
    with (
        serving(tmp_path, *(f"--set={each}" for each in settings)) as daemon,
        socket.create_connection(("127.0.0.1", daemon.port), SECONDS) as client,
    ):
        client.sendall(b"GET /events?types=owner HTTP/1.1\r\nHost: x\r\n\r\n")
        received = client.recv(65536)
        (jobs / "1").write_text("4711")
        while received.count(b"event: owner") < 1:
            received += client.recv(65536)
        (jobs / "1").unlink()
        while received.count(b"event: owner") < 2:
            received += client.recv(65536)
    begin, end = (json.loads(text) for text in re.findall(r"event: owner\ndata: (.*)\n", received.decode()))
    assert (begin["change"], begin["gpu"], begin["owner"]["id"]) == ("begin", "1", "4711")
    assert (end["change"], end["uuid"], end["owner"]["id"]) == ("end", "GPU-b", "4711")


def test_a_history_that_fails_costs_the_accounts_no_tick(tmp_path: Path) -> None:
    page, jobs, fault = tmp_path / "page.prom", tmp_path / "jobs", tmp_path / "fault"
    page.write_text(PAGE)
    jobs.mkdir()
    (jobs / "GPU-a").write_text("job_id=4711\nuser=ann\n")
    fault.mkdir()
    (fault / "sitecustomize.py").write_text(
        "from pulsed.present.api.history import History\nHistory.add = lambda history, tick: 1 / 0\n"
    )
    settings = [f"source.exporter.targets={page}", f"attribution.jobs.directories={jobs}"]
    settings += ["source.kind=exporter", "source.interval=1", "attribution.jobs.interval=50ms"]
    with serving(tmp_path, *(f"--set={each}" for each in settings), PYTHONPATH=str(fault)) as daemon:
        until(lambda: 'pulsed_job_gpus{job_id="4711",user="ann"} 1' in daemon.get("/metrics").text)
        assert daemon.get("/events/recent").status == 200
        assert daemon.log().count("ZeroDivisionError") == 1
        assert "consumer=history" in daemon.log()
