"""The configuration of a running daemon is changed: by signal, by HTTP, by the file itself, and too often."""

from __future__ import annotations

import re
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from tests.support.daemon import Daemon, serving
from tests.support.waiting import until

CONFIG = "source: {kind: demo, interval: %s}\ncompute: {real_utilization: {preset: %s}}\n"


def preset(daemon: Daemon) -> str:
    found: str = daemon.get("/gpus").json()["gpus"][0]["real_utilization"]["preset"]
    return found


def value(page: str, series: str) -> float:
    found = re.search(rf"^{re.escape(series)}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE)
    assert found is not None, series
    return float(found[1])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pulsed.yaml"
    path.write_text(CONFIG % ("1s", "ai"))
    return path


def test_the_signal_reloads_and_a_wrong_file_changes_nothing(tmp_path: Path, file: Path) -> None:
    with serving(tmp_path, "--config.file", str(file)) as daemon:
        assert preset(daemon) == "ai"
        file.write_text(CONFIG % ("1s", "hpc"))
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: preset(daemon) == "hpc")
        file.write_text(CONFIG % ("1s", "best"))
        daemon.process.send_signal(signal.SIGHUP)
        refused = "pulsed_config_last_reload_successful"
        until(lambda: value(daemon.get("/metrics").text, refused) == 0)
        assert preset(daemon) == "hpc"
        assert "best" in daemon.log()
        file.write_text(CONFIG % ("1s", "mem"))
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: value(daemon.get("/metrics").text, refused) == 1)
        assert preset(daemon) == "mem"
        assert daemon.stop() == 0


def test_a_reload_changes_which_families_of_owners_are_published(tmp_path: Path, file: Path) -> None:
    page, jobs = tmp_path / "page.prom", tmp_path / "jobs"
    page.write_text('DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100"} 300\n')
    jobs.mkdir()
    (jobs / "GPU-a").write_text("job_id=4711\n")
    settings = [f"source.exporter.targets={page}", "source.kind=exporter", f"attribution.jobs.directories={jobs}"]
    file.write_text("publish: {exclude: [pulsed_job_gpus]}\n")
    with serving(tmp_path, "--config.file", str(file), *(f"--set={each}" for each in settings)) as daemon:
        until(lambda: 'pulsed_job_power_watts{job_id="4711"}' in daemon.get("/metrics").text)
        assert "pulsed_job_gpus" not in daemon.get("/metrics").text
        file.write_text("publish: {exclude: [pulsed_job_power_watts]}\n")
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: 'pulsed_job_gpus{job_id="4711"}' in daemon.get("/metrics").text)
        assert "pulsed_job_power_watts" not in daemon.get("/metrics").text


def test_a_change_of_the_file_is_noticed(tmp_path: Path, file: Path) -> None:
    with serving(tmp_path, "--config.file", str(file)) as daemon:
        other = tmp_path / "other.yaml"
        other.write_text(CONFIG % ("1s", "hpc"))
        other.rename(file)  # as editors and Kubernetes do it
        until(lambda: preset(daemon) == "hpc")
        file.unlink()
        time.sleep(3)
        assert daemon.get("/-/ready").status == 200
        assert preset(daemon) == "hpc"


def test_http_may_reload_only_when_that_is_allowed(tmp_path: Path, file: Path) -> None:
    with serving(tmp_path, "--config.file", str(file)) as daemon:
        answer = daemon.get("/-/reload", method="POST")
        assert (answer.status, "--web.enable-lifecycle" in answer.text) == (403, True)
    with serving(tmp_path, "--config.file", str(file), "--web.enable-lifecycle") as daemon:
        assert daemon.get("/-/reload").status == 405
        file.write_text(CONFIG % ("1s", "hpc"))
        assert daemon.get("/-/reload", method="POST").status == 200
        assert preset(daemon) == "hpc"
        file.write_text(CONFIG % ("1s", "best"))
        answer = daemon.get("/-/reload", method="POST")
        assert (answer.status, "best" in answer.text) == (500, True)
        assert preset(daemon) == "hpc"


FOREIGN = [
    {"Origin": "http://example.net"},
    {"Origin": "null"},
    {"Origin": "https://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
]


def test_pages_of_other_sites_may_not_reload_nor_forget(tmp_path: Path, file: Path) -> None:
    with serving(tmp_path, "--config.file", str(file), "--web.enable-lifecycle") as daemon:
        for path in ("/-/reload", "/-/forget?gpu=0"):
            for headers in FOREIGN:
                answer = daemon.get(path, headers, "POST")
                assert (answer.status, "another site" in answer.text) == (403, True), headers
        for headers in (
            {"Origin": f"http://{daemon.address}"},
            {"Sec-Fetch-Site": "same-origin", "Origin": "http://x"},
        ):
            assert daemon.get("/-/reload", headers, "POST").status == 200


def test_what_takes_a_restart_is_said(tmp_path: Path, file: Path) -> None:
    with serving(tmp_path, "--config.file", str(file)) as daemon:
        file.write_text(CONFIG % ("1s", "hpc") + "telemetry_path: /other\nhistory: {seconds: 5m}\n")
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: preset(daemon) == "hpc")
        (line,) = [line for line in daemon.log().splitlines() if "a change of these keys needs a restart" in line]
        assert "keys=telemetry_path,history" in line
        assert daemon.get("/metrics").status == 200
        shown = daemon.get("/config").json()
        assert (shown["telemetry_path"], shown["history"]["seconds"]) == ("/metrics", 600.0), "the values in force"


def test_reloads_under_load_cost_nothing(tmp_path: Path, file: Path) -> None:
    """No failed scrape, no counter that falls, no descriptor more."""
    counter = "pulsed_gpu_observed_seconds_total"
    failures: list[str] = []
    scrapes: list[list[float]] = []
    done = threading.Event()

    def scrape(daemon: Daemon) -> None:
        seen: list[float] = []
        scrapes.append(seen)
        while not done.is_set():
            try:
                answer = daemon.get("/metrics")
            except OSError as error:
                failures.append(repr(error))
                continue
            if answer.status != 200 or "pulsed_gpu_real_utilization_ratio{" not in answer.text:
                failures.append(f"{answer.status}: {len(answer.body)} bytes")
            else:
                seen.append(value(answer.text, counter))

    def reload(daemon: Daemon, number: int) -> None:
        # The interval is the source's own business: every second reload replaces the source.
        file.write_text(CONFIG % (("0.1s", "0.1s", "0.2s", "0.2s")[number % 4], ("ai", "hpc")[number % 2]))
        answer = daemon.get("/-/reload", method="POST")
        assert answer.status == 200, answer.text

    # On a busy machine the next tick comes late: that makes a page stale, which is not the fault of a reload.
    fresh = ("--set", "source.stale_after=1h", "--set", "log.level=error")
    with serving(tmp_path, "--config.file", str(file), "--web.enable-lifecycle", *fresh) as daemon:
        scrapers = [threading.Thread(target=scrape, args=(daemon,)) for _ in range(4)]
        for scraper in scrapers:
            scraper.start()
        try:
            for number in range(8):
                reload(daemon, number)
            process = psutil.Process(daemon.process.pid)
            descriptors = process.num_fds()
            for number in range(60):
                reload(daemon, number)
        finally:
            done.set()
            for scraper in scrapers:
                scraper.join()
        until(lambda: process.num_fds() <= descriptors)
    assert failures == []
    assert all(scrapes)
    for seen in scrapes:
        assert seen == sorted(seen), "a counter fell"
        assert seen[-1] > 0


def test_a_wrong_choice_of_gpus_is_refused_too(tmp_path: Path, file: Path) -> None:
    with serving(tmp_path, "--config.file", str(file), "--web.enable-lifecycle") as daemon:
        file.write_text(CONFIG % ("1s", "hpc") + "gpus: 'first'\n")
        answer = daemon.get("/-/reload", method="POST")
        assert (answer.status, "gpus" in answer.text) == (500, True)
        assert preset(daemon) == "ai"
