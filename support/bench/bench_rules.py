"""Rules: all that pulsed ships, and the Fleet dashboard, on six hours of 504 GPUs, extrapolated to 100,000.

The series are those of `publish.series: fleet`, with the sums of nodes. Rules are evaluated as `--flat` writes them, so
that each one has its whole cost. The text of a block of 5,000 GPUs would be 3 GB.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from pulsed.present.exposition.catalog import catalog
from pulsed.present.exposition.page import Pages, PageSettings
from pulsed.present.exposition.telemetry import Telemetry
from support.bench.children import Usage
from support.bench.figure import Bar, Figure
from support.bench.ticks import GPUS, NOW, board_of, computed_ticks
from support.daemon import pulsed
from support.dashboards import Viewer, boards, filled, panels
from support.prometheus import Prometheus, prometheus
from support.tools import tool

NODES, FULL_GPUS = 63, 100_000
SECONDS, STEP = 6.2 * 3600.0, 60.0
RANGE = 3600.0
TIMES = FULL_GPUS / (NODES * GPUS)


def run() -> Iterator[Figure]:
    end = time.time()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        series = _make_block(folder, end)
        with prometheus(folder, "", "--storage.tsdb.retention.time=10y") as server:
            server.wait_for("count(pulsed_gpu_info)", 60)
            yield Figure("series", series / NODES / GPUS, "a GPU")
            yield from _of_rules(server, end)
            yield from _of_dashboard(server, end)


def _of_rules(server: Prometheus, end: float) -> Iterator[Figure]:
    found: dict[str, list[tuple[float, str]]] = {}
    for group in yaml.safe_load(pulsed("rules", "--for", "pulsed", "--flat").stdout)["groups"]:
        for rule in group["rules"]:
            cost = _cost(server, rule["expr"], time=str(end)), rule.get("record") or rule["alert"]
            found.setdefault(group.get("interval", "15s"), []).append(cost)
    for interval, rules in found.items():
        yield _sum(f"all rules evaluated every {interval}", rules, 5)


def _of_dashboard(server: Prometheus, end: float) -> Iterator[Figure]:
    viewer = Viewer(server, RANGE, STEP)
    board = boards()["fleet.json"]
    values, found = viewer.choose(board), []
    for panel in panels(board):
        at = {"start": str(end - RANGE), "end": str(end), "step": str(RANGE / panel.get("maxDataPoints", 240))}
        for target in panel["targets"]:
            query = filled(target["expr"], values)
            cost = _cost(server, query, **({"time": str(end)} if target["instant"] else {"path": "query_range"} | at))
            found.append((cost, panel["title"]))
    yield _sum("Fleet dashboard", found, 10)


def _cost(server: Prometheus, query: str, **parameters: str) -> float:
    """Return Prometheus' CPU seconds for a query, without those of a query without series, for all GPUs."""
    spent = []
    for asked in (query, "vector(1)"):
        usage = Usage(server.pid)
        server.ask(asked, **parameters)
        spent.append(usage.cpu_seconds())
    return TIMES * max(0.0, spent[0] - spent[1])


def _sum(name: str, costs: Sequence[tuple[float, str]], limit: float) -> Figure:
    seconds, slowest = max(costs)
    note = f"{len(costs)} queries; {slowest}: {seconds:.1f}"
    return Figure(name, sum(each for each, _ in costs), "s of CPU", bar=Bar("value", limit), note=note)


def _make_block(folder: Path, end: float) -> int:
    """Fill Prometheus' storage with the page of a node, for all nodes and times; return how many series it has."""
    board = board_of(computed_ticks(GPUS, 2))
    page = Pages(board, Telemetry(board), PageSettings(catalog("fleet"))).page(NOW, openmetrics=True, gzip=False)
    series, times = 0, [end - SECONDS + STEP * number for number in range(int(SECONDS / STEP) + 1)]
    text = folder / "block.txt"
    with text.open("w") as file:
        for family in re.findall(
            r"(# (?:HELP|TYPE) pulsed_(?:gpu|node|mig).*\n(?:#.*\n)*)((?:[^#].*\n)+)", page.decode()
        ):
            is_counter = " counter\n" in family[0]
            file.write(family[0])
            for node in range(NODES):
                for line in family[1].splitlines():
                    start, _, number = line.rpartition(" ")
                    start = re.sub('node="[^"]*"', f'node="node{node}"', start).replace('uuid="', f'uuid="{node}-')
                    series += 1
                    file.writelines(
                        f"{start} {float(number) * (place if is_counter else 1)} {at:.0f}\n"
                        for place, at in enumerate(times)
                    )
        file.write("# EOF\n")
    made = [
        tool("promtool", "prometheus"),
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        str(text),
        str(folder / "data"),
    ]
    subprocess.run(made, check=True, capture_output=True)
    text.unlink()
    return series
