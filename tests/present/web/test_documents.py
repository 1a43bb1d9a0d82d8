"""The documents that the daemon serves: every link and every runbook of an alert leads to a heading."""

from __future__ import annotations

import re

import httpx
import pytest

from pulsed.model.target_store import TargetStore
from pulsed.present.web.documents import documents, page
from tests.present.api.client import application
from tools.generate_docs import ROOT


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return {name: asset.body.decode() for name, asset in documents().items()}


def test_every_document_is_a_page(texts: dict[str, str]) -> None:
    assert set(texts) == {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert '<h3 id="gpu_lost">gpu_lost</h3>' in texts["health"]
    assert '<h3 id="pulseddaemondown">PulsedDaemonDown</h3>' in texts["health"]


def test_every_link_leads_somewhere(texts: dict[str, str]) -> None:
    for name, text in texts.items():
        for link in re.findall(r'<a href="([^"]*)"', text):
            document, _, anchor = link.partition("#")
            if not document.startswith("https://"):
                assert f'id="{anchor}"' in texts[document or name] if anchor else document in texts, (name, link)


def test_markup_of_a_text_is_text_and_links_out_of_the_folder_are_none() -> None:
    text = page("# A\n\n<script>x</script> [out](../systemd/README.md) [in](b.md#c) `<i>`\n", {"b": ""})
    assert "<script>" not in text
    assert ' out <a href="b#c">in</a> <code>&lt;i&gt;</code>' in text


def test_a_cell_of_a_table_has_lines() -> None:
    assert "<td><code>x</code><br><code>y</code></td>" in page("|a|\n|-|\n|`x`<br>`y`|\n", {})


async def test_the_daemon_serves_them_without_anything_from_elsewhere(texts: dict[str, str]) -> None:
    app = application(TargetStore("here", []))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://pulsed") as client:
        answer = await client.get("/docs/health")
        assert answer.text == texts["health"]
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
        assert (await client.get("/docs/nothing")).status_code == 404
        assert (await client.get("/docs/..%2fREADME")).status_code == 404
        assert "swagger" in (await client.get("/docs")).text
