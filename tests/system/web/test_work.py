"""The Work view with more owners than it shows at once."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.support.daemon import serving
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
        assert opened.violations() == []


def test_what_is_not_judged_about_a_job_is_named(browser: Browser, tmp_path: Path) -> None:
    record = JobRecord(["n1"])
    for number in range(20):
        record.tick("n1", number, "4711", [{"gr": 1.0, "tensor": 0.0, "watts": 150.0, "pcie_tx": 0.0, "pcie_rx": 0.0}])
    with (
        serving(tmp_path, *replay_arguments(record.save(tmp_path / "job.rec"))) as daemon,
        tab(browser, url(daemon)) as opened,
    ):
        row = opened.open("#/work").locator("table.work tbody tr")
        expect(row).to_contain_text("hang not judged: no DRAM_ACTIVE")
        assert opened.violations() == []
