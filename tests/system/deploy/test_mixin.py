"""The mixin, evaluated by jsonnet."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.dashboards import boards
from tests.support.tools import tool
from tests.support.waiting import SECONDS
from tools.build_mixin import build


@pytest.fixture(scope="module")
def mixin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the mixin."""
    folder = tmp_path_factory.mktemp("mixin")
    build(folder)
    return folder


def evaluated(mixin: Path, what: str, config: str = "{}") -> Any:
    """Return a part of the mixin with this configuration."""
    program = f"((import 'mixin.libsonnet') + {{ _config+:: {config} }}).{what}"
    command = [tool("jsonnet", "jsonnet"), "-J", str(mixin), "-e", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rules(mixin: Path, part: str, config: str = "{}") -> list[dict[str, Any]]:
    return [rule for group in evaluated(mixin, part, config)["groups"] for rule in group["rules"]]


def test_rules_and_dashboards_are_the_shipped_ones(mixin: Path, tmp_path: Path) -> None:
    for part, file in (("prometheusRules", "rules.json"), ("prometheusAlerts", "alerts.json")):
        found = evaluated(mixin, part)
        assert found == json.loads((mixin / file).read_text())
        (tmp_path / file).write_text(json.dumps(found))
        command = [tool("promtool", "prometheus"), "check", "rules", str(tmp_path / file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert "SUCCESS" in done.stdout, done.stderr
    assert evaluated(mixin, "grafanaDashboards") == boards()


def test_the_configuration_takes_effect(mixin: Path) -> None:
    every = rules(mixin, "prometheusAlerts")
    name = every[0]["alert"]
    config = f"""{{
        exclude: ['{name}', 'pulsed-alerts-owners'], alertLabels: {{ team: 'hpc' }}, runbookUrl: 'https://wiki/x',
        dashboardTags: ['mine'], dashboardRefresh: '1m',
    }}"""
    left = rules(mixin, "prometheusAlerts", config)
    assert 0 < len(left) < len(every) - 1
    assert name not in {rule["alert"] for rule in left}
    assert {rule["labels"]["team"] for rule in left} == {"hpc"}
    assert all(rule["annotations"]["runbook_url"].startswith("https://wiki/x#") for rule in left)
    board = evaluated(mixin, "grafanaDashboards", config)["fleet.json"]
    assert (board["tags"], board["refresh"]) == (["mine"], "1m")


def test_dashboards_for_publishing_ask_for_their_datasource(mixin: Path) -> None:
    for board in evaluated(mixin, "grafanaDashboards", "{ publishing: true }").values():
        (asked,) = board["__inputs"]
        assert (asked["name"], asked["type"], asked["pluginId"]) == ("DS_PROMETHEUS", "datasource", "prometheus")
        (variable,) = [each for each in board["templating"]["list"] if each["type"] == "datasource"]
        assert variable["current"]["value"] == "${DS_PROMETHEUS}"
        required = {(each["type"], each["id"]) for each in board["__requires"]}
        assert {("grafana", "grafana"), ("datasource", "prometheus")} <= required
        types = {panel["type"] for panel in board["panels"]} - {"row"}
        assert {("panel", each) for each in types} <= required
