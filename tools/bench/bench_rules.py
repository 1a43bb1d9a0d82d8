"""Rules: all that pulsed ships, and the Fleet dashboard, for two small fleets, extrapolated to 10,000 GPUs.

A node has a daemon of its own that is scraped every 15 s, and no owners; its GPUs do what one of the demo's does, and
on one node of 80 they are sick. Rules are evaluated as shipped, and the dashboard with what they record. There are the
series that these ask for, with samples only at the times that are looked at: the text that promtool makes blocks of
would be too large with all. What a query takes more on the larger fleet grows to 10,000 GPUs; the rest does not, nor
does a panel of the GPUs of a ranking.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import Target, TargetStore
from pulsed.present.exposition.catalog import catalog
from pulsed.present.exposition.page import Pages, PageSettings
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.present.exposition.text_format import label_pairs
from pulsed.reader.demo.source import DemoSource
from tests.support.daemon import pulsed
from tests.support.dashboards import Viewer, boards, filled, panels
from tests.support.prometheus import Prometheus, prometheus
from tests.support.tools import tool
from tools.bench.children import Usage
from tools.bench.figure import Bar, Figure
from tools.dashboards.fleet import RANKINGS

GPUS, FULL_GPUS = 8, 10_000
NODES = (24, 104)
"""Of the two fleets; the larger one has one sick node more."""

SICK = 80
"""Of so many nodes one has the health checks, events and XIDs of the demo's last GPU."""

STEP, HOUR = 15.0, 3600.0
PAGE_SECONDS = 900
AGE = 48 * HOUR
"""For how long counters have counted at the end."""

Periods = Sequence[tuple[float, float]]
"""When there are samples: hours before the end, and for how many hours before that."""

MAX_BLOCK = "24h"
"""A Prometheus that runs for long has few blocks: it puts them together."""

SCRAPED: Periods = ((0.0, 1.3), (6.0, 0.6), (24.0, 0.6))
RECORDED: dict[str, tuple[float, Periods]] = {"15m": (900.0, [(0.0, 24.5)]), "1m": (60.0, [(0.0, 1.3)])}
"""Steps and times of recorded series, by the interval of their group."""

DASHBOARD = "Fleet dashboard"
RANGE = HOUR
ROUNDS, REPEATS = 4, 5
"""The least mean of all rounds counts: the garbage collection of some queries is in it, but not the load of others."""

NO_SAMPLES = 30 * 24 * HOUR
"""Before the end: a time that nothing reaches."""

Group = dict[str, Any]


class Series(NamedTuple):
    """A series with its value at the end; that of a counter has grown to it."""

    name: str
    value: float
    is_counter: bool = False


class Cost(NamedTuple):
    """CPU seconds of Prometheus for a rule or a panel's query, the bar that it counts for, and whether they grow."""

    bar: str
    name: str
    seconds: float
    grows: bool = True


def run() -> Iterator[Figure]:
    end = time.time() // STEP * STEP
    rules = pulsed("rules").stdout
    groups: list[Group] = yaml.safe_load(rules)["groups"]
    asked = set(re.findall(r"(?:pulsed|process)_\w+|up", rules + json.dumps(boards()["fleet.json"])))
    page = [each for each in asyncio.run(_page()) if each.name.partition("{")[0] in asked]
    nodes = range(math.lcm(GPUS, SICK))
    yield Figure("series", sum(1 for node in nodes for _ in _of_node(page, node)) / len(nodes) / GPUS, "a GPU")
    fewer, more = (list(_measured(page, nodes, groups, end)) for nodes in NODES)
    growth = (FULL_GPUS / GPUS - NODES[0]) / (NODES[1] - NODES[0])
    costs: dict[str, list[tuple[float, str]]] = {}
    for small, large in zip(fewer, more, strict=True):
        seconds = small.seconds + growth * (large.seconds - small.seconds) if small.grows else large.seconds
        costs.setdefault(small.bar, []).append((seconds, small.name))
    for bar, found in costs.items():
        slowest = ", ".join(f"{each} {seconds:.1f}" for seconds, each in sorted(found, reverse=True)[:3])
        limit = Bar("value", 10 if bar == DASHBOARD else 5)
        total = sum(seconds for seconds, _ in found)
        yield Figure(bar, total, "s of CPU", bar=limit, note=f"{len(found)} queries; {slowest}")


def _measured(page: Sequence[Series], nodes: int, groups: Sequence[Group], end: float) -> Iterator[Cost]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _make_blocks(folder, [each for node in range(nodes) for each in _of_node(page, node)], end, STEP, SCRAPED)
        for interval, (step, periods) in RECORDED.items():
            with _serving(folder, end) as server:
                recorded = list(_recorded(server, groups, interval, end))
            _make_blocks(folder, recorded, end, step, periods)
        with _serving(folder, end) as server:
            for group in groups:
                for rule in group["rules"]:
                    bar = f"all rules evaluated every {group.get('interval', '15s')}"
                    cost = _cost(server, partial(server.ask, rule["expr"], time=str(end)))
                    yield Cost(bar, rule.get("record") or rule["alert"], cost)
            yield from _of_dashboard(server, end)


@contextlib.contextmanager
def _serving(folder: Path, end: float) -> Iterator[Prometheus]:
    sizes = [f"--storage.tsdb.{which}-block-duration=2h" for which in ("min", "max")]  # none is compacted meanwhile
    with prometheus(folder, "", "--storage.tsdb.retention.time=10y", *sizes) as server:
        server.wait_for(f"count(pulsed_gpu_info @ {end:.0f})", 60)
        yield server


def _of_dashboard(server: Prometheus, end: float) -> Iterator[Cost]:
    viewer = Viewer(server, RANGE, 60.0, end)
    board = boards()["fleet.json"]
    values = viewer.choose(board)
    for variable in board["templating"]["list"][1:]:
        yield Cost(DASHBOARD, f"${variable['name']}", _cost(server, partial(viewer.choices, variable, values)))
    rankings = [f"${ranking.name}" for ranking in RANKINGS]
    for panel in panels(board):
        at = {"start": str(end - RANGE), "end": str(end), "step": str(RANGE / panel.get("maxDataPoints", 240))}
        for target in panel["targets"]:
            query = filled(target["expr"], values)
            parameters = {"time": str(end)} if target["instant"] else {"path": "query_range"} | at
            is_ranked = any(ranking in target["expr"] for ranking in rankings)
            cost = _cost(server, partial(server.ask, query, **parameters))
            yield Cost(DASHBOARD, panel["title"], cost, not is_ranked)


def _cost(server: Prometheus, ask: Callable[[], object]) -> float:
    """Return Prometheus' CPU seconds for what is asked."""
    return min(_mean_cost(server, ask) for _ in range(ROUNDS))


def _mean_cost(server: Prometheus, ask: Callable[[], object]) -> float:
    usage = Usage(server.pid)
    for _ in range(REPEATS):
        ask()
    return usage.cpu_seconds() / REPEATS


async def _page() -> Sequence[Series]:
    """Return the series of a node."""
    source, pipeline = DemoSource(0, 1.0, pace=False, start=1767225600.0), Pipeline(GpuTable(), "demo")
    store = TargetStore("demo", [Target("demo", "demo", 1.0, 1e6)])
    pages, text = Pages(store, Telemetry(store), PageSettings(catalog("lean"))), ""
    for second in range(PAGE_SECONDS):
        store.targets[0].accept(pipeline.process(await source.read()), Monotonic(float(second)))
        if second % STEP == 0:
            text = pages.page(Monotonic(float(second)), openmetrics=False, gzip=False).decode()
    return list(_series(text + "# TYPE up gauge\nup 1\n"))


def _series(page: str) -> Iterator[Series]:
    is_counter = False
    for line in page.splitlines():
        if line.startswith("# TYPE"):
            is_counter = line.endswith((" counter", " histogram"))
        elif not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            yield Series(name, float(value), is_counter)


def _of_node(page: Sequence[Series], node: int) -> Iterator[Series]:
    """Yield the series of a node, of whose GPUs each does what one of the demo does."""
    scene = f'gpu="{node % GPUS}"'
    classes = {_label(each.name, "class") for each in page if scene in each.name}
    for each in page:
        if _label(each.name, "check") + _label(each.name, "xid") and node % SICK != GPUS - 1:
            continue
        if 'gpu="' not in each.name and _label(each.name, "class") not in ("", *classes):
            continue
        name = each.name.replace('node="demo"', f'node="node{node}"')
        family, _, labels = name.rstrip("}").partition("{")
        own = [f'instance="node{node}:9401"', 'job="pulsed"', *filter(None, [labels])]
        name = f"{family}{{{','.join(own)}}}"
        if 'gpu="' not in name:
            yield each._replace(name=name)
        elif scene in name:
            for gpu in range(GPUS):
                gpu_name = name.replace(scene, f'gpu="{gpu}"').replace('uuid="GPU-', f'uuid="GPU-{node}-{gpu}-')
                yield each._replace(name=gpu_name)


def _label(name: str, label: str) -> str:
    found = re.search(f'[{{,]{label}="([^"]*)"', name)
    return found[1] if found else ""


def _recorded(server: Prometheus, groups: Sequence[Group], interval: str, end: float) -> Iterator[Series]:
    """Yield what the recording rules of an interval make."""
    for group in groups:
        if group.get("interval") == interval:
            for rule in group["rules"]:
                for found in server.ask(rule["expr"], time=str(end)) if "record" in rule else ():
                    labels = {name: value for name, value in found["metric"].items() if name != "__name__"}
                    yield Series(f"{rule['record']}{{{label_pairs(labels.items())}}}", float(found["value"][1]))


def _make_blocks(folder: Path, series: Sequence[Series], end: float, step: float, periods: Periods) -> None:
    """Add samples of the series to Prometheus' storage."""
    times = sorted(
        {end - ago * HOUR - step * number for ago, hours in periods for number in range(int(hours * HOUR / step) + 1)}
    )
    # Of a counter its growth, of a gauge a noise that keeps its samples from being equal.
    columns = [(f" {at:.0f}\n", 1 - (end - at) / AGE, 1 + at * 7 % 1009 * 1e-5) for at in times]
    text = folder / "block.txt"
    with text.open("w") as file:
        for name, value, is_counter in series:
            if is_counter:
                file.writelines([f"{name} {value * growth!r}{stamp}" for stamp, growth, _ in columns])
            elif value.is_integer():
                file.writelines([f"{name} {value!r}{stamp}" for stamp, _, _ in columns])
            else:
                file.writelines([f"{name} {value * noise:.6g}{stamp}" for stamp, _, noise in columns])
        file.write("# EOF\n")
    made = [tool("promtool", "prometheus"), "tsdb", "create-blocks-from", f"--max-block-duration={MAX_BLOCK}"]
    subprocess.run([*made, "openmetrics", str(text), str(folder / "data")], check=True, capture_output=True)
    text.unlink()
