"""A daemon with the limit of the chart's memory that reads hostile exporters and lists of targets."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.attacks.watch import peak_megabytes
from tests.support.control_group import control_group
from tests.support.daemon import serving
from tests.support.http_servers import running
from tests.support.waiting import until

MEGABYTES = 128
SECONDS = 6.0
SLOWEST = 5.0
"""Seconds to an answer, of a machine that does other things, too."""

GZIP = {"Content-Encoding": "gzip"}
ANNOUNCED = {"Content-Type": "application/json"}
Answer = tuple[dict[str, str], bytes]

NAMES = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_PROF_SM_ACTIVE")


def _page(lines: Iterator[str]) -> Answer:
    return GZIP, gzip.compress("".join(lines).encode(), 1)


def changing_owners(number: int) -> Answer:
    """32 GPUs with 256 owners each, which are other ones in each page."""
    gpu = 'gpu="{0}",UUID="GPU-{0}",modelName="A10",Hostname="n"'
    return _page(
        f'{name}{{{gpu.format(at)},namespace="n",container="c",pod="pod-{number}-{at}-{owner}-{"x" * 100}"}} '
        f"{number % 2 * 90}\n"
        for at in range(32)
        for owner in range(256)
        for name in NAMES[:1]
    )


def changing_series(number: int) -> Answer:
    """20,000 series, whose names are other ones in each page."""
    return _page(
        f'DCGM_FI_S{number}_{at}{{gpu="{at % 8}",UUID="GPU-{at % 8}",modelName="A10",Hostname="n"}} 1\n'
        for at in range(20_000)
    )


def changing_gpus(number: int) -> Answer:
    """200 GPUs with an XID each, which are other ones in each page."""
    return _page(
        f'{name}{{gpu="{at}",UUID="GPU-{number}-{at}",modelName="A{number}",Hostname="n"}} 1\n'
        for at in range(200)
        for name in (*NAMES, "DCGM_FI_DEV_XID_ERRORS")
    )


def empty_members(number: int) -> Answer:
    """Members of gzip without content."""
    return GZIP, gzip.compress(b"") * 400_000


PAGES = (changing_owners, changing_series, changing_gpus, empty_members)


@contextlib.contextmanager
def answering(answer: Callable[[int], Answer]) -> Iterator[tuple[str, Callable[[], int]]]:
    """Serve the answers of an attack; yield the URL and a function that returns the number of requests."""
    numbers, lock = itertools.count(), threading.Lock()
    asked = 0

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            nonlocal asked
            with lock:
                asked = next(numbers)
            headers, body = answer(asked)
            with contextlib.suppress(OSError):
                self.send_response(200)
                for name, value in {"Content-Type": "text/plain", **headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

    server = Server(("127.0.0.1", 0), Handler)
    with running(server):
        yield f"http://127.0.0.1:{server.server_port}/", lambda: asked + 1


def survives(tmp_path: Path, answer: Callable[[int], Answer], exporter: Callable[[str], dict[str, object]]) -> None:
    slowest = 0.0
    answer(0)
    with control_group(MEGABYTES * 2**20, 64) as within, answering(answer) as (url, requests):
        source = json.dumps({"kind": "exporter", "interval": 1, "exporter": exporter(url)})
        with serving(tmp_path, "--set", f"source={source}", ready=False, within=within) as daemon:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                begun = time.monotonic()
                assert daemon.get("/-/healthy").status == 200
                slowest = max(slowest, time.monotonic() - begun)
                time.sleep(0.05)
            until(lambda: requests() > 1)
            daemon.get("/metrics")
            daemon.get("/events/recent?limit=6000")
            peak = peak_megabytes(daemon.process.pid)
    assert peak < MEGABYTES, f"{peak:.0f} MiB"
    assert slowest < SLOWEST


@pytest.mark.parametrize("answer", PAGES)
def test_the_daemon_survives_hostile_pages(tmp_path: Path, answer: Callable[[int], Answer]) -> None:
    survives(tmp_path, answer, lambda url: {"targets": [url]})
