"""The Work view with more owners than it shows at once."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.support.daemon import Daemon, serving
from tests.support.recorded_jobs import JobRecord, replay_arguments
from tests.system.web.browser import tab, url
from tests.system.web.exporter_text import FULL, IDLE, Row, exporter_text

OWNERS, IDLE_ONES = 210, 30


def test_totals_count_all_owners_and_the_list_goes_on(browser: Browser, tmp_path: Path) -> None:
    rows = [Row(gpu, IDLE if gpu < IDLE_ONES else FULL, {"namespace": "ml", "pod": f"p{gpu}"}) for gpu in range(OWNERS)]
    file = tmp_path / "page.prom"
    file.write_text(exporter_text(*rows))
    flags = ("--source", "exporter", "--set", f"source.exporter.targets={file}", "--set", "source.interval=1s")
    with serving(tmp_path, *flags) as daemon, tab(browser, url(daemon)) as opened:
        page = opened.open("#/work")
        summary, shown = page.get_by_role("status"), page.locator("table.work tbody tr")
        expect(summary.first).to_contain_text(f"{OWNERS} owners now. {IDLE_ONES} GPUs are idle but held.")
        expect(shown).to_have_count(200)
        expect(page.locator("table.work tbody td.held")).to_have_count(IDLE_ONES)
        page.get_by_role("button", name="Show 200 more").click()
        expect(shown).to_have_count(OWNERS)
        expect(page.get_by_role("button", name="Show 200 more")).to_be_hidden()


def test_owners_are_sorted_and_grouped(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path, "--source=demo") as daemon, tab(browser, url(daemon)) as opened:  # its jobs end later
        page = opened.open("#/work")
        links = page.locator("table.work tbody th a")
        expect(links).to_have_count(6)
        page.locator("table.work thead button").first.click()
        expect(page.locator("table.work thead th").first).to_have_attribute("aria-sort", "ascending")
        expect(links.first).to_have_text("demo/demo-chat-7c9d8b6f4d-x2k7q")
        page.locator("table.work thead button").first.click()
        expect(links.first).to_have_text("job 4712_1")
        page.get_by_label("Group by").select_option("namespace")
        expect(page.locator("tr.group th")).to_have_text(["not known 2 owners", "demo 4 owners"])
        heights = page.locator("table.work tbody tr").evaluate_all("rows => rows.map((row) => row.clientHeight)")
        assert max(heights) < 40
        assert opened.violations() == []


PROCESS = {
    "pid": 4242, "slurm_job": "4711", "pod_uid": None, "user": "ann", "memory_bytes": 2**31, "cpu_seconds": 1.0,
    "start": None, "command": "python train.py",
}  # fmt: skip
USE = {"mig_id": None, "memory_bytes": 2**35, "sm_utilization_ratio": 0.5, "mean_utilization_ratio": None}


def test_processes_with_their_gpus(browser: Browser, demo: Daemon) -> None:
    uuid = demo.get("/gpus/0").json()["uuid"]
    gpus = [{"gpu": "0", "uuid": uuid, "peak_memory_bytes": None, **USE}]
    document = {"published": True, "visible": True, "processes": [{**PROCESS, "gpus": gpus}]}
    with tab(browser, url(demo)) as opened:
        opened.page.route("**/processes", lambda route: route.fulfill(json=document))
        page = opened.open("#/work")
        row = page.get_by_role("row", name="python train.py")
        expect(row.locator("th, td")).to_have_text(
            [
                "4242",
                "GPU 0",
                "32\u00a0GiB",
                "50\u00a0%",
                "--",
                "2\u00a0GiB",
                "ann",
                "--",
                "job 4711",
                "python train.py",
            ]
        )
        row.get_by_role("link", name="GPU 0").click()
        expect(page.locator(".panel.wide", has_text="Processes").get_by_role("row", name="train.py")).to_be_visible()
        assert opened.violations() == []


def test_what_is_not_judged_about_a_job_is_named(browser: Browser, tmp_path: Path) -> None:
    record = JobRecord(["n1"])
    for number in range(20):
        record.tick("n1", number, "4711", [{"gr": 1.0, "tensor": 0.0, "watts": 150.0, "pcie_tx": 0.0, "pcie_rx": 0.0}])
    with (
        serving(tmp_path, *replay_arguments(record.save(tmp_path / "job.rec"))) as daemon,
        tab(browser, url(daemon)) as opened,
    ):
        page = opened.open("#/work")
        page.get_by_role("button", name="not evaluated").click()
        expect(page.locator("table.work tr.findings")).to_contain_text("hang not evaluated: no DRAM_ACTIVE")
        assert opened.violations() == []
