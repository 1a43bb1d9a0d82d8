"""The shipped dashboards as Grafana evaluates them: variables, legends, and queries to a Prometheus."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.daemon import Daemon, serving
from tests.support.prometheus import Prometheus
from tests.support.waiting import SECONDS
from tools.generate_dashboards import DASHBOARDS, FOLDER

Json = dict[str, Any]
Values = Mapping[str, str]
"""What is chosen, by variable, with Grafana's own `__range` and `__rate_interval`."""


@functools.cache
def boards() -> dict[str, Json]:
    """Return the dashboards by file name."""
    return {name: json.loads((FOLDER / name).read_text()) for name in DASHBOARDS}


def unfolded(board: Json) -> list[Json]:
    """Return all panels and headlines where they are while no row is collapsed."""
    found: list[Json] = []
    shift = 0
    for panel in board["panels"]:
        inside = panel.get("panels", [])
        found += [
            {**each, "gridPos": {**each["gridPos"], "y": each["gridPos"]["y"] + shift}} for each in (panel, *inside)
        ]
        if inside:
            shift += max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in inside) - panel["gridPos"]["y"] - 1
    return found


def panels(board: Json) -> Iterator[Json]:
    """Yield all but the headlines."""
    yield from (panel for panel in unfolded(board) if panel["type"] != "row")


def filled(text: str, values: Values) -> str:
    """Put the values of the variables in, as Grafana does."""
    return re.sub(r"\$(\w+)", lambda match: values[match[1]], text)


def _text(metric: Mapping[str, str]) -> str:
    """Return a series as Grafana writes it."""
    labels = ",".join(f'{name}="{value}"' for name, value in metric.items() if name != "__name__")
    return f"{metric.get('__name__', '')}{{{labels}}}"


def legend(target: Json, series: Json) -> str:
    """Return the name of a series."""
    name = re.sub(r"{{(\w+)}}", lambda match: series["metric"].get(match[1], ""), target["legendFormat"])
    return " ".join(name.split())


JOBS = {
    **dict.fromkeys("047", "job_id=5001\nuid=1001\nuser=ann\naccount=physics\npartition=gpu\n"),
    "5": "job_id=5002\nuid=1002\nuser=bob\naccount=biology\npartition=gpu\n",
}
"""Files of a mapping directory: a job on three GPUs of the demo, and one that holds an idle one."""


@contextlib.contextmanager
def demo_with_users(folder: Path, node: str, *options: str) -> Iterator[Daemon]:
    """Run a daemon on the page of a demo, which has pods, and a mapping directory, which has the users of jobs."""
    jobs = folder / f"jobs-{node}"
    jobs.mkdir()
    for gpu, text in JOBS.items():
        (jobs / gpu).write_text(text)
    demo = ("--source", "demo", "--set", f"node={node}", "--set", "publish.passthrough=true")
    with serving(folder, *demo) as upstream:
        settings = [f"source.exporter.targets=http://{upstream.address}/metrics", "source.interval=1s"]
        settings += [f"node={node}", f"attribution.jobs.directories={jobs}"]
        with serving(folder, "--source", "exporter", *(f"--set={each}" for each in settings), *options) as daemon:
            yield daemon


@dataclass(frozen=True)
class Viewer:
    """Evaluates dashboards on a Prometheus; `range` and `rate_interval` are in seconds, the end in Unix seconds."""

    server: Prometheus
    range: float = 25.0
    rate_interval: float = 10.0
    end: float | None = None

    def choose(self, board: Json, **given: str) -> dict[str, str]:
        """Return values of all variables: those given, else All, else the first that Grafana offers."""
        values = {"__range": f"{self.range:.0f}s", "__rate_interval": f"{self.rate_interval:.0f}s"}
        for variable in board["templating"]["list"][1:]:
            name = variable["name"]
            if name in given:
                values[name] = given[name]
            elif variable["type"] == "textbox":
                values[name] = variable["query"]
            elif variable["includeAll"]:
                values[name] = variable["allValue"] or "|".join(self.choices(variable, values))
            else:
                values[name] = next(iter(self.choices(variable, values)), "")
        return values

    def choices(self, variable: Json, values: Values) -> list[str]:
        """Return what Grafana offers for a variable."""
        query = filled(variable["query"]["query"], values)
        if found := re.fullmatch(r"query_result\((.*)\)", query):
            at = {} if self.end is None else {"time": str(self.end)}
            texts = [_text(each["metric"]) for each in self.server.ask(found[1], **at)]
            return list(dict.fromkeys(re.findall(variable["regex"].strip("/"), "\n".join(texts), re.MULTILINE)))
        found = re.fullmatch(r"label_values\((.*), (\w+)\)", query)
        assert found
        asked = urllib.parse.urlencode({"match[]": found[1]})
        address = f"http://127.0.0.1:{self.server.port}/api/v1/label/{found[2]}/values?{asked}"
        with urllib.request.urlopen(address, timeout=SECONDS) as response:
            offered: list[str] = json.load(response)["data"]
        return offered

    def answer(self, target: Json, values: Values, points: int = 5) -> list[Json]:
        """Return the series of a query: now, or over the last seconds of the range."""
        query = filled(target["expr"], values)
        if target["instant"]:
            return self.server.ask(query)
        now = time.time()
        return self.server.ask(query, "query_range", start=str(now - points), end=str(now), step="1")

    def stat(self, board: Json, title: str, values: Values) -> float | None:
        """Return what a stat shows; None for `no data`."""
        (panel,) = (panel for panel in panels(board) if panel["title"] == title and panel["type"] == "stat")
        found = self.answer(panel["targets"][0], values)
        return float(found[0]["value"][1]) if found else None
