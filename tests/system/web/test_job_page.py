"""The pages of a job, a pod and a workload, and the ways to them."""

from __future__ import annotations

import json
import re
from itertools import count
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Route, expect

from tests.support.daemon import Daemon, serving
from tests.support.waiting import until
from tests.system.web.browser import tab, url
from tests.system.web.exporter_text import FULL, Row, exporter_text

EXPORTER = ("--source", "exporter", "--set", "source.interval=1s")


def test_the_page_of_a_job_is_one_click_away(browser: Browser, demo: Daemon) -> None:
    with tab(browser, url(demo)) as opened:
        page = opened.open()
        tile = page.locator(".tile", has=page.get_by_role("link", name="GPU 0"))
        tile.get_by_role("link", name="job 4711").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Job 4711")
        expect(page.locator(".badge", has_text="running")).to_be_visible()
        expect(page.locator(".verdict .big")).to_contain_text(re.compile(r"\.$"))
        expect(page.locator(".verdict .work")).to_have_text(re.compile(r"^\d+ % of what the GPUs can do$"))
        expect(page.locator(".line-toggle")).to_have_text(["GPU 0", "GPU 4", "GPU 7", "mean"])
        expect(page.locator(".charts .chart h3")).to_have_text(
            ["Real utilization", "SM", "Tensor", "DRAM", "Power", "Memory in use"]
        )
        expect(page.locator("table.job-gpus tbody tr")).to_have_count(3)
        expect(page.locator(".facts dt", has_text="Energy")).to_be_visible()
        page.get_by_label("Compare with").fill("4712_1")
        page.get_by_role("button", name="Compare").click()
        compared = page.locator(".panel", has=page.get_by_role("heading", name="Compared"))
        expect(compared).to_contain_text("Job 4712_1")
        expect(compared.get_by_role("row", name="real work")).to_contain_text("%")
        assert "with=4712_1" in page.url
        assert opened.violations() == []
        page.get_by_role("region", name="GPUs of the job").get_by_role("link", name="GPU 7").click()
        page.locator(".panel", has=page.get_by_role("heading", name="Owners")).get_by_role("link").first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Job 4711")


def test_the_page_of_a_job_that_ended_before_a_restart(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.prom"
    state = tmp_path / "state"
    state.mkdir()
    flags = (*EXPORTER, "--set", f"source.exporter.targets=[{file}]", "--set", f"state_dir={state}")

    watts = count(600)

    def write(job: str) -> None:
        """Write a page whose values have changed, as those of a working GPU."""
        values = {**FULL, "DCGM_FI_DEV_POWER_USAGE": next(watts)}
        file.write_text(exporter_text(*(Row(gpu, values, {"hpc_job": job}) for gpu in range(2))))

    def account(job: str) -> Any:
        """Return the account of 4711 while the page has a job."""
        write(job)
        return json.loads(daemon.get("/jobs/4711").text)

    write("4711")
    with serving(tmp_path, *flags) as daemon:
        until(lambda: account("4711").get("total", {}).get("gpu_seconds", 0.0) >= 3.0)
        until(lambda: account("4712")["end"] is not None)
        daemon.stop()
    with serving(tmp_path, *flags) as daemon, tab(browser, url(daemon)) as opened:
        page = opened.open("#/job/4711")
        expect(page.get_by_role("heading", level=1)).to_have_text("Job 4711")
        expect(page.locator(".badge", has_text="ended")).to_be_visible()
        expect(page.locator(".verdict .big")).to_have_text("Too little was observed for a verdict.")
        expect(page.locator(".verdict .work")).to_have_text("59 % of what the GPUs can do")
        expect(page.locator(".charts-section > .muted")).to_contain_text("No history of that time")
        expect(page.locator("table.job-gpus tbody tr")).to_have_count(2)
        assert opened.violations() == []


def test_the_page_of_a_workload_has_its_pods(browser: Browser, demo: Daemon) -> None:
    document = json.loads(demo.get("/jobs?namespace=demo").text)
    workload = {"workload": "infer", "workload_kind": "Deployment"}
    for job in document["jobs"]:
        job["owner"] |= workload
    row = {"namespace": "demo", **workload, "classes": {}, "gpus": 4, "pods": 4, "real_utilization_ratio": 0.25}
    row |= {"power_watts": 900.0, "energy_joules_total": 7200.0}
    with tab(browser, url(demo)) as opened:
        opened.page.route("**/jobs?namespace=*", lambda route: fulfil(route, document))
        opened.page.route("**/workloads", lambda route: fulfil(route, {"by": "workload", "workloads": [row]}))
        page = opened.open("#/workload/demo/Deployment/infer")
        expect(page.get_by_role("heading", level=1)).to_have_text("Deployment demo/infer")
        expect(page.locator("dl.totals")).to_contain_text("25 %")
        page.locator(".charts .u-wrap canvas").first.wait_for()
        assert opened.violations() == []
        page.get_by_role("link", name="demo/demo-notebook-0").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Pod demo/demo-notebook-0/notebook")


def test_a_job_that_does_not_exist(browser: Browser, demo: Daemon) -> None:
    with tab(browser, url(demo)) as opened:
        page = opened.page
        page.goto(f"{opened.url}#/job/4799")
        expect(page.locator(".empty")).to_contain_text("job '4799' not found")
        assert opened.violations() == []
        opened.console.clear()  # Chromium reports the 404


def fulfil(route: Route, document: object) -> None:
    route.fulfill(json=document)
