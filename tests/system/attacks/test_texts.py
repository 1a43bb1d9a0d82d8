"""Names of tenants that are formulas of spreadsheets or control terminals, and secrets of receivers."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator

import pytest

from tests.support.daemon import Daemon, pulsed, serving
from tests.support.exporters import Exporter, exporting, page
from tests.support.waiting import until

NAMES = (
    "=cmd|' /C calc'!A0",
    "＝1+1",
    " =1+1",
    "\t@SUM(1)",
    "-2+3+cmd",
    "+1+cmd",
    "\x1b[2J\x9b31m",
    "a\rb",
    "\u202egpj",
)
FORMULAS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
COMMANDS = ("report --by namespace --format csv", "report --by namespace", "jobs", "health", "top --once")

SECRET = "geheim"
RECEIVERS = (
    f"--set=notify.webhook.url=https://ann:{SECRET}@hooks.slack.example/services/{SECRET}?{SECRET}",
    f"--set=notify.exec={json.dumps(['/bin/true', f'--token={SECRET}'])}",
    f"--set=publish.otlp.url=http://ann:{SECRET}@127.0.0.1:9/{SECRET}?token={SECRET}",
)


PAGES = {
    f"{number}": page(number, 0.5).replace('Hostname="node"', f'Hostname="{name}",namespace="{name}",pod="{name}"')
    for number, name in enumerate(NAMES)
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("names")
    with exporting({number: Exporter(text) for number, text in PAGES.items()}) as url:
        exporters = {"targets": [f"{url}{number}" for number in PAGES]}
        source = f"--set=source={json.dumps({'kind': 'exporter', 'interval': 1, 'exporter': exporters})}"
        with serving(folder, source, f"--set=state_dir={folder / 'state'}", *RECEIVERS, ready=True) as daemon:
            until(lambda: len(daemon.get("/jobs").json()["jobs"]) == len(NAMES))
            yield daemon


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_a_sequence_or_a_formula(daemon: Daemon, command: str) -> None:
    printed = pulsed(*command.split(), daemon.address).stdout
    assert printed
    assert [line for line in printed.split("\n") if not line.isprintable()] == []
    if "csv" in command:
        cells = [cell.strip() for row in csv.reader(printed.splitlines()) for cell in row]
        assert any("calc" in cell for cell in cells)
        assert [cell for cell in cells if cell.startswith(FORMULAS)] == []


@pytest.mark.parametrize("path", ["/config", "/metrics", "/jobs", "/openapi.json", "/", "/version"])
def test_no_document_has_a_secret(daemon: Daemon, path: str) -> None:
    assert SECRET not in daemon.get(path).text
