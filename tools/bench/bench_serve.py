"""Serve: /metrics of 8 GPUs over HTTP, 8 connections that ask without a pause; each side's best of some rounds.

The best and not the median, because wrk and the server need a core each: whatever else runs only makes figures worse,
and a fast server's more than a slow one's.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.daemon import free_port, serving
from tools.bench.children import Usage, child
from tools.bench.figure import Bar, Figure, Skipped
from tools.bench.pages import exporter_page
from tools.bench.ticks import FIELDS, GPUS

SECONDS, ROUNDS = 2, 4
_MILLISECONDS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


class _Server(NamedTuple):
    url: str
    pid: int


class _Load(NamedTuple):
    """What wrk and the kernel say of one round. The best is the one with most requests a second."""

    rate: float
    slowest: float
    cpu: float


def run() -> Iterator[Figure]:
    wrk = shutil.which("wrk")
    if wrk is None:
        raise Skipped("wrk is not installed: apt-get install wrk")
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        page = folder / "page.prom"
        page.write_bytes(exporter_page(GPUS, FIELDS))
        arguments = ("--source", "exporter", "--set", f"source.exporter.targets=[{page}]")
        with serving(folder, *arguments) as daemon:
            ours = _Server(f"http://{daemon.address}/metrics", daemon.process.pid)
            with child("tools.bench.client_app", port, ours.url) as process:
                theirs = _Server(f"http://127.0.0.1:{port}/metrics", process.pid)
                for coding in ("identity", "gzip"):
                    # In turn, so that what else runs on the machine hits both.
                    rounds = [(_load(wrk, theirs, coding), _load(wrk, ours, coding)) for _ in range(ROUNDS)]
                    yield from _compared(coding, max(each for each, _ in rounds), max(each for _, each in rounds))


def _compared(coding: str, theirs: _Load, ours: _Load) -> Iterator[Figure]:
    for what, unit, bar, they, we in (
        ("", "requests/s", Bar("ratio", 50), theirs.rate, ours.rate),
        (": p99", "ms", Bar("value", 2), theirs.slowest, ours.slowest),
        (": CPU of the server", "µs/request", None, theirs.cpu, ours.cpu),
    ):
        baseline = Figure(f"make_asgi_app, {coding}{what}", they, unit)
        yield baseline
        yield Figure(f"pulsed, {coding}{what}", we, unit, baseline, bar)


def _load(wrk: str, server: _Server, coding: str) -> _Load:
    """Ask for some seconds; requests per second, 99th percentile in milliseconds, microseconds of CPU each."""
    usage = Usage(server.pid)
    command = [wrk, "-t1", "-c8", f"-d{SECONDS}s", "--latency", "-H", f"Accept-Encoding: {coding}", server.url]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise RuntimeError(f"{server.url} failed under load:\n{said}")
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    count = re.search(r"(\d+) requests in", said)
    slow = re.search(r"99%\s+([\d.]+)(us|ms|s)\b", said)
    if rate is None or count is None or slow is None:
        raise RuntimeError(f"wrk says something else:\n{said}")
    return _Load(float(rate[1]), float(slow[1]) * _MILLISECONDS[slow[2]], 1e6 * usage.cpu_seconds() / int(count[1]))
