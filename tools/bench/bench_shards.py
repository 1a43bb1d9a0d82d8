"""Shards: 10,000 GPUs of 1,250 exporters in two daemons from a list, scraped by a real Prometheus.

One shard is killed and comes back, the list changes, and one exporter hangs; every GPU must be there again, once.
"""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.support.daemon import Daemon, free_port, serving
from tests.support.prometheus import Prometheus, prometheus
from tools.bench.children import Usage, child
from tools.bench.exporters import address
from tools.bench.figure import Bar, Figure
from tools.bench.ticks import GPUS

TARGETS, SHARDS = 1250, 2
INTERVAL = 15.0
CYCLES = 4
PATIENCE = 8
"""Intervals until all must be there."""

HANGS = "127.2.0.1"

CONFIG = """
global: {{scrape_interval: {interval:g}s, scrape_timeout: {interval:g}s}}
scrape_configs:
  - job_name: pulsed
    honor_labels: true
    {found}
"""

GPUS_ON_PAGES = "count(count by (node, gpu) (pulsed_gpu_info{kind!='mig'}))"
PAGES_OF_A_GPU = "max(count by (node, gpu) (pulsed_gpu_info))"


def run() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        yield from measured(Path(name), TARGETS, INTERVAL)


def measured(folder: Path, targets: int, interval: float) -> Iterator[Figure]:
    """Run the fleet through its changes; raise if a GPU is lost or there twice."""
    allow_connections(targets)
    port = free_port()
    with contextlib.ExitStack() as stack:
        stack.enter_context(child("tools.bench.exporters", port, targets))
        stack.enter_context(socket.create_server((HANGS, port)))
        lists = folder / "targets.json"
        write(lists, port, range(targets), rack="r1")
        running = [stack.enter_context(contextlib.ExitStack()) for _ in range(SHARDS)]
        shards = [running[index].enter_context(shard(folder, lists, index, interval)) for index in range(SHARDS)]
        config = configuration(shards, interval)
        scraper = stack.enter_context(prometheus(folder, config))
        begun = time.monotonic()
        wait(scraper, GPUS * targets, interval)
        yield Figure("all GPUs in Prometheus", time.monotonic() - begun, "s")
        yield from usage(shards, targets, interval)
        yield Figure("memory of Prometheus", Usage(scraper.pid).resident_megabytes(), "MB")

        shards[1].process.kill()
        shards[1].process.wait()
        until(lambda: count(scraper) < GPUS * targets, interval, "the GPUs of a killed shard are still there")
        running[1].close()
        begun = time.monotonic()
        shards[1] = running[1].enter_context(shard(folder, lists, 1, interval, shards[1].port))
        wait(scraper, GPUS * targets, interval)
        yield Figure("a killed shard is back", time.monotonic() - begun, "s")

        kept = targets - targets // 5
        write(lists, port, range(kept), HANGS, rack="r2")
        begun = time.monotonic()
        wait(scraper, GPUS * kept, interval)
        yield Figure("a fifth of the list is gone", time.monotonic() - begun, "s")
        until(
            lambda: scraper.ask(f'count(pulsed_source_up{{source="http://{HANGS}:{port}/metrics"}} == 0)') != [],
            interval,
            "the exporter that hangs is not down",
        )
        healthy = [answered(each) for each in shards]
        yield Figure("/-/healthy beside an exporter that hangs", 1000 * max(healthy), "ms", bar=Bar("value", 1000))
        write(lists, port, range(targets), rack="r2")
        begun = time.monotonic()
        wait(scraper, GPUS * targets, interval)
        until(lambda: rack(scraper, "r2") == GPUS * targets, interval, "the labels are not those of the list")
        yield Figure("a fifth of the list is back", time.monotonic() - begun, "s")


def allow_connections(targets: int) -> None:
    """Raise the limit of open files, which children inherit, for as many exporters."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * targets)), hard))


@contextlib.contextmanager
def shard(folder: Path, lists: Path, index: int, interval: float, port: int | None = None) -> Iterator[Daemon]:
    """Run one daemon, on the port that it had before."""
    settings = {
        "state_dir": folder / f"state-{index}",
        "publish.series": "fleet",
        "source.kind": "exporter",
        "source.interval": f"{interval:g}s",
        "source.exporter.discovery": "file",
        "source.exporter.file.files": lists,
        "source.exporter.shard.index": index,
        "source.exporter.shard.of": SHARDS,
    }
    with serving(
        folder, *(f"--set={key}={value}" for key, value in settings.items()), ready=False, at=str(port or "")
    ) as found:
        yield found


def write(lists: Path, port: int, nodes: Sequence[int], *others: str, **labels: str) -> None:
    """Replace the list."""
    targets = [f"{host}:{port}" for host in (*map(address, nodes), *others)]
    (new := lists.with_suffix(".new")).write_text(json.dumps([{"targets": targets, "labels": labels}]))
    new.replace(lists)


def configuration(shards: Sequence[Daemon], interval: float) -> str:
    """Return Prometheus' configuration: the parts of the pages that the shards list, or the pages if they list none."""
    if any(each.get("/sd").status != 200 for each in shards):
        found = f"static_configs: [{{targets: {json.dumps([each.address for each in shards])}}}]"
    else:
        urls = [{"url": f"http://{each.address}/sd", "refresh_interval": f"{interval:g}s"} for each in shards]
        found = f"http_sd_configs: {json.dumps(urls)}"
    return CONFIG.format(interval=interval, found=found)


def usage(shards: Sequence[Daemon], targets: int, interval: float) -> Iterator[Figure]:
    """Measure the shards over some cycles."""
    used = [Usage(each.process.pid) for each in shards]
    time.sleep(CYCLES * interval)
    gpus = GPUS * targets
    yield Figure("CPU per GPU-cycle", 1e6 * sum(each.cpu_seconds() for each in used) / CYCLES / gpus, "us")
    yield Figure("memory per GPU", 1000 * sum(each.resident_megabytes() for each in used) / gpus, "kB")


def count(scraper: Prometheus) -> int:
    """Return the GPUs in Prometheus now."""
    found = scraper.ask(GPUS_ON_PAGES)
    return int(found[0]["value"][1]) if found else 0


def rack(scraper: Prometheus, name: str) -> int:
    """Return the GPUs with a label of their group."""
    found = scraper.ask(f'count(count by (node, gpu) (pulsed_gpu_info{{rack="{name}"}}))')
    return int(found[0]["value"][1]) if found else 0


def wait(scraper: Prometheus, gpus: int, interval: float) -> None:
    """Wait until so many GPUs are there, each once."""
    until(
        lambda: count(scraper) == gpus and scraper.value(PAGES_OF_A_GPU) == 1,
        interval,
        lambda: f"{count(scraper)} of {gpus} GPUs, one on {scraper.ask(PAGES_OF_A_GPU)} pages",
    )


def until(holds: Callable[[], bool], interval: float, problem: str | Callable[[], str]) -> None:
    """Wait; raise after `PATIENCE` intervals and half a minute."""
    deadline = time.monotonic() + PATIENCE * interval + 30.0
    while True:
        with contextlib.suppress(OSError):  # Prometheus has not started yet
            if holds():
                return
        if time.monotonic() > deadline:
            raise RuntimeError(problem if isinstance(problem, str) else problem())
        time.sleep(interval / 10)


def answered(daemon: Daemon) -> float:
    """Return the seconds that the longest of many answers took."""
    longest = 0.0
    for _ in range(100):
        begun = time.monotonic()
        daemon.get("/-/healthy")
        longest = max(longest, time.monotonic() - begun)
        time.sleep(0.05)
    return longest
