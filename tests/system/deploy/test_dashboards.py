"""The dashboards: a real Prometheus answers every query that is in the files, and Grafana's own rules are kept."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import string
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from pulsed.compute.settings import ComputeSettings
from pulsed.present.exposition.catalog import NAMES, form_of
from pulsed.present.promql.rule_set import RuleSelection, document
from pulsed.reader.demo.scenes import SCENES
from tests.present.promql.promtool import check, selector
from tests.support.daemon import serving
from tests.support.dashboards import Json, Viewer, boards, demo_with_users, filled, legend, panels, unfolded
from tests.support.inference_servers import CACHE, QUEUE, SERVERS, TOKENS_PER_SECOND, inference_servers, scrape_config
from tests.support.prometheus import prometheus
from tools.draw_dashboards import SCRAPE, draw
from tools.generate_dashboards import DASHBOARDS, FOLDER, files
from tools.references import RUNBOOK

NODES = ("gpu01", "gpu02", "gpu03")
SERVING_PODS = (*(owner.pod for owner in SCENES[1].owners), *(owner.pod for owner in SCENES[5].owners), "elsewhere")
"""Pods of the demo in which the inference servers run; the last one has no GPU of it."""

PLAYED_SECONDS = 45
"""For which the demos are watched: new counters stay at 0 for 30 s."""

SILENT = {
    ("Source errors and CPU", "failed: {{reason}}"): "nothing fails",
    ("Memory repairs", "pages after corrected errors"): "its boards remap rows",
    ("Memory repairs", "pages after uncorrected errors"): "its boards remap rows",
    ("PCIe", "sent over C2C"): "no superchip",
    ("PCIe", "received over C2C"): "no superchip",
}
"""Queries that are rightly empty in the demo, by title and legend; the panel has others that are not."""

GRAFANA_10_PANELS = {"timeseries", "stat", "table", "state-timeline", "heatmap", "bargauge", "row"}
UNITS = {"short", "joule", "percentunit", "bytes", "Bps", "watt", "kwatth", "celsius", "hertz", "s", "suffix: h"}
UNIT_OF = {
    "_ratio": {"percentunit"},
    "_watts": {"watt", "percentunit"},
    "_joules_total": {"kwatth", "watt"},
    "_celsius": {"celsius", "short"},
    "_hertz": {"hertz"},
    "_bytes_per_second": {"Bps"},
    "_bytes": {"bytes", "percentunit"},
    "_timestamp_seconds": {"s", "short"},
}
"""What the last words of a metric may be shown in; watts out of joules are a rate, a share is a quotient."""


each = pytest.mark.parametrize(("name", "board"), boards().items(), ids=list(DASHBOARDS))
of_gpus = pytest.mark.parametrize("name", ["fleet.json", "gpu.json"])


def test_the_files_are_what_the_generator_writes() -> None:
    for path, text in files().items():
        assert path.read_text() == text, f"{path} is old: python -m tools.generate_dashboards"


@each
def test_no_panel_covers_another(name: str, board: Json) -> None:
    ids = [panel["id"] for panel in unfolded(board)]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in unfolded(board):
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = set(
            itertools.product(range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"]))
        )
        assert not cells & taken, panel["title"]
        taken |= cells


@each
def test_three_rows_are_open_and_stats_lead_to_their_panels(name: str, board: Json) -> None:
    rows = [panel for panel in board["panels"] if panel["type"] == "row"]
    assert [row["collapsed"] for row in rows] == [at >= 3 for at in range(len(rows))]
    assert all(bool(row["panels"]) == row["collapsed"] for row in rows)
    titles = {panel["id"]: panel["title"] for panel in panels(board)}
    for panel in panels(board):
        if panel["type"] == "stat":
            (link,) = panel["fieldConfig"]["defaults"]["links"]
            assert titles[int(link["url"].rpartition("=")[2])] == link["title"]


@each
def test_every_panel_explains_itself_and_asks_the_chosen_datasource(name: str, board: Json) -> None:
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert board["templating"]["list"][0]["name"] == "datasource"
    for variable in board["templating"]["list"][1:]:
        assert variable["type"] == "textbox" or variable["datasource"] == source
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
    grafana = {"__rate_interval", "__range", "__url_time_range", "__data", "__field", "__all", "__all_variables"}
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
    uids = {other["uid"] for other in boards().values()}
    assert set(re.findall(r"/d/([\w-]+)", json.dumps(board))) <= uids
    assert set(board["links"][0]["tags"]) <= set(board["tags"])


def test_jobs_and_pods_link_to_their_report_on_the_page_of_their_daemon(watched: tuple[Viewer, str]) -> None:
    viewer, board = watched[0], boards()["owners.json"]
    (panel,) = (each for each in panels(board) if each["title"] == "GPUs of the jobs and pods")
    values = viewer.choose(board)
    columns = {
        override["matcher"]["options"]: override["properties"][0] for override in panel["fieldConfig"]["overrides"]
    }
    links = set()
    for series in viewer.answer(panel["targets"][0], values):
        column = "job_id" if "job_id" in series["metric"] else "pod"
        _, page = columns[column]["value"]
        url = page["url"].replace("${page:raw}", values["page"]).replace("${__data.fields.", "${")
        links.add(string.Template(url).substitute(series["metric"]))
    assert {link.rpartition("#")[2] for link in links} >= {"/job/5001", "/job/5002", "/pod/demo/demo-notebook-0"}
    assert all(re.fullmatch(r"http://127\.0\.0\.1:\d+/#/.+", link) for link in links)


def good_and_broken_gpu() -> Iterator[tuple[str, str]]:
    """Yield two GPUs of a node: one has an owner from minute 3 on, and an XID in minute 5."""
    for gpu, severity, xids in (("0", 4, "0+0x4 1+0x10"), ("1", 1, "0+0x15")):
        labels = {"job": "pulsed", "node": "n", "gpu": gpu, "uuid": f"GPU-{gpu}"}
        yield selector("pulsed_gpu_info", {**labels, "model": "H100"}), "1+0x15"
        yield selector("pulsed_gpu_xid_events_total", {**labels, "xid": "79"}), xids
        yield selector("pulsed_gpu_health_events_total", {**labels, "check": "xid_critical"}), xids
        yield selector("pulsed_gpu_health_check", {**labels, "check": "xid_critical"}), f"_x5 {severity}+0x10"
        if xids.endswith("1+0x10"):
            yield selector("pulsed_gpu_owner_info", {**labels, "job_id": "4711"}), "_x3 1+0x12"


CHECK, XID, JOB = ("check", "xid_critical"), ("xid", "79"), ("job_id", "4711")
MARKS: Mapping[str, Mapping[str, Mapping[int, tuple[str, str] | None]]] = {
    "fleet.json": {"XIDs": {4: None, 6: CHECK, 9: None}, "Critical health": {4: None, 6: CHECK}},
    "gpu.json": {"XIDs": {4: None, 6: XID, 9: None}, "Health": {4: None, 6: CHECK}, "Owners": {2: None, 4: JOB}},
    "owners.json": {"XIDs": {4: None, 6: XID, 9: None}, "Health": {4: None, 6: CHECK}, "Owners": {2: None, 4: JOB}},
}
"""A label of the only series of each annotation by minute, None where there is no mark."""


@each
def test_annotations_mark_what_happens_to_the_chosen_gpus(name: str, board: Json, tmp_path: Path) -> None:
    annotations = board["annotations"]["list"]
    assert [annotation["name"] for annotation in annotations] == list(MARKS[name])
    values = {variable["name"]: ".*" for variable in board["templating"]["list"]}
    values |= {"__rate_interval": "2m", "__range": "15m"}
    if name == "gpu.json":
        values |= {"node": "n", "gpu": "0", "mig_id": ""}
    must_be_empty: dict[int, list[str]] = {}
    for annotation in annotations:
        assert annotation["expr"] == annotation["target"]["expr"]
        query = filled(annotation["expr"], values)
        for minute, mark in MARKS[name][annotation["name"]].items():
            if mark is None:
                must_be_empty.setdefault(minute, []).append(query)
                continue
            label, value = mark
            assert f"{{{{{label}}}}}" in annotation["textFormat"]
            expected = f'label_replace(vector(1), "{label}", "{value}", "", "")'
            wrong = [f"absent({query})", f"count({query}) > 1", f"({query}) unless on ({label}) {expected}"]
            must_be_empty.setdefault(minute, []).extend(wrong)
    assert check(tmp_path, "groups: []", [good_and_broken_gpu()], must_be_empty) == ""


@contextlib.contextmanager
def watching(folder: Path, *options: str) -> Iterator[tuple[Viewer, str]]:
    """Run a daemon per node and a Prometheus; give it and the page of the first."""
    with contextlib.ExitStack() as stack:
        daemons = [
            stack.enter_context(serving(folder, "--source", "demo", f"--set=node={node}", *options))
            for node in NODES[:-1]
        ]
        daemons.append(stack.enter_context(demo_with_users(folder, NODES[-1], *options)))
        config = SCRAPE.format(interval="1s", addresses=", ".join(f'"{daemon.address}"' for daemon in daemons))
        config += scrape_config(stack.enter_context(inference_servers()), dict(zip(SERVERS, SERVING_PODS, strict=True)))
        server = stack.enter_context(prometheus(folder, config))
        server.wait_for(f'sum(up{{job="pulsed"}}) == {len(NODES)}')
        time.sleep(PLAYED_SECONDS)
        yield Viewer(server, PLAYED_SECONDS), daemons[0].get("/metrics").text


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Viewer, str]]:
    with watching(tmp_path_factory.mktemp("dashboards")) as it:
        yield it


@pytest.mark.parametrize(
    ("name", "board", "node"),
    [(name, board, node) for name, board in boards().items() for node in ("gpu01", "all")],
)
def test_every_query_is_answered(name: str, board: Json, node: str, watched: tuple[Viewer, str]) -> None:
    viewer, _ = watched
    values = viewer.choose(board, **({"node": node} if node != "all" else {}))
    shown = {values["node"]} if values.get("node", ".*") != ".*" else set(NODES)
    for panel in panels(board):
        answered = False
        for target in panel["targets"]:
            answer = viewer.answer(target, values)
            is_silent = (panel["title"], target["legendFormat"]) in SILENT
            assert bool(answer) != is_silent, f"{panel['title']}: {target['expr']}"
            for series in answer:
                numbers = [series["value"]] if "value" in series else series["values"]
                assert "NaN" not in {text for _, text in numbers}, f"{panel['title']}: {target['expr']}"
                if "gpu" in series["metric"]:
                    assert series["metric"]["node"] in shown
                    if name == "fleet.json" and panel["type"] != "table":
                        assert legend(target, series).startswith(f"{series['metric']['node']} / ")
            answered = answered or bool(answer)
        assert answered, panel["title"]


@of_gpus
def test_variables_chain(name: str, watched: tuple[Viewer, str]) -> None:
    viewer, board = watched[0], boards()[name]
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert list(variables)[:6] == ["datasource", "cluster", "job", "node", "model", "gpu"]
    values = viewer.choose(board)
    offered = {each: viewer.choices(variable, values) for each, variable in list(variables.items())[1:]}
    assert offered["job"] == ["pulsed"]
    assert offered["node"] == [*NODES]
    assert offered["model"] == ["NVIDIA H100 80GB HBM3 (demo)"]
    assert offered["gpu"] == list(map(str, range(8)))
    values = viewer.choose(board, model="A100")
    assert viewer.choices(variables["gpu"], values) == []
    if name == "fleet.json":
        (count,) = (panel for panel in panels(board) if panel["title"] == "GPUs")
        assert [viewer.answer(count["targets"][0], values)] == [[]], "no GPU of this model, and not 0"


def test_owners_are_chosen_by_user_job_and_pod(watched: tuple[Viewer, str]) -> None:
    viewer, board = watched[0], boards()["owners.json"]
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    names = ["datasource", "cluster", "job", "account", "user", "namespace", "job_id", "pod", "page"]
    assert list(variables) == names

    def offered(of: str, **given: str) -> list[str]:
        return viewer.choices(variables[of], viewer.choose(board, **given))

    assert offered("user") == ["ann", "bob"]
    assert offered("user", account="biology") == ["bob"]
    assert offered("namespace") == ["demo"]
    assert {"4711", "5001", "5002"} <= set(offered("job_id"))
    assert offered("job_id", user="ann") == ["5001"]
    assert "demo-notebook-0" in offered("pod")

    def rows(title: str, column: int = 0, **given: str) -> dict[str, float]:
        (panel,) = (panel for panel in panels(board) if panel["title"] == title)
        found = viewer.answer(panel["targets"][column], viewer.choose(board, **given))
        name = {"Users": "user", "Accounts": "account"}.get(title, "job_id")
        return {series["metric"].get(name, ""): float(series["value"][1]) for series in found}

    assert {"ann", "bob"} <= rows("Users").keys()
    hours, idle = rows("Users"), rows("Users", 1)
    assert hours["ann"] == pytest.approx(3 * hours["bob"], rel=0.1)
    assert idle["bob"] == pytest.approx(hours["bob"], rel=0.05), "the whole time of a GPU that no one uses"
    assert rows("Users", user="ann").keys() == {"ann"}
    assert rows("Accounts", user="bob").keys() == {"biology"}
    assert rows("Idle", user="bob")["5002"] == pytest.approx(1.0)
    assert viewer.stat(board, "Jobs", viewer.choose(board, user="ann")) == 1.0
    assert viewer.stat(board, "Pods", viewer.choose(board, user="ann")) == 0.0, "a user has jobs, and no pods"


def test_one_job_in_depth(watched: tuple[Viewer, str]) -> None:
    viewer, board = watched[0], boards()["owners.json"]
    values = viewer.choose(board, job_id="5001")
    (depth,) = (row["panels"] for row in board["panels"] if row["title"] == "Chosen jobs and pods")
    assert len(depth) > 5
    gpus = set()
    for panel in depth:
        for target in panel["targets"]:
            answer = viewer.answer(target, values)
            assert answer, f"{panel['title']}: {target['expr']}"
            for series in answer:
                assert series["metric"].get("job_id", "5001") == "5001"
                if "gpu" in series["metric"]:
                    gpus.add((series["metric"]["node"], series["metric"]["gpu"]))
    assert gpus == {("gpu03", "0"), ("gpu03", "4"), ("gpu03", "7")}


def test_the_recipe_of_inference_servers(watched: tuple[Viewer, str]) -> None:
    """The queries of docs/joins.md, against pages of the form of each server."""
    text = (FOLDER.parents[1] / "docs" / "joins.md").read_text()
    (block,) = re.findall(r"## Inference servers\n.*?```promql\n(.*?)```", text, re.DOTALL)
    queries = [each for each in re.split(r"^# .*\n", block, flags=re.MULTILINE) if each.strip()]
    found = [watched[0].server.ask(query.replace("[5m]", "[20s]")) for query in queries]
    tokens, joules, work, cache, queue = (
        {each["metric"]["pod"]: float(each["value"][1]) for each in answer} for answer in found
    )
    with_gpus = set(SERVING_PODS[:-1])
    assert tokens.keys() == joules.keys() == work.keys() == with_gpus
    held = watched[0].server.ask("sum by (pod) (pulsed_pod_gpus)")
    gpus = {each["metric"]["pod"]: float(each["value"][1]) for each in held}
    assert tokens == {pod: pytest.approx(TOKENS_PER_SECOND / gpus[pod], rel=0.05) for pod in with_gpus}
    assert all(0.01 < value < 10.0 for value in joules.values())
    assert cache == dict.fromkeys(set(SERVING_PODS) - {SERVING_PODS[2]}, CACHE)  # TGI has none
    assert queue == dict.fromkeys(SERVING_PODS, QUEUE)


def test_rankings_have_the_same_gpus_in_every_column(watched: tuple[Viewer, str]) -> None:
    viewer, board = watched[0], boards()["fleet.json"]
    values = viewer.choose(board, node=f"{NODES[0]}|{NODES[2]}")
    for panel in panels(board):
        if panel["type"] == "table" and len(panel["targets"]) > 1:
            rows = [
                {(series["metric"]["node"], series["metric"].get("gpu")) for series in viewer.answer(target, values)}
                for target in panel["targets"]
            ]
            assert rows[0]
            assert all(each == rows[0] for each in rows), panel["title"]


@each
def test_nothing_turns_absence_into_a_number(name: str, board: Json) -> None:
    for panel in panels(board):
        for target in panel["targets"]:
            assert "vector(" not in target["expr"]
            assert "absent" not in target["expr"]


@each
def test_values_link_to_their_gpu_and_runbook(name: str, board: Json) -> None:
    text = (FOLDER / name).read_text()
    anchors = set(re.findall(re.escape(RUNBOOK) + r"#([\w-]+)", text))
    assert anchors == {"xids"}
    assert f"{RUNBOOK}#${{__data.fields.check}}" in text
    for panel in panels(board):
        links = json.dumps([panel["fieldConfig"]["defaults"]["links"], panel["fieldConfig"]["overrides"]])
        if any("{{gpu}}" in target["legendFormat"] for target in panel["targets"]) or panel["type"] == "table":
            assert "var-node=${__" in links
            assert "var-gpu=${__" in links


def test_the_pages_families_are_the_ones_that_are_asked_for(watched: tuple[Viewer, str]) -> None:
    """A name that the page does not have would be an empty panel for ever."""
    _, page = watched
    served = set(re.findall(r"^# TYPE (\w+) ", page, re.MULTILINE))
    served |= {f"{family}_bucket" for family in served}
    texts = [(FOLDER / name).read_text() for name in boards()]
    asked = {family for text in texts for family in re.findall(r"(?<![\w:])(?:pulsed|process)_\w+", text)}
    silent = {"pulsed_gpu_inputs_inconsistent", "pulsed_source_errors_total"}  # nothing is wrong with the demo
    silent |= {f"pulsed_gpu_retired_pages_{kind}_total" for kind in ("sbe", "dbe")}  # its boards remap rows
    silent |= {f"pulsed_gpu_observed_c2c_{way}_bytes_total" for way in ("transmit", "receive")}  # it has no superchip
    silent |= {
        name for name in NAMES if form_of(name) != "every"
    }  # absent while 0 or ok, or alternatives of full pages
    assert {family.removesuffix("_bucket") for family in asked - served} <= silent


RULES = document(ComputeSettings(), RuleSelection("recording"))
ALL = dict.fromkeys(("cluster", "job", "node", "model", "gpu"), ".*")
RECORDED = "node:pulsed_gpus:count"
"""The value of `$recorded` where rules record what is chosen."""


COUNTERS: Mapping[str, Sequence[Mapping[str, str]]] = {
    "observed_seconds": [{}],
    "real_utilization_seconds": [{}],
    "real_utilization_unknown_seconds": [{}],
    **dict.fromkeys(("idle_seconds", "idle_energy_joules"), ({"kind": "held"}, {"kind": "free"})),
    **dict.fromkeys(("class_energy_joules", "workload_class_seconds"), ({"class": "idle"}, {"class": "mixed"})),
}
"""Counters of GPUs that are recorded, with their own labels."""

GAUGES = {
    "health_severity": 2,
    "health_coverage_ratio": 0.25,
    "real_utilization_coverage_ratio": 0.25,
    "gpu_utilization_ratio": 0.25,
    "memory_used_bytes": 1e9,
    "memory_bytes": 4e9,
    "temperature_celsius": 40,
    "power_watts": 300,
    "power_limit_watts": 700,
}


def counters_and_gauges() -> Iterator[tuple[str, str]]:
    """Yield the series of three nodes with two models for eight hours: counters grow steadily, gauges stand still.

    A GPU of the last node has a MIG instance.
    """
    for place, model in enumerate(("A100", "A100", "H100"), 1):
        daemon = {"instance": f"n{place}:9401", "job": "pulsed", "node": f"n{place}"}
        for number, mig_id in ((1, ""), (2, ""), (2, "7")) if place == len(NODES) else ((1, ""), (2, "")):
            labels = {**daemon, "gpu": f"{number}", "uuid": f"GPU-{place}-{number}"} | (
                {"mig_id": mig_id} if mig_id else {}
            )
            step = place + number
            yield selector("pulsed_gpu_info", {**labels, "model": model}), "1+0x480"
            for name, kinds in COUNTERS.items():
                for kind in kinds:
                    growth = 0 if "unknown" in name else 10 * step
                    yield selector(f"pulsed_gpu_{name}_total", {**labels, **kind}), f"0+{growth}x480"
            for name, value in GAUGES.items():
                yield selector(f"pulsed_gpu_{name}", labels), f"{value if value < 1 else value + number}+0x480"
            yield selector("pulsed_gpu_last_sample_timestamp_seconds", labels), f"{-step}+60x480"
            yield selector("pulsed_gpu_bottleneck", {**labels, "bottleneck": "io"}), "1+0x480"
            yield selector("pulsed_gpu_limiting_resource", {**labels, "resource": "pcie"}), "1+0x480"
        yield selector("pulsed_health_checks", {"check": "xid", "state": "warn", **daemon}), f"{place}+0x480"


def test_recorded_sums_are_those_of_the_gpus(tmp_path: Path) -> None:
    must_be_empty, board = list(sums_by_model()), boards()["fleet.json"]
    values = {variable["name"]: "" for variable in board["templating"]["list"]} | ALL
    values |= {"__range": "1h", "__rate_interval": "5m", "recorded": RECORDED}
    for panel in panels(board):
        for target in panel["targets"]:
            recorded = filled(target["expr"], values)
            if ":pulsed_" not in recorded or panel["type"] == "table":
                continue
            of_gpus = filled(target["expr"], values | {"recorded": ""}).replace(":pulsed_", ":absent_")
            must_be_empty.append(f"absent({recorded})")
            must_be_empty += both(recorded, of_gpus)
    assert len(must_be_empty) > 100
    assert check(tmp_path, RULES, [counters_and_gauges()], {400: must_be_empty}) == ""


def test_nodes_count_in_the_mean_for_as_long_as_they_were_there(tmp_path: Path) -> None:
    """Two GPUs at 20 % for six hours, and two of another node at 80 % for the last of them: 2/7 of the time."""
    world = []
    for node, first, real in (("a", 0, 12), ("b", 300, 48)):
        daemon = {"instance": f"{node}:9401", "job": "pulsed", "node": node}
        for gpu in "01":
            labels = {**daemon, "gpu": gpu, "uuid": f"GPU-{node}-{gpu}"}
            names = {"observed_seconds": 60, "real_utilization_seconds": real, "real_utilization_unknown_seconds": 0}
            gap = f"_x{first} " if first else ""
            world += [
                (selector(f"pulsed_gpu_{name}_total", labels), f"{gap}0+{growth}x{360 - first}")
                for name, growth in names.items()
            ]
            world.append((selector("pulsed_gpu_info", {**labels, "model": "H100"}), f"{gap}1+0x{360 - first}"))
    board = boards()["fleet.json"]
    values = {variable["name"]: "" for variable in board["templating"]["list"]} | ALL
    values |= {"__range": "6h", "__rate_interval": "5m"}
    (panel,) = (each for each in panels(board) if each["title"] == "Real utilization" and each["type"] == "stat")
    for recorded in (RECORDED, ""):
        mean = filled(panel["targets"][0]["expr"], values | {"recorded": recorded})
        wrong = [f"absent({mean})", f"abs(({mean}) - 2 / 7) > 0.005"]
        assert check(tmp_path, RULES, [world], {360: wrong}) == "", recorded


def sums_by_model() -> Iterator[str]:
    """Yield what has a result unless sums by model are those of the nodes with it, all of whose GPUs have one model."""
    for name in ("gpus:count", "gpu_seconds:rate5m", "class_energy_joules:rate5m", "workload_class_seconds:rate5m"):
        for model, nodes in (("A100", "n1|n2"), ("H100", "n3")):
            by = "sum without (node, model)"
            of_model = f'{by} (model:pulsed_{name}{{model="{model}"}})'
            of_nodes = f'{by} (node:pulsed_{name}{{node=~"{nodes}"}})'
            yield from (f"absent({of_model})", *both(of_model, of_nodes))
    yield from both("cluster:pulsed_gpus:count", "count(pulsed_gpu_info) - 1")


def both(one: str, other: str) -> list[str]:
    """Return expressions without a result if two have the same series with the same values.

    They may differ by 2 %: a range may have one minute more.
    """
    return [f"({one}) unless ({other})", f"({other}) unless ({one})", f"abs(({one}) - ({other})) > 0.02 * abs({other})"]


def test_recorded_sums_are_read_where_they_are_those_of_what_is_chosen(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(RULES.replace("interval: 1m", "interval: 1s"))
    config = 'rule_files: ["rules.yaml"]\n'
    board, texts = boards()["fleet.json"], {}
    with serving(tmp_path, "--source", "demo", "--set=node=n") as daemon:
        config += SCRAPE.format(interval="1s", addresses=f'"{daemon.address}"')
        with prometheus(tmp_path, config) as server:
            server.wait_for(f"{RECORDED} offset 10s")
            viewer = Viewer(server, 8, 8)
            for given in ({}, {"node": "n"}, {"job": "pulsed"}, {"gpu": "1"}, {"model": "NVIDIA H100.*"}):
                values = viewer.choose(board, **given)
                texts[str(given)] = values["recorded"]
                (panel,) = (each for each in panels(board) if each["title"] == "Memory in use")
                assert viewer.answer(panel["targets"][0], values), given
            assert Viewer(server, 3600, 8).choose(board)["recorded"] == "", "not for the whole range"
    assert texts == {
        "{}": RECORDED,
        "{'node': 'n'}": RECORDED,
        "{'job': 'pulsed'}": "",
        "{'gpu': '1'}": "",
        "{'model': 'NVIDIA H100.*'}": "",
    }


def test_the_recorded_series_are_those_that_are_asked_for() -> None:
    recorded = {rule["record"] for group in yaml.safe_load(RULES)["groups"] for rule in group["rules"]}
    asked = set(re.findall(r"\w+:pulsed_\w+:\w+", (FOLDER / "fleet.json").read_text()))
    assert asked <= recorded
    assert len(asked) > 20


def test_an_instance_of_mig_can_be_chosen(tmp_path: Path) -> None:
    """Its own values, and of its board what only the board has."""
    page = Path(__file__).parents[2] / "golden" / "pages" / "exporter-4.8-mig.prom"
    source = ("--source", "exporter", "--set", f"source.exporter.targets={page}", "--set", "source.interval=1s")
    with (
        serving(tmp_path, *source) as daemon,
        prometheus(tmp_path, SCRAPE.format(interval="1s", addresses=f'"{daemon.address}"')) as server,
    ):
        server.wait_for("count_over_time(pulsed_gpu_observed_seconds_total[1m]) > 5")
        viewer, board = Viewer(server, 10, 10), boards()["gpu.json"]
        (variable,) = (each for each in board["templating"]["list"] if each["name"] == "mig_id")
        values = viewer.choose(board, mig_id="5")
        assert viewer.choices(variable, values) == ["1", "5", "9"]
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
                assert any(viewer.answer(target, values) for target in panel["targets"]), title


def test_the_pictures_show_every_panel(watched: tuple[Viewer, str], tmp_path: Path) -> None:
    draw(watched[0].server, time.time() - 10, time.time(), tmp_path)
    for name, board in boards().items():
        drawn = (tmp_path / name).with_suffix(".svg")
        texts = {element.text for element in ElementTree.parse(drawn).iter() if element.tag.endswith("text")}
        titles = {panel["title"] for panel in board["panels"] if "$" not in panel["title"]}
        assert titles <= texts
        kept = FOLDER / "pictures" / drawn.name
        assert kept.stat().st_size < 200_000
        texts = {element.text for element in ElementTree.parse(kept).iter() if element.tag.endswith("text")}
        assert titles <= texts, "old: python -m tools.draw_dashboards"


def test_a_limit_of_the_model_stands_in_for_one_that_is_not_reported(tmp_path: Path) -> None:
    (panel,) = (each for each in panels(boards()["fleet.json"]) if each["title"] == "Closest to thermal slowdown")
    query = filled(panel["targets"][0]["expr"], {**ALL, "__range": "5m", "nearest": "n"})

    def gpu(uuid: str, model: str, **limits: float) -> list[tuple[str, str]]:
        labels = {"node": "n", "gpu": uuid, "uuid": uuid}
        readings = {"temperature_celsius": 80.0} | limits
        return [
            (selector("pulsed_gpu_info", {**labels, "model": model}), "1+0x5"),
            *((selector(f"pulsed_gpu_{name}", labels), f"{value:g}+0x5") for name, value in readings.items()),
        ]

    world = [
        *gpu("own", "NVIDIA A100-SXM4-80GB", slowdown_temperature_celsius=92),
        *gpu("margin", "NVIDIA H100 80GB HBM3", temperature_margin_celsius=7),
        *gpu("table", "NVIDIA A100-SXM4-80GB"),
        *gpu("excluded", "NVIDIA H200 NVL"),
        *gpu("unknown", "NVIDIA Z1"),
    ]
    expected = {"own": (12, ""), "margin": (7, ""), "table": (9, "of the model")}
    must_be_empty = [f"count({query}) != {len(expected)}"]
    for name, (left, limit) in expected.items():
        of_one = query.replace('gpu=~".*"', f'gpu="{name}"')
        known = f'label_replace(vector(1), "limit", "{limit}", "", "")'
        must_be_empty += [f"absent({of_one} == {left})", f"count by (limit) ({of_one}) unless on (limit) {known}"]
    assert check(tmp_path, "groups: []", [world], {3: must_be_empty}) == ""
    assert check(tmp_path, "groups: []", [world], {3: [f"{query} == 9"]}) != ""
