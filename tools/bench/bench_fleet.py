"""Fleet: 10,000 GPUs of 1,250 exporters, 8 GPUs x 40 fields each, from a list, scraped in parts; then 20,000."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from pulsed.present.exposition.page_parts import GROUP_TARGETS, WHOLE

from pulsed.collector.collector import Pipeline
from pulsed.compute.settings import ComputeSettings
from pulsed.model.target_store import Target, TargetStore
from pulsed.present.exposition.catalog import catalog
from pulsed.present.exposition.page import Pages, PageSettings
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.reader.exposition.parser import PageParser
from tests.present.reference import ReferenceCollector
from tests.support.daemon import Daemon, free_port, serving
from tools.bench.bench_parse import read_with_prometheus_client
from tools.bench.bench_shards import allow_connections, write
from tools.bench.children import Usage, child
from tools.bench.figure import Bar, Figure
from tools.bench.measure import cpu_seconds
from tools.bench.pages import exporter_page
from tools.bench.ticks import FIELDS, GPUS, NOW, board_of, computed_ticks, pages, raw_tick

TARGETS, JOINING, MANY_TARGETS = 1250, 50, 2500
JOINED_ONE_BY_ONE = 20
INTERVAL, PROBE_SECONDS = 15.0, 0.05
WARM_UP, CYCLES = 4, 4
LAYERS = {"read": "parse", "translate": "translate", "compute": "compute", "present": "pages"}
_LAYER_SECONDS = 'pulsed_tick_duration_seconds_sum{layer="'


def run() -> Iterator[Figure]:
    allow_connections(MANY_TARGETS)
    baseline = _prometheus_client()
    yield baseline
    yield _joining()
    for targets in (TARGETS, MANY_TARGETS):
        port = free_port()
        with tempfile.TemporaryDirectory() as name, child("tools.bench.exporters", port, targets + JOINING):
            yield from _measured(Path(name), port, targets, baseline)


def _measured(folder: Path, port: int, targets: int, baseline: Figure) -> Iterator[Figure]:
    gpus = targets * GPUS
    lists = folder / "targets.json"
    write(lists, port, range(targets))
    settings = {
        "publish.series": "fleet",
        "source.kind": "exporter",
        "source.interval": f"{INTERVAL:g}s",
        "source.exporter.discovery": "file",
        "source.exporter.file.files": lists,
    }
    with serving(folder, *(f"--set={key}={value}" for key, value in settings.items()), ready=False) as daemon:
        with _scraped(daemon) as (longest, probed):
            time.sleep(WARM_UP * INTERVAL)
            _expect(daemon, gpus)
            before, usage = _layer_seconds(daemon), Usage(daemon.process.pid)
            time.sleep(CYCLES * INTERVAL)
            used, after = usage.cpu_seconds(), _layer_seconds(daemon)
            longest.clear()
            probed.set()
            time.sleep(CYCLES * INTERVAL)
            answers = dict(longest)
            for layer, name in LAYERS.items():
                yield Figure(f"{name}, wall time", 1e6 * (after[layer] - before[layer]) / CYCLES / gpus, "us a GPU")
            bar = Bar("value", 200) if targets == TARGETS else None
            yield Figure(f"a cycle of {gpus:,} GPUs", 1e6 * used / CYCLES / gpus, "us a GPU", baseline, bar)
            core = 100 * used / CYCLES / INTERVAL
            yield Figure("the same", core, "% of a core", bar=Bar("value", 25) if targets == MANY_TARGETS else None)
            bar = Bar("value", 100)
            yield Figure("longest answer: /-/healthy", 1000 * answers["-"], "ms", bar=bar)
            yield Figure("longest answer: GPUs of 64 targets", 1000 * answers["groups"], "ms", bar=bar)
            yield Figure("longest answer: sums of all nodes", 1000 * answers["daemon"], "ms")
            yield Figure("memory", 1000 * usage.resident_megabytes() / gpus, "kB a GPU", bar=Bar("value", 60))
            write(lists, port, range(targets + JOINING))
            time.sleep(2 * INTERVAL)
            _expect(daemon, gpus + JOINING * GPUS)
        if targets == TARGETS:
            usage = Usage(daemon.process.pid)
            page = daemon.get("/metrics")
            yield Figure("all in one page", usage.cpu_seconds(), "s of CPU", note=f"{len(page.body) / 1e6:.0f} MB")


@contextlib.contextmanager
def _scraped(daemon: Daemon) -> Iterator[tuple[dict[str, float], threading.Event]]:
    """Ask for the parts of the page as Prometheus does, spread over the interval.

    Yields the longest answers, and what begins the probes: 20 a second, which are no part of what a cycle costs.
    Connections are kept, as Prometheus keeps them, or to accept the connections of probes would be part of the figures.
    """
    longest: dict[str, float] = {}
    stop, probed = threading.Event(), threading.Event()

    def ask(connection: http.client.HTTPConnection, path: str) -> None:
        begun = time.monotonic()
        connection.request("GET", path)
        connection.getresponse().read()
        kind = path.split("/")[1]
        longest[kind] = max(longest.get(kind, 0.0), time.monotonic() - begun)

    def scrape(of_daemon: bool) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", daemon.port)
        while not stop.is_set():
            parts = [path for path in _parts(daemon) if path.startswith("/daemon/") is of_daemon]
            for path in parts:
                ask(connection, path)
                if stop.wait(INTERVAL / len(parts)):
                    return
            stop.wait(0.0 if parts else 1.0)

    def probe() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", daemon.port)
        while not stop.wait(PROBE_SECONDS):
            if probed.is_set():
                ask(connection, "/-/healthy")

    threads = [
        threading.Thread(target=scrape, args=[False]),
        threading.Thread(target=scrape, args=[True]),  # at the same time, as Prometheus may
        threading.Thread(target=probe),
    ]
    for thread in threads:
        thread.start()
    try:
        yield longest, probed
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _parts(daemon: Daemon) -> Sequence[str]:
    """Return the paths of the page's parts."""
    return [group["labels"]["__metrics_path__"] for group in json.loads(daemon.get("/sd").body)]


def _expect(daemon: Daemon, gpus: int) -> None:
    found = sum(daemon.get(path).text.count("\npulsed_gpu_info{") for path in _parts(daemon))
    if found != gpus:
        raise RuntimeError(f"{found} GPUs on the pages instead of {gpus}:\n{daemon.log()[-2000:]}")


def _layer_seconds(daemon: Daemon) -> Mapping[str, float]:
    """What the layers took so far, by the daemon's own account."""
    page = daemon.get("/daemon/metrics").text.splitlines()
    rows = [row.removeprefix(_LAYER_SECONDS) for row in page if row.startswith(_LAYER_SECONDS)]
    return {layer: float(seconds) for layer, _, seconds in (row.partition('"} ') for row in rows)}


def _joining() -> Figure:
    """What the functions take that run for one more target of a group, from its first page to the group's page.

    A difference of two cycles of the daemon would be a hundredth of either. The connection is not part of it.
    """
    store = TargetStore("bench", [])
    telemetry = Telemetry(store)
    group = Pages(store, telemetry, PageSettings(catalog("fleet")))
    bodies = {f"node{number}": exporter_page(GPUS, FIELDS, number, f"node{number}") for number in range(GROUP_TARGETS)}

    def join() -> None:
        name, body = bodies.popitem()
        target = Target("exporter", name, INTERVAL, 3 * INTERVAL)
        pipeline = Pipeline(ComputeSettings(), "bench", telemetry.observe)
        raw = raw_tick(PageParser(), body, 0)
        target.accept(pipeline.process(replace(raw, target=target.name)), NOW)
        kept.append(pipeline)
        store.replace([*store.targets, target])
        part = group.parts.part("groups/0", NOW)
        loop.run_until_complete(group.serve(NOW, openmetrics=False, gzip=False, part=part or WHOLE))

    kept: list[Pipeline] = []
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        for _ in range(GROUP_TARGETS - JOINED_ONE_BY_ONE):
            join()
        seconds = cpu_seconds(join, rounds=JOINED_ONE_BY_ONE)
    return Figure("a target that joins", 1000 * seconds, "ms of CPU", bar=Bar("value", 10))


def _prometheus_client() -> Figure:
    """What reading and writing a page costs with prometheus_client."""
    (page,) = pages(GPUS, 1)
    registry = CollectorRegistry()
    registry.register(ReferenceCollector(board_of(computed_ticks(GPUS, 1)), NOW))
    read = cpu_seconds(lambda: read_with_prometheus_client(page), rounds=5)
    write_ = cpu_seconds(lambda: generate_latest(registry), rounds=5)
    return Figure("prometheus_client, parse + write", 1e6 * (read + write_) / GPUS, "us a GPU")
