"""The dashboards: a real Prometheus answers every query that is in the files, and Grafana's own rules are kept."""

from __future__ import annotations

import itertools
import json
import re
import string
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.daemon import serving
from tests.prometheus import Prometheus, prometheus
from tests.waiting import SECONDS
from tools.draw_dashboards import draw
from tools.generate_dashboards import DASHBOARDS, FOLDERS, files

Json = dict[str, Any]

PLAYED_SECONDS = 25
"""For which the demo is watched: long enough for a rate over 10 s."""

SCRAPE = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: pulsed
    honor_labels: true
    static_configs: [{{targets: ["{address}"]}}]
"""

SILENT: dict[tuple[str, str], str] = {
    ("gpu.json", "MIG instance"): "no GPU of the demo is split",
}
"""Panels and variables that are rightly empty in the demo, and why."""

GRAFANA_10_PANELS = {"timeseries", "stat", "table", "state-timeline", "heatmap", "bargauge", "row"}
UNITS = {"short", "percentunit", "bytes", "Bps", "watt", "joule", "celsius", "hertz", "s"}
UNIT_OF = {
    "_ratio": {"percentunit"},
    "_watts": {"watt", "percentunit"},
    "_joules_total": {"joule", "watt"},
    "_celsius": {"celsius", "short"},
    "_hertz": {"hertz"},
    "_bytes_per_second": {"Bps"},
    "_bytes": {"bytes", "percentunit"},
    "_timestamp_seconds": {"s", "short"},
}
"""What the last words of a metric may be shown in; watts out of joules are a rate, a share is a quotient."""


def boards() -> list[tuple[str, Json]]:
    return [(name, json.loads((FOLDERS[0] / name).read_text())) for name in DASHBOARDS]


def panels(board: Json) -> Iterator[Json]:
    """All but the headlines."""
    yield from (panel for panel in board["panels"] if panel["type"] != "row")


each = pytest.mark.parametrize(("name", "board"), boards(), ids=list(DASHBOARDS))


def test_the_files_are_what_the_generator_writes() -> None:
    for path, text in files().items():
        assert path.read_text() == text, f"{path} is old: python -m tools.generate_dashboards"


@each
def test_no_panel_covers_another(name: str, board: Json) -> None:
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = set(
            itertools.product(range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"]))
        )
        assert not cells & taken, panel["title"]
        taken |= cells


@each
def test_every_panel_explains_itself_and_asks_the_chosen_datasource(name: str, board: Json) -> None:
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert board["templating"]["list"][0]["name"] == "datasource"
    for variable in board["templating"]["list"][1:]:
        assert variable["datasource"] == source
    titles = []
    for panel in panels(board):
        titles.append(panel["title"])
        assert panel["type"] in GRAFANA_10_PANELS
        assert len(panel["description"].split()) > 2
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert panel["datasource"] == source
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == list(string.ascii_uppercase[: len(letters)] or "A")
        for target in panel["targets"]:
            assert target["datasource"] == source
            assert target["legendFormat"] or len(panel["targets"]) == 1 or panel["type"] == "table"
    assert len(titles) > 20


@each
def test_the_file_loads_anywhere(name: str, board: Json) -> None:
    assert board["schemaVersion"] >= 38
    assert board["id"] is None
    assert board["uid"] == f"pulsed-{name.removesuffix('.json')}"
    assert board["timezone"] == "browser"
    assert set(re.findall(r'"uid": "([^"]*)"', json.dumps(board))) == {"${datasource}", board["uid"]}
    known = {variable["name"] for variable in board["templating"]["list"]}
    grafana = {"__rate_interval", "__range", "__url_time_range", "__data", "__all"}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(board))) <= known | grafana


@each
def test_units_are_those_of_the_metrics(name: str, board: Json) -> None:
    """A plain metric is shown in the unit of its name; where a query computes, one of those it can lead to."""
    for panel in panels(board):
        if panel["type"] in ("table", "heatmap"):
            continue
        for target in panel["targets"]:
            if plain := re.fullmatch(r"(pulsed_gpu_\w+)\{[^}]*\}", target["expr"]):
                endings = [ending for ending in UNIT_OF if plain[1].endswith(ending)]
                wanted = UNIT_OF[endings[0]] if endings else {"short"}
                assert panel["fieldConfig"]["defaults"]["unit"] in wanted, (panel["title"], plain[1])


@each
def test_links_between_the_dashboards_lead_somewhere(name: str, board: Json) -> None:
    uids = {other["uid"] for _, other in boards()}
    assert set(re.findall(r"/d/([\w-]+)", json.dumps(board))) <= uids
    assert set(board["links"][0]["tags"]) <= set(board["tags"])


@dataclass(frozen=True)
class Watched:
    """A Prometheus that has watched the demo, and the page that it scraped."""

    server: Prometheus
    page: str

    def answer(self, panel: Json, target: Json, values: dict[str, str]) -> list[Any]:
        query = filled(target["expr"], values)
        if target["instant"]:
            return self.server.ask(query)
        now = time.time()
        return self.server.ask(query, "query_range", start=str(now - 5), end=str(now), step="1")

    def choices(self, query: str) -> list[str]:
        """What Grafana offers for a variable."""
        found = re.fullmatch(r"label_values\((.*), (\w+)\)", query)
        assert found
        asked = urllib.parse.urlencode({"match[]": found[1]})
        address = f"http://127.0.0.1:{self.server.port}/api/v1/label/{found[2]}/values?{asked}"
        with urllib.request.urlopen(address, timeout=SECONDS) as response:
            values: list[str] = json.load(response)["data"]
        return values


def filled(text: str, values: dict[str, str]) -> str:
    """Put the values of the variables in, as Grafana does."""
    return re.sub(r"\$(\w+)", lambda match: values[match[1]], text)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("dashboards")
    with (
        serving(folder, "--source", "demo", "--set", "node=demo") as daemon,
        prometheus(folder, SCRAPE.format(address=daemon.address)) as it,
    ):
        it.wait_for('up{job="pulsed"} == 1')
        time.sleep(PLAYED_SECONDS)
        yield Watched(it, daemon.get("/metrics").text)


@each
@pytest.mark.parametrize("node", ["demo", ".*"])
def test_every_query_is_answered(name: str, board: Json, node: str, watched: Watched) -> None:
    values = {"__rate_interval": "10s", "__range": f"{PLAYED_SECONDS}s", "node": node}
    for variable in board["templating"]["list"][1:]:
        choices = watched.choices(filled(variable["query"]["query"], values))
        assert bool(choices) != ((name, variable["label"]) in SILENT), variable["name"]
        values.setdefault(variable["name"], choices[0] if choices else "")
    for panel in panels(board):
        for target in panel["targets"]:
            answer = watched.answer(panel, target, values)
            assert bool(answer) != ((name, panel["title"]) in SILENT), f"{panel['title']}: {target['expr']}"
            for series in answer:
                numbers = [series["value"]] if "value" in series else series["values"]
                assert "NaN" not in {text for _, text in numbers}, f"{panel['title']}: {target['expr']}"


def test_the_pages_families_are_the_ones_that_are_asked_for(watched: Watched) -> None:
    """A name that the page does not have would be an empty panel for ever; even in `or vector(0)`."""
    served = set(re.findall(r"^# TYPE (\w+) ", watched.page, re.MULTILINE))
    served |= {f"{family}_bucket" for family in served}
    asked = {
        family
        for _, board in boards()
        for panel in panels(board)
        for target in panel["targets"]
        for family in re.findall(r"\b(?:pulsed|process)_\w+", target["expr"])
    }
    silent = {"pulsed_gpu_inputs_inconsistent", "pulsed_source_errors_total"}  # nothing is wrong with the demo
    assert asked - served <= silent


def test_an_instance_of_mig_can_be_chosen(tmp_path: Path) -> None:
    """Its own values, and of its board what only the board has."""
    page = Path(__file__).parents[1] / "golden" / "pages" / "exporter-4.8-mig.prom"
    source = ("--source", "exporter", "--set", f"source.exporter.targets={page}", "--set", "source.interval=1s")
    with serving(tmp_path, *source) as daemon, prometheus(tmp_path, SCRAPE.format(address=daemon.address)) as server:
        server.wait_for("count_over_time(pulsed_gpu_observed_seconds_total[1m]) > 5")
        watched, board = Watched(server, ""), dict(boards())["gpu.json"]
        values = {"__rate_interval": "10s", "__range": "10s", "node": ".*"}
        variables = {variable["name"]: variable["query"]["query"] for variable in board["templating"]["list"][1:]}
        for name in ("gpu", "uuid"):
            values[name] = watched.choices(filled(variables[name], values))[0]
        assert watched.choices(filled(variables["mig_id"], values)) == ["1", "5", "9"]
        values["mig_id"] = "5"
        for title in (
            "Real utilization",
            "Class",
            "Engines",
            "Device memory",
            "Power",
            "Temperatures",
            "Time by class",
        ):
            for panel in (panel for panel in panels(board) if panel["title"] == title):
                assert any(watched.answer(panel, target, values) for target in panel["targets"]), title


def test_the_pictures_show_every_panel(watched: Watched, tmp_path: Path) -> None:
    draw(watched.server, time.time() - 10, time.time(), tmp_path)
    for name, board in boards():
        drawn = (tmp_path / name).with_suffix(".svg")
        texts = {element.text for element in ElementTree.parse(drawn).iter() if element.tag.endswith("text")}
        assert {panel["title"] for panel in board["panels"]} <= texts
        kept = FOLDERS[0] / "pictures" / drawn.name
        assert kept.stat().st_size < 200_000
        titles = {element.text for element in ElementTree.parse(kept).iter() if element.tag.endswith("text")}
        assert {panel["title"] for panel in board["panels"]} <= titles, "old: python -m tools.draw_dashboards"
