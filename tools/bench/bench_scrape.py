"""Scrape: one page of 8 GPUs x 40 fields over loopback on a kept connection, from request to the page's last byte."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

from tests.support.daemon import environment, free_port
from tools.bench.children import child
from tools.bench.exporters import url
from tools.bench.figure import Bar, Figure
from tools.bench.scrape_client import CLIENTS

NODES = 50
SCRAPES = 3000
ROUNDS = 5
CHEAPER = 1.5
"""How much cheaper a scrape must be than with the library; if it is not, the library replaces the client."""


class _Run(NamedTuple):
    cpu: float
    memory: float


def run() -> Iterator[Figure]:
    port = free_port()
    runs: dict[str, list[_Run]] = {name: [] for name in CLIENTS}
    with child("tools.bench.exporters", port, NODES):
        for _ in range(ROUNDS):
            for name in CLIENTS:  # in turn, so that other load on the machine falls on both
                runs[name].append(_run(name, port))
    cpu = {name: median(run.cpu for run in found) for name, found in runs.items()}
    memory = {name: median(run.memory for run in found) for name, found in runs.items()}
    library = Figure("aiohttp, session.get() and read(): CPU", cpu["aiohttp"], "µs/scrape")
    yield library
    yield Figure("pulsed's scraper: CPU", cpu["pulsed"], "µs/scrape", library, Bar("ratio", CHEAPER))
    library = Figure("aiohttp: memory of the process", memory["aiohttp"], "MB")
    yield library
    yield Figure("pulsed's scraper: memory of the process", memory["pulsed"], "MB", library)


def _run(client: str, port: int) -> _Run:
    """Scrape with this client in a process of its own."""
    command = [sys.executable, "-m", "tools.bench.scrape_client", client, str(SCRAPES)]
    command += [url(port, node) for node in range(NODES)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment()).stdout
    cpu, memory = map(float, printed.split())
    return _Run(cpu, memory)
