"""Rules: all that pulsed ships, and the Fleet dashboard, for a small fleet, extrapolated to 100,000 GPUs.

A node has the page of the demo with `publish.series: fleet`, a daemon of its own that is scraped every 15 s, and no
owners; one node of ten has a sick GPU. Rules are evaluated as shipped, and the dashboard with what they record. For
5,000 GPUs the text that promtool makes blocks of would have 30 GB: there are fewer, with samples only at the times that
are looked at. Every query is also evaluated at a time without samples: that part does not grow with the fleet.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from pulsed.collector.collector import Pipeline
from pulsed.compute.settings import ComputeSettings
from pulsed.model.target_store import Target, TargetStore
from pulsed.present.exposition.catalog import catalog
from pulsed.present.exposition.page import Pages, PageSettings
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.present.exposition.text_format import label_pairs
from pulsed.reader.demo.source import DemoSource
from support.bench.children import Usage
from support.bench.figure import Bar, Figure
from support.daemon import pulsed
from support.dashboards import Viewer, boards, filled, panels
from support.prometheus import Prometheus, prometheus
from support.tools import tool

GPUS, NODES, FULL_GPUS = 8, 60, 100_000
TIMES = FULL_GPUS / (NODES * GPUS)
SICK = 10
"""Of so many nodes one has the health checks, events and XIDs of the demo."""

STEP, HOUR = 15.0, 3600.0
PAGE_SECONDS = 900
AGE = 48 * HOUR
"""For how long counters have counted at the end."""

Periods = Sequence[tuple[float, float]]
"""When there are samples: hours before the end, and for how many hours before that."""

LONGEST_BLOCK = "24h"
"""A Prometheus that runs for long has few blocks: it puts them together."""

SCRAPED: Periods = ((0.0, 1.3), (6.0, 0.6), (24.0, 0.6))
RECORDED: dict[str, tuple[float, Periods]] = {"15m": (900.0, [(0.0, 24.5)]), "1m": (60.0, [(0.0, 1.3)])}
"""Steps and times of recorded series, by the interval of their group."""

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


def run() -> Iterator[Figure]:
    end = time.time() // STEP * STEP
    groups: list[Group] = yaml.safe_load(pulsed("rules").stdout)["groups"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        page = asyncio.run(_page())
        scraped = [each for node in range(NODES) for each in _of_node(page, node)]
        _make_blocks(folder, scraped, end, STEP, SCRAPED)
        recorded = []
        for interval, (step, periods) in RECORDED.items():
            with _serving(folder) as server:
                made = list(_recorded(server, groups, interval, end))
            _make_blocks(folder, made, end, step, periods)
            recorded += made
        with _serving(folder) as server:
            yield Figure(
                "series", len(scraped) / NODES / GPUS, "a GPU", note=f"recorded: {len(recorded) / NODES / GPUS:.3g}"
            )
            yield from _of_rules(server, groups, end)
            yield from _of_dashboard(server, end)


@contextlib.contextmanager
def _serving(folder: Path) -> Iterator[Prometheus]:
    sizes = [f"--storage.tsdb.{which}-block-duration=2h" for which in ("min", "max")]  # none is compacted meanwhile
    with prometheus(folder, "", "--storage.tsdb.retention.time=10y", *sizes) as server:
        server.wait_for("count(pulsed_gpu_info)", 60)
        yield server


def _of_rules(server: Prometheus, groups: Sequence[Group], end: float) -> Iterator[Figure]:
    found: dict[str, list[tuple[float, str]]] = {}
    for group in groups:
        for rule in group["rules"]:
            cost = _cost(server, rule["expr"], end), rule.get("record") or rule["alert"]
            found.setdefault(group.get("interval", "15s"), []).append(cost)
    for interval, rules in found.items():
        yield _sum(f"all rules evaluated every {interval}", rules, 5)


def _of_dashboard(server: Prometheus, end: float) -> Iterator[Figure]:
    viewer = Viewer(server, RANGE, 60.0)
    board = boards()["fleet.json"]
    values, found = viewer.choose(board), []
    for panel in panels(board):
        step = RANGE / panel.get("maxDataPoints", 240)
        for target in panel["targets"]:
            query = filled(target["expr"], values)
            found.append((_cost(server, query, end, 0.0 if target["instant"] else step), panel["title"]))
    yield _sum("Fleet dashboard", found, 10)


def _cost(server: Prometheus, query: str, end: float, step: float = 0.0) -> float:
    """Return Prometheus' CPU seconds for a query over all GPUs; over `RANGE` with a step, else at the end."""
    fixed, spent = (min(_spent(server, query, at, step) for _ in range(ROUNDS)) for at in (end - NO_SAMPLES, end))
    return fixed + TIMES * (spent - fixed)


def _spent(server: Prometheus, query: str, end: float, step: float) -> float:
    usage = Usage(server.pid)
    for _ in range(REPEATS):
        if step:
            server.ask(query, "query_range", start=str(end - RANGE), end=str(end), step=str(step))
        else:
            server.ask(query, time=str(end))
    return usage.cpu_seconds() / REPEATS


def _sum(name: str, costs: Sequence[tuple[float, str]], limit: float) -> Figure:
    slowest = ", ".join(f"{each} {seconds:.1f}" for seconds, each in sorted(costs, reverse=True)[:3])
    note = f"{len(costs)} queries; {slowest}"
    return Figure(name, sum(each for each, _ in costs), "s of CPU", bar=Bar("value", limit), note=note)


async def _page() -> Sequence[Series]:
    """Return the series of a node."""
    source, pipeline = DemoSource(0, 1.0, pace=False, start=1767225600.0), Pipeline(ComputeSettings(), "demo")
    store = TargetStore("demo", [Target("demo", "demo", 1.0, 1e6)])
    pages, text = Pages(store, Telemetry(store), PageSettings(catalog("fleet"))), ""
    for second in range(PAGE_SECONDS):
        store.targets[0].accept(pipeline.process(await source.read()), float(second))
        if second % STEP == 0:
            text = pages.page(float(second), openmetrics=False, gzip=False).decode()
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
    for each in page:
        if node % SICK and re.search('[{,](check|xid)="', each.name):
            continue
        name = re.sub('([{,])node="demo"', f'\\1node="node{node}"', each.name).replace(
            'uuid="GPU-', f'uuid="GPU-{node}-'
        )
        family, _, labels = name.rstrip("}").partition("{")
        own = [f'instance="node{node}:9401"', 'job="pulsed"', *filter(None, [labels])]
        yield each._replace(name=f"{family}{{{','.join(own)}}}")


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
    made = [tool("promtool", "prometheus"), "tsdb", "create-blocks-from", f"--max-block-duration={LONGEST_BLOCK}"]
    subprocess.run([*made, "openmetrics", str(text), str(folder / "data")], check=True, capture_output=True)
    text.unlink()
