"""1,000 GPUs in a browser."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.support.daemon import serving
from tests.system.web.browser import tab, url
from tests.system.web.exporter_text import FULL, IDLE, Row, exporter_text

NODES, PER_NODE = 125, 8


def test_a_thousand_gpus(browser: Browser, tmp_path: Path) -> None:
    fields = (
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "DCGM_FI_PROF_SM_ACTIVE",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "DCGM_FI_DEV_POWER_USAGE",
    )
    busy, idle = ({name: values[name] for name in fields} for values in (FULL, IDLE))
    rows = [
        Row(gpu, idle if gpu == 7 else busy, node=f"n{node:04d}") for node in range(NODES) for gpu in range(PER_NODE)
    ]
    file = tmp_path / "page.prom"
    file.write_text(exporter_text(*rows))
    settings = {
        "source.interval": "15s",
        "source.exporter.targets": [str(file)],
    }
    flags = [word for name, value in settings.items() for word in ("--set", f"{name}={json.dumps(value)}")]
    with serving(tmp_path, "--source", "exporter", *flags) as daemon, tab(browser, url(daemon)) as opened:
        page = opened.open()
        canvas = page.locator("canvas.heatmap")
        expect(canvas).to_have_attribute("aria-label", "Map of 1000 GPUs by real utilization")
        expect(page.locator(".totals")).to_contain_text("1,000: 875 busy")
        box = canvas.bounding_box()
        assert box
        assert box["height"] < 1500
        page.mouse.move(box["x"] + 4, box["y"] + 20)  # below the name of the node
        expect(page.locator(".cell-text")).to_contain_text("n0000 · 0, real utilization")
        page.locator("#filter").fill("class=idle & node=n0124")
        expect(page.locator("table.gpus tbody tr")).to_have_count(1)
        expect(page.locator("table.gpus tbody tr")).to_contain_text("n0124 · 7")
        page.locator("table.gpus tbody a[data-row]").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("n0124 · 7")
        assert opened.violations() == []
