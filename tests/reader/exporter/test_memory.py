"""Peak memory of a scrape that is rejected, measured in a process of its own."""

from __future__ import annotations

import gzip
import subprocess
import sys

import pytest

from tests.reader.exporter.test_source import Handler, Route, serving

PEAK_MEGABYTES = 64.0
"""Above the memory before the scrape."""

CHILD = """
import asyncio, sys
import pulsed.http.client
from pulsed.errors import SourceError
from pulsed.reader.exporter.source import ExporterSource

def peak():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) * 1024 / 1e6

async def scrape():
    source, before = ExporterSource(sys.argv[1]), peak()
    try:
        await source.read()
    except SourceError as error:
        print(peak() - before, error.reason, error)
    await source.close()

asyncio.run(scrape())
"""


def gpus(count: int) -> bytes:
    rows = (
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{n}",UUID="GPU-{n:08d}-0000",modelName="NVIDIA A10"}} 1\n' for n in range(count)
    )
    return "".join(rows).encode()


def chunked(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b"100000\r\n" + b"a" * 2**20 + b"\r\n")


ROUTES: dict[str, tuple[str, str, Route]] = {
    "content-length": ("scrape_failed", "16777216 bytes", lambda h: h.answer(b"a" * 100_000_000)),
    "chunked": ("scrape_failed", "16777216 bytes", chunked),
    "gzip-bomb": (
        "scrape_failed",
        "16777216 bytes",
        lambda h: h.answer(gzip.compress(b"# padding\n" * 30_000_000, 1), Content_Encoding="gzip"),
    ),
    "20000-gpus": ("too_many_gpus", "more than 1024 GPUs", lambda h: h.answer(gpus(20_000))),
    "180000-gpus": ("too_many_gpus", "more than 1024 GPUs", lambda h: h.answer(gpus(180_000))),
    "short-rows": ("bad_page", "lines", lambda h: h.answer(b"".join(b"a%d 1\n" % n for n in range(1_500_000)))),
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is in /proc")
@pytest.mark.parametrize("name", ROUTES)
def test_peak_of_a_rejected_page(name: str) -> None:
    reason, words, route = ROUTES[name]
    with serving() as site:
        site.routes["/page"] = route
        child = [sys.executable, "-c", CHILD, f"{site.url}/page"]
        printed = subprocess.run(child, capture_output=True, text=True, check=True, timeout=60).stdout
    megabytes, found, message = printed.split(" ", 2)
    assert found == reason
    assert words in message
    assert float(megabytes) < PEAK_MEGABYTES, printed
