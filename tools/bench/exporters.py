"""Many dcgm-exporters in one small process: `python -m tools.bench.exporters PORT NODES [STREAM]`.

Node n is at 127.1.0.0 + n, so that each has a connection of its own, as in a cluster. Each page has the same series and
other values than the one before, by default those of the stream `steady`; counters go on. Only what a scraper sees is
real.
"""

from __future__ import annotations

import asyncio
import sys
from ipaddress import IPv4Address
from itertools import count
from typing import cast

from tests.support.streams import StreamName
from tools.bench.pages import exporter_page
from tools.bench.ticks import FIELDS, GPUS

FIRST = IPv4Address("127.1.0.0")


def address(node: int) -> str:
    return str(FIRST + node)


def url(port: int, node: int) -> str:
    return f"http://{address(node)}:{port}/metrics"


class _Exporter(asyncio.Protocol):
    """A connection; `samples` has the number of the next page of each node."""

    def __init__(self, samples: dict[str, tuple[int, count[int]]], stream: StreamName) -> None:
        self._samples, self._stream = samples, stream
        self._asked = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._node, self._numbers = self._samples[transport.get_extra_info("sockname")[0]]

    def data_received(self, data: bytes) -> None:
        self._asked += data
        if self._asked.endswith(b"\r\n\r\n"):  # a GET ends with an empty line
            self._asked = b""
            page = exporter_page(GPUS, FIELDS, next(self._numbers), f"node{self._node}", self._stream)
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(page)
            self._transport.write(head + page)


async def _serve(port: int, nodes: int, stream: StreamName) -> None:
    samples = {address(node): (node, count()) for node in range(nodes)}
    await asyncio.get_running_loop().create_server(lambda: _Exporter(samples, stream), list(samples), port)
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    stream = cast("StreamName", sys.argv[3] if len(sys.argv) > 3 else "steady")
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), stream))
