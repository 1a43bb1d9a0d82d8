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


def exporter(number: int, name: str) -> Exporter:
    labels = f'Hostname="{name}",namespace="{name}",pod="{name}"'
    return Exporter(page(number, 0.5).replace('Hostname="node"', labels))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("names")
    with exporting({f"{number}": exporter(number, name) for number, name in enumerate(NAMES)}) as url:
        targets = [f"{url}{number}" for number in range(len(NAMES))]
        source = json.dumps({"kind": "exporter", "interval": 1, "exporter": {"targets": targets}})
        options = (f"--set=source={source}", f"--set=state_dir={folder / 'state'}", *RECEIVERS)
        with serving(folder, *options, ready=True) as daemon:
            until(lambda: len(daemon.get("/jobs").json()["jobs"]) == len(NAMES))
            yield daemon


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_a_sequence_or_a_formula(daemon: Daemon, command: str) -> None:
    printed = pulsed(*command.split(), daemon.address).stdout
    assert printed
    assert [line for line in printed.split("\n") if not line.isprintable()] == []
    cells = [cell.strip() for row in csv.reader(printed.splitlines()) for cell in row]
    assert "csv" not in command or any("calc" in cell for cell in cells)
    assert "csv" not in command or [cell for cell in cells if cell.startswith(FORMULAS)] == []


@pytest.mark.parametrize("path", ["/config", "/metrics", "/jobs", "/openapi.json", "/", "/version"])
def test_no_document_has_a_secret(daemon: Daemon, path: str) -> None:
    assert SECRET not in daemon.get(path).text
