"""Fleet: 10,000 GPUs of 1,250 exporters, 8 GPUs x 40 fields each, scraped over HTTP by one daemon."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from support.bench.bench_parse import read_with_prometheus_client
from support.bench.children import Usage, child
from support.bench.exporters import url
from support.bench.figure import Bar, Figure
from support.bench.measure import cpu_seconds, samples_taken
from support.bench.ticks import GPUS, NOW, board_of, computed_ticks, pages
from support.daemon import Daemon, free_port, serving
from tests.present.reference import ReferenceCollector

TARGETS = 1250
INTERVAL = 15.0
WARM_UP, CYCLES = 2, 4
_SERIES = "pulsed_gpu_real_utilization_coverage_ratio{"
_LAYER_SECONDS = 'pulsed_tick_duration_seconds_sum{layer="'


def run() -> Iterator[Figure]:
    _allow_connections()
    baseline = _prometheus_client()
    yield baseline
    port = free_port()
    with tempfile.TemporaryDirectory() as name, child("support.bench.exporters", port, TARGETS):
        config = Path(name) / "fleet.yaml"
        targets = "".join(f"      - {url(port, node)}\n" for node in range(TARGETS))
        config.write_text(
            f"source:\n  kind: exporter\n  interval: {INTERVAL}\n  exporter:\n    targets:\n{targets}", encoding="utf-8"
        )
        with serving(Path(name), "--config.file", str(config)) as daemon:
            yield from _measured(daemon, baseline)


def _measured(daemon: Daemon, baseline: Figure) -> Iterator[Figure]:
    due = time.monotonic()

    def scrape() -> str:
        nonlocal due
        due += INTERVAL
        time.sleep(max(0.0, due - time.monotonic()))
        return daemon.get("/metrics").text

    for _ in range(WARM_UP):
        page = scrape()
    before, ticks, usage = _layer_seconds(page), samples_taken(page), Usage(daemon.process.pid)
    for _ in range(CYCLES):
        page = scrape()
    used = usage.cpu_seconds()
    after = _layer_seconds(page)
    cycles = (samples_taken(page) - ticks) / TARGETS
    found = page.count("\n" + _SERIES)
    if found != TARGETS * GPUS:
        raise RuntimeError(f"{found} GPUs on the page instead of {TARGETS * GPUS}:\n{daemon.log()[-2000:]}")

    def figure(name: str, seconds: float, bar: Bar | None = None, note: str = "") -> Figure:
        return Figure(name, seconds, "s of CPU", baseline, bar, note)

    spent = {layer: after[layer] - before[layer] for layer in after}
    # Pages are made when they are asked for, everything else with the ticks.
    parts = {layer: seconds / (CYCLES if layer == "present" else cycles) for layer, seconds in spent.items()}
    scraped = (used - sum(spent.values())) / cycles
    yield figure("scrape", scraped, note="HTTP on both sides: what the other parts leave")
    for layer, name in (("read", "parse"), ("translate", "translate"), ("compute", "compute"), ("present", "page")):
        yield figure(name, parts[layer], note=f"{len(page) / 1e6:.0f} MB" if layer == "present" else "wall time")
    yield figure("a whole cycle: these five", scraped + sum(parts.values()), Bar("value", 1))
    usage = Usage(daemon.process.pid)
    daemon.get("/metrics", {"Accept-Encoding": "gzip"})
    yield figure("a page with gzip beside it", usage.cpu_seconds())
    yield Figure("memory", usage.resident_megabytes(), "MB")


def _layer_seconds(page: str) -> Mapping[str, float]:
    """What the layers took so far, by the daemon's own account."""
    rows = [row.removeprefix(_LAYER_SECONDS) for row in page.splitlines() if row.startswith(_LAYER_SECONDS)]
    return {layer: float(seconds) for layer, _, seconds in (row.partition('"} ') for row in rows)}


def _allow_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * TARGETS  # the children inherit it, and the exporters have two sockets each
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _prometheus_client() -> Figure:
    """What reading and writing as many pages costs with prometheus_client, computed from one."""
    (page,) = pages(GPUS, 1)
    registry = CollectorRegistry()
    registry.register(ReferenceCollector(board_of(computed_ticks(GPUS, 1)), NOW))
    read = cpu_seconds(lambda: read_with_prometheus_client(page), rounds=5)
    write = cpu_seconds(lambda: generate_latest(registry), rounds=5)
    return Figure("prometheus_client, parse + write", TARGETS * (read + write), "s of CPU", note=f"one x {TARGETS}")
