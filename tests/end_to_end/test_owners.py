"""Owners of GPUs in a real daemon."""

from __future__ import annotations

from pathlib import Path

from tests.daemon import serving
from tests.waiting import until

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
        (jobs / "GPU-a").rename(jobs / "GPU-b")
        until(lambda: job("0") is None)
        assert job("1") == "4711"
        (jobs / "GPU-b").unlink()
        jobs.rmdir()
        until(lambda: job("1") is None)
        until(lambda: f'pulsed_attribution_up{{source="{jobs}"}} 0' in daemon.get("/metrics").text)
