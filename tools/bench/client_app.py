"""prometheus_client's own ASGI app, the baseline: `python -m tools.bench.client_app PORT URL [SECONDS]`.

It republishes the page at the URL, which it reads with prometheus_client's parser: once, or every so many seconds.
uvicorn has the settings that pulsed gives it.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import urllib.request
from collections.abc import Iterator

import uvicorn
import uvloop
from prometheus_client import CollectorRegistry, Metric, make_asgi_app
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector


class Republished(Collector):
    """The families of another page."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._families: list[Metric] = []

    def read(self) -> None:
        with urllib.request.urlopen(self._url, timeout=10) as response:
            self._families = list(text_string_to_metric_families(response.read().decode()))

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


class _Server(uvicorn.Server):
    """Says when it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print("ready", flush=True)


async def _serve(port: int, url: str, every: float) -> None:
    republished = Republished(url)
    republished.read()
    registry = CollectorRegistry()
    registry.register(republished)
    server = _Server(
        uvicorn.Config(
            make_asgi_app(registry),
            port=port,
            http="httptools",
            loop="uvloop",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
        )
    )
    serving = asyncio.create_task(server.serve())
    while every:
        await asyncio.sleep(every)
        republished.read()
    await serving


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 0))
